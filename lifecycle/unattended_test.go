package lifecycle_test

import (
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
)

// TestUnattendedRunsAreNotAsked checks questions to people in an UNATTENDED run. They become results for the model, unless the operator has
// configured that they wait.
func TestUnattendedRunsAreNotAsked(t *testing.T) {
	waits := func(c *lifecycle.Config) { c.UnattendedWaits = func() bool { return true } }
	denies := func(c *lifecycle.Config) { c.UnattendedWaits = func() bool { return false } }
	gated := gates(namedGate("ask", approval(tool.Ticket{Message: "Really?"})))
	const text = "Refused: the call asks a question, and its run is unattended"
	tests := []struct {
		name   string
		tool   tool.Tool
		change func(*lifecycle.Config)
		want   ending // zero when the call must be suspended
	}{
		{"a gate's", echo("t", mutating), gated, ending{
			status: call.Failed, code: tool.Denied, reason: "UNATTENDED", executed: call.NotStarted, aborted: true, after: true, text: text + ": Really?"}},
		{"a tool's", asks("t", tool.Ticket{Action: "input", Message: "Which one?"}), denies, ending{
			status: call.Failed, code: tool.Denied, reason: "UNATTENDED", executed: call.Started, aborted: true, after: true, text: text + ": Which one?"}},
		{"a gate's that waits", echo("t", mutating), both(gated, waits), ending{}},
		{"a tool's that waits", asks("t", tool.Ticket{}), waits, ending{}},
		{"what waits for calls of its own", from("subagent:helper", asks("t", tool.Ticket{Action: "subagent"})), nil, ending{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			after := &afterHook{}
			change := both(func(c *lifecycle.Config) { c.Hooks.After = []hook.Entry[hook.After]{{Name: "after", Hook: after}} })
			if tt.change != nil {
				change = both(change, tt.change)
			}
			inBubble(t, []tool.Tool{tt.tool}, change, func(t *testing.T, w *world) {
				s := spec("t", `{}`)
				s.Run = tool.Run{ID: "night", Unattended: true}
				c := w.do(s)
				if tt.want == (ending{}) {
					if c.Open() == nil {
						t.Errorf("%s: %s; it does not wait", c.Status, c.Result.ModelText())
					}
					return
				}
				tt.want.check(t, endingOf(c, after))
				w.checkLog(c.ID)
				s.ID, s.Run.Unattended = newCallID(), false
				if c := w.do(s); c.Open() == nil {
					t.Errorf("an attended call of the run ended %s", c.Status)
				}
			})
		})
	}
}

// TestUnattendedQuestionIsAbandoned checks that the tool is notified when its question will not be answered. The tool can then release its
// resources.
func TestUnattendedQuestionIsAbandoned(t *testing.T) {
	a := &abandoner{}
	inBubble(t, []tool.Tool{a}, nil, func(t *testing.T, w *world) {
		s := spec("abandoner", `{}`)
		s.Run = tool.Run{ID: "night", Unattended: true}
		c := w.do(s)
		w.stop()
		if abandoned := a.abandonedCalls(); len(abandoned) != 1 || abandoned[0] != c.ID {
			t.Errorf("abandoned %q", abandoned)
		}
	})
}

// fromSource is a tool of a given source.
type fromSource struct {
	tool.Tool

	source string
}

func from(source string, t tool.Tool) tool.Tool { return fromSource{t, source} }

func register(r *registry.Registry, tools []tool.Tool) error {
	bySource := map[string][]tool.Tool{"test": nil}
	for _, t := range tools {
		source := "test"
		if f, ok := t.(fromSource); ok {
			source = f.source
		}
		bySource[source] = append(bySource[source], t)
	}
	for source, tools := range bySource {
		if err := r.Register(source, tools...); err != nil {
			return err
		}
	}
	return nil
}

// TestUnattendedFrontend checks that a call that a frontend executes does not count as a question to people, so it waits even in an
// UNATTENDED run.
func TestUnattendedFrontend(t *testing.T) {
	inBubble(t, nil, withFrontends, func(t *testing.T, w *world) {
		s := declaring(`{}`, pick)
		s.Run = tool.Run{ID: "night", Unattended: true}
		if c := w.do(s); c.Open() == nil || c.Open().Action != "frontend" {
			t.Errorf("the call is %s %+v", c.Status, c.Open())
		}
	})
}

// TestActionsOfOthers checks that a tool or gate cannot use an action that is reserved for questions of another source. No person sees a
// question with such an action, and an UNATTENDED run would wait for it forever.
func TestActionsOfOthers(t *testing.T) {
	unaskable := ending{status: call.Failed, code: tool.Internal, executed: call.Finished, aborted: true, after: true, text: "The tool asked a question that cannot be answered"}
	refused := ending{status: call.Failed, code: tool.Denied, reason: "HOOK_FAILED", executed: call.NotStarted, aborted: true, after: true, text: `Refused: the hook "ask" failed`}
	for _, action := range []string{"frontend", "subagent", "in_doubt"} {
		for _, source := range []string{"test", "command", "worker:default/pool", "mcp:frontend", "subagents", "frontend:x"} {
			t.Run(action+" of "+source, func(t *testing.T) {
				after := &afterHook{}
				change := func(c *lifecycle.Config) { c.Hooks.After = []hook.Entry[hook.After]{{Name: "after", Hook: after}} }
				inBubble(t, []tool.Tool{from(source, asks("t", tool.Ticket{Action: action}))}, change, func(t *testing.T, w *world) {
					c := w.do(spec("t", `{}`))
					if c.Open() != nil {
						t.Fatal("it waits")
					}
					unaskable.check(t, endingOf(c, after))
				})
			})
		}
		t.Run(action+" of a gate", func(t *testing.T) {
			after := &afterHook{}
			change := both(gates(namedGate("ask", approval(tool.Ticket{Action: action}))), func(c *lifecycle.Config) {
				c.Hooks.After = []hook.Entry[hook.After]{{Name: "after", Hook: after}}
			})
			inBubble(t, []tool.Tool{echo("t", mutating)}, change, func(t *testing.T, w *world) {
				c := w.do(spec("t", `{}`))
				if c.Open() != nil {
					t.Fatal("it waits")
				}
				refused.check(t, endingOf(c, after))
			})
		})
	}
}
