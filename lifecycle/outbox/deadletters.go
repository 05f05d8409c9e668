package outbox

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// DeadLetters returns at most limit dead actions of the principal's namespace. It starts after the position after.
func (o *Outbox) DeadLetters(ctx context.Context, p tool.Principal, after int64, limit int) (dead []call.DeadLetter, err error) {
	actions, err := o.cfg.Store.Actions(ctx, store.ActionQuery{Namespace: p.Namespace, State: store.ActionDead, After: after, Limit: limit})
	for i := range actions {
		dead = append(dead, deadLetter(&actions[i]))
	}
	return dead, err
}

func deadLetter(a *store.Action) call.DeadLetter {
	d := call.DeadLetter{
		Action: a.Action, ID: a.ID, CallID: a.CallID, Run: a.Run, Thread: a.Thread, Caller: a.Caller,
		Round: a.Round, Attempts: a.Attempts, Error: a.Error, Created: a.Created.Time(), Position: a.Position,
	}
	if a.Broken {
		d.Error = "its stored row is damaged"
	}
	return d
}

// RetryDeadLetter makes a dead action due again. The action may then be attempted as often as a new one.
func (o *Outbox) RetryDeadLetter(ctx context.Context, p tool.Principal, id string) (*call.DeadLetter, error) {
	missing := call.Refuse(call.NotFound, "DEAD_LETTER_NOT_FOUND", "there is no dead letter %q here", id)
	found, err := o.cfg.Store.Actions(ctx, store.ActionQuery{Namespace: p.Namespace, ID: id})
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
	a.State, a.Attempts, a.Round, a.Error, a.Due = store.ActionPending, 0, 1, "", o.cfg.Store.Now()
	if a.Queue != "" {
		a.Due = 0
	}
	_, err = o.cfg.Store.Amend(ctx, &store.Amendment{Namespace: p.Namespace, Done: id, Actions: []store.Action{a}})
	if errors.Is(err, store.ErrNotFound) {
		return nil, missing
	}
	if errors.Is(err, store.ErrFatal) {
		o.cfg.Fatal(err)
	}
	if err != nil {
		return nil, refusal.OfCall(err, id)
	}
	o.Wake()
	o.Committed([]store.Action{a})
	d := deadLetter(&a)
	return &d, nil
}
