package sqlite

import (
	"context"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/rows"
)

// Trim removes old data. While a thread has an open suspension, it keeps the finished calls of the thread, because the approver may need
// their output.
func (s *Store) Trim(ctx context.Context, callsBefore, tombstonesBefore, documentsBefore time.Time, limit int) (gone []call.Key, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.trimming.Lock()
	defer s.trimming.Unlock()
	for more := true; more; {
		room := limit - len(gone)
		atOnce, seen, err := s.oldAtOnce(ctx, callsBefore, room)
		if err != nil {
			return gone, err
		}
		var some []call.Key
		err = s.write(func(w *writer) (err error) {
			if some, err = w.trimAtOnce(atOnce); err != nil {
				return err
			}
			for _, trim := range []func(time.Time, int) ([]call.Key, error){w.trimPacks, w.trimCalls} {
				others, err := trim(callsBefore, room-len(some))
				if err != nil {
					return err
				}
				some = append(some, others...)
			}
			for _, trim := range []func(time.Time) error{w.trimPolicies, w.trimActions, w.trimBatches} {
				if err := trim(callsBefore); err != nil {
					return err
				}
			}
			if len(some) > 0 {
				err = w.trimOrphans(wholeTable())
			}
			if err != nil {
				return err
			}
			return w.trimRest(tombstonesBefore)
		})
		if err != nil {
			return gone, err
		}
		s.trimmed = seen
		gone = append(gone, some...)
		more = len(atOnce) == room && len(gone) < limit // The page may be shorter, because calls stay whose thread or batch is still open.
	}
	if len(gone) == limit {
		return gone, nil // Do not scan whole tables yet; the last page does that.
	}
	if err := s.inParts(selectRunsEnd, func(w *writer, part []any) error {
		return exec(w.conn, deleteRuns, append(part, nanos(tombstonesBefore))...)
	}); err != nil {
		return gone, err
	}
	return gone, s.inParts(selectDocumentsEnd, func(w *writer, part []any) error {
		if err := exec(w.conn, deleteOldDocuments, append(part, nanos(documentsBefore))...); err != nil {
			return err
		}
		return w.trimOrphans(part)
	})
}

// trimOrphans removes the documents of runs and threads that have no calls. The owner of a run or thread is known only from its calls, so
// no document may exist longer than the last call. A transaction that removes calls therefore calls trimOrphans for all documents.
func (w *writer) trimOrphans(part []any) error {
	if err := exec(w.conn, deleteRunDocuments, part...); err != nil {
		return err
	}
	return exec(w.conn, deleteThreadDocuments, part...)
}

// partSize is how many rows of a table one transaction checks. Other changes wait for at most one part.
const partSize = 256

// wholeTable returns the bounds of a part that covers the whole table. SQLite sorts a blob after all texts.
func wholeTable() []any { return []any{"", "", "", []byte{}, "", ""} }

// inParts runs remove for a whole table, with a limited number of rows in each transaction. The key of the table consists of a namespace
// and two texts. part consists of two keys: remove handles the rows after the first key, up to and including the second key. The statement
// end selects the last key of a part.
func (s *Store) inParts(end string, remove func(w *writer, part []any) error) error {
	from, more := wholeTable()[:3], true
	for more {
		to := wholeTable()[3:]
		err := s.write(func(w *writer) error {
			more = false
			err := query(w.conn, end, func(st *sqlite.Stmt) error {
				more, to = true, []any{st.ColumnText(0), st.ColumnText(1), st.ColumnText(2)}
				return nil
			}, append(slices.Clone(from), partSize-1)...)
			if err != nil {
				return err
			}
			return remove(w, slices.Concat(from, to))
		})
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

const (
	// waits is true when a call's thread has an open suspension, or its batch has not ended.
	waits = `(thread_id IS NOT NULL AND EXISTS (SELECT 1 FROM calls t INDEXED BY calls_waiting
		WHERE t.namespace = calls.namespace AND t.thread_id = calls.thread_id AND t.status = 'SUSPENDED')
		OR batch_id IS NOT NULL AND EXISTS (SELECT 1 FROM batches b INDEXED BY batches_open
		WHERE b.namespace = calls.namespace AND b.batch_id = calls.batch_id AND b.ended IS NULL))`
	selectOld = "SELECT " + callColumns + ", ended FROM calls INDEXED BY calls_ended WHERE ended < ? AND NOT " + waits + " ORDER BY ended LIMIT ?"
	// Calls that were created in their final state ended in the order of their positions. For other calls, created cannot be used instead:
	// it comes from the caller's clock.
	selectOldAtOnce = `SELECT position, ended IS NULL AND status IN ('SUCCEEDED', 'FAILED', 'CANCELLED'), updated, created FROM calls NOT INDEXED
		WHERE position > ? ORDER BY position`
	selectAtOnce = "SELECT " + callColumns + ", updated, " + waits + " FROM calls WHERE position = ? AND ended IS NULL"
)

// oldAtOnce finds old calls that were created in their final state. It starts where the last trim stopped. It returns at most limit
// positions, and the position that it has reached.
func (s *Store) oldAtOnce(ctx context.Context, before time.Time, limit int) (old []int64, seen int64, err error) {
	seen = s.trimmed
	for more := limit > 0; more && err == nil; {
		more = false
		began := time.Now()
		err = s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, selectOldAtOnce, func(st *sqlite.Stmt) error {
				if packed := st.ColumnBool(1); packed && st.ColumnInt64(2) >= nanos(before) || !packed && st.ColumnInt64(3) >= nanos(before.Add(time.Hour)) {
					return rows.ErrEnough
				} else if packed {
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

// trimCalls removes old calls that ended after they were created.
func (w *writer) trimCalls(before time.Time, limit int) (gone []call.Key, err error) {
	var rows []endedRow
	var scanner callScanner
	err = query(w.conn, selectOld, func(st *sqlite.Stmt) error {
		rows = append(rows, endedRow{scanner.scan(st), st.ColumnInt64(8)})
		return nil
	}, nanos(before), limit)
	if err != nil {
		return nil, err
	}
	return w.bury(rows)
}

// trimAtOnce removes calls that were created in their final state. If the thread of such a call waits, the call stays and gets a value in
// the column ended, so that trimCalls finds it later.
func (w *writer) trimAtOnce(positions []int64) (gone []call.Key, err error) {
	var rows []endedRow
	var scanner callScanner
	for _, p := range positions {
		waiting, ended := false, int64(0)
		err := query(w.conn, selectAtOnce, func(st *sqlite.Stmt) error {
			ended, waiting = st.ColumnInt64(8), st.ColumnBool(9)
			if !waiting {
				rows = append(rows, endedRow{scanner.scan(st), ended})
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
	return w.bury(rows)
}

type endedRow struct {
	callRow
	ended int64
}

// bury replaces calls with tombstones.
func (w *writer) bury(rows []endedRow) (gone []call.Key, err error) {
	now := nanos(w.s.clock.now())
	blocks := map[int64]bool{}
	for _, r := range rows {
		digest := ""
		if r.err == nil {
			digest = r.call.RequestDigest
			err = w.forgetSuspensions(r.call)
		}
		if err == nil {
			err = exec(w.conn, "INSERT INTO tombstones (namespace, call_id, digest, ended, trimmed) VALUES (?, ?, ?, ?, ?)", r.key.Namespace, r.key.ID, digest, r.ended, now)
		}
		if err == nil {
			err = exec(w.conn, "DELETE FROM events WHERE call = ?", r.position)
		}
		if err == nil {
			err = exec(w.conn, "DELETE FROM calls WHERE position = ?", r.position)
		}
		if err != nil {
			return nil, err
		}
		blocks[r.position/blockSize] = true
		w.s.tombstones.Store(true)
		gone = append(gone, r.key)
	}
	for block := range blocks {
		if err := w.forgetMembers(block); err != nil {
			return nil, err
		}
	}
	return gone, nil
}

func (w *writer) forgetSuspensions(c *call.Call) error {
	for i := range c.Rounds {
		if err := exec(w.conn, "DELETE FROM suspensions WHERE namespace = ? AND id = ?", c.Namespace, c.Rounds[i].Suspension.ID); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) trimRest(tombstonesBefore time.Time) error {
	err := exec(w.conn, "DELETE FROM tombstones WHERE trimmed < ?", nanos(tombstonesBefore))
	if err == nil {
		err = exec(w.conn, "DELETE FROM batches WHERE trimmed < ?", nanos(tombstonesBefore))
	}
	if err == nil {
		err = exec(w.conn, deleteOldRecords, nanos(tombstonesBefore))
	}
	return err
}

// Positions grow with time, so the old records come first. The newest chained record of each namespace is kept, because the next record
// will be linked to it.
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
		" AND (calls.updated >= ?7 OR calls.status IN ('NEW', 'RUNNING', 'SUSPENDED', 'RESUMING') OR packs.updated >= ?7))"
	deleteRunDocuments    = "DELETE FROM documents WHERE " + inDocuments + "'RUN' AND " + noCalls + "'run'" + ofDocument + ")"
	deleteThreadDocuments = "DELETE FROM documents WHERE " + inDocuments + "'THREAD' AND " + noCalls + "'thread'" + ofDocument + ")"
	selectDocumentsEnd    = "SELECT namespace, scope, scope_id FROM documents WHERE (namespace, scope, scope_id) > (?1, ?2, ?3) ORDER BY namespace, scope, scope_id LIMIT 1 OFFSET ?4"
	selectRunsEnd         = "SELECT namespace, id, '' FROM runs WHERE (namespace, id) > (?1, ?2) AND ?3 = '' ORDER BY namespace, id LIMIT 1 OFFSET ?4"
	deleteRuns            = "DELETE FROM runs WHERE (namespace, id) > (?1, ?2) AND (namespace, id) <= (?4, ?5) AND ?3 = ?6 AND (state <> 'BLOCKED' OR changed < ?7) AND " + noCalls + "'run'" + memberBits + memberIs + " AND m.namespace = runs.namespace AND m.name = runs.id)"
)
