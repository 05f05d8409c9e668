package lifecycle_test

import (
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// In an UNATTENDED run questions for people are results that the model reads at once, unless the operator lets them wait.
func TestUnattendedRunsAreNotAsked(t *testing.T) {
	waits := func(c *lifecycle.Config) { c.UnattendedWaits = func() bool { return true } }
	denies := func(c *lifecycle.Config) { c.UnattendedWaits = func() bool { return false } }
	gated := gates(namedGate("ask", approval(tool.Ticket{Message: "Really?"})))
	const text = "Refused: it has a question, and nobody is there to answer"
	tests := []struct {
		name   string
		tool   tool.Tool
		change func(*lifecycle.Config)
		want   ending // the zero one is a call that waits
	}{
		{"a gate's", echo("t", mutating), gated, ending{
			status: call.Failed, code: tool.Denied, reason: "UNATTENDED", executed: call.NotStarted, aborted: true, after: true, text: text + ": Really?"}},
		{"a tool's", asks("t", tool.Ticket{Action: "input", Message: "Which one?"}), denies, ending{
			status: call.Failed, code: tool.Denied, reason: "UNATTENDED", executed: call.Started, aborted: true, after: true, text: text + ": Which one?"}},
		{"a gate's that waits", echo("t", mutating), both(gated, waits), ending{}},
		{"a tool's that waits", asks("t", tool.Ticket{}), waits, ending{}},
		{"what a frontend executes", asks("t", tool.Ticket{Action: "frontend"}), nil, ending{}},
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

// A tool that kept something for its question hears that nobody will answer.
func TestUnattendedQuestionIsAbandoned(t *testing.T) {
	a := &abandoner{}
	inBubble(t, []tool.Tool{a}, nil, func(t *testing.T, w *world) {
		s := spec("abandoner", `{}`)
		s.Run = tool.Run{ID: "night", Unattended: true}
		c := w.do(s)
		w.stop()
		if told := a.told(); len(told) != 1 || told[0] != c.ID {
			t.Errorf("abandoned %q", told)
		}
	})
}
