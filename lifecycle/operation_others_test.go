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

// TestOperationsInBatches checks a batch with work outside the daemon. The batch waits for the work without using resources. A drain does
// not wait for the work, and the next daemon continues the batch.
func TestOperationsInBatches(t *testing.T) {
	for _, strategy := range []call.Strategy{call.Sequential, call.Auto, call.Parallel} {
		r := &render{poll: func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("a picture"), nil }}
		operating(t, r, func(t *testing.T, w *world, poll func()) {
			w.tools.set(t, r, echo("echo", mutating))
			b := batchOf(strategy, of("render", "echo")...)
			watcher := w.turn(b, call.ExecuteOptions{})
			finished := make(chan *call.BatchFinished, 1)
			go func() {
				_, done := followed(t, watcher)
				finished <- done
			}()
			synctest.Wait()
			second := map[bool]string{true: "SUCCEEDED", false: "NEW"}[strategy == call.Parallel]
			w.wantBatch(b, "RUNNING "+second)
			time.Sleep(2 * time.Minute)
			w.wantBatch(b, "SUCCEEDED SUCCEEDED")
			if done := <-finished; done == nil || len(done.Open) != 0 {
				t.Errorf("%s: the stream ended with %+v", strategy, done)
			}

			again := batchOf(strategy, of("render", "echo")...)
			w.launch(again)
			drain(w.e) // The drain must not wait for the operation.
			w.wantBatch(again, "RUNNING "+second)
			w.crash()
			poll()
			time.Sleep(2 * time.Minute)
			w.wantBatch(again, "SUCCEEDED SUCCEEDED")

			cancelled := batchOf(strategy, of("render", "echo")...)
			w.launch(cancelled)
			if _, err := w.e.CancelBatch(t.Context(), alice, cancelled.ID, "", ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			w.wantBatch(cancelled, "CANCELLED/CANCELLED "+map[bool]string{true: "SUCCEEDED", false: "CANCELLED/CANCELLED"}[strategy == call.Parallel])
		})
	}
}

// TestBatchIsNotIdleWhenItsOperationEnds checks that the stream of a batch stays open between the end of an operation and the next step
// of the batch.
func TestBatchIsNotIdleWhenItsOperationEnds(t *testing.T) {
	for _, strategy := range []call.Strategy{call.Sequential, call.Auto} {
		var slow atomic.Bool
		r := &render{poll: func(context.Context, *tool.Call) (*tool.Result, error) {
			slow.Store(true)
			return tool.Text("a picture"), nil
		}}
		operating(t, r, func(t *testing.T, w *world, poll func()) {
			w.tools.set(t, r, echo("echo", mutating))
			w.cfg.FailPoint = func(at string) {
				if at == "after-commit" && slow.Swap(false) {
					time.Sleep(time.Minute)
				}
			}
			w.cfg.Heartbeat = time.Second // The heartbeat makes the watcher check again in the critical moment.
			w.crash()
			poll()
			b := batchOf(strategy, of("render", "echo")...)
			watcher := w.turn(b, call.ExecuteOptions{})
			logs, done := followed(t, watcher)
			if done == nil || len(done.Open) != 0 || statuses(done.Calls) != "SUCCEEDED SUCCEEDED" {
				t.Errorf("%s: the stream ended with %+v", strategy, done)
			}
			for id, log := range logs {
				if id != "" && log[len(log)-1].Type != call.EventFinished {
					t.Errorf("%s: the end of %s was not published", strategy, id)
				}
			}
		})
	}
}

// TestHeldOperationDoesNotKeepWatchers checks a held operation in a copied store. The stream of its batch ends, because no call can change
// before the release. After the release, a new stream reports the outcome of the operation.
func TestHeldOperationDoesNotKeepWatchers(t *testing.T) {
	r := &render{}
	operating(t, r, func(t *testing.T, w *world, poll func()) {
		w.tools.set(t, r, echo("echo", mutating))
		w.crash()
		b := batchOf(call.Sequential, of("render", "echo")...)
		w.launch(b)
		w.kill()
		w.store.SetMoved(true)
		w.cfg.Released = func() error { w.store.SetMoved(false); return nil }
		w.open()
		watcher := w.turn(b, call.ExecuteOptions{})
		defer watcher.Close()
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		for {
			f, err := watcher.Next(ctx)
			if err != nil {
				t.Fatalf("the watcher receives nothing: %v", err)
			}
			if done := f.BatchFinished; done != nil {
				if got := statuses(done.Calls); got != "RUNNING NEW" || len(done.Open) != 2 {
					t.Errorf("the watcher receives %s, open %v", got, done.Open)
				}
				break
			}
		}
		r.poll = func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("a picture"), nil }
		poll()
		if _, _, err := w.e.Release(t.Context(), carol, call.HeldSelector{All: true}, false, ""); err != nil {
			t.Fatal(err)
		}
		if done := w.batch(b); statuses(done.Calls) != "SUCCEEDED SUCCEEDED" {
			t.Errorf("released: %s", statuses(done.Calls))
		}
	})
}

// TestOperationsOfRunsAndCopies checks that the end of a run ends its operations. It also checks that the operations of a copied store are
// polled only after their release.
func TestOperationsOfRunsAndCopies(t *testing.T) {
	r := &render{}
	operating(t, r, func(t *testing.T, w *world, poll func()) {
		s := spec("render", "{}")
		w.park(s)
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c := w.get(s.ID); c.Status != call.Cancelled || len(r.stopped) != 1 {
			t.Errorf("after the end of its run: %s, stopped %v", c.Status, r.stopped)
		}

		held, ended := apart(spec("render", "{}")), apart(spec("render", "{}"))
		w.park(held)
		w.park(ended)
		w.kill()
		w.store.SetMoved(true)
		w.cfg.Released = func() error { w.store.SetMoved(false); return nil }
		w.open()
		poll()
		r.mu.Lock()
		r.polled = nil
		r.mu.Unlock()
		time.Sleep(time.Hour)
		if r.polls() != 0 {
			t.Fatal("asked for what belongs to the original")
		}
		if _, _, err := w.e.Release(t.Context(), carol, call.HeldSelector{IDs: []string{ended.ID}}, true, ""); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.e.Release(t.Context(), carol, call.HeldSelector{All: true}, false, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if c := w.get(ended.ID); c.Status != call.Cancelled || c.Executed != call.ExecutedUnknown {
			t.Errorf("ended by the operator: %s %s", c.Status, c.Executed)
		}
		if c := w.get(held.ID); r.polls() == 0 || c.Operation() == nil {
			t.Errorf("released: asked %d times, %s", r.polls(), c.Status)
		}
	})
}
