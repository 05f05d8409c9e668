package lifecycle

import (
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// unattended ends a call of an UNATTENDED run that has a question for people; nil when it may ask. What a frontend
// executes, what a crash left in doubt, and what waits for calls of its own are no such questions.
func (p *pass) unattended(s *call.Suspension, executed call.Executed) *end {
	c := p.l.record()
	if !c.Run.Unattended || slices.Contains([]string{"frontend", "in_doubt", "subagent"}, s.Action) ||
		p.l.e.cfg.UnattendedWaits != nil && p.l.e.cfg.UnattendedWaits() {
		return nil
	}
	text := "Refused: it has a question, and nobody is there to answer"
	if s.Message != "" {
		text += ": " + s.Message
	}
	return &end{status: call.Failed, executed: executed, after: true, result: failure(&tool.Error{
		Code: tool.Denied, Reason: "UNATTENDED", Aborted: true, Message: text,
	})}
}
