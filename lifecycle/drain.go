package lifecycle

import "context"

// Drain stops taking new calls, lets what runs come to its end until ctx is done, stops the rest, and returns when
// nothing runs any more. Then streams end with a cursor. Suspended calls stay.
func (e *Engine) Drain(ctx context.Context) {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		e.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		e.mu.Lock()
		lives := e.livesLocked()
		e.mu.Unlock()
		for _, l := range lives {
			l.stop(causeDrained)
		}
		<-idle // bounded by the grace period of tools
	}
	e.settle()
	e.closeStreams()
}

// Draining reports whether new calls are refused because the daemon is about to end.
func (e *Engine) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
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
