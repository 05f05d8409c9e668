package lifecycle

import (
	"context"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/custody"
)

// CheckOwners recovers calls that have no owner: no part of the daemon works on them. It recovers such a call as a start would, and logs
// it, when the call had no owner at this check and at the previous check. See [custody.Checker].
func (e *Engine) CheckOwners(ctx context.Context) error {
	if e.drain.Err() != nil || !e.drain.Admit() {
		return nil // The daemon stops. The next daemon recovers all calls.
	}
	defer e.drain.Leave()
	return e.unowned.Check(ctx)
}

func newChecker(e *Engine) *custody.Checker {
	return &custody.Checker{
		Journal: e.cfg.Store, Moves: e.batches.Moves,
		Owned: func(key call.Key, c *call.Call) bool { return e.isOwned(key, c, 0) },
		Adopt: func(ctx context.Context, key call.Key) error {
			r := recovery{e: e}
			defer r.end()
			return r.adopt(ctx, key)
		},
	}
}

// isOwned reports whether a part of this daemon works on the call, or whether the call needs no work. c is the stored record. references is
// the number of references that the caller of isOwned holds.
func (e *Engine) isOwned(key call.Key, c *call.Call, references int) bool {
	e.mu.Lock()
	l := e.activeCalls[key]
	if l != nil {
		references = l.refs - references
	}
	e.mu.Unlock()
	if l != nil {
		if !l.ready.IsGiven() || l.loadErr != nil {
			return true
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if c = l.c; l.cancel != nil || references > l.watchers {
			return true // References of watchers do not count, because watchers only read. All remaining references belong to code that changes the call.
		}
	}
	return c.Status.Terminal() || c.Status == call.Suspended || e.held.Holds(c) || c.Operation() != nil && e.operations.Has(key)
}

// adopt recovers a call that has no owner.
func (r *recovery) adopt(ctx context.Context, key call.Key) error {
	e := r.e
	l, err := e.acquire(ctx, key)
	if err != nil {
		return err
	}
	defer l.release()
	c := l.record()
	if e.isOwned(key, c, 1) {
		return nil
	}
	e.stats.unowned.Add(1)
	e.log.Error("bug: no part of the daemon owned this call; it is recovered as after a restart; please report it",
		zap.String("call_id", key.ID), zap.String("status", string(c.Status)), zap.String("batch_id", c.BatchID), zap.NamedError("lost", l.forgive().err))
	if c.BatchID != "" && c.Status != call.Running {
		e.batches.Wake(call.Key{Namespace: key.Namespace, ID: c.BatchID})
		return nil
	}
	if err := findTail(ctx, l); err != nil {
		return err
	}
	noteUnseen(l)
	return r.recoverCall(ctx, l)
}
