package daemon

import (
	"context"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

// Memory returns to the system once after a burst, and never while the daemon works.
func TestGiveBack(t *testing.T) {
	allocate := func(bytes int) {
		for range bytes >> 20 {
			piece = make([]byte, 1<<20)
		}
		piece = nil
	}
	collections := func() uint64 {
		forced := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
		metrics.Read(forced)
		return forced[0].Value.Uint64()
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go giveBack(ctx)
		time.Sleep(idlePeriod / 2) // work happens between two checks, never at the time of one
		for burst := range 2 {
			before := collections()
			for range 5 {
				allocate(16 << 20)
				time.Sleep(idlePeriod)
			}
			if n := collections() - before; n != 0 {
				t.Errorf("burst %d: %d collections while there was work", burst, n)
			}
			time.Sleep(20 * idlePeriod)
			if n := collections() - before; n != 1 {
				t.Errorf("burst %d: %d collections, want 1 after it", burst, n)
			}
		}
	})
}

var piece []byte
