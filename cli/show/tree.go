package show

import (
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Tree formats the calls of a run as a tree, each call on a line of at most width columns below the call that made it. calls are in order
// of creation. progress maps the id of a running call to its last progress text.
func (v View) Tree(run string, calls []*tooldv1.Call, progress map[string]string, width int) []string {
	known, children := map[string]bool{}, map[string][]*tooldv1.Call{}
	for _, c := range calls {
		known[c.GetCallId()] = true
	}
	for _, c := range calls {
		parent := c.GetRun().GetParentCallId()
		if !known[parent] || parent == c.GetCallId() {
			parent = "" // no parent, or the parent is in another run
		}
		children[parent] = append(children[parent], c)
	}
	t := tree{v: v, children: children, progress: progress, width: width, drawn: map[string]bool{}}
	t.lines = []string{t.fit(v.paint(bold, "run "+Line(run))+"  "+v.tally(calls), "run "+Line(run)+"  "+View{}.tally(calls))}
	t.below("", "")
	for _, c := range calls { // calls whose parents form a cycle are not reachable from the root
		if !t.drawn[c.GetCallId()] {
			t.call(c, "", true)
		}
	}
	return t.lines
}

type tree struct {
	v        View
	children map[string][]*tooldv1.Call
	progress map[string]string
	width    int
	drawn    map[string]bool
	lines    []string
}

func (t *tree) below(parent, margin string) {
	list := t.children[parent]
	for i, c := range list {
		if !t.drawn[c.GetCallId()] {
			t.call(c, margin, i == len(list)-1)
		}
	}
}

func (t *tree) call(c *tooldv1.Call, margin string, last bool) {
	t.drawn[c.GetCallId()] = true
	branch, next := "├─ ", "│  "
	if last {
		branch, next = "└─ ", "   "
	}
	mark := t.v.paint(statusColor(c.GetStatus()), statusMark(c.GetStatus()))
	head := margin + branch + statusMark(c.GetStatus()) + " " + Line(c.GetTool())
	rest := t.about(c)
	painted := t.v.paint(dim, margin+branch) + mark + " " + t.v.paint(bold, Line(c.GetTool()))
	if room := t.width - columns(head) - 2; rest != "" && room > 4 {
		painted, head = painted+"  "+cut(rest, room), head+"  "+cut(rest, room)
	}
	t.lines = append(t.lines, t.fit(painted, head))
	if len(margin) < 64*len(next) { // deeper trees are unreadable; this also ends a cycle
		t.below(c.GetCallId(), margin+next)
	}
}

// fit returns the painted line. If it is too wide, fit returns the plain line, cut.
func (t *tree) fit(painted, plain string) string {
	if columns(plain) <= t.width {
		return painted
	}
	return cut(plain, t.width)
}

// about returns the details of a call: its duration, its error, its title and its last progress text.
func (t *tree) about(c *tooldv1.Call) string {
	var parts []string
	switch {
	case c.GetStatus() == tooldv1.CallStatus_CALL_STATUS_SUSPENDED:
		parts = append(parts, "waits for a decision, "+t.v.age(c.GetCreatedAt()))
	case c.GetEndedAt() != nil && c.GetStartedAt() != nil:
		parts = append(parts, Duration(c.GetEndedAt().AsTime().Sub(c.GetStartedAt().AsTime())))
	case c.GetStartedAt() != nil:
		parts = append(parts, coarse(t.v.Now.Sub(c.GetStartedAt().AsTime())))
	}
	if c.GetStatus() == tooldv1.CallStatus_CALL_STATUS_FAILED || c.GetStatus() == tooldv1.CallStatus_CALL_STATUS_CANCELLED {
		if e := c.GetResult().GetError(); e != nil {
			parts = append(parts, name(e.GetCode()))
		}
	}
	if title := c.GetDescription().GetTitle(); title != "" {
		parts = append(parts, fold(Line(title)))
	}
	if progress := t.progress[c.GetCallId()]; progress != "" && c.GetEndedAt() == nil {
		parts = append(parts, progress)
	}
	return strings.Join(parts, "  ")
}

func statusMark(s tooldv1.CallStatus) string {
	switch s {
	case tooldv1.CallStatus_CALL_STATUS_SUCCEEDED:
		return "✓"
	case tooldv1.CallStatus_CALL_STATUS_FAILED:
		return "✗"
	case tooldv1.CallStatus_CALL_STATUS_CANCELLED:
		return "–"
	case tooldv1.CallStatus_CALL_STATUS_SUSPENDED:
		return "?"
	default:
		return "●"
	}
}

// tally counts the calls by status.
func (v View) tally(calls []*tooldv1.Call) string {
	counts := map[tooldv1.CallStatus]int{}
	for _, c := range calls {
		counts[c.GetStatus()]++
	}
	var parts []string
	for _, of := range []struct {
		statuses []tooldv1.CallStatus
		word     string
	}{
		{[]tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_NEW, tooldv1.CallStatus_CALL_STATUS_RUNNING, tooldv1.CallStatus_CALL_STATUS_RESUMING}, "run"},
		{[]tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}, "wait"},
		{[]tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUCCEEDED}, "succeeded"},
		{[]tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_FAILED}, "failed"},
		{[]tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_CANCELLED}, "cancelled"},
	} {
		n := 0
		for _, s := range of.statuses {
			n += counts[s]
		}
		if n > 0 {
			parts = append(parts, v.paint(statusColor(of.statuses[len(of.statuses)-1]), fmt.Sprintf("%d %s", n, of.word)))
		}
	}
	if parts == nil {
		return "no calls yet"
	}
	return strings.Join(parts, ", ")
}
