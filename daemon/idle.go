package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// When memory is given back.
const (
	idlePeriod = 5 * time.Second
	idleBytes  = 1 << 20 // allocated in a period, at most: heartbeats of some thousand watchers
	worthBytes = 8 << 20 // allocated since it was done last, at least
)

// giveBack returns memory to the system when little happens: the runtime keeps what a burst of calls left, up to four times of
// what lives at [gcPercent], as long as nobody allocates. It takes a collection, some milliseconds.
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
