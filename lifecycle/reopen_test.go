package lifecycle_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// TestRunIsOpenedByTheCallThatIsStored checks the first calls of an ended run. A call that is not stored does not reopen the run; the next
// call does.
func TestRunIsOpenedByTheCallThatIsStored(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		var full atomic.Bool
		w.useStore(nil, failing(func(int, *change) bool { return full.Load() }))
		w.do(spec("t", ""))
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		watcher := w.start(spec("t", ""), call.ExecuteOptions{})
		if c, err := watcher.Wait(t.Context(), time.Hour); err == nil {
			t.Fatalf("call %s on a full disk", c.Status)
		}
		full.Store(false)
		w.do(spec("t", ""))
		if r, err := w.e.Records().Run(t.Context(), alice, "run-1"); err != nil || r.State != call.RunOpen {
			t.Errorf("run %+v, %v", r, err)
		}
	})
}
