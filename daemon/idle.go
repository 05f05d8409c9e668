package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// When the daemon returns memory to the system.
const (
	idlePeriod = 5 * time.Second
	idleBytes  = 1 << 20 // most bytes allocated in an idle period: the heartbeats of some thousand watchers
	worthBytes = 8 << 20 // least bytes allocated since memory was last returned
)

// giveBack returns memory to the system when the daemon is idle. With [gcPercent], the heap may grow to several times the live data during
// a burst of calls. The runtime keeps that memory while nothing allocates. Each return needs a garbage collection of some milliseconds.
func giveBack(ctx context.Context) {
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	tick := time.NewTicker(idlePeriod)
	defer tick.Stop()
	var before, given uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		if now-before <= idleBytes && now-given >= worthBytes {
			debug.FreeOSMemory()
			given = now
		}
		before = now
	}
}
