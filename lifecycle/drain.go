package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/lifecycle/outcome"
)

// Drain refuses new calls and lets running calls finish until ctx is done. Then it stops the remaining calls and returns when no call runs.
// The streams to clients then end with a cursor. Suspended calls stay suspended.
func (e *Engine) Drain(ctx context.Context) {
	idle := e.drain.Refuse()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	e.drain.Stop() // Stop before the calls are listed: a call that is not in the list yet then sees the end of the drain period.
	e.stopAll(outcome.Drained)
	<-idle // This wait is short, because the grace period of tools is limited.
	e.behind.Settle()
	e.workers.Close()
	e.drain.Close()
}

// RefuseCalls does the first step of [Engine.Drain]: after it returns, new calls are refused.
func (e *Engine) RefuseCalls() { e.drain.Refuse() }

// Draining reports whether new calls are refused because the daemon is stopping.
func (e *Engine) Draining() bool { return e.drain.Refusing() }

// stopAll stops the pipeline runs of all active calls.
func (e *Engine) stopAll(cause error) {
	e.mu.Lock()
	calls := e.activeCallsLocked()
	e.mu.Unlock()
	for _, l := range calls {
		l.stop(cause)
	}
}
