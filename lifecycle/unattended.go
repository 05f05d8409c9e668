package lifecycle

import (
	"fmt"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
)

// Actions of questions that no person is asked for an answer. They have effects, here and where people see what waits: so nobody
// but their owners may name a question so.
const (
	actionDoubt    = "in_doubt" // the engine's
	actionFrontend = "frontend"
	actionSubagent = "subagent"
)

// ownAction refuses an action that is not for the tools of a source; a gate has none.
func ownAction(action, source string) error {
	may := true
	switch action {
	case actionDoubt:
		may = false
	case actionFrontend:
		may = source == actionFrontend
	case actionSubagent:
		may = strings.HasPrefix(source, actionSubagent+":")
	}
	if !may {
		return fmt.Errorf("the action %q is not for questions of others", action)
	}
	return nil
}

// unattended ends a call of an UNATTENDED run that has a question for people; nil when it may ask. What a frontend
// executes, what a crash left in doubt, and what waits for calls of its own are no such questions.
func (p *pipeline) unattended(s *call.Suspension, executed call.Executed) *outcome.Terminal {
	noQuestion := s.Action == actionDoubt || s.Action == actionFrontend || s.Action == actionSubagent
	if c := p.l.record(); !c.Run.Unattended || noQuestion || p.l.e.cfg.UnattendedWaits != nil && p.l.e.cfg.UnattendedWaits() {
		return nil
	}
	return outcome.Unattended(s.Message, executed)
}
