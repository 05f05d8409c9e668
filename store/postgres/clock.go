package postgres

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// boot returns the time since this machine started. Unlike Go's monotonic clock, it also counts the time in which the machine is suspended.
// It cannot be set.
func boot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // All supported kernels have this clock.
	}
	return time.Duration(t.Nano())
}

// A clock follows the clock of the database but never runs backwards. If the database's clock is set back, the clock does not follow: it
// continues from its last time and advances with the elapsed time.
type clock struct {
	machine func() time.Time // replaces the database's clock in tests

	mu       sync.Mutex
	reported time.Time // the last time that the database reported
	at       time.Time // when the database reported it, by this machine's clock
	last     time.Time
	read     time.Time // when last was read, by this machine's clock
}

// set records a time that the database reported.
func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported, c.at = t, time.Now()
}

// resume continues from the time in the journal.
func (c *clock) resume(last time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = last
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := time.Now()
	now := c.reported.Add(read.Sub(c.at))
	if c.machine != nil {
		read = c.machine()
		now = read
	}
	if passed := read.Sub(c.read); !c.read.IsZero() && passed > 0 {
		c.last = c.last.Add(passed)
	}
	c.read = read
	if now = now.Round(0).UTC(); now.After(c.last) {
		c.last = now
	}
	return c.last
}
