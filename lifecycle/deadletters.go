package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// DeadLetters returns at most limit actions of the principal's namespace that failed for good, behind a position.
func (e *Engine) DeadLetters(ctx context.Context, p tool.Principal, after int64, limit int) ([]store.Action, error) {
	return e.store.Actions(ctx, store.ActionQuery{Namespace: p.Namespace, State: store.ActionDead, After: after, Limit: limit})
}

// RetryDeadLetter makes a dead action due again, as if it were new.
func (e *Engine) RetryDeadLetter(ctx context.Context, p tool.Principal, id string) (*store.Action, error) {
	missing := call.Refuse(call.NotFound, "DEAD_LETTER_NOT_FOUND", "no action %q failed for good here", id)
	found, err := e.store.Actions(ctx, store.ActionQuery{Namespace: p.Namespace, ID: id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].State != store.ActionDead {
		return nil, missing
	}
	a := found[0]
	if a.Broken {
		return nil, call.Refuse(call.DataLoss, "ACTION_CORRUPT", "the stored row of action %q is damaged", id)
	}
	a.State, a.Attempts, a.Round, a.Error, a.Due = store.ActionPending, 0, 1, "", e.store.Now()
	if a.Queue != "" {
		a.Due = time.Time{}
	}
	_, err = e.store.Amend(ctx, &store.Amendment{Namespace: p.Namespace, Done: id, Actions: []store.Action{a}})
	if errors.Is(err, store.ErrNotFound) {
		return nil, missing
	}
	if errors.Is(err, store.ErrFatal) {
		e.fatal(err)
	}
	if err != nil {
		return nil, storeRefusal(err, id)
	}
	e.actions.wake()
	e.posted([]store.Action{a})
	return &a, nil
}
