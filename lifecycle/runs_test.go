package lifecycle_test

import (
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

func blocking(in *hook.Input) (hook.Verdict, error) {
	if in.Descriptor.ID == "danger" {
		return hook.Block("no"), nil
	}
	return hook.Allow(), nil
}

func (w *world) runState(id string) call.RunState {
	w.t.Helper()
	r, err := w.e.Records().Run(w.t.Context(), alice, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.State
}

// TestBlockedRunIsEndedWithoutItsCalls checks a blocked run whose calls were all trimmed. Its owner can still end it.
func TestBlockedRunIsEndedWithoutItsCalls(t *testing.T) {
	tools := []tool.Tool{echo("danger", mutating), echo("read", reading)}
	inBubble(t, tools, gates(namedGate("g", blocking)), func(t *testing.T, w *world) {
		for _, restart := range []bool{false, true} {
			if c := w.do(spec("danger", `{}`)); c.Status != call.Failed {
				t.Fatalf("call is %s", c.Status)
			}
			time.Sleep(time.Hour)
			if trimmed, err := w.store.Trim(t.Context(), w.store.Now().Add(time.Hour), 0, 0, 100); err != nil || len(trimmed) == 0 {
				t.Fatalf("Trim = %v, %v", trimmed, err)
			}
			if restart {
				w.crash()
			}
			for _, p := range []tool.Principal{bob, eve} {
				_, err := w.e.EndRun(t.Context(), p, "run-1", "", "")
				wantRefusal(t, err, call.NotFound, "RUN_NOT_FOUND")
			}
			_, err := w.e.Execute(t.Context(), alice, spec("read", `{}`), call.ExecuteOptions{})
			wantRefusal(t, err, call.FailedPrecondition, "RUN_BLOCKED")
			if state := w.runState("run-1"); state != call.RunBlocked {
				t.Errorf("run is %s", state)
			}
			if ids, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil || len(ids) != 0 {
				t.Fatalf("EndRun = %v, %v", ids, err)
			}
			if c := w.do(spec("read", `{}`)); c.Status != call.Succeeded {
				t.Errorf("call in the run that was ended: %s", c.Status)
			}
		}
	})
}

// TestEndedRunIsReopened checks that the memory for ended runs is bounded. It also checks that a later daemon knows that a run has ended,
// and that the next call reopens the run.
func TestEndedRunIsReopened(t *testing.T) {
	inBubble(t, []tool.Tool{echo("write", mutating)}, nil, func(t *testing.T, w *world) {
		for _, restart := range []bool{false, true} {
			w.do(spec("write", `{}`))
			if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
				t.Fatal(err)
			}
			if restart {
				w.crash()
			}
			if state := w.runState("run-1"); state != call.RunEnded {
				t.Errorf("run is %s, want ENDED", state)
			}
			w.do(spec("write", `{}`))
			if state := w.runState("run-1"); state != call.RunOpen {
				t.Errorf("run is %s, want OPEN", state)
			}
		}
	})
}
