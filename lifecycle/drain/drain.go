// Package drain counts what an engine has under way, and ends it in order.
//
// A daemon that stops passes through three stages. First new work is refused, while what runs comes to its end. Then the
// drain period is over, and the rest is stopped. When nothing runs, the streams to clients end. A failure of the journal
// skips the first two: nothing that happens after it can be stored.
package drain

import "sync"

// A Drain belongs to one engine. Its methods may be called concurrently.
type Drain struct {
	mu       sync.Mutex
	running  int
	refusing bool
	failed   error

	idle   chan struct{} // closed when nothing runs and nothing new is taken
	over   chan struct{} // closed when the drain period is over
	closed chan struct{} // closed when streams must end
}

// New returns a Drain of an engine that takes new work.
func New() *Drain {
	return &Drain{idle: make(chan struct{}), over: make(chan struct{}), closed: make(chan struct{})}
}

// Enter counts work that is accepted already. The caller calls Leave when it has ended.
func (d *Drain) Enter() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running++
}

// Admit counts new work unless it is refused. The caller calls Leave after true only.
func (d *Drain) Admit() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusing {
		return false
	}
	d.running++
	return true
}

// Leave ends what Enter or Admit counted.
func (d *Drain) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	d.settleLocked()
}

// Refuse makes Admit refuse. The channel is closed when nothing runs any more.
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

// Stop ends the drain period. Work that was admitted before and begins to run later has to end at once.
func (d *Drain) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	closeOnce(d.over)
}

// Fail notes why the journal failed, and reports whether it is the first failure. Later ones are not kept.
func (d *Drain) Fail(err error) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first = d.failed == nil
	if first {
		d.failed = err
	}
	return first
}

// Close ends the streams: everything that they will get is published.
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

// Stopped reports whether the drain period is over, so that what begins to run has to end at once.
func (d *Drain) Stopped() bool { return isClosed(d.over) }

// Ending reports whether a step that is not stored stays so: the drain period is over, or the journal failed.
func (d *Drain) Ending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return isClosed(d.over) || d.failed != nil
}

// Err returns why the journal failed; nil when it did not.
func (d *Drain) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Over is closed when the drain period is over.
func (d *Drain) Over() <-chan struct{} { return d.over }

// Closing reports whether streams must end.
func (d *Drain) Closing() bool { return isClosed(d.closed) }

// Closed is closed when streams must end.
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
