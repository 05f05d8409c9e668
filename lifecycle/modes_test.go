package lifecycle_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// chosenBy maps each mode to the subjects that may choose it.
type chosenBy map[string][]string

func (m chosenBy) MayChoose(mode string, p tool.Principal) (may, exists bool) {
	roles, exists := m[mode]
	for _, role := range roles {
		may = may || hasRole(p, role)
	}
	return may, exists
}

func (m chosenBy) All() []string { return slices.Sorted(maps.Keys(m)) }

func withModes(c *lifecycle.Config) {
	c.Modes = chosenBy{"default": {"caller", "approver", "operator"}, "plan": {"caller", "approver", "operator"}, "edits": {"approver", "operator"}, "bypass": {"operator"}}
}

func TestSetMode(t *testing.T) {
	albert := tool.Principal{Namespace: "ns", Subject: "albert", Roles: []string{"caller"}}
	inBubble(t, []tool.Tool{echo("t", mutating)}, withModes, func(t *testing.T, w *world) {
		w.again()
		w.do(spec("t", ""))
		set := func(p tool.Principal, run, thread, mode, previous, reason string) {
			t.Helper()
			got, err := w.e.Policies().SetMode(t.Context(), p, run, thread, mode)
			if reason != "" {
				kind := map[string]call.RefusalKind{"MODE_NOT_ALLOWED": call.PermissionDenied, "INVALID_FIELD": call.InvalidArgument}[reason]
				if kind == "" {
					kind = call.NotFound
				}
				wantRefusal(t, err, kind, reason)
			} else if err != nil || got != previous {
				t.Errorf("SetMode(%s) = %q, %v, want %q", mode, got, err, previous)
			}
		}
		holds := func(run, thread, wantRun, wantThread string) {
			t.Helper()
			if ofRun, ofThread := w.cfg.Policies.Modes("ns", run, thread); ofRun != wantRun || ofThread != wantThread {
				t.Errorf("modes %q and %q, want %q and %q", ofRun, ofThread, wantRun, wantThread)
			}
		}
		set(alice, "run-1", "", "plan", "default", "")
		set(bob, "", "thread-1", "edits", "default", "")
		for range 2 {
			holds("run-1", "thread-1", "plan", "edits")
			holds("run-2", "thread-2", "", "")
			holds("", "", "", "")
			w.again()
		}
		set(alice, "run-1", "", "edits", "", "MODE_NOT_ALLOWED")
		set(alice, "", "thread-1", "default", "", "MODE_NOT_ALLOWED") // alice may not choose the current mode, so she cannot leave it either.
		set(bob, "run-1", "", "bypass", "", "MODE_NOT_ALLOWED")
		set(carol, "run-1", "", "bypass", "plan", "")
		set(bob, "run-1", "", "default", "", "MODE_NOT_ALLOWED")
		set(alice, "run-1", "", "yolo", "", "INVALID_FIELD")
		set(alice, "", "", "plan", "", "INVALID_FIELD")
		set(alice, "run-1", "thread-1", "plan", "", "INVALID_FIELD")
		set(albert, "run-1", "", "plan", "", "RUN_NOT_FOUND")
		set(albert, "", "thread-1", "plan", "", "THREAD_NOT_FOUND")
		set(eve, "run-1", "", "bypass", "default", "") // In the namespace of eve, "run-1" is a different run.
		set(bob, "run-x", "", "edits", "", "RUN_NOT_FOUND")
		holds("run-1", "thread-1", "bypass", "edits")
		if info, err := w.e.Records().Run(t.Context(), alice, "run-1"); err != nil || info.Mode != "bypass" {
			t.Errorf("run %+v, %v", info, err)
		}
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
			t.Fatal(err)
		}
		holds("run-1", "thread-1", "", "edits")
		set(bob, "", "thread-1", "default", "edits", "")
		w.again()
		holds("run-1", "thread-1", "", "")
	})
}

// TestModeBeforeTheFirstCall checks a principal that sets a mode before the first call of a run. It becomes the owner of the run, also
// after a restart. Calls of other callers cannot join the run and its mode.
func TestModeBeforeTheFirstCall(t *testing.T) {
	both := tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"caller", "approver"}}
	albert := tool.Principal{Namespace: "ns", Subject: "albert", Roles: []string{"caller"}}
	inBubble(t, []tool.Tool{echo("t", mutating)}, withModes, func(t *testing.T, w *world) {
		if _, err := w.e.Policies().SetMode(t.Context(), both, "run-1", "", "edits"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.e.Policies().SetMode(t.Context(), both, "", "thread-1", "edits"); err != nil {
			t.Fatal(err)
		}
		w.crash()
		s := spec("t", "")
		_, err := w.e.Execute(t.Context(), albert, s, call.ExecuteOptions{})
		wantRefusal(t, err, call.PermissionDenied, "NOT_YOUR_RUN")
		s.Run.ID = ""
		_, err = w.e.Execute(t.Context(), albert, s, call.ExecuteOptions{})
		wantRefusal(t, err, call.PermissionDenied, "NOT_YOUR_THREAD")
		if c := w.do(spec("t", "")); c.Status != call.Succeeded {
			t.Errorf("call %s", c.Status)
		}
	})
}
