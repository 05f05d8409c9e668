package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// TestClockNeverRunsBackwards checks that a Clock does not go back when the machine's clock or the followed clock was set back. It also
// checks that the Clock counts elapsed time once when many goroutines read it.
func TestClockNeverRunsBackwards(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var c store.Clock
	c.Resume(call.StampOf(start))
	at := func(machine, now time.Time) call.Stamp {
		return c.Now(func() (time.Time, time.Time) { return machine, now })
	}
	for i, tt := range []struct{ machine, now, want time.Duration }{
		{-time.Hour, -time.Hour, 0},                                  // The machine's clock was set back before the start.
		{-time.Hour + time.Second, -time.Hour + time.Second, 1e9},    // The machine's clock advances.
		{-2 * time.Hour, -2 * time.Hour, 1e9},                        // The machine's clock was set back again.
		{-2*time.Hour + time.Minute, time.Hour, time.Hour},           // The followed clock is ahead.
		{-2*time.Hour + 2*time.Minute, -time.Hour, 61 * time.Minute}, // The followed clock was set back.
	} {
		if got := at(start.Add(tt.machine), start.Add(tt.now)).Sub(call.StampOf(start)); got != tt.want {
			t.Errorf("reading %d: %v after the start, want %v", i, got, tt.want)
		}
	}
	var together store.Clock
	read := func() (machine, now time.Time) { now = time.Now(); return now, now }
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10_000 {
				together.Now(read)
			}
		})
	}
	all.Wait()
	if ahead := time.Until(together.Now(read).Time()); ahead > 0 {
		t.Errorf("the clock is %v ahead", ahead)
	}
}
