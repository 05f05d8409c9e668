package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

func (w *writer) writeRun(r *store.Run) error {
	return exec(w.conn, `INSERT INTO runs (namespace, id, owner, state, reason, call_id, changed) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET owner = excluded.owner, state = excluded.state, reason = excluded.reason, call_id = excluded.call_id, changed = excluded.changed
		WHERE excluded.state <> 'OPEN' OR runs.state <> 'BLOCKED'`,
		r.Namespace, r.ID, r.Owner, string(r.State), r.Reason, r.CallID, int64(r.Changed))
}

const (
	selectRunCounts = "SELECT coalesce(status, 'SUCCEEDED'), count(*) FROM " + membersOf + joinMember +
		" WHERE m.namespace = ? AND m.kind = 'run' AND m.name = ?" + memberBits + memberIs + " GROUP BY 1"
	selectCountsOf = "SELECT status, count(*) FROM calls INDEXED BY calls_status WHERE namespace = $1 AND status IN " + rows.Unfinished + " AND status <> 'SUCCEEDED' GROUP BY status"
	selectCounts   = "SELECT status, count(*) FROM calls INDEXED BY calls_status WHERE status IN " + rows.Unfinished + " AND status <> 'SUCCEEDED' GROUP BY status"
)

// writeRecords writes the plugin records of a plan. It runs last, so that new calls get consecutive positions and can share a pack.
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
		err := exec(w.conn, "INSERT INTO records (position, namespace, kind, key, call_id, created, crc, bytes, chained) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			r.Position, r.Of.Namespace, r.Kind, r.Key, r.Of.ID, int64(r.Time), rows.Sum(r.Bytes, r.Of.Namespace, r.Kind, r.Key, r.Of.ID), r.Bytes, r.Chained)
		if err != nil {
			return err
		}
	}
	return nil
}

const selectLastLink = `SELECT substr(bytes, 1, 32) FROM records INDEXED BY records_kind
	WHERE namespace = ? AND kind = ? ORDER BY position DESC LIMIT 1`

const selectRecords = `SELECT position, key, call_id, created, crc, bytes, chained FROM records INDEXED BY records_kind
	WHERE namespace = ? AND kind = ? AND position > ? ORDER BY position LIMIT ?`

const selectRecordsBefore = `SELECT position, key, call_id, created, crc, bytes, chained FROM records INDEXED BY records_kind
	WHERE namespace = ? AND kind = ? AND position < ? ORDER BY position DESC LIMIT ?`
