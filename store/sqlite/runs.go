package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/tool"
)

func (w *writer) writeRun(r *store.Run) error {
	return exec(w.conn, `INSERT INTO runs (namespace, id, owner, state, reason, call_id, changed) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET owner = excluded.owner, state = excluded.state, reason = excluded.reason, call_id = excluded.call_id, changed = excluded.changed
		WHERE excluded.state <> 'OPEN' OR runs.state <> 'BLOCKED'`,
		r.Namespace, r.ID, r.Owner, string(r.State), r.Reason, r.CallID, nanos(r.Changed))
}

// EndRun stores the state of a run and removes its documents and policies.
func (s *Store) EndRun(_ context.Context, r store.Run) error {
	return s.write(func(w *writer) error {
		if err := w.writeRun(&r); err != nil {
			return err
		}
		for _, table := range []string{"documents", "policies"} {
			err := exec(w.conn, "DELETE FROM "+table+" WHERE namespace = ? AND scope = ? AND scope_id = ?", r.Namespace, string(tool.RunScope), r.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const runColumns = "namespace, id, state, reason, call_id, changed, owner"

func scanRun(st *sqlite.Stmt) store.Run {
	return store.Run{Namespace: st.ColumnText(0), ID: st.ColumnText(1), State: call.RunState(st.ColumnText(2)), Reason: st.ColumnText(3),
		CallID: st.ColumnText(4), Changed: columnTime(st, 5), Owner: st.ColumnText(6)}
}

// Run returns the stored state of a run.
func (s *Store) Run(ctx context.Context, namespace, id string) (run *store.Run, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, "SELECT "+runColumns+" FROM runs WHERE namespace = ? AND id = ?", func(st *sqlite.Stmt) error {
			r := scanRun(st)
			run = &r
			return nil
		}, namespace, id)
	})
	if err == nil && run == nil {
		err = store.ErrNotFound
	}
	return run, err
}

// BlockedRuns visits the runs that are blocked.
func (s *Store) BlockedRuns(ctx context.Context, visit func(store.Run) error) error {
	const page = 500
	var last store.Run
	for {
		var runs []store.Run
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, "SELECT "+runColumns+` FROM runs WHERE (namespace, id) > (?, ?) AND state = 'BLOCKED' ORDER BY namespace, id LIMIT ?`, func(st *sqlite.Stmt) error {
				runs = append(runs, scanRun(st))
				return nil
			}, last.Namespace, last.ID, page)
		})
		if err != nil {
			return err
		}
		for _, r := range runs {
			if err := visit(r); err != nil {
				return err
			}
			last = r
		}
		if len(runs) < page {
			return nil
		}
	}
}

const (
	selectRunCounts = "SELECT coalesce(status, 'SUCCEEDED'), count(*) FROM " + membersOf + joinMember +
		" WHERE m.namespace = ? AND m.kind = 'run' AND m.name = ?" + memberBits + memberIs + " GROUP BY 1"
	selectCounts = "SELECT status, count(*) FROM calls INDEXED BY calls_status WHERE status IN ('NEW', 'RUNNING', 'SUSPENDED', 'RESUMING') AND status <> 'SUCCEEDED' GROUP BY status"
)

// RunCounts returns how many calls of a run have each status.
func (s *Store) RunCounts(ctx context.Context, namespace, id string) (map[call.Status]int, error) {
	return s.counts(ctx, selectRunCounts, namespace, id)
}

// Counts returns how many calls have each status that is not terminal.
func (s *Store) Counts(ctx context.Context) (map[call.Status]int, error) {
	return s.counts(ctx, selectCounts)
}

func (s *Store) counts(ctx context.Context, text string, args ...any) (map[call.Status]int, error) {
	counts := map[call.Status]int{}
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, text, func(st *sqlite.Stmt) error {
			counts[call.Status(st.ColumnText(0))] = st.ColumnInt(1)
			return nil
		}, args...)
	})
	return counts, err
}

// writeRecords writes what plugins keep beside the calls of a plan. They come last: calls that follow each other share a row.
func (w *writer) writeRecords(p *group.Plan) error {
	err := p.Link(func(namespace, kind string) (last []byte, err error) {
		err = query(w.conn, selectLastLink, func(st *sqlite.Stmt) error { last = columnBytes(st, 0); return nil }, namespace, kind)
		return last, err
	})
	if err != nil {
		return err
	}
	for i := range p.Records {
		r := &p.Records[i]
		err := exec(w.conn, "INSERT INTO records (position, namespace, kind, key, call_id, created, crc, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			r.Position, r.Of.Namespace, r.Kind, r.Key, r.Of.ID, nanos(r.Time), sum(r.Bytes, r.Of.Namespace, r.Kind, r.Key, r.Of.ID), r.Bytes)
		if err != nil {
			return err
		}
	}
	return nil
}

const selectLastLink = `SELECT substr(bytes, 1, 32) FROM records INDEXED BY records_kind
	WHERE namespace = ? AND kind = ? ORDER BY position DESC LIMIT 1`

const selectRecords = `SELECT position, key, call_id, created, crc, bytes FROM records INDEXED BY records_kind
	WHERE namespace = ? AND kind = ? AND position > ? ORDER BY position LIMIT ?`

// Records reads back what plugins stored. A broken one is left out when others stand before it, and refused when it is
// the first: who goes on from its position reads the rest.
func (s *Store) Records(ctx context.Context, namespace, kind string, after int64, limit int) (records []store.StoredRecord, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, selectRecords, func(st *sqlite.Stmt) error {
			r := store.StoredRecord{Position: st.ColumnInt64(0), CallID: st.ColumnText(2), Time: columnTime(st, 3),
				Record: store.Record{Kind: kind, Key: st.ColumnText(1), Bytes: columnBytes(st, 5)}}
			if sum(r.Bytes, namespace, kind, r.Key, r.CallID) != uint32(st.ColumnInt64(4)) {
				if len(records) > 0 {
					return errEnough
				}
				return fmt.Errorf("%w: record %d", store.ErrCorrupt, r.Position)
			}
			records = append(records, r)
			return nil
		}, namespace, kind, after, limit)
	})
	return records, err
}
