package gating

import (
	"fmt"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// People finds the principals that could answer a ticket.
type People interface {
	// CanApprove reports whether the namespace has enough different principals for the approvers a. The subjects in the list not are not
	// counted.
	CanApprove(namespace string, a *tool.Approvers, not ...string) bool
}

// Missing returns two texts when too few principals can answer a ticket of c. The text who names the approvers that the ticket needs. The
// text missing says that they do not exist. Both texts are empty when enough principals can answer, or when people is nil.
func Missing(people People, c *call.Call, a *tool.Approvers) (who, missing string) {
	if a == nil || people == nil {
		return "", ""
	}
	var not []string
	if a.DistinctFromCaller {
		not = []string{c.Caller.Subject, c.OnBehalfOf}
	}
	if people.CanApprove(c.Namespace, a, not...) {
		return "", ""
	}
	who, missing = "somebody", "there is nobody"
	if n := a.Count; n > 1 {
		who, missing = fmt.Sprintf("%d people", n), "there are not as many"
	}
	who += " with the role " + a.Roles[0]
	if len(a.Groups) > 0 {
		who += " in the group " + strings.Join(a.Groups, " or ")
	}
	if a.DistinctFromCaller {
		who += " other than " + c.Caller.Subject
	}
	return who, missing
}

// DefaultApprovers completes the approvers of tickets.
type DefaultApprovers struct {
	// SingleUser is set for a daemon that only one person uses. A ticket then requires a single vote, because no second person exists. The
	// caller may give this vote by typing a confirmation.
	SingleUser bool
	Groups     map[string][]string // groups by namespace; a namespace that is missing has none
}

// Of returns the approvers of a namespace's ticket with their defaults, or nil.
func (d DefaultApprovers) Of(namespace string, a *tool.Approvers) *tool.Approvers {
	if a == nil {
		return nil
	}
	c := *a
	if len(c.Roles) == 0 {
		c.Roles = []string{"approver"}
	}
	if len(c.Groups) == 0 {
		c.Groups = d.Groups[namespace]
	}
	c.Count = max(c.Count, 1)
	if d.SingleUser {
		c.DistinctFromCaller, c.Count = false, 1
	}
	return &c
}
