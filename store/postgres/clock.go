package postgres

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// boot returns the time since this machine started. Unlike Go's monotonic clock, it also counts the time in which the machine is suspended.
// Nobody can set this clock.
func boot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // All supported kernels have this clock.
	}
	return time.Duration(t.Nano())
}

// A clock follows the clock of the database but never runs backwards.
type clock struct {
	store.Clock
	machine func() time.Time // replaces the database's clock in tests

	mu       sync.Mutex
	reported time.Time // newest clock value from the database
	at       time.Time // when the database reported it, by this machine's clock
}

// set records a time that the database reported.
func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported, c.at = t, time.Now()
}

func (c *clock) now() call.Stamp { return c.Now(c.read) }

func (c *clock) read() (machine, now time.Time) {
	if c.machine != nil {
		now = c.machine()
		return now, now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	machine = time.Now()
	return machine, c.reported.Add(machine.Sub(c.at))
}
