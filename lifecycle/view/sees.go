package view

import (
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// SeesAll reports whether a principal sees everything in its namespace.
func SeesAll(p tool.Principal) bool { return p.HasRole("viewer") || p.HasRole("operator") }

// Sees reports whether a principal may see a call. A principal sees its own calls and the calls whose questions it may answer. With a role
// for the whole namespace it sees all calls.
func Sees(p tool.Principal, c *call.Call) bool {
	return p.Namespace == c.Namespace && (Owns(p, c) || SeesAll(p) || asked(p, c))
}

// asked reports whether the call has a current or earlier question that p could answer as an approver.
func asked(p tool.Principal, c *call.Call) bool {
	return p.HasRole("approver") && slices.ContainsFunc(c.Rounds, func(r call.Round) bool {
		a := r.Suspension.Approvers
		return a == nil || a.Admit(p)
	})
}

// Owns reports whether a principal is the call's caller.
func Owns(p tool.Principal, c *call.Call) bool {
	return p.Namespace == c.Namespace && p.Subject == c.Caller.Subject && p.Subject != ""
}

// SeesRule reports whether a principal may see a rule. A principal sees its own rules, the rules that it decided, and the rules whose
// question it could have answered as an approver.
func SeesRule(p tool.Principal, r *call.Rule) bool {
	return p.Namespace == r.Namespace && (p.Subject == r.Principal || p.Subject == r.By.Subject || SeesAll(p) ||
		p.HasRole("approver") && (len(r.Approvers) == 0 || r.Asked().Admit(p)))
}

// SeesTicket reports whether a principal may see the full description in a question. a lists the approvers of the question.
func SeesTicket(p tool.Principal, c *call.Call, a *tool.Approvers) bool {
	return SeesAll(p) || answers(p, c, a)
}

// answers reports whether a principal may answer a question with the approvers a.
func answers(p tool.Principal, c *call.Call, a *tool.Approvers) bool {
	if a == nil {
		return Owns(p, c) || p.HasRole("approver")
	}
	if a.DistinctFromCaller && (p.Subject == c.Caller.Subject || p.Subject == c.OnBehalfOf) {
		return false
	}
	return a.Admit(p)
}

// Bare returns a description without the data that the tool read for it.
func Bare(d tool.Description) tool.Description {
	return tool.Description{Kind: d.Kind, Title: d.Title, Degraded: d.Degraded}
}

// Call returns the record of a call as a principal may see it.
func Call(p tool.Principal, c *call.Call) *call.Call {
	if seesDescription(p, c) {
		return c
	}
	out := *c
	out.Description, out.Assessment.Resources = Bare(c.Description), nil // The resources can show where links of the workspace lead.
	out.Rounds = slices.Clone(c.Rounds)
	for i := range out.Rounds {
		s := &out.Rounds[i].Suspension
		s.Description = Bare(s.Description)
	}
	return &out
}

// seesDescription reports whether a principal may see the full description of a call. If a gate has asked a question, the newest question
// decides this, whether open or answered. Without a question, the caller may see the description after the gates have allowed the call.
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

// Events returns events of a call as a principal may see them. Other watchers share the events, so Events copies the events that it
// changes.
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

// Asks reports whether events contain a question. Only events with a question differ between principals.
func Asks(events []call.Event) bool {
	return slices.ContainsFunc(events, func(ev call.Event) bool { return ev.Type == call.EventSuspended })
}
