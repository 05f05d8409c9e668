package gating

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// MaxTicket is the maximum size of a ticket in bytes.
const MaxTicket = 256 << 10

// maxAction is the maximum length of a ticket's action, in bytes. It is short, because calls can be listed by action.
const maxAction = 128

// MaxExpiry is the longest time that a question may wait. Every ticket expires.
const MaxExpiry = 30 * 24 * time.Hour

// maxVotes is the maximum number of votes that a ticket may require.
const maxVotes = 100

// maxGroups is the maximum length of all approver groups of a ticket together, in bytes. Error messages contain them.
const maxGroups = 2 << 10

// CheckTicket returns an error for a ticket that is invalid or too large. byTool reports that a tool asks, and not a gate.
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
	return checkGroups(t.Approvers)
}

// checkGroups returns an error for groups that are too long, empty or not printable, because error messages contain them.
func checkGroups(a *tool.Approvers) error {
	if a == nil {
		return nil
	}
	size := 0
	for _, group := range a.Groups {
		switch size += len(group); {
		case size > maxGroups:
			return fmt.Errorf("the names of the approver groups have more than %d bytes", maxGroups)
		case group == "" || strings.ContainsFunc(group, func(r rune) bool { return !unicode.IsPrint(r) }):
			return fmt.Errorf("the approver group %q is empty or cannot be printed", group)
		}
	}
	return nil
}

// checkTexts returns an error for a ticket whose texts are not valid text or are too large.
func checkTexts(t *tool.Ticket) error {
	texts := []string{t.Action, t.Message, string(t.Parameters), string(t.ResponseSchema), t.DefaultResult}
	if t.Approvers != nil {
		texts = append(append(texts, t.Approvers.Roles...), t.Approvers.Groups...)
	}
	for _, o := range t.RememberOptions { // policy.Options checks the size of the options.
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

// Actions that the engine knows.
const (
	ActionApproval = "approval" // a question for yes or no
	ActionDoubt    = "in_doubt" // reserved for the engine's question about an attempt in doubt
)

// MachineActions contains the actions of questions that no person answers. It maps each action to the source whose tools may use it. A
// source that ends with a colon stands for all sources that begin with it.
type MachineActions map[string]string

// ForPeople returns true when only people answer questions with this action. It returns false for a question about an attempt in doubt,
// because UNATTENDED runs may ask it too.
func (m MachineActions) ForPeople(action string) bool {
	_, machine := m[action]
	return action != ActionDoubt && !machine
}

// Check returns an error when tools of a source may not use the action. For the ticket of a gate, source is empty.
func (m MachineActions) Check(action, source string) error {
	owner, machine := m[action]
	may := action != ActionDoubt
	if machine {
		may = source == owner || strings.HasSuffix(owner, ":") && strings.HasPrefix(source, owner)
	}
	if !may {
		return fmt.Errorf("the action %q is reserved", action)
	}
	return nil
}
