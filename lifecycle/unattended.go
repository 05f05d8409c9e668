package lifecycle

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
)

// unattended returns an outcome if a call of an UNATTENDED run asks people a question, else nil. This does not apply to calls that a
// frontend executes, to attempts in doubt, and to waits for nested calls.
func unattended(p *pipeline, s *call.Suspension, executed call.Executed) *outcome.Terminal {
	if c := p.l.record(); !c.Run.Unattended || !p.l.e.cfg.MachineActions.ForPeople(s.Action) || p.l.e.cfg.UnattendedWaits != nil && p.l.e.cfg.UnattendedWaits() {
		return nil
	}
	return outcome.Unattended(s.Message, executed)
}
