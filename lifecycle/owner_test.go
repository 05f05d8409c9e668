package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// A run and a thread belong to the caller of their first call: documents, blocks and the end are its alone.
func TestRunsAndThreadsBelongToOneCaller(t *testing.T) {
	notes := tool.Key[string]{Scope: tool.ThreadScope, Name: "notes"}
	keep := made("keep", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text("kept").With(notes.Set("mine")), nil
	})
	inBubble(t, []tool.Tool{keep, echo("read", reading)}, nil, func(t *testing.T, w *world) {
		first := w.do(spec("keep", `{}`))
		if first.Status != call.Succeeded {
			t.Fatalf("%+v", first.Result)
		}
		refused := func(p tool.Principal, run tool.Run, reason string) {
			t.Helper()
			for _, id := range []string{"keep", "read"} {
				s := spec(id, `{}`)
				s.Run = run
				_, err := w.e.Execute(t.Context(), p, s, lifecycle.ExecuteOptions{})
				wantRefusal(t, err, call.PermissionDenied, reason)
				_, err = w.e.Get(t.Context(), p, s.ID)
				wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
			}
		}
		for range 2 { // before and after a restart
			refused(bob, tool.Run{ID: "run-1"}, "NOT_YOUR_RUN")
			refused(bob, tool.Run{ID: "run-2", Thread: "thread-1"}, "NOT_YOUR_THREAD")
			refused(carol, tool.Run{ID: "run-1"}, "NOT_YOUR_RUN")
			_, err := w.e.EndRun(t.Context(), bob, "run-1", "", "")
			wantRefusal(t, err, call.NotFound, "RUN_NOT_FOUND")
			_, err = w.e.Run(t.Context(), bob, "run-1")
			wantRefusal(t, err, call.NotFound, "RUN_NOT_FOUND")
			w.crash()
		}
		s := spec("read", `{}`)
		watcher, err := w.e.Execute(t.Context(), alice, s, lifecycle.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := watcher.Wait(t.Context(), time.Hour); err != nil || c.Status != call.Succeeded {
			t.Errorf("the owner's next call: %+v, %v", c, err)
		}
		if _, err := w.e.EndRun(t.Context(), carol, "run-1", "", ""); err != nil {
			t.Errorf("an operator ends a run: %v", err)
		}
	})
}
