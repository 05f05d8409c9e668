package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

const insertAction = `INSERT INTO actions (position, namespace, id, call_id, state, phase, ends, due, created, crc, record)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

func writeAction(position int64, a *store.Action) (statement, error) {
	record, err := json.Marshal(a)
	return statement{insertAction, []any{position, a.Namespace, a.ID, a.CallID, word(a.State), word(a.Phase), id(a.End()), a.Due,
		a.Created.UnixNano(), int64(sum(record, a.Namespace, a.ID)), record}}, err
}

// Amend makes an amendment.
func (s *Store) Amend(ctx context.Context, a *store.Amendment) (told []call.DocumentNotice, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	err = s.write(func(ctx context.Context, w *writer) (err error) {
		told, err = w.amend(ctx, a)
		return err
	})
	return told, err
}

func (w *writer) amend(ctx context.Context, a *store.Amendment) (told []call.DocumentNotice, err error) {
	if a.Done != "" {
		found := false
		err := scan(ctx, w.conn, "DELETE FROM actions WHERE namespace = $1 AND id = $2 RETURNING true", []any{&found}, func() error { return nil }, bind([]any{a.Namespace, a.Done})...)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, store.ErrNotFound
		}
	}
	now := w.s.clock.now()
	if told, err = w.amendDocuments(ctx, a); err != nil {
		return nil, err
	}
	if a.Ended != "" { // not those that come with it
		err := w.exec(ctx, "UPDATE actions SET due = $1 WHERE namespace = $2 AND phase = $3 AND ends = $4 AND state = 'PENDING'", now, a.Namespace, word(a.EndPhase), a.Ended)
		if err != nil {
			return nil, err
		}
	}
	for i := range a.Actions {
		stored, err := writeAction(w.next(), &a.Actions[i])
		if err == nil {
			err = w.exec(ctx, stored.text, stored.args...)
		}
		if err != nil {
			return nil, err
		}
	}
	return told, nil
}

// amendDocuments applies the commands of an amendment as those of a group that is one change.
func (w *writer) amendDocuments(ctx context.Context, a *store.Amendment) ([]call.DocumentNotice, error) {
	if len(a.Documents) == 0 {
		return nil, nil
	}
	c := &store.Change{Key: call.Key{Namespace: a.Namespace}, Documents: a.Documents, Limits: a.Limits}
	g := &group{w: w, now: w.s.clock.now(), documents: map[doc]store.DocumentState{}, rooms: map[scope]store.DocumentRoom{}}
	var wanted asked
	g.asksDocuments(&wanted, c)
	read := &pgx.Batch{}
	g.queueDocuments(read, wanted.documents)
	if len(wanted.rooms) > 0 {
		g.queueRooms(read, wanted.rooms)
	}
	if err := said(w.conn.SendBatch(ctx, read).Close()); err != nil {
		return nil, err
	}
	writes, told, err := a.ResolveDocuments(documentsOf{g, a.Namespace})
	if err != nil || len(writes) == 0 {
		return told, err
	}
	for k, d := range writes {
		g.write(doc{a.Namespace, k}, d)
	}
	written := &pgx.Batch{}
	g.queueWritten(written)
	return told, said(w.conn.SendBatch(ctx, written).Close())
}

const selectActions = "SELECT position, namespace, id, call_id, state, due, crc, record FROM actions WHERE "

// Actions returns what was not carried out yet.
func (s *Store) Actions(ctx context.Context, q store.ActionQuery) (actions []store.Action, err error) {
	limit := cmp.Or(q.Limit, 50)
	text, args := "position > $1 AND ($2::bytea = '' OR namespace = $2) AND ($3::text = '' OR state = $3::text) ORDER BY position LIMIT $4", []any{q.After, q.Namespace, word(q.State), limit}
	switch {
	case q.ID != "":
		text, args = "namespace = $1 AND id = $2", []any{q.Namespace, q.ID}
	case q.Due:
		text, args = "state = 'PENDING' AND due <= $1 ORDER BY due, position LIMIT $2", []any{s.clock.now(), limit}
	case q.End != "":
		text = "($1::bytea = '' OR namespace = $1) AND phase = $2 AND ends = $3 AND state = 'PENDING' AND position > $4 ORDER BY position LIMIT $5"
		args = []any{q.Namespace, word(q.Phase), q.End, q.After, limit}
	}
	var position, crc int64
	var due *int64
	var state string
	var namespace, id, callID, record []byte
	err = s.each(ctx, selectActions+text, []any{&position, &namespace, &id, &callID, &state, &due, &crc, &record}, func() { actions = nil }, func() error {
		known := store.Action{Namespace: string(namespace), ID: string(id), CallID: string(callID)}
		a := known
		if int64(sum(record, a.Namespace, a.ID)) != crc || json.Unmarshal(record, &a) != nil {
			a, a.Broken = known, true
		}
		a.Position, a.State, a.Due = position, store.ActionState(state), timeOf(due)
		actions = append(actions, a)
		return nil
	}, args...)
	slices.SortFunc(actions, func(a, b store.Action) int { return cmp.Compare(a.Position, b.Position) })
	return actions, err
}
