package lifecycle_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// TestRunsAndThreadsBelongToOneCaller checks that a run or thread belongs to the caller of its first call. No other caller can read its
// documents and its block, or end it.
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
				_, err := w.e.Execute(t.Context(), p, s, call.ExecuteOptions{})
				wantRefusal(t, err, call.PermissionDenied, reason)
				_, err = w.e.Records().Get(t.Context(), p, s.ID)
				wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
			}
		}
		for range 2 { // The second round is after a restart.
			refused(bob, tool.Run{ID: "run-1"}, "NOT_YOUR_RUN")
			refused(bob, tool.Run{ID: "run-2", Thread: "thread-1"}, "NOT_YOUR_THREAD")
			refused(carol, tool.Run{ID: "run-1"}, "NOT_YOUR_RUN")
			_, err := w.e.EndRun(t.Context(), bob, "run-1", "", "")
			wantRefusal(t, err, call.NotFound, "RUN_NOT_FOUND")
			_, err = w.e.Records().Run(t.Context(), bob, "run-1")
			wantRefusal(t, err, call.NotFound, "RUN_NOT_FOUND")
			w.crash()
		}
		s := spec("read", `{}`)
		watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
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

// noModes lets no principal choose a mode. The service checks the owner of the run before it checks the mode.
type noModes struct{}

func (noModes) MayChoose(string, tool.Principal) (may, exists bool) { return false, true }

func (noModes) All() []string { return nil }

// TestRunOfACallThatIsNotStored checks a first call that is not stored yet. Its run and thread already belong to its caller, even if many
// other runs begin meanwhile.
func TestRunOfACallThatIsNotStored(t *testing.T) {
	waits := hook.Entry[hook.Gate]{Name: "waits", Deadline: time.Hour, Hook: gate(func(in *hook.Input) (hook.Verdict, error) {
		if in.Caller.Subject == alice.Subject {
			time.Sleep(time.Minute)
		}
		return hook.Allow(), nil
	})}
	mallory := tool.Principal{Namespace: "ns", Subject: "mallory", Roles: []string{"caller"}}
	change := both(gates(waits), func(c *lifecycle.Config) { c.Modes = noModes{} })
	inBubble(t, []tool.Tool{echo("t", mutating)}, change, func(t *testing.T, w *world) {
		first := w.start(spec("t", ""), call.ExecuteOptions{})
		defer first.Close()
		for i := range 1<<16 + 1 {
			_, err := w.e.Policies().SetMode(t.Context(), mallory, "m"+strconv.Itoa(i), "", "any")
			wantRefusal(t, err, call.PermissionDenied, "MODE_NOT_ALLOWED")
		}
		for reason, run := range map[string]tool.Run{"NOT_YOUR_RUN": {ID: "run-1"}, "NOT_YOUR_THREAD": {Thread: "thread-1"}} {
			s := spec("t", "")
			s.Run = run
			_, err := w.e.Execute(t.Context(), mallory, s, call.ExecuteOptions{})
			if err == nil {
				t.Fatalf("%+v was taken from its caller", run)
			}
			wantRefusal(t, err, call.PermissionDenied, reason)
		}
		time.Sleep(time.Hour) // Wait until the gate has returned.
	})
}

// TestDescribeInRunsOfOthers checks that DescribeCall shows no documents of runs and threads of other callers. It also checks that
// DescribeCall makes the caller the owner of no run or thread.
func TestDescribeInRunsOfOthers(t *testing.T) {
	notes := tool.Key[string]{Scope: tool.ThreadScope, Name: "notes"}
	keep := made("keep", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text("kept").With(notes.Set("mine")), nil
	})
	asked := 0
	reads := namedGate("reads", func(in *hook.Input) (hook.Verdict, error) {
		asked++
		if d, ok, err := in.Documents.Get(tool.ThreadScope, "notes"); ok || err != nil {
			return hook.Deny(d.Value), err
		}
		return hook.Allow(), nil
	})
	inBubble(t, []tool.Tool{keep}, gates(reads), func(t *testing.T, w *world) {
		w.do(spec("keep", `{}`))
		_, err := w.e.Describe(t.Context(), bob, call.Spec{Tool: "keep", Run: tool.Run{Thread: "thread-1"}})
		wantRefusal(t, err, call.PermissionDenied, "NOT_YOUR_THREAD")
		_, err = w.e.Describe(t.Context(), bob, call.Spec{Tool: "keep", Run: tool.Run{ID: "run-1"}})
		wantRefusal(t, err, call.PermissionDenied, "NOT_YOUR_RUN")
		if p, err := w.e.Describe(t.Context(), alice, call.Spec{Tool: "keep", Run: tool.Run{ID: "run-1", Thread: "thread-1"}}); err != nil || p.Reason != `"mine"` {
			t.Errorf("the owner: %+v, %v", p, err)
		}
		if _, err := w.e.Describe(t.Context(), bob, call.Spec{Tool: "keep", Run: tool.Run{ID: "run-2"}}); err != nil {
			t.Error(err)
		}
		s := spec("keep", `{}`)
		s.Run = tool.Run{ID: "run-2"}
		if c := w.do(s); c.Status != call.Succeeded {
			t.Errorf("describing took the run: %+v", c.Result)
		}
		if asked != 4 {
			t.Errorf("gates were asked %d times", asked)
		}
	})
}
