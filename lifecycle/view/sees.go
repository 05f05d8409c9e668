package view

import (
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// SeesAll reports whether a principal sees everything in its namespace.
func SeesAll(p tool.Principal) bool { return p.HasRole("viewer") || p.HasRole("operator") }

// Sees reports whether a principal sees a call: its own calls, those whose questions it may answer, and with a role for the
// whole namespace all of them.
func Sees(p tool.Principal, c *call.Call) bool {
	return p.Namespace == c.Namespace && (Owns(p, c) || SeesAll(p) || asked(p, c))
}

// asked reports whether a question of the call is, or was, one that an approver may answer.
func asked(p tool.Principal, c *call.Call) bool {
	return p.HasRole("approver") && slices.ContainsFunc(c.Rounds, func(r call.Round) bool {
		a := r.Suspension.Approvers
		return a == nil || slices.ContainsFunc(a.Roles, p.HasRole)
	})
}

// Owns reports whether a principal may act for the call's caller.
func Owns(p tool.Principal, c *call.Call) bool {
	return p.Namespace == c.Namespace && p.Subject == c.Caller.Subject && p.Subject != ""
}

// SeesRule reports whether a principal sees a rule: its own, those that it decided, and those whose question it could have
// answered as an approver.
func SeesRule(p tool.Principal, r *call.Rule) bool {
	return p.Namespace == r.Namespace && (p.Subject == r.Principal || p.Subject == r.By.Subject || SeesAll(p) ||
		p.HasRole("approver") && (len(r.Approvers) == 0 || slices.ContainsFunc(r.Approvers, p.HasRole)))
}

// SeesTicket reports whether a principal sees what a question to these approvers is about.
func SeesTicket(p tool.Principal, c *call.Call, a *tool.Approvers) bool {
	return SeesAll(p) || answers(p, c, a)
}

// answers reports whether a question asks a principal.
func answers(p tool.Principal, c *call.Call, a *tool.Approvers) bool {
	if a == nil {
		return Owns(p, c) || p.HasRole("approver")
	}
	if a.DistinctFromCaller && (p.Subject == c.Caller.Subject || p.Subject == c.OnBehalfOf) {
		return false
	}
	return slices.ContainsFunc(a.Roles, p.HasRole)
}

// Bare returns a description without what the tool looked up.
func Bare(d tool.Description) tool.Description {
	return tool.Description{Kind: d.Kind, Title: d.Title, Degraded: d.Degraded}
}

// Call returns a record as a principal may see it.
func Call(p tool.Principal, c *call.Call) *call.Call {
	if seesDescription(p, c) {
		return c
	}
	out := *c
	out.Description = Bare(c.Description)
	out.Rounds = slices.Clone(c.Rounds)
	for i := range out.Rounds {
		s := &out.Rounds[i].Suspension
		s.Description = Bare(s.Description)
	}
	return &out
}

// seesDescription reports whether a principal sees the whole description of a call. The newest question of a gate decides, open or
// answered. Without such a question the caller sees it once the gates have allowed the call.
func seesDescription(p tool.Principal, c *call.Call) bool {
	if SeesAll(p) {
		return true
	}
	for _, r := range slices.Backward(c.Rounds) {
		if r.Suspension.AfterGates() {
			continue
		}
		return r.Decision != nil && r.Decision.Action == tool.Resume || answers(p, c, r.Suspension.Approvers)
	}
	return len(c.Attempts) > 0 || c.Description.Kind == ""
}

// Events returns events of a call as a principal may see them. The events are shared with other watchers: Events copies what
// it changes.
func Events(p tool.Principal, c *call.Call, events []call.Event) []call.Event {
	cloned := false
	for i := range events {
		s := events[i].Suspension
		if s == nil || s.AfterGates() || SeesTicket(p, c, s.Approvers) {
			continue
		}
		if !cloned {
			events, cloned = slices.Clone(events), true
		}
		masked := *s
		masked.Description = Bare(s.Description)
		events[i].Suspension = &masked
	}
	return events
}

// Asks reports whether a question is among events. Only such events differ between principals.
func Asks(events []call.Event) bool {
	return slices.ContainsFunc(events, func(ev call.Event) bool { return ev.Type == call.EventSuspended })
}
