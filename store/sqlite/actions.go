package sqlite

import (
	"cmp"
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

// writeActions first makes due the actions that waited for the end of a batch or run, then stores new actions.
func (w *writer) writeActions(p *group.Plan) error {
	for _, d := range p.Due {
		if err := exec(w.conn, ripenActions, int64(p.Now), d.Namespace, d.Phase, d.End); err != nil {
			return err
		}
	}
	for _, a := range p.Actions {
		var ends any
		if end := a.End(); end != "" {
			ends = end
		}
		err := exec(w.conn, "INSERT INTO actions (position, namespace, id, call_id, state, phase, ends, due, created, crc, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			a.Position, a.Namespace, a.ID, a.CallID, string(a.State), string(a.Phase), ends, a.Due, int64(a.Created), rows.Sum(a.Bytes, a.Namespace, a.ID), a.Bytes)
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	deleteAction  = "DELETE FROM actions WHERE namespace = ? AND id = ?"
	ripenActions  = "UPDATE actions SET due = ? WHERE namespace = ? AND phase = ? AND ends = ? AND state = 'PENDING'"
	deleteActions = "DELETE FROM actions WHERE state = 'DEAD' AND created < ?"
)

const (
	selectActions = "SELECT " + rows.ActionColumns + " FROM actions"
	dueActions    = selectActions + " INDEXED BY actions_due WHERE state = 'PENDING' AND due IS NOT NULL AND due <= ? ORDER BY due, position LIMIT ?"
	endActions    = selectActions + " INDEXED BY actions_ends WHERE (? = '' OR namespace = ?) AND phase = ? AND ends = ? AND state = 'PENDING' AND position > ? ORDER BY position LIMIT ?"
	deadActions   = selectActions + " INDEXED BY actions_dead WHERE namespace = ? AND state = 'DEAD' AND position > ? ORDER BY position LIMIT ?"
	oneAction     = selectActions + " INDEXED BY actions_id WHERE namespace = ? AND id = ?"
	allActions    = selectActions + " WHERE position > ? AND (? = '' OR namespace = ?) AND (? = '' OR state = ?) ORDER BY position LIMIT ?"
)

// Actions returns actions that were not executed yet.
func (s *Store) Actions(ctx context.Context, q store.ActionQuery) ([]store.Action, error) {
	limit := cmp.Or(q.Limit, 50)
	text, args := allActions, []any{q.After, q.Namespace, q.Namespace, string(q.State), string(q.State), limit}
	switch {
	case q.ID != "":
		text, args = oneAction, []any{q.Namespace, q.ID}
	case q.Due:
		text, args = dueActions, []any{int64(s.Now()), limit}
	case q.End != "":
		text, args = endActions, []any{q.Namespace, q.Namespace, string(q.Phase), q.End, q.After, limit}
	case q.State == store.ActionDead && q.Namespace != "":
		text, args = deadActions, []any{q.Namespace, q.After, limit}
	}
	return s.Reader.Actions(ctx, text, args...)
}

// shredActions removes the actions of purged calls.
func (w *writer) shredActions(namespace string, calls map[string]bool) error {
	var found []string
	err := query(w.conn, "SELECT id, call_id FROM actions WHERE namespace = ?", func(st *sqlite.Stmt) error {
		if calls[st.ColumnText(1)] {
			found = append(found, st.ColumnText(0))
		}
		return nil
	}, namespace)
	for _, id := range found {
		if err == nil {
			err = exec(w.conn, deleteAction, namespace, id)
		}
	}
	return err
}

func (w *writer) trimActions(before call.Stamp) error {
	return exec(w.conn, deleteActions, int64(before))
}
