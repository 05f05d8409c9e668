package gating

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// MaxTicket bounds what a ticket may carry, in bytes.
const MaxTicket = 256 << 10

// maxAction bounds what a ticket is for, by which calls are listed, in bytes.
const maxAction = 128

// MaxExpiry is the longest that a question may wait: no ticket is for ever.
const MaxExpiry = 30 * 24 * time.Hour

// maxVotes is how many people a ticket may ask for.
const maxVotes = 100

// CheckTicket refuses questions that could not be answered, or not safely.
func CheckTicket(t tool.Ticket, byTool bool) error {
	switch t.ResumeMode {
	case "", tool.ReplayToolCall, tool.UseDecisionAsToolResult, tool.PassDecisionToTool:
	default:
		return fmt.Errorf("resume mode %q is unknown", t.ResumeMode)
	}
	if err := checkTexts(&t); err != nil {
		return err
	}
	if t.ExpiresIn < 0 || t.ExpiresIn > MaxExpiry {
		return fmt.Errorf("expires_in %v: want up to %v", t.ExpiresIn, MaxExpiry)
	}
	if t.DefaultResult != "" && (!byTool || t.Approvers != nil) {
		return errors.New("only a tool's own ticket without approvers may have a default answer")
	}
	if a := t.Approvers; a != nil && (a.Count < 0 || a.Count > maxVotes) {
		return fmt.Errorf("%d votes: want up to %d", a.Count, maxVotes)
	}
	return nil
}

// checkTexts refuses a ticket that is no text, or more than one may be.
func checkTexts(t *tool.Ticket) error {
	texts := []string{t.Action, t.Message, string(t.Parameters), string(t.ResponseSchema), t.DefaultResult}
	if t.Approvers != nil {
		texts = append(texts, t.Approvers.Roles...)
	}
	for _, o := range t.RememberOptions { // which are bounded where they are taken
		if !utf8.ValidString(o.Option) || !utf8.ValidString(o.Title) {
			return errors.New("the ticket is not UTF-8")
		}
	}
	size := 0
	for _, text := range texts {
		if size += len(text); !utf8.ValidString(text) {
			return errors.New("the ticket is not UTF-8")
		}
	}
	switch {
	case size > MaxTicket:
		return fmt.Errorf("the ticket has more than %d bytes", MaxTicket)
	case len(t.Action) > maxAction:
		return fmt.Errorf("the ticket's action has %d bytes; at most %d are accepted", len(t.Action), maxAction)
	}
	return nil
}

// Actions that have effects, in the engine and where people see what waits. A question of the last three is no question that a person is
// asked for an answer, so nobody but their owners may name one so.
const (
	ActionApproval = "approval" // asks for yes or no
	ActionDoubt    = "in_doubt" // the engine's
	ActionFrontend = "frontend"
	ActionSubagent = "subagent"
)

// ForPeople reports whether a question with this action waits for a person: not for a frontend that executes the call, for calls that the
// call made, or for what a crash left in doubt.
func ForPeople(action string) bool {
	return action != ActionDoubt && action != ActionFrontend && action != ActionSubagent
}

// CheckAction refuses an action that is not for the tools of a source; a gate has none.
func CheckAction(action, source string) error {
	may := true
	switch action {
	case ActionDoubt:
		may = false
	case ActionFrontend:
		may = source == ActionFrontend
	case ActionSubagent:
		may = strings.HasPrefix(source, ActionSubagent+":")
	}
	if !may {
		return fmt.Errorf("the action %q is not for questions of others", action)
	}
	return nil
}
