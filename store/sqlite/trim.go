package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

// Trim removes old data. While a thread has an open suspension, it keeps the finished calls of the thread, because the approver may need
// their output.
func (s *Store) Trim(ctx context.Context, callsBefore, tombstonesBefore, documentsBefore call.Stamp, limit int) (trimmed []call.Key, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.trimming.Lock()
	defer s.trimming.Unlock()
	for more := true; more; {
		missing := limit - len(trimmed)
		atOnce, seen, err := s.oldAtOnce(ctx, callsBefore, missing)
		if err != nil {
			return trimmed, err
		}
		var some []call.Key
		err = s.write(func(w *writer) (err error) {
			if some, err = w.trimAtOnce(atOnce); err != nil {
				return err
			}
			for _, trim := range []func(call.Stamp, int) ([]call.Key, error){w.trimPacks, w.trimCalls} {
				others, err := trim(callsBefore, missing-len(some))
				if err != nil {
					return err
				}
				some = append(some, others...)
			}
			for _, trim := range []func(call.Stamp) error{w.trimPolicies, w.trimActions, w.trimBatches} {
				if err := trim(callsBefore); err != nil {
					return err
				}
			}
			if len(some) > 0 {
				err = s.TrimOrphans(ctx, &scopes)
			}
			if err != nil {
				return err
			}
			return w.trimRest(tombstonesBefore)
		})
		if err != nil {
			return trimmed, err
		}
		s.trimmed = seen
		trimmed = append(trimmed, some...)
		more = len(atOnce) == missing && len(trimmed) < limit // Continue with the next calls: some of these were not removed, because their thread or batch is still open.
	}
	if len(trimmed) == limit {
		return trimmed, nil // More old calls may be left. Only the last Trim scans whole tables.
	}
	return trimmed, s.TrimScopes(&scopes, tombstonesBefore, documentsBefore)
}

const (
	// waits is true when a call's thread has an open suspension, or its batch has not ended.
	waits = `(thread_id IS NOT NULL AND EXISTS (SELECT 1 FROM calls t INDEXED BY calls_waiting
		WHERE t.namespace = calls.namespace AND t.thread_id = calls.thread_id AND t.status = 'SUSPENDED')
		OR batch_id IS NOT NULL AND EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open
		WHERE b.namespace = calls.namespace AND b.batch_id = calls.batch_id AND b.ended IS NULL))`
	selectOld = "SELECT " + callColumns + ", ended FROM calls INDEXED BY calls_ended WHERE ended < ? AND NOT " + waits + " ORDER BY ended LIMIT ?"
	// Calls that were created in their final state ended in the order of their positions, so the scan stops at the first such call that is
	// too young. It cannot stop at other calls: the column updated may be much later than their creation, and the column created has the
	// time of the machine's clock, which may be wrong.
	selectOldAtOnce = `SELECT position, ended IS NULL AND status IN ('SUCCEEDED', 'FAILED', 'CANCELLED'), updated FROM calls NOT INDEXED
		WHERE position > ? ORDER BY position`
	selectAtOnce = "SELECT " + callColumns + ", updated, " + waits + " FROM calls WHERE position = ? AND ended IS NULL"
)

// oldAtOnce finds old calls that were created in their final state. It starts where the last trim stopped. It returns at most limit
// positions, and the position that it has reached.
func (s *Store) oldAtOnce(ctx context.Context, before call.Stamp, limit int) (old []int64, seen int64, err error) {
	seen = s.trimmed
	for more := limit > 0; more && err == nil; {
		more = false
		began := time.Now()
		err = s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, selectOldAtOnce, func(st *sqlite.Stmt) error {
				if atOnce := st.ColumnBool(1); atOnce && st.ColumnInt64(2) >= int64(before) {
					return rows.ErrEnough
				} else if atOnce {
					old = append(old, st.ColumnInt64(0))
				}
				seen = st.ColumnInt64(0)
				if more = time.Since(began) > snapshotTime && len(old) < limit; more || len(old) == limit {
					return rows.ErrEnough
				}
				return nil
			}, seen)
		})
	}
	return old, seen, err
}

// trimCalls removes old calls that have a value in the column ended. A call that was created in its final state has none at first.
func (w *writer) trimCalls(before call.Stamp, limit int) (trimmed []call.Key, err error) {
	var old []endedRow
	var scanner callScanner
	err = query(w.conn, selectOld, func(st *sqlite.Stmt) error {
		old = append(old, endedRow{scanner.scan(st), st.ColumnInt64(8)})
		return nil
	}, int64(before), limit)
	if err != nil {
		return nil, err
	}
	return w.replaceWithTombstones(old)
}

// trimAtOnce removes calls that were created in their final state. If the thread or batch of such a call is still open, the call stays and
// gets a value in the column ended, so that trimCalls finds it later.
func (w *writer) trimAtOnce(positions []int64) (trimmed []call.Key, err error) {
	var old []endedRow
	var scanner callScanner
	for _, p := range positions {
		waiting, ended := false, int64(0)
		err := query(w.conn, selectAtOnce, func(st *sqlite.Stmt) error {
			ended, waiting = st.ColumnInt64(8), st.ColumnBool(9)
			if !waiting {
				old = append(old, endedRow{scanner.scan(st), ended})
			}
			return nil
		}, p)
		if err == nil && waiting {
			err = exec(w.conn, "UPDATE calls SET ended = ? WHERE position = ?", ended, p)
		}
		if err != nil {
			return nil, err
		}
	}
	return w.replaceWithTombstones(old)
}

type endedRow struct {
	rows.Call
	ended int64
}

func (w *writer) replaceWithTombstones(old []endedRow) (trimmed []call.Key, err error) {
	now := int64(w.s.Now())
	blocks := map[int64]bool{}
	for _, r := range old {
		digest := ""
		if r.Err == nil {
			digest = r.Call.Call.RequestDigest
			err = w.forgetSuspensions(r.Call.Call)
		}
		if err == nil {
			err = exec(w.conn, "INSERT INTO tombstones (namespace, call_id, digest, ended, trimmed) VALUES (?, ?, ?, ?, ?)", r.Key.Namespace, r.Key.ID, digest, r.ended, now)
		}
		if err == nil {
			err = exec(w.conn, "DELETE FROM events WHERE call = ?", r.Position)
		}
		if err == nil {
			err = exec(w.conn, "DELETE FROM calls WHERE position = ?", r.Position)
		}
		if err != nil {
			return nil, err
		}
		blocks[r.Position/blockSize] = true
		w.s.tombstones.Store(true)
		trimmed = append(trimmed, r.Key)
	}
	for block := range blocks {
		if err := w.forgetMembers(block); err != nil {
			return nil, err
		}
	}
	return trimmed, nil
}

func (w *writer) forgetSuspensions(c *call.Call) error {
	for i := range c.Rounds {
		if err := exec(w.conn, "DELETE FROM suspensions WHERE namespace = ? AND id = ?", c.Namespace, c.Rounds[i].Suspension.ID); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) trimRest(tombstonesBefore call.Stamp) error {
	err := exec(w.conn, "DELETE FROM tombstones WHERE trimmed < ?", int64(tombstonesBefore))
	if err == nil {
		err = exec(w.conn, "DELETE FROM batches WHERE trimmed < ?", int64(tombstonesBefore))
	}
	if err == nil {
		err = exec(w.conn, deleteOldRecords, int64(tombstonesBefore))
	}
	return err
}

// Positions grow with time, so the old records come first. Of the old chained records of a namespace and kind, the newest is kept, because
// the next record is linked to it.
const deleteOldRecords = `WITH old (most) AS (
		SELECT coalesce((SELECT position FROM records WHERE created >= ?1 ORDER BY position LIMIT 1), 9223372036854775807))
	DELETE FROM records WHERE position < (SELECT most FROM old) AND (NOT chained OR EXISTS (
		SELECT 1 FROM records later INDEXED BY records_kind WHERE later.namespace = records.namespace AND later.kind = records.kind
			AND later.position > records.position AND later.position < (SELECT most FROM old)))`

const (
	noCalls            = "NOT EXISTS (SELECT 1 FROM " + membersOf + joinMember + " WHERE m.kind = "
	ofDocument         = memberBits + memberIs + " AND m.namespace = documents.namespace AND m.name = documents.scope_id"
	inDocuments        = "(namespace, scope, scope_id) > (?1, ?2, ?3) AND (namespace, scope, scope_id) <= (?4, ?5, ?6) AND scope = "
	deleteOldDocuments = "DELETE FROM documents WHERE " + inDocuments + "'RUN' AND changed < ?7 AND " + noCalls + "'run'" + ofDocument +
		" AND (calls.updated >= ?7 OR calls.status IN " + rows.Unfinished + " OR packs.updated >= ?7))"
	deleteRunDocuments    = "DELETE FROM documents WHERE " + inDocuments + "'RUN' AND " + noCalls + "'run'" + ofDocument + ")"
	deleteThreadDocuments = "DELETE FROM documents WHERE " + inDocuments + "'THREAD' AND " + noCalls + "'thread'" + ofDocument + ")"
)

const deleteRuns = "DELETE FROM runs WHERE (namespace, id) > (?1, ?2) AND (namespace, id) <= (?4, ?5) AND ?3 = ?6 AND (state <> 'BLOCKED' OR changed < ?7) AND " +
	noCalls + "'run'" + memberBits + memberIs + " AND m.namespace = runs.namespace AND m.name = runs.id)"

// scopes holds the SQL texts for [group.Writer.TrimScopes]. SQLite sorts a blob after all texts, so the key []byte{} is after all keys.
var scopes = group.Scopes{
	Whole: [6]any{"", "", "", []byte{}, "", ""},
	Runs:  deleteRuns, Documents: deleteOldDocuments, RunDocuments: deleteRunDocuments, ThreadDocuments: deleteThreadDocuments,
}
