package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Conditions under which the daemon returns memory to the system.
const (
	idlePeriod = 5 * time.Second
	idleBytes  = 1 << 20 // The daemon is idle if it allocates at most this many bytes in an idle period. The heartbeats of some thousand watchers need this much.
	worthBytes = 8 << 20 // Returning memory is worthwhile if at least this many bytes were allocated since the last time.
)

// giveBack returns unused memory to the system when the daemon is idle. With [gcPercent], the heap may grow to several times the live data
// during a burst of calls, and the runtime keeps that memory while nothing allocates. Returning it needs a garbage collection of some
// milliseconds.
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
