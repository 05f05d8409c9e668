package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
)

// Trim forgets what is old. Terminal calls of a thread with an open suspension stay: their output belongs to the
// question.
func (s *Store) Trim(ctx context.Context, callsBefore, tombstonesBefore, documentsBefore time.Time, limit int) (gone []call.Key, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = s.write(func(w *writer) (err error) {
		gone, err = w.trimCalls(callsBefore, limit)
		if err == nil {
			err = w.trimRest(tombstonesBefore, documentsBefore)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

const selectOld = "SELECT " + callColumns + `, ended FROM calls INDEXED BY calls_ended WHERE ended < ? AND (thread_id = '' OR NOT EXISTS (
	SELECT 1 FROM calls t INDEXED BY calls_thread WHERE t.namespace = calls.namespace AND t.thread_id = calls.thread_id AND t.thread_id <> '' AND t.status = 'SUSPENDED'))
	ORDER BY ended LIMIT ?`

func (w *writer) trimCalls(before time.Time, limit int) (gone []call.Key, err error) {
	type old struct {
		callRow
		ended int64
	}
	var rows []old
	err = query(w.conn, selectOld, func(st *sqlite.Stmt) error {
		rows = append(rows, old{scanCall(st), st.ColumnInt64(8)})
		return nil
	}, nanos(before), limit)
	if err != nil {
		return nil, err
	}
	now := nanos(w.s.clock.now())
	for _, r := range rows {
		digest := ""
		c, decodeErr := r.decode()
		if decodeErr == nil {
			digest = c.RequestDigest
			err = w.forgetSuspensions(c)
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
		w.s.tombstones.Store(true)
		gone = append(gone, r.key)
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

func (w *writer) trimRest(tombstonesBefore, documentsBefore time.Time) error {
	err := exec(w.conn, "DELETE FROM tombstones WHERE trimmed < ?", nanos(tombstonesBefore))
	if err == nil {
		// Positions follow the clock, so what is old is at the beginning.
		err = exec(w.conn, `DELETE FROM records WHERE position < coalesce(
			(SELECT position FROM records WHERE created >= ? ORDER BY position LIMIT 1), 9223372036854775807)`, nanos(tombstonesBefore))
	}
	if err == nil {
		err = exec(w.conn, `DELETE FROM documents WHERE scope = 'RUN' AND changed < ?1 AND NOT EXISTS (
			SELECT 1 FROM calls c INDEXED BY calls_run WHERE c.namespace = documents.namespace AND c.run_id = documents.scope_id AND c.run_id <> ''
			AND (c.updated >= ?1 OR c.status IN ('NEW', 'RUNNING', 'SUSPENDED', 'RESUMING')))`, nanos(documentsBefore))
	}
	// With the last call goes what was known of whose run or thread it was, so nothing may be left to read in it.
	if err == nil {
		err = exec(w.conn, `DELETE FROM documents WHERE scope = 'RUN' AND NOT EXISTS (
			SELECT 1 FROM calls c INDEXED BY calls_run WHERE c.namespace = documents.namespace AND c.run_id = documents.scope_id AND c.run_id <> '')`)
	}
	if err == nil {
		err = exec(w.conn, `DELETE FROM documents WHERE scope = 'THREAD' AND NOT EXISTS (
			SELECT 1 FROM calls c INDEXED BY calls_thread WHERE c.namespace = documents.namespace AND c.thread_id = documents.scope_id AND c.thread_id <> '')`)
	}
	if err == nil {
		err = exec(w.conn, `DELETE FROM runs WHERE state <> 'BLOCKED' AND NOT EXISTS (
			SELECT 1 FROM calls c INDEXED BY calls_run WHERE c.namespace = runs.namespace AND c.run_id = runs.id AND c.run_id <> '')`)
	}
	return err
}
