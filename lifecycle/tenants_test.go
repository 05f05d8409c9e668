package lifecycle_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// TestP11BatchCountsEachCallInTheQueue checks how a batch counts against the queue limits. It counts as many entries as its calls may wait
// at the same time. A refused batch counts none.
func TestP11BatchCountsEachCallInTheQueue(t *testing.T) {
	tests := []struct {
		name     string
		strategy call.Strategy
		most     int // max_parallel of the batch
		calls    int
		taken    bool
	}{
		{"fits", call.Parallel, 0, 4, true},
		{"one too many", call.Parallel, 0, 5, false},
		{"groups of AUTO", call.Auto, 0, 5, false},
		{"one after the other", call.Sequential, 0, 20, true},
		{"few at once", call.Parallel, 3, 20, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := held()
			limits := func(c *lifecycle.Config) {
				c.Concurrency, c.QueueLength, c.NamespaceQueue, c.PrincipalQueue = 1, 4, 4, 4
			}
			inBubble(t, []tool.Tool{p.tool("held", reading), echo("t", reading)}, limits, func(t *testing.T, w *world) {
				w.begin(apart(spec("held", "")))
				b := batchOf(tt.strategy)
				b.MaxParallel = tt.most
				for range tt.calls {
					b.Calls = append(b.Calls, spec("t", ""))
				}
				watcher, err := w.e.ExecuteBatch(t.Context(), alice, b, call.ExecuteOptions{})
				if !tt.taken {
					wantRefusal(t, err, call.ResourceExhausted, "QUEUE_FULL")
					if page, err := w.e.Records().List(t.Context(), carol, everything); err != nil || len(page.Calls) != 1 {
						t.Errorf("%d calls, %v", len(page.Calls), err)
					}
				} else if err != nil {
					t.Fatal(err)
				} else {
					watcher.Close()
				}
				p.free()
				synctest.Wait()
			})
		})
	}
}

// TestP11SlowExpiryLeavesOthersServed checks a namespace with thousands of calls that expire slowly. Calls of other namespaces that expire
// at the same time, or a little later, are not delayed.
func TestP11SlowExpiryLeavesOthersServed(t *testing.T) {
	slow := hook.Entry[hook.After]{Name: "slow", Deadline: time.Minute, Hook: afterSlow{}}
	ask := func(c *lifecycle.Config) {
		gates(namedGate("ask", approval(tool.Ticket{ExpiresIn: time.Hour})))(c)
		c.Hooks.After = []hook.Entry[hook.After]{slow}
	}
	inBubble(t, []tool.Tool{echo("t", mutating)}, ask, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- w.e.Sweep(ctx) }()
		for range 2000 {
			w.do(spec("t", `{"slow":true}`))
		}
		var others []*call.Call
		for range 3 {
			time.Sleep(20 * time.Second)
			watcher, err := w.e.Execute(t.Context(), eve, spec("t", `{}`), call.ExecuteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := watcher.Wait(t.Context(), time.Minute)
			if err != nil || c.Status != call.Suspended {
				t.Fatalf("%v, %v", c, err)
			}
			others = append(others, c)
		}
		for i, c := range others {
			time.Sleep(c.Open().ExpiresAt.Sub(w.store.Now()) + time.Second)
			if c, err := w.store.Call(t.Context(), c.Key()); err != nil || c.Status != call.Cancelled {
				t.Errorf("call %d of another tenant is %s a second after it expired, %v", i, c.Status, err)
			}
		}
		waiting := func() int {
			due, err := w.store.Due(t.Context(), alice.Namespace, 2000)
			if err != nil {
				t.Fatal(err)
			}
			return len(due)
		}
		if waiting() == 0 {
			t.Error("nobody was slow")
		}
		time.Sleep(time.Hour)
		if n := waiting(); n > 0 {
			t.Errorf("%d slow calls never expire", n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// afterSlow is an After hook that takes 10 s for some calls.
type afterSlow struct{}

func (afterSlow) After(ctx context.Context, in *hook.Input, _ hook.Outcome) (hook.AfterResult, error) {
	if in.Arguments.Text() == `{"slow":true}` {
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
		}
	}
	return hook.AfterResult{}, nil
}

// TestP11BlockedRunsAreForgotten checks a blocked run that has no other data. When the tombstones of its calls are removed, the run is
// removed too, also from memory.
func TestP11BlockedRunsAreForgotten(t *testing.T) {
	refuse := namedGate("g", func(*hook.Input) (hook.Verdict, error) { return hook.Block("never"), nil })
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(refuse), func(t *testing.T, w *world) {
		for i := range 3 {
			s := spec("t", "")
			s.Run.ID = fmt.Sprint("run-", i)
			w.do(s)
		}
		blocked := func() (n int) {
			if err := w.store.BlockedRuns(t.Context(), func(store.Run) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		time.Sleep(8 * 24 * time.Hour)
		now := w.store.Now()
		for _, tombstones := range []call.Stamp{now.Add(-year), now} {
			if _, err := w.store.Trim(t.Context(), now, tombstones, now, 100); err != nil {
				t.Fatal(err)
			}
			if err := w.e.Owners().DropTrimmed(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := spec("t", "")
			s.Run.ID = "run-1"
			watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
			if err == nil {
				watcher.Close()
			}
			if kept := tombstones < now; kept {
				wantRefusal(t, err, call.FailedPrecondition, "RUN_BLOCKED")
				if blocked() != 3 {
					t.Errorf("%d blocked runs", blocked())
				}
			} else if err != nil {
				t.Errorf("a call of a run that is forgotten: %v", err)
			}
		}
		synctest.Wait()
		if n := blocked(); n != 1 { // The new call was blocked, so the run is blocked again.
			t.Errorf("%d blocked runs are left", n)
		}
	})
}
