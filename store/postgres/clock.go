package postgres

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// boot is the time since this machine started. It counts while the machine is suspended, which Go's monotonic clock does not,
// and nobody can set it.
func boot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every kernel that runs toold has this clock
	}
	return time.Duration(t.Nano())
}

// A clock continues from the last time that the database reported, and never runs back. While it is ahead of the database's
// clock, which ran ahead once, it advances with the time that passes.
type clock struct {
	machine func() time.Time // in the place of the database, for tests

	mu   sync.Mutex
	told time.Time // by the database
	at   time.Time // when the server reported it, by this machine's clock
	last time.Time
	read time.Time // when that was read, by this machine
}

// set takes what the database says.
func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.at = t, time.Now()
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
	now := c.told.Add(read.Sub(c.at))
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
