package lifecycle_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// TestBatchIdentity checks that batch_id identifies a batch as call_id identifies a call. A repeated request attaches to the batch. A
// request with the same id and other content is refused, and a refused request stores nothing.
func TestBatchIdentity(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, nil, func(t *testing.T, w *world) {
		alone := spec("t", `{}`)
		w.do(alone)
		b := batchOf(call.Sequential, of("t", "t")...)
		w.batch(b)
		for range 2 {
			w.batch(b)
			if n := p.runs.Load(); n != 3 {
				t.Fatalf("%d runs, want 3", n)
			}
			for name, change := range map[string]func(*call.BatchSpec){
				"strategy":  func(b *call.BatchSpec) { b.Strategy = call.Parallel },
				"bound":     func(b *call.BatchSpec) { b.MaxParallel = 2 },
				"fail fast": func(b *call.BatchSpec) { b.FailFast = true },
				"replay":    func(b *call.BatchSpec) { b.Replay = call.AllDecided },
				"fewer":     func(b *call.BatchSpec) { b.Calls = b.Calls[:1] },
				"order":     func(b *call.BatchSpec) { slices.Reverse(b.Calls) },
				"arguments": func(b *call.BatchSpec) { b.Calls[0].Arguments = `{"x":1}` },
				"call id":   func(b *call.BatchSpec) { b.Calls[0].ID = newCallID() },
			} {
				other := b
				other.Calls = slices.Clone(b.Calls)
				change(&other)
				_, err := w.e.ExecuteBatch(t.Context(), alice, other, call.ExecuteOptions{})
				if err == nil {
					t.Errorf("%s: accepted", name)
					continue
				}
				wantRefusal(t, err, call.AlreadyExists, "BATCH_ID_REUSED")
			}
			w.crash()
		}
		for _, known := range []string{alone.ID, b.Calls[0].ID} {
			taken := batchOf(call.Sequential, of("t", "t")...)
			taken.Calls[1].ID = known
			_, err := w.e.ExecuteBatch(t.Context(), alice, taken, call.ExecuteOptions{})
			wantRefusal(t, err, call.AlreadyExists, "CALL_ID_REUSED")
			_, err = w.e.Records().Get(t.Context(), alice, taken.Calls[0].ID)
			wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
		}
		again := b.Calls[0] // a call of the batch, sent alone
		watcher := w.start(again, call.ExecuteOptions{})
		if c, err := watcher.Wait(t.Context(), time.Hour); err != nil || c.BatchID != b.ID {
			t.Errorf("call of the batch sent alone: %+v, %v", c, err)
		}
	})
}

// TestBatchLeavesATombstone checks that retention trims batches to tombstones, as it does with calls.
func TestBatchLeavesATombstone(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		b := batchOf(call.Sequential, of("t", "t")...)
		w.batch(b)
		synctest.Wait()
		time.Sleep(8 * 24 * time.Hour)
		for range 2 { // The first trim removes the calls, the second the batch without calls.
			if _, err := w.store.Trim(t.Context(), w.store.Now().Add(-7*24*time.Hour), w.store.Now().Add(-year), w.store.Now(), 100); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.e.ExecuteBatch(t.Context(), alice, b, call.ExecuteOptions{})
		wantRefusal(t, err, call.FailedPrecondition, "BATCH_EXPIRED")
	})
}

// TestBatchReattach checks that a watcher with a cursor receives the events after the cursor, and that a late watcher without one receives
// all events.
func TestBatchReattach(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating), echo("ok", mutating)}, nil, func(t *testing.T, w *world) {
		b := batchOf(call.Sequential, of("ok", "t", "ok")...)
		watcher := w.turn(b, call.ExecuteOptions{})
		cursor, first := "", 0
		for first < 5 { // These are three accepted events and all events of one call.
			f, err := watcher.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cursor, first = f.Cursor, first+len(f.Events)
		}
		watcher.Close()
		synctest.Wait()
		w.crash() // The crash leaves the running call in doubt.
		synctest.Wait()
		_, err := w.e.Watches().WatchBatch(t.Context(), eve, b.ID, "", true)
		wantRefusal(t, err, call.NotFound, "BATCH_NOT_FOUND")
		_, err = w.e.Watches().WatchBatch(t.Context(), alice, b.ID, "c1.1.0", true)
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		again, err := w.e.Watches().WatchBatch(t.Context(), alice, b.ID, cursor, true)
		if err != nil {
			t.Fatal(err)
		}
		rest, done := followed(t, again)
		all, repeated := followed(t, w.turn(b, call.ExecuteOptions{}))
		n := 0
		for _, c := range w.wantBatch(b, "SUCCEEDED FAILED/IN_DOUBT SUCCEEDED") {
			n += len(rest[c.ID])
			if got, want := contents(all[c.ID]), contents(w.checkLog(c.ID)); got != want {
				t.Errorf("call %s:\n%s\nwant\n%s", c.ID, got, want)
			}
		}
		if sum := len(all[b.Calls[0].ID]) + len(all[b.Calls[1].ID]) + len(all[b.Calls[2].ID]); n != sum-first {
			t.Errorf("%d events behind the cursor, %d before it, %d in all", n, first, sum)
		}
		if done == nil || repeated == nil || len(done.Open)+len(repeated.Open) > 0 {
			t.Errorf("ended %+v and %+v", done, repeated)
		}
		p.free()
	})
}

// TestBatchFinishedReportsInCallOrder checks that batch_finished lists every call in the order of the model. By default, batch_finished
// ends the stream when every call that has not ended waits for a decision. With wait_for_decision the stream continues until no decision
// can change a call any more.
func TestBatchFinishedReportsInCallOrder(t *testing.T) {
	slow := made("slow", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		time.Sleep(time.Minute)
		return tool.Text("ok"), nil
	})
	inBubble(t, []tool.Tool{slow, echo("quick", mutating), echo("ask", mutating)}, gates(asking("ask")), func(t *testing.T, w *world) {
		b := batchOf(call.Parallel, of("slow", "ask", "quick")...)
		patient := w.turn(b, call.ExecuteOptions{WaitForDecision: true})
		done := w.batch(b)
		var ids []string
		for _, c := range done.Calls {
			ids = append(ids, c.ID)
		}
		if want := []string{b.Calls[0].ID, b.Calls[1].ID, b.Calls[2].ID}; !slices.Equal(ids, want) || !slices.Equal(done.Open, want[1:2]) || done.BatchID != b.ID {
			t.Errorf("finished %v, open %v", ids, done.Open)
		}
		w.decide(bob, b.Calls[1].ID, yes())
		if _, done = followed(t, patient); statuses(done.Calls) != "SUCCEEDED SUCCEEDED SUCCEEDED" || len(done.Open) > 0 {
			t.Errorf("the patient watcher received %s, open %v", statuses(done.Calls), done.Open)
		}
	})
}

// TestBatchCancel checks that CancelCalls of a batch ends its running and waiting calls. Calls that have not begun must never begin.
func TestBatchCancel(t *testing.T) {
	for _, strategy := range strategies {
		p := held()
		inBubble(t, []tool.Tool{echo("ok", mutating), p.tool("t", mutating), echo("ask", mutating)}, gates(asking("ask")), func(t *testing.T, w *world) {
			b := batchOf(strategy, of("ok", "ask", "t", "t", "t")...)
			b.MaxParallel = 1
			w.launch(b)
			runs := p.runs.Load()
			if _, err := w.e.CancelBatch(t.Context(), bob, b.ID, "", ""); err == nil {
				t.Error("somebody else cancelled it")
			}
			ids, err := w.e.CancelBatch(t.Context(), alice, b.ID, "enough", "")
			synctest.Wait()
			if err != nil || len(ids) != 4 || p.runs.Load() != runs {
				t.Errorf("%s: cancelled %v, %v; %d runs, %d before", strategy, ids, err, p.runs.Load(), runs)
			}
			w.wantBatch(b, "SUCCEEDED CANCELLED/CANCELLED CANCELLED/CANCELLED CANCELLED/CANCELLED CANCELLED/CANCELLED")
			if record, err := w.store.Batch(t.Context(), call.Key{Namespace: "ns", ID: b.ID}); err != nil || record.Ended == 0 {
				t.Errorf("batch %+v, %v", record, err)
			}
		})
	}
}

// TestBatchCancelOfOneThatHasNotBegun checks that a call that has not begun can be cancelled alone. The call ends at once, although other
// calls run before it.
func TestBatchCancelOfOneThatHasNotBegun(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, nil, func(t *testing.T, w *world) {
		b := batchOf(call.Sequential, of("t", "t", "t")...)
		w.launch(b)
		if c, err := w.e.Cancel(t.Context(), alice, b.Calls[1].ID, "", time.Minute); err != nil || c.Status != call.Cancelled || c.Executed != call.NotStarted {
			t.Errorf("%+v, %v", c, err)
		}
		p.free()
		synctest.Wait()
		w.wantBatch(b, "SUCCEEDED CANCELLED/CANCELLED SUCCEEDED")
	})
}

// TestBatchContinuesAfterACrashAtAnyStep crashes the daemon at each step of an open batch. The batch must continue: each call gets one result,
// and no mutating call runs twice.
func TestBatchContinuesAfterACrashAtAnyStep(t *testing.T) {
	for _, strategy := range strategies {
		for at := range 14 {
			p := &probe{}
			inBubble(t, []tool.Tool{p.tool("a", mutating), p.tool("r", reading)}, nil, func(t *testing.T, w *world) {
				var n atomic.Int64
				w.useStore(nil, func(*store.Change) error {
					if n.Add(1) == int64(at)+3 { // The offset of 3 skips the accepted steps of the calls, which are stored with the batch.
						return store.ErrFatal
					}
					return nil
				})
				b := batchOf(strategy, of("a", "r", "a")...)
				watcher, err := w.e.ExecuteBatch(t.Context(), alice, b, call.ExecuteOptions{})
				if err == nil {
					watcher.Close()
				}
				synctest.Wait()
				w.past = append(w.past, w.e)
				n.Store(1 << 20)
				w.store = w.store.Crash()
				w.open()
				synctest.Wait()
				w.batch(b) // Send the batch again, in case the crash lost all of it.
				seen := map[string]int{}
				for _, c := range p.seen() {
					if c.Tool == "a" {
						seen[c.ID]++
					}
				}
				for i, s := range b.Calls {
					c := w.get(s.ID)
					if !c.Status.Terminal() || seen[s.ID] > 1 {
						t.Errorf("%s, crash at %d: call %d is %s and ran %d times", strategy, at, i, c.Status, seen[s.ID])
					}
					w.checkLog(s.ID)
				}
			})
		}
	}
}

// TestBatchDrain checks that a drain begins no further call, and that the next daemon continues the batch.
func TestBatchDrain(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating), echo("ok", mutating)}, nil, func(t *testing.T, w *world) {
		b := batchOf(call.Sequential, of("t", "ok", "ok")...)
		watcher := w.turn(b, call.ExecuteOptions{})
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			p.free()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.e.Drain(ctx)
		logs, done := followed(t, watcher)
		if done != nil || !strings.HasSuffix(types(t, 1, logs[b.Calls[0].ID]), "finished") {
			t.Errorf("received %v, %+v", logs, done)
		}
		w.store = w.store.Reopen()
		w.open()
		synctest.Wait()
		w.wantBatch(b, "SUCCEEDED SUCCEEDED SUCCEEDED")
	})
}
