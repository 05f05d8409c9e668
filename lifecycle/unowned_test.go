package lifecycle_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// TestCheckerTakesUpLostCalls checks a call that lost its owner, because the journal refused its end twice. The checker adopts the call
// without a restart: the call runs again if that is safe, and otherwise ends in doubt. All other tests of the package check that calls with
// an owner are not adopted.
func TestCheckerTakesUpLostCalls(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		want, runs := call.Failed, int64(1) // This call ends IN_DOUBT.
		if idempotent {
			want, runs = call.Succeeded, 2
		}
		var ran atomic.Int64
		loses := tool.Func(tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject), Idempotent: idempotent},
			func(context.Context, *tool.Call) (*tool.Result, error) {
				ran.Add(1)
				return tool.Text("done"), nil
			})
		inBubble(t, []tool.Tool{loses}, nil, func(t *testing.T, w *world) {
			var refused atomic.Int64
			w.useStore(nil, func(c *store.Change) error {
				if c.Call != nil && c.Call.Status.Terminal() && refused.Add(1) <= 2 { // Refuse the result, and then the error that replaces it.
					return store.ErrCorrupt
				}
				return nil
			})
			w.unowned = 1
			s := spec("t", `{}`)
			watcher := w.start(s, call.ExecuteOptions{})
			_, err := watcher.Wait(t.Context(), time.Second)
			wantRefusal(t, err, call.DataLoss, "CALL_CORRUPT")
			time.Sleep(3 * time.Minute)
			if c := w.get(s.ID); c.Status != want || ran.Load() != runs {
				t.Errorf("idempotent %t: %s after %d runs, want %s after %d: %+v", idempotent, c.Status, ran.Load(), want, runs, c.Result)
			}
			w.checkLog(s.ID)
		})
	}
}

// TestCheckerTakesUpOperations checks an operation whose end the journal refuses twice. The call leaves the schedule of operations. The
// checker then adopts it, and the tool is polled again.
func TestCheckerTakesUpOperations(t *testing.T) {
	r := &render{poll: func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil }}
	operating(t, r, func(t *testing.T, w *world, poll func()) {
		var refused atomic.Int64
		w.useStore(nil, func(c *store.Change) error {
			if c.Call != nil && c.Call.Status.Terminal() && refused.Add(1) <= 2 { // Refuse the result, and then the error that replaces it.
				return store.ErrCorrupt
			}
			return nil
		})
		poll()
		w.unowned = 1
		s := spec("render", "{}")
		w.park(s)
		defer w.start(s, call.ExecuteOptions{}).Close() // The watcher keeps the call in memory.
		time.Sleep(5 * time.Minute)
		if c := w.get(s.ID); c.Status != call.Succeeded || r.polls() != 2 {
			t.Errorf("%s after %d polls, want SUCCEEDED after 2: %+v", c.Status, r.polls(), c.Result)
		}
		w.checkLog(s.ID)
	})
}
