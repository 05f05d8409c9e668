package store

import (
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
)

// A Clock follows another clock but never runs backwards. If the other clock is set back, the Clock does not follow: it continues from its
// last time and advances with the elapsed time. The zero value is ready for use.
type Clock struct {
	mu      sync.Mutex
	last    call.Stamp
	machine time.Time // the last reading of this machine's clock, with its monotonic part
}

// Resume continues from the time in a journal.
func (c *Clock) Resume(last call.Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = last
}

// Now returns the time. read returns a reading of this machine's clock, and the time of the clock to follow. Now invokes read while it
// holds a lock, because readings in the wrong order would count elapsed time twice.
func (c *Clock) Now(read func() (machine, now time.Time)) call.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	machine, now := read()
	if passed := machine.Sub(c.machine); !c.machine.IsZero() && passed > 0 {
		c.last = c.last.Add(passed)
	}
	c.machine = machine
	c.last = max(c.last, call.StampOf(now))
	return c.last
}
