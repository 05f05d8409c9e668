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

// A call whose end the journal refuses for good has no owner any more. The checker takes it up without a restart: it runs again when
// that is safe, and ends in doubt when not. That calls with an owner are left alone all tests of the package show.
func TestCheckerTakesUpLostCalls(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		want, runs := call.Failed, int64(1) // IN_DOUBT
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
				if c.Call != nil && c.Call.Status.Terminal() && refused.Add(1) <= 2 { // the result, and the error in its place
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
