package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/lifecycle/outcome"
)

// Drain stops taking new calls, lets what runs come to its end until ctx is done, stops the rest, and returns when
// nothing runs any more. Then streams end with a cursor. Suspended calls stay.
func (e *Engine) Drain(ctx context.Context) {
	idle := e.startDraining()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	e.mu.Lock()
	if !e.stopping {
		close(e.over)
	}
	e.stopping = true // a call that passed the request check before it closed must not begin to run now
	calls := e.activeCallsLocked()
	e.mu.Unlock()
	for _, l := range calls {
		l.stop(outcome.Drained)
	}
	<-idle // bounded by the grace period of tools
	e.settle()
	e.workers.close()
	e.closeStreams()
}

// RefuseCalls begins what [Engine.Drain] does: when it has returned, new calls are refused.
func (e *Engine) RefuseCalls() { e.startDraining() }

// Draining reports whether new calls are refused because the daemon is about to end.
func (e *Engine) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// isClosing reports whether streams end: then everything that will be told is in the journal.
func (e *Engine) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

func (e *Engine) closeStreams() {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.closing:
	default:
		close(e.closing)
	}
}

// startDraining returns what is closed when no pipeline runs any more.
func (e *Engine) startDraining() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	e.idleLocked()
	return e.idle
}

// idleLocked tells who drains that nothing runs.
func (e *Engine) idleLocked() {
	if !e.draining || e.active > 0 {
		return
	}
	select {
	case <-e.idle:
	default:
		close(e.idle)
	}
}

// enter counts a pipeline run.
func (e *Engine) enter() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active++
}

// enterOpen is enter for a request that may begin a pipeline run. A drain refuses it, or waits for it.
func (e *Engine) enterOpen() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return refuseDraining()
	}
	e.active++
	return nil
}

// isOver reports whether the drain period is over, so that a pipeline run has to end at once.
func (e *Engine) isOver() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopping
}

func (e *Engine) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active--
	e.idleLocked()
}

func (e *Engine) isStopping() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopping || e.failed != nil
}
