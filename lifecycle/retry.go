package lifecycle

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/requests"
	"github.com/toold-dev/toold/store"
)

// retries checks the field retry_of of a new call. The field must name a call of the same caller and tool that did not succeed. The new
// call is independent of that call: it has its own gates, answers and idempotency key.
func (a *admission) retries(ctx context.Context, spec *call.Spec) error {
	first, err := a.peek(ctx, call.Key{Namespace: a.as.Namespace, ID: spec.RetryOf})
	switch {
	case errors.Is(err, store.ErrTrimmed), errors.Is(err, store.ErrNotFound),
		err == nil && (first.Caller.Subject != a.as.Subject || first.OnBehalfOf != spec.OnBehalfOf):
		return call.Refuse(call.NotFound, "RETRY_OF_NOT_FOUND", "you have no call %q here that could be retried", spec.RetryOf)
	case err != nil:
		return refusal.OfCall(err, spec.RetryOf)
	}
	id := spec.Tool
	if def, ok := a.e.cfg.Tools.Lookup(a.as.Namespace, id); ok {
		id = def.Descriptor.ID
	}
	return requests.CheckRetry(first, id)
}

// peek returns the current record of a call. It does not wait when another goroutine is loading the call, but reads the journal.
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
