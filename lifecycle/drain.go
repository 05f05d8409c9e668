package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/lifecycle/outcome"
)

// Drain refuses new calls, lets running ones finish until ctx is done, stops the rest, and returns when
// nothing runs any more. Then streams end with a cursor. Suspended calls stay.
func (e *Engine) Drain(ctx context.Context) {
	idle := e.drain.Refuse()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	e.drain.Stop() // before the list: a call that was admitted earlier and begins later sees it
	e.stopAll(outcome.Drained)
	<-idle // bounded by the grace period of tools
	e.behind.Settle()
	e.workers.Close()
	e.drain.Close()
}

// RefuseCalls begins what [Engine.Drain] does: when it has returned, new calls are refused.
func (e *Engine) RefuseCalls() { e.drain.Refuse() }

// Draining reports whether new calls are refused because the daemon is about to end.
func (e *Engine) Draining() bool { return e.drain.Refusing() }

// stopAll ends the pipeline runs of the active calls.
func (e *Engine) stopAll(cause error) {
	e.mu.Lock()
	calls := e.activeCallsLocked()
	e.mu.Unlock()
	for _, l := range calls {
		l.stop(cause)
	}
}
