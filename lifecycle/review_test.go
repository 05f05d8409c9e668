package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// TestT97AnswerDoesNotComeBackToLife checks an approval that became void because the arguments changed. It stays void even if a later edit
// restores the approved arguments.
func TestT97AnswerDoesNotComeBackToLife(t *testing.T) {
	runs := map[string]int{}
	asks := made("m", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		runs[c.Arguments.Text()]++
		return tool.SuspendedWith(tool.Ticket{Action: "input", Message: "?"}), nil
	})
	g := gate(func(in *hook.Input) (hook.Verdict, error) {
		if in.Arguments.Text() != `{"path":"danger"}` || in.Answer() != nil {
			return hook.Allow(), nil
		}
		return hook.Suspend(tool.Ticket{Approvers: &tool.Approvers{DistinctFromCaller: true}}), nil
	})
	inBubble(t, []tool.Tool{asks}, gates(namedGate("g", g)), func(t *testing.T, w *world) {
		c := w.do(spec("m", `{"path":"danger"}`))
		steps := []struct {
			who  tool.Principal
			args string
		}{{bob, ""}, {alice, `{"path":"harmless"}`}, {alice, `{"path":"danger"}`}}
		for _, s := range steps {
			var err error
			if c, err = w.resume(s.who, c, tool.Decision{Action: tool.Resume, Arguments: s.args}); err != nil {
				t.Fatal(err)
			}
		}
		if origin := c.LastRound().Suspension.Origin; origin != "g" || runs[`{"path":"danger"}`] != 1 {
			t.Errorf("the last question is of %s, runs %v: the gate has to ask again", origin, runs)
		}
	})
}

// TestCancelLeavesChildrenOfOthersAlone checks the cancellation of a call. Any caller may name any call as a parent, so the cancellation
// must not reach calls of other callers that name this call.
func TestCancelLeavesChildrenOfOthersAlone(t *testing.T) {
	asks := made("asks", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Suspended("?"), nil })
	inBubble(t, []tool.Tool{asks}, nil, func(t *testing.T, w *world) {
		parent := spec("asks", "")
		child := spec("asks", "")
		child.Run.ParentCall = parent.ID
		hers := w.do(child)
		parent.Run = tool.Run{ID: "run-2", Thread: "thread-2"}
		watcher, err := w.e.Execute(t.Context(), bob, parent, call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watcher.Wait(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if c, err := w.e.Cancel(t.Context(), bob, parent.ID, "", time.Hour); err != nil || c.Status != call.Cancelled {
			t.Fatalf("%+v, %v", c, err)
		}
		if c := w.get(hers.ID); c.Status != call.Suspended {
			t.Errorf("the child of another caller is %s", c.Status)
		}
	})
}

// TestRefusedCallsAreDescribedBarely checks that the description of a refused call contains no data that the tool looked up. The caller may
// not be allowed to read that data.
func TestRefusedCallsAreDescribedBarely(t *testing.T) {
	secret := describing{made("peek", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("ran"), nil })}
	deny := gate(func(*hook.Input) (hook.Verdict, error) { return hook.Deny("no"), nil })
	inBubble(t, []tool.Tool{secret}, gates(namedGate("deny", deny)), func(t *testing.T, w *world) {
		s := spec("peek", "")
		p, err := w.e.Describe(t.Context(), alice, s)
		if err != nil || len(p.Description.Preview) > 0 || len(p.Description.Notes) > 0 || p.Description.Basis != "" {
			t.Errorf("preview %+v, %v", p, err)
		}
		if d := w.do(s).Description; len(d.Preview) > 0 || len(d.Notes) > 0 || d.Basis != "" {
			t.Errorf("record %+v", d)
		}
	})
}

type describing struct{ tool.Tool }

func (describing) Describe(context.Context, *tool.Call) (tool.Description, error) {
	return tool.Description{Title: "Peek", Preview: []tool.Content{{Type: tool.ContentDiff, Text: "-secret"}}, Notes: []string{"secret"}, Basis: "secret"}, nil
}
