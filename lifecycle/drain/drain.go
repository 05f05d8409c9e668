// Package drain counts the active work of an engine and shuts the engine down in order.
//
// A daemon that stops passes through three stages:
//
//   - New work is refused while active work finishes.
//   - The drain period is over, and the remaining work is stopped.
//   - No work is active, and the streams to clients end.
//
// A failure of the journal skips the first two stages, because nothing can be stored after it.
package drain

import "sync"

// A Drain tracks the work of one engine. Its methods may be called concurrently.
type Drain struct {
	mu       sync.Mutex
	running  int
	refusing bool
	failed   error

	idle   chan struct{} // closed when new work is refused and no work is active
	over   chan struct{} // closed when the drain period is over
	closed chan struct{} // closed when streams must end
}

// New returns a Drain of an engine that accepts new work.
func New() *Drain {
	return &Drain{idle: make(chan struct{}), over: make(chan struct{}), closed: make(chan struct{})}
}

// Enter counts work that needs no admission, because it was accepted earlier. The caller must call Leave when the work has ended.
func (d *Drain) Enter() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running++
}

// Admit counts new work and returns true. It returns false and counts nothing when new work is refused. After true, the caller must call
// Leave when the work has ended.
func (d *Drain) Admit() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusing {
		return false
	}
	d.running++
	return true
}

// Leave must be called when work that Enter or Admit counted has ended.
func (d *Drain) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	d.settleLocked()
}

// Refuse makes Admit return false. The returned channel is closed when no work is active.
func (d *Drain) Refuse() (idle <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refusing = true
	d.settleLocked()
	return d.idle
}

func (d *Drain) settleLocked() {
	if d.refusing && d.running == 0 {
		closeOnce(d.idle)
	}
}

// Stop ends the drain period. Admitted work that starts to run later must end at once.
func (d *Drain) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	closeOnce(d.over)
}

// Fail records why the journal failed, and reports whether this is the first failure. Later failures are ignored.
func (d *Drain) Fail(err error) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first = d.failed == nil
	if first {
		d.failed = err
	}
	return first
}

// Close ends the streams to clients. The caller must have published all events before.
func (d *Drain) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	closeOnce(d.closed)
}

// Refusing reports whether new work is refused.
func (d *Drain) Refusing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refusing
}

// Stopped reports whether the drain period is over. Work that starts to run after that must end at once.
func (d *Drain) Stopped() bool { return isClosed(d.over) }

// Ending reports whether a step that is not stored yet will never be stored by this daemon: the drain period is over, or the journal
// failed.
func (d *Drain) Ending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return isClosed(d.over) || d.failed != nil
}

// Err returns why the journal failed, or nil if it did not fail.
func (d *Drain) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Over returns a channel that is closed when the drain period is over.
func (d *Drain) Over() <-chan struct{} { return d.over }

// Closing reports whether streams must end.
func (d *Drain) Closing() bool { return isClosed(d.closed) }

// Closed returns a channel that is closed when streams must end.
func (d *Drain) Closed() <-chan struct{} { return d.closed }

func closeOnce(c chan struct{}) {
	if !isClosed(c) {
		close(c)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
