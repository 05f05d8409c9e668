package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// positioned assigns positions to new actions.
func (st *state) positioned(actions []store.Action) []store.Action {
	actions = slices.Clone(actions)
	for i := range actions {
		actions[i].Position = st.acted + 1 + int64(i)
	}
	return actions
}

// Amend applies an amendment.
func (s *Store) Amend(ctx context.Context, a *store.Amendment) ([]call.DocumentNotice, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return nil, s.ended
	}
	st, e := s.current, &effect{}
	if a.Done != "" {
		e.done = name{a.Namespace, a.Done}
		if _, ok := st.actions[e.done]; !ok {
			return nil, store.ErrNotFound
		}
	}
	writes, notices, err := a.ResolveDocuments(documentsOf{st, a.Namespace})
	if err != nil {
		return nil, err
	}
	now := s.Now()
	e.documents = make(map[doc]document, len(writes))
	for k, v := range writes {
		e.documents[doc{a.Namespace, k}] = document{v, now}
	}
	e.actions = st.positioned(a.Actions)
	for n, waits := range st.actions {
		if a.Ended != "" && n.namespace == a.Namespace && n != e.done && waits.State == store.ActionPending && waits.Phase == a.EndPhase && waits.End() == a.Ended {
			waits.Due = now
			e.actions = append(e.actions, waits)
		}
	}
	s.commitLocked(e, store.Full)
	return notices, nil
}

// Actions returns actions that were not executed yet.
func (s *Store) Actions(ctx context.Context, q store.ActionQuery) (actions []store.Action, err error) {
	now := s.Now()
	err = s.read(ctx, func(st *state) error {
		for _, a := range st.actions {
			if a.Position > q.After && selects(&q, &a, now) {
				actions = append(actions, a)
			}
		}
		return nil
	})
	slices.SortFunc(actions, func(a, b store.Action) int { return cmp.Compare(a.Position, b.Position) })
	return actions[:min(len(actions), cmp.Or(q.Limit, 50))], err
}

func selects(q *store.ActionQuery, a *store.Action, now call.Stamp) bool {
	return (q.Namespace == "" || a.Namespace == q.Namespace) && (q.ID == "" || a.ID == q.ID) && (q.State == "" || a.State == q.State) &&
		(q.End == "" || a.State == store.ActionPending && a.Phase == q.Phase && a.End() == q.End) && (!q.Due || a.State == store.ActionPending && a.Due != 0 && a.Due <= now)
}
