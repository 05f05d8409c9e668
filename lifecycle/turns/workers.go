package turns

import "sync"

// idleWorkers is the maximum number of idle goroutines that are kept for reuse. The stack of a kept goroutine has already grown. Growing a
// new stack was measured to take a tenth of the time of a read-only call.
const idleWorkers = 128

// Workers runs functions in reusable goroutines.
type Workers struct {
	mu     sync.Mutex
	idle   []chan func()
	closed bool
}

// Run invokes fn in a goroutine and returns without waiting for it.
func (w *Workers) Run(fn func()) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		next := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		next <- fn
		return
	}
	w.mu.Unlock()
	go w.work(fn)
}

func (w *Workers) work(fn func()) {
	var next chan func()
	for {
		fn()
		if next == nil {
			next = make(chan func(), 1)
		}
		w.mu.Lock()
		if w.closed || len(w.idle) >= idleWorkers {
			w.mu.Unlock()
			return
		}
		w.idle = append(w.idle, next)
		w.mu.Unlock()
		var ok bool
		if fn, ok = <-next; !ok {
			return
		}
	}
}

// Close ends the idle goroutines. A busy goroutine ends after its function returns.
func (w *Workers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, next := range w.idle {
		close(next)
	}
	w.idle = nil
}
