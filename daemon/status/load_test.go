package status_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/daemon/status"
)

// TestLoad checks that a sample is taken every 10 s, that rates come from the difference of two totals, and that the samples of one hour
// are kept.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var load status.Load
		var n int64
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			load.Run(ctx, func(context.Context) status.Reading {
				n++
				return status.Reading{Running: int(n), Suspended: -1, Ended: 50 * n, Failed: 10 * n, DiskFree: 7}
			})
		}()
		time.Sleep(35 * time.Second)
		synctest.Wait()
		got := load.Samples()
		if len(got) != 3 || got[0].Running != 2 || got[2].Running != 4 || got[2].Ended != 5 || got[2].Failed != 1 || got[2].Suspended != -1 || got[2].DiskFree != 7 {
			t.Errorf("after 35 s: %+v", got)
		}
		if got[0].Memory <= 0 {
			t.Errorf("the resident memory is %d", got[0].Memory)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		got = load.Samples()
		if len(got) != 360 || got[359].Time.Sub(got[0].Time) != 3590*time.Second || got[359].Running != int(n) {
			t.Errorf("%d samples over %v, the newest %+v", len(got), got[len(got)-1].Time.Sub(got[0].Time), got[len(got)-1])
		}
		cancel()
		<-done
	})
}
