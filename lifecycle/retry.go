package lifecycle

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/requests"
	"github.com/toold-dev/toold/store"
)

// retries refuses a new call that says it runs another one again which it cannot: only a call of the same caller and tool
// that did not succeed is retried. The new call stands on its own; gates, answers and the idempotency key are its own too.
func (a *admission) retries(ctx context.Context, spec *call.Spec) error {
	first, err := a.peek(ctx, call.Key{Namespace: a.as.Namespace, ID: spec.RetryOf})
	switch {
	case errors.Is(err, store.ErrTrimmed), errors.Is(err, store.ErrNotFound),
		err == nil && (first.Caller.Subject != a.as.Subject || first.OnBehalfOf != spec.OnBehalfOf):
		return call.Refuse(call.NotFound, "RETRY_OF_NOT_FOUND", "no call %q of yours here that this one could run again", spec.RetryOf)
	case err != nil:
		return refusal.OfCall(err, spec.RetryOf)
	}
	id := spec.Tool
	if def, ok := a.e.cfg.Tools.Lookup(a.as.Namespace, id); ok {
		id = def.Descriptor.ID
	}
	return requests.CheckRetry(first, id)
}

// peek returns a call as it stands without waiting for a goroutine that loads it.
func (a *admission) peek(ctx context.Context, key call.Key) (*call.Call, error) {
	e := a.e
	e.mu.Lock()
	l := e.activeCalls[key]
	e.mu.Unlock()
	if l != nil && l.ready.IsGiven() && l.loadErr == nil {
		return l.record(), nil
	}
	return e.store.Call(ctx, key)
}
