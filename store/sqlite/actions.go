package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
)

// writeActions makes actions due whose batch or run has ended, then stores new ones.
func (w *writer) writeActions(p *group.Plan) error {
	for _, d := range p.Due {
		if err := exec(w.conn, ripenActions, nanos(p.Now), d.Namespace, d.Phase, d.End); err != nil {
			return err
		}
	}
	for _, a := range p.Actions {
		var ends any
		if end := a.End(); end != "" {
			ends = end
		}
		err := exec(w.conn, "INSERT INTO actions (position, namespace, id, call_id, state, phase, ends, due, created, crc, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			a.Position, a.Namespace, a.ID, a.CallID, string(a.State), string(a.Phase), ends, a.Due, nanos(a.Created), sum(a.Bytes, a.Namespace, a.ID), a.Bytes)
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveAction implements [group.Database].
func (w *writer) RemoveAction(_ context.Context, namespace, id string) error {
	err := exec(w.conn, deleteAction, namespace, id)
	if err == nil && w.conn.Changes() == 0 {
		err = store.ErrNotFound
	}
	return err
}

const (
	deleteAction  = "DELETE FROM actions WHERE namespace = ? AND id = ?"
	ripenActions  = "UPDATE actions SET due = ? WHERE namespace = ? AND phase = ? AND ends = ? AND state = 'PENDING'"
	deleteActions = "DELETE FROM actions WHERE state = 'DEAD' AND created < ?"
)

const (
	selectActions = "SELECT position, namespace, id, call_id, state, due, crc, record FROM actions"
	dueActions    = selectActions + " INDEXED BY actions_due WHERE state = 'PENDING' AND due IS NOT NULL AND due <= ? ORDER BY due, position LIMIT ?"
	endActions    = selectActions + " INDEXED BY actions_ends WHERE (? = '' OR namespace = ?) AND phase = ? AND ends = ? AND state = 'PENDING' AND position > ? ORDER BY position LIMIT ?"
	deadActions   = selectActions + " INDEXED BY actions_dead WHERE namespace = ? AND state = 'DEAD' AND position > ? ORDER BY position LIMIT ?"
	oneAction     = selectActions + " INDEXED BY actions_id WHERE namespace = ? AND id = ?"
	allActions    = selectActions + " WHERE position > ? AND (? = '' OR namespace = ?) AND (? = '' OR state = ?) ORDER BY position LIMIT ?"
)

// Actions returns what was not carried out yet.
func (s *Store) Actions(ctx context.Context, q store.ActionQuery) (actions []store.Action, err error) {
	limit := cmp.Or(q.Limit, 50)
	text, args := allActions, []any{q.After, q.Namespace, q.Namespace, string(q.State), string(q.State), limit}
	switch {
	case q.ID != "":
		text, args = oneAction, []any{q.Namespace, q.ID}
	case q.Due:
		text, args = dueActions, []any{nanos(s.clock.now()), limit}
	case q.End != "":
		text, args = endActions, []any{q.Namespace, q.Namespace, string(q.Phase), q.End, q.After, limit}
	case q.State == store.ActionDead && q.Namespace != "":
		text, args = deadActions, []any{q.Namespace, q.After, limit}
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, text, func(st *sqlite.Stmt) error {
			actions = append(actions, scanAction(st))
			return nil
		}, args...)
	})
	slices.SortFunc(actions, func(a, b store.Action) int { return cmp.Compare(a.Position, b.Position) })
	return actions, err
}

func scanAction(st *sqlite.Stmt) store.Action {
	a := store.Action{Namespace: st.ColumnText(1), ID: st.ColumnText(2), CallID: st.ColumnText(3)}
	record := columnBytes(st, 7)
	if sum(record, a.Namespace, a.ID) != uint32(st.ColumnInt64(6)) || json.Unmarshal(record, &a) != nil {
		a = store.Action{Namespace: a.Namespace, ID: a.ID, CallID: a.CallID, Broken: true}
	}
	a.Position, a.State, a.Due = st.ColumnInt64(0), store.ActionState(st.ColumnText(4)), columnTime(st, 5)
	return a
}

// shredActions removes what purged calls asked for.
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

func (w *writer) trimActions(before time.Time) error {
	return exec(w.conn, deleteActions, nanos(before))
}
