package lifecycle

import (
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// What a tool looked up to describe a call, such as the lines that an edit would change, may be more than its caller is
// allowed to read. Whoever may answer the question sees it, since a yes must be for what is shown, and whoever looks at
// the namespace; the caller sees it once the gates have let the call run.

// bare is the description without what was looked up.
func bare(d tool.Description) tool.Description {
	return tool.Description{Kind: d.Kind, Title: d.Title, Degraded: d.Degraded}
}

// shown is a record as a principal may see it.
func shown(p tool.Principal, c *call.Call) *call.Call {
	if showsDescription(p, c) {
		return c
	}
	out := *c
	out.Description = bare(c.Description)
	out.Rounds = slices.Clone(c.Rounds)
	for i := range out.Rounds {
		s := &out.Rounds[i].Suspension
		s.Description = bare(s.Description)
	}
	return &out
}

// showsDescription says so of a record. The newest question of a gate decides, open or answered; without one whether the
// call was let run.
func showsDescription(p tool.Principal, c *call.Call) bool {
	if overlooks(p) {
		return true
	}
	for _, r := range slices.Backward(c.Rounds) {
		if asksOfRun(&r.Suspension) {
			continue
		}
		return r.Decision != nil && r.Decision.Action == tool.Resume || couldAnswer(p, c, r.Suspension.Approvers)
	}
	return len(c.Attempts) > 0 || c.Description.Kind == ""
}

// shownEvents are events of a call as a principal may see them. They are shared with other watchers: what is changed is
// copied.
func shownEvents(p tool.Principal, c *call.Call, events []call.Event) []call.Event {
	cloned := false
	for i := range events {
		s := events[i].Suspension
		if s == nil || overlooks(p) || asksOfRun(s) || couldAnswer(p, c, s.Approvers) {
			continue
		}
		if !cloned {
			events, cloned = slices.Clone(events), true
		}
		masked := *s
		masked.Description = bare(s.Description)
		events[i].Suspension = &masked
	}
	return events
}

// asksOfRun reports whether a question came up after the gates had let the call run.
func asksOfRun(s *call.Suspension) bool {
	return s.Origin == call.OriginTool || s.Origin == call.OriginDoubt
}

func overlooks(p tool.Principal) bool { return hasRole(p, "viewer") || hasRole(p, "operator") }

// couldAnswer reports whether a principal is one of those whom a question asks.
func couldAnswer(p tool.Principal, c *call.Call, a *tool.Approvers) bool {
	if a == nil {
		return owns(p, c) || hasRole(p, "approver")
	}
	if a.DistinctFromCaller && (p.Subject == c.Caller.Subject || p.Subject == c.OnBehalfOf) {
		return false
	}
	return slices.ContainsFunc(a.Roles, func(role string) bool { return hasRole(p, role) })
}

// mayReadTicket says of a question that is not asked yet whether a principal may see what it is about.
func (e *Engine) mayReadTicket(p tool.Principal, c *call.Call, t tool.Ticket) bool {
	return overlooks(p) || couldAnswer(p, c, e.approvers(t.Approvers))
}

// viewer returns the client that watches; c is the watched call.
func (w *callWatcher) viewer(c *call.Call) tool.Principal {
	if w.as == nil {
		return c.Caller
	}
	return *w.as
}

// shown returns a record of the watched call as the client may see it.
func (w *callWatcher) shown(c *call.Call) *call.Call { return shown(w.viewer(c), c) }

// shownEvents returns events of the watched call as the client may see them.
func (w *callWatcher) shownEvents(events []call.Event) []call.Event {
	if !asks(events) {
		return events
	}
	c := w.l.record()
	return shownEvents(w.viewer(c), c, events)
}

// asks reports whether there is a question among events, which not everybody may see whole.
func asks(events []call.Event) bool {
	return slices.ContainsFunc(events, func(ev call.Event) bool { return ev.Type == call.EventSuspended })
}
