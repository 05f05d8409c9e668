package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// atPoint makes the engine sleep at a fail point, so that other goroutines run first.
func atPoint(name string, d time.Duration) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) {
		c.FailPoint = func(at string) {
			if at == name {
				time.Sleep(d)
			}
		}
	}
}

// TestBatchCancelOfACallThatWaits checks that an allowed call that waits for max_parallel is cancelled at once. This must also hold
// when the batch plans its next step before the call is stopped.
func TestBatchCancelOfACallThatWaits(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, atPoint("after-cancel", time.Millisecond), func(t *testing.T, w *world) {
		b := batchOf(call.Parallel, of("t", "t", "t")...)
		b.MaxParallel = 1
		w.launch(b)
		c, err := w.e.Cancel(t.Context(), alice, b.Calls[1].ID, "", time.Minute)
		if err != nil || c.Status != call.Cancelled || c.Executed != call.NotStarted {
			t.Errorf("%s %s, %v", c.Status, c.Executed, err)
		}
		p.free()
		synctest.Wait()
		w.wantBatch(b, "SUCCEEDED CANCELLED/CANCELLED SUCCEEDED")
	})
}

// turning returns a gate that asks about these tools. After the answer it blocks the tool named blocked: an approval never overrides a
// block.
func turning(blocked string, ids ...string) hook.Entry[hook.Gate] {
	ask := asking(ids...)
	return namedGate("turns", func(in *hook.Input) (hook.Verdict, error) {
		if d := in.Answer(); d != nil && in.Descriptor.ID == blocked {
			return hook.Block("not any more"), nil
		}
		return ask.Hook.Check(context.Background(), in)
	})
}

// TestBatchBehindABlockThatComesWithAnAnswer checks a gate that blocks a call after the answer to its question. Later calls end FAILED
// INTERRUPTED. A later call that is suspended ends in this way after its answer. Earlier calls run to their end.
func TestBatchBehindABlockThatComesWithAnAnswer(t *testing.T) {
	for _, strategy := range strategies {
		for _, crash := range []bool{false, true} {
			p := &probe{}
			tools := []tool.Tool{p.tool("first", mutating), p.tool("turns", mutating), p.tool("later", mutating)}
			inBubble(t, tools, gates(turning("turns", "first", "turns", "later")), func(t *testing.T, w *world) {
				b := batchOf(strategy, of("first", "turns", "later", "later")...)
				w.batch(b)
				calls := w.wantBatch(b, "SUSPENDED SUSPENDED SUSPENDED SUSPENDED")
				w.decide(bob, calls[1].ID, yes())
				w.wantBatch(b, "SUSPENDED FAILED/DENIED SUSPENDED SUSPENDED")
				if crash {
					w.crash()
					synctest.Wait()
				}
				w.decide(bob, calls[2].ID, yes())
				w.decide(bob, calls[3].ID, no("no"))
				w.decide(bob, calls[0].ID, yes())
				w.wantBatch(b, "SUCCEEDED FAILED/DENIED FAILED/INTERRUPTED CANCELLED/CANCELLED")
				if p.runs.Load() != 1 {
					t.Errorf("%s: %d runs", strategy, p.runs.Load())
				}
			})
		}
	}
}

// TestBatchFailFastKeepsTheOrder checks that with SEQUENTIAL and AUTO an invalid call fails only after the calls before it have run. Even
// with fail_fast, its failure therefore cannot stop these calls, only later ones.
func TestBatchFailFastKeepsTheOrder(t *testing.T) {
	for _, strategy := range []call.Strategy{call.Sequential, call.Auto} {
		for n := range 3 {
			inBubble(t, []tool.Tool{echo("ok", reading)}, nil, func(t *testing.T, w *world) {
				b := batchOf(strategy, of("ok", "ok", "ok")...)
				b.FailFast = true
				b.Calls[n].Arguments = `{"x":`
				w.batch(b)
				w.wantBatch(b, []string{
					"FAILED/INVALID_ARGUMENTS FAILED/INTERRUPTED FAILED/INTERRUPTED",
					"SUCCEEDED FAILED/INVALID_ARGUMENTS FAILED/INTERRUPTED",
					"SUCCEEDED SUCCEEDED FAILED/INVALID_ARGUMENTS",
				}[n])
			})
		}
	}
}

// TestCircuitAndACallThatWasTakenBack checks a source with an open circuit. A call that was allowed to try the source is withdrawn before
// it runs. The next call must then be allowed to try the source.
func TestCircuitAndACallThatWasTakenBack(t *testing.T) {
	u := &upstream{}
	inBubble(t, []tool.Tool{u.tool("far")}, circuitAfter(1), func(t *testing.T, w *world) {
		u.how.Store("fails")
		w.do(apart(spec("far", "")))
		time.Sleep(31 * time.Second)
		b := batchOf(call.Parallel, of("far", "far", "far")...)
		b.MaxParallel = 1
		u.how.Store("hangs")
		w.launch(b)
		if _, err := w.e.CancelBatch(t.Context(), alice, b.ID, "", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		u.how.Store("ok")
		if c := w.do(apart(spec("far", ""))); c.Status != call.Succeeded {
			t.Errorf("%s %+v", c.Status, c.Result.Error)
		}
	})
}

// TestBatchCancelIsSeenWhole checks that the stream of a cancelled batch does not end before all calls have ended.
func TestBatchCancelIsSeenWhole(t *testing.T) {
	p := held()
	change := both(gates(asking("ask")), atPoint("before-commit", time.Millisecond))
	inBubble(t, []tool.Tool{echo("ask", mutating), p.tool("t", mutating)}, change, func(t *testing.T, w *world) {
		b := batchOf(call.Sequential, of("ask", "ask", "ask", "ask", "t", "t")...)
		watcher := w.turn(b, call.ExecuteOptions{})
		time.Sleep(time.Second)
		w.wantBatch(b, "SUSPENDED SUSPENDED SUSPENDED SUSPENDED RUNNING NEW")
		cancelled := make(chan struct{})
		go func() {
			defer close(cancelled)
			if _, err := w.e.CancelBatch(t.Context(), alice, b.ID, "", ""); err != nil {
				t.Error(err)
			}
		}()
		if _, done := followed(t, watcher); len(done.Open) > 0 {
			t.Errorf("the stream ended with %s", statuses(done.Calls))
		}
		<-cancelled
	})
}
