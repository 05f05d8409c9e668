package lifecycle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// remote is a tool whose attempts run in another program. That program may reconnect to the next daemon.
type remote struct {
	probe
	within    time.Duration
	back      chan struct{}
	forgotten atomic.Int32 // number of calls of Forget
	continued atomic.Int32 // number of the attempt that was continued
	settled   atomic.Int32 // number of attempts that were settled
	stored    func(id string) bool
	unstored  atomic.Bool // set when an attempt was settled before its outcome was stored
}

func (r *remote) Descriptor() tool.Descriptor {
	return tool.Descriptor{ID: "t", Effects: mutating, Mildest: &tool.Effects{Resources: []tool.Resource{{Kind: "file"}}}, Parameters: []byte(anyObject)}
}

// Assess names a resource for each text of arguments, so calls with different arguments do not overlap.
func (r *remote) Assess(args tool.Arguments) tool.Effects {
	return tool.Effects{Resources: []tool.Resource{{Kind: "file", ID: args.Text()}}}
}

func (r *remote) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return r.run(ctx, c)
}

func (r *remote) Expect(*tool.Call) tool.Expected {
	return tool.Expected{Back: r.back, Within: r.within, Forget: func() { r.forgotten.Add(1) }}
}

func (r *remote) Continue(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	r.continued.Store(int32(c.Attempt))
	_ = c.Reporter.Progress(tool.Progress{Message: "still here"})
	select {
	case <-r.opened():
		return tool.Text("continued"), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *remote) Settled(_, id string, _ int) {
	r.settled.Add(1)
	if !r.stored(id) {
		r.unstored.Store(true)
	}
}

// overRestart kills a daemon while a remote attempt runs, and starts the next one.
func overRestart(t *testing.T, hold time.Duration, run func(w *world, r *remote, id, next string)) {
	t.Helper()
	r := &remote{probe: probe{hold: true}, within: 15 * time.Second}
	inBubble(t, []tool.Tool{r}, nil, func(_ *testing.T, w *world) {
		r.back = make(chan struct{})
		r.stored = func(id string) bool { return w.get(id).Status.Terminal() }
		id := w.begin(spec("t", ""))
		w.kill()
		synctest.Wait()
		w.takeOver(hold, nil)
		next := w.begin(spec("t", `{"other":1}`))
		run(w, r, id, next)
	})
}

// TestT84AttemptOutlivesTheDaemon checks an attempt in another program that reconnects to the next daemon. The attempt continues and does
// not begin again, whether or not the previous daemon may still run. Meanwhile other calls of the thread wait, whatever resources they name.
func TestT84AttemptOutlivesTheDaemon(t *testing.T) {
	for _, hold := range []time.Duration{0, 40 * time.Second} {
		overRestart(t, hold, func(w *world, r *remote, id, next string) {
			time.Sleep(5 * time.Second)
			close(r.back)
			synctest.Wait()
			if c := w.get(id); c.Status != call.Running || r.continued.Load() != 1 || r.runs.Load() != 1 {
				t.Errorf("the call is %s, attempt %d continues, %d runs", c.Status, r.continued.Load(), r.runs.Load())
			}
			if c := w.get(next); len(c.Attempts) > 0 {
				t.Error("the next call of the thread runs beside it")
			}
			r.free()
			synctest.Wait()
			c := w.get(id)
			if c.Status != call.Succeeded || c.Result.Message != "continued" || len(c.Attempts) != 1 || c.Attempts[0].Ended.IsZero() {
				t.Errorf("the call is %s %+v", c.Status, c.Result)
			}
			if got := types(t, 1, w.checkLog(id)); got != "accepted attempt_started progress finished" {
				t.Errorf("events %s", got)
			}
			time.Sleep(hold)
			synctest.Wait()
			if c := w.get(next); c.Status != call.Succeeded || r.runs.Load() != 2 || r.forgotten.Load() > 0 {
				t.Errorf("the next call is %s, %d runs", c.Status, r.runs.Load())
			}
			if r.settled.Load() != 2 || r.unstored.Load() {
				t.Errorf("settled %d, before it was stored: %t", r.settled.Load(), r.unstored.Load())
			}
		})
	}
}

// TestT84AttemptDoesNotOutlive checks an attempt whose program does not reconnect in time: recovery handles it. The daemon waits for the
// program's lease or for the hold, whichever is longer. A cancel request ends the wait for the lease but not the hold.
func TestT84AttemptDoesNotOutlive(t *testing.T) {
	tests := []struct {
		hold, until time.Duration
		cancel      bool
		ends        string
	}{
		{0, 15 * time.Second, false, "FAILED IN_DOUBT"},
		{40 * time.Second, 40 * time.Second, false, "FAILED IN_DOUBT"},
		{0, 0, true, "CANCELLED CANCELLED"},
		{40 * time.Second, 40 * time.Second, true, "CANCELLED CANCELLED"},
	}
	for _, tt := range tests {
		overRestart(t, tt.hold, func(w *world, r *remote, id, _ string) {
			if tt.cancel {
				if _, err := w.e.Cancel(t.Context(), alice, id, "", 0); err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
			if tt.until > 0 {
				time.Sleep(tt.until - time.Second)
				if c := w.get(id); c.Status != call.Running || r.forgotten.Load() > 0 {
					t.Errorf("%+v: the call is %s", tt, c.Status)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
			}
			c := w.get(id)
			if c.Result == nil {
				t.Fatalf("%+v: the call is %s", tt, c.Status)
			}
			if got := string(c.Status) + " " + string(c.Result.Error.Code); got != tt.ends || c.Executed != call.ExecutedUnknown || r.forgotten.Load() != 1 || r.continued.Load() > 0 {
				t.Errorf("%+v: the call is %s, %s, forgotten %d times", tt, got, c.Executed, r.forgotten.Load())
			}
			r.free()
		})
	}
}

// TestT84OutlivedAttemptKeepsItsTime checks that an attempt that continues under a new daemon keeps its timeout. The timeout does not start
// again.
func TestT84OutlivedAttemptKeepsItsTime(t *testing.T) {
	overRestart(t, 0, func(w *world, r *remote, id, _ string) {
		time.Sleep(10 * time.Second)
		close(r.back)
		time.Sleep(10*time.Minute - 11*time.Second)
		if c := w.get(id); c.Status != call.Running {
			t.Errorf("before its time is over the call is %s", c.Status)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := w.get(id); c.Result == nil || c.Result.Error.Code != tool.Timeout {
			t.Errorf("after its time the call is %s", c.Status)
		}
		r.free()
	})
}
