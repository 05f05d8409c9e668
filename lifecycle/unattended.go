package lifecycle

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
)

// unattended ends a call of an UNATTENDED run that has a question for people; nil when it may ask. What a frontend
// executes, what a crash left in doubt, and what waits for other calls are no such questions.
func unattended(p *pipeline, s *call.Suspension, executed call.Executed) *outcome.Terminal {
	if c := p.l.record(); !c.Run.Unattended || !p.l.e.cfg.MachineActions.ForPeople(s.Action) || p.l.e.cfg.UnattendedWaits != nil && p.l.e.cfg.UnattendedWaits() {
		return nil
	}
	return outcome.Unattended(s.Message, executed)
}
