package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/lifecycle/outcome"
)

// Drain refuses new calls and lets running calls finish until ctx is done. Then it stops the remaining ones, and returns when no call runs.
// The streams then end with a cursor. Suspended calls remain suspended.
func (e *Engine) Drain(ctx context.Context) {
	idle := e.drain.Refuse()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	e.drain.Stop() // Before the calls are listed, so that an admitted call that begins later sees it.
	e.stopAll(outcome.Drained)
	<-idle // bounded by the grace period of tools
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
