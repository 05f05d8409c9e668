package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

const insertAction = `INSERT INTO actions (position, namespace, id, call_id, state, phase, ends, due, created, crc, record)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// queueActions first makes due the actions that waited for the end of a batch or run, then stores new actions.
func queueActions(b *pgx.Batch, p *group.Plan) {
	for _, d := range p.Due {
		b.Queue("UPDATE actions SET due = $1 WHERE namespace = $2 AND phase = $3 AND ends = $4 AND state = 'PENDING'", bind([]any{p.Now, d.Namespace, word(d.Phase), d.End})...)
	}
	for _, a := range p.Actions {
		b.Queue(insertAction, bind([]any{a.Position, a.Namespace, a.ID, a.CallID, word(a.State), word(a.Phase), id(a.End()), a.Due,
			int64(a.Created), int64(rows.Sum(a.Bytes, a.Namespace, a.ID)), a.Bytes})...)
	}
}

const selectActions = "SELECT " + rows.ActionColumns + " FROM actions WHERE "

// Actions returns actions that were not executed yet.
func (s *Store) Actions(ctx context.Context, q store.ActionQuery) ([]store.Action, error) {
	limit := cmp.Or(q.Limit, 50)
	text, args := "position > $1 AND ($2::bytea = '' OR namespace = $2) AND ($3::text = '' OR state = $3::text) ORDER BY position LIMIT $4", []any{q.After, q.Namespace, word(q.State), limit}
	switch {
	case q.ID != "":
		text, args = "namespace = $1 AND id = $2", []any{q.Namespace, q.ID}
	case q.Due:
		text, args = "state = 'PENDING' AND due <= $1 ORDER BY due, position LIMIT $2", []any{s.Now(), limit}
	case q.End != "":
		text = "($1::bytea = '' OR namespace = $1) AND phase = $2 AND ends = $3 AND state = 'PENDING' AND position > $4 ORDER BY position LIMIT $5"
		args = []any{q.Namespace, word(q.Phase), q.End, q.After, limit}
	}
	return s.Reader.Actions(ctx, selectActions+text, args...)
}
