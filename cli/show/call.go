package show

import (
	"fmt"
	"strings"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const idWidth = 36 // length of a UUID

// Status returns the name of a status for people.
func Status(s tooldv1.CallStatus) string {
	if n := name(s); n != "" {
		return n
	}
	return fmt.Sprintf("status %d", s)
}

func statusColor(s tooldv1.CallStatus) string {
	switch s {
	case tooldv1.CallStatus_CALL_STATUS_SUCCEEDED:
		return good
	case tooldv1.CallStatus_CALL_STATUS_FAILED:
		return bad
	case tooldv1.CallStatus_CALL_STATUS_SUSPENDED, tooldv1.CallStatus_CALL_STATUS_CANCELLED:
		return waits
	default:
		return accent
	}
}

// Calls formats calls as a table.
func (v View) Calls(calls []*tooldv1.Call) string {
	rows := make([][]cell, 0, len(calls))
	for _, c := range calls {
		took := ""
		switch {
		case c.GetEndedAt() != nil && c.GetStartedAt() != nil:
			took = Duration(c.GetEndedAt().AsTime().Sub(c.GetStartedAt().AsTime()))
		case c.GetStatus() == tooldv1.CallStatus_CALL_STATUS_RUNNING && c.GetStartedAt() != nil:
			took = coarse(v.Now.Sub(c.GetStartedAt().AsTime()))
		}
		rows = append(rows, []cell{
			{Line(c.GetCallId()), ""}, {Status(c.GetStatus()), statusColor(c.GetStatus())},
			{v.age(c.GetCreatedAt()), dim}, {took, dim}, {Line(c.GetTool()), bold},
		})
	}
	return v.table([]string{"CALL", "STATUS", "AGE", "TOOK", "TOOL"}, idWidth, rows)
}

// Call formats the whole record of a call.
func (v View) Call(c *tooldv1.Call) string {
	var b strings.Builder
	b.WriteString(v.paint(statusColor(c.GetStatus()), Status(c.GetStatus())) + "  " + v.paint(bold, Line(c.GetTool())))
	if t := c.GetDescription().GetTitle(); t != "" {
		b.WriteString("  " + fold(Line(t)))
	}
	if how := BadExit(c.GetResult()); how != "" {
		b.WriteString("  " + v.paint(bad, how))
	}
	b.WriteString("\n" + v.fields(
		"call", Line(c.GetCallId()),
		"caller", principal(c.GetCaller()),
		"run", v.runOf(c.GetRun()),
		"executed", name(c.GetExecuted()),
		"effect", effect(c.GetAssessment(), c.GetDescription().GetKind()),
		"isolation", isolation(c.GetIsolation()),
		"created", v.clock(c.GetCreatedAt()),
		"started", orNone(c.GetStartedAt() != nil, v.clock(c.GetStartedAt())),
		"ended", orNone(c.GetEndedAt() != nil, v.clock(c.GetEndedAt())),
		"purged", purged(v, c.GetPurge()),
		"class", name(c.GetDurability())+orNone(c.GetDetached(), ", continues without watchers"),
		"log", fmt.Sprintf("%d events, epoch %d, revision %d", c.GetLastSequence(), c.GetEpoch(), c.GetRevision()),
		"model's id", Line(c.GetModelCallId()),
		"retry of", Line(c.GetRetryOf()),
		"tool digest", Line(c.GetToolDigest()),
	))
	b.WriteString(v.callArguments(c))
	b.WriteString(v.callHistory(c))
	if s := c.GetSuspension(); s != nil {
		b.WriteString("\n" + v.Ticket(c, s))
	}
	if r := c.GetResult(); r != nil {
		b.WriteString("\n" + v.paint(bold, "Result") + "\n" + indent(v.Result(r)))
	}
	return b.String()
}

func purged(v View, p *tooldv1.Purge) string {
	if p == nil {
		return ""
	}
	return v.clock(p.GetTime()) + " by " + principal(p.GetPurgedBy())
}

func orNone(there bool, s string) string {
	if there {
		return s
	}
	return ""
}

// callArguments shows the arguments. If the requested and the effective arguments differ, it shows both.
func (v View) callArguments(c *tooldv1.Call) string {
	requested, effective := c.GetRequestedArguments(), c.GetEffectiveArguments()
	var b strings.Builder
	switch {
	case effective == "" && requested == "":
		return ""
	case effective == "":
		b.WriteString("\n" + v.paint(bold, "Arguments, as sent") + " " + v.announce(requested) + "\n" + indent(v.Arguments(requested)))
	case sameArguments(requested, effective):
		b.WriteString("\n" + v.paint(bold, "Arguments") + " " + v.announce(effective) + "\n" + indent(v.Arguments(effective)))
	default:
		b.WriteString("\n" + v.paint(bold, "Arguments, as sent") + " " + v.announce(requested) + "\n" + indent(v.Arguments(requested)))
		why := ""
		if by := c.GetRewrittenBy(); len(by) > 0 {
			why = ", changed by " + Line(strings.Join(by, ", "))
		}
		b.WriteString("\n" + v.paint(bold, "Effective arguments"+why) + " " + v.announce(effective) + "\n" + indent(v.Arguments(effective)))
	}
	return b.String()
}

// sameArguments compares JSON without regard to member order and white space, like the canonical form.
func sameArguments(a, b string) bool {
	x, okX := objectMembers(a)
	y, okY := objectMembers(b)
	if !okX || !okY || len(x) != len(y) {
		return a == b
	}
	raw := map[string]string{}
	for _, m := range y {
		raw[m.name] = compact(m.raw)
	}
	for _, m := range x {
		if other, there := raw[m.name]; !there || other != compact(m.raw) {
			return false
		}
	}
	return true
}

func (v View) callHistory(c *tooldv1.Call) string {
	var b strings.Builder
	line := func(mark, text string) { b.WriteString("  " + v.paint(dim, mark) + " " + text + "\n") }
	for _, g := range c.GetVerdicts() {
		line("gate", verdict(g))
	}
	for _, h := range c.GetHookRuns() {
		line("hook", name(h.GetKind())+" "+Line(h.GetHook())+": "+Duration(h.GetDuration().AsDuration())+orNone(h.GetFailed(), ", failed"))
	}
	for _, d := range c.GetDecisions() {
		line("decision", v.decision(d, true))
	}
	for _, a := range c.GetAttempts() {
		end := "end not observed"
		if a.GetEndedAt() != nil {
			end = Duration(a.GetEndedAt().AsTime().Sub(a.GetStartedAt().AsTime()))
		} else if c.GetStatus() == tooldv1.CallStatus_CALL_STATUS_RUNNING {
			end = "running"
		}
		text := fmt.Sprintf("%d  %s, epoch %d", a.GetAttempt(), end, a.GetEpoch())
		if o := a.GetOperation(); o != nil && a.GetEndedAt() == nil {
			text += ", continues elsewhere as" + quoted(o.GetOperationId()) + ", at most until " + v.clock(o.GetExpiresAt())
		}
		switch a.GetEnd() {
		case tooldv1.AttemptEnd_ATTEMPT_END_UNSPECIFIED, tooldv1.AttemptEnd_ATTEMPT_END_RETURNED, tooldv1.AttemptEnd_ATTEMPT_END_LOST:
		default:
			text += ", " + name(a.GetEnd())
		}
		if a.GetLateResult() != nil {
			text += ", with a late result that was not applied"
		}
		line("attempt", text)
	}
	if r := c.GetCancelRequest(); r != nil {
		line("cancel", cause(r.GetCause())+" by "+principal(r.GetRequestedBy())+", "+v.clock(r.GetTime())+quoted(r.GetReason()))
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + v.paint(bold, "History") + "\n" + b.String()
}

func cause(s string) string {
	if s == "" {
		return "asked for"
	}
	return Line(s)
}

func verdict(g *tooldv1.Verdict) string {
	text := Line(g.GetGate()) + ": " + name(g.GetAction()) + quoted(g.GetReason())
	if g.GetOverruled() {
		text += ", overruled"
	}
	if g.GetAnswered() {
		text += ", answered"
	}
	if d := g.GetDuration().AsDuration(); d >= time.Millisecond { // shorter durations do not matter to a person
		text += ", after " + Duration(d)
	}
	return text
}

func (v View) decision(d *tooldv1.Decision, dated bool) string {
	text := name(d.GetAction()) + " by " + principal(d.GetDecidedBy()) + orNone(dated, ", "+v.clock(d.GetTime())) + quoted(d.GetReason())
	if d.GetArguments() != "" {
		text += ", with edited arguments (" + ArgumentsSize(d.GetArguments()) + ")"
	}
	if r := d.GetResultInstead(); r != nil {
		text += ", " + orNone(r.GetError(), "error ") + "in the tool's place"
	}
	if d.GetResult() != "" {
		text += ", answer " + cut(fold(Line(JSON(d.GetResult()))), tableWidth)
	}
	return text
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return ` "` + fold(Line(s)) + `"`
}

func principal(p *tooldv1.Principal) string {
	if p.GetSubject() == "" {
		return "?"
	}
	if p.GetMethod() == "" {
		return Line(p.GetSubject())
	}
	return Line(p.GetSubject()) + " (" + Line(p.GetMethod()) + ")"
}

// Run formats the state of a run.
func (v View) Run(r *tooldv1.RunSummary) string {
	c := r.GetCalls()
	var counts []string
	for _, n := range []struct {
		name string
		n    int64
	}{
		{"new", c.GetNew()}, {"running", c.GetRunning()}, {"suspended", c.GetSuspended()}, {"resuming", c.GetResuming()},
		{"succeeded", c.GetSucceeded()}, {"failed", c.GetFailed()}, {"cancelled", c.GetCancelled()},
	} {
		if n.n > 0 {
			counts = append(counts, Number(n.n)+" "+n.name)
		}
	}
	if counts == nil {
		counts = []string{"none"}
	}
	return v.paint(bold, name(r.GetState())) + "  " + Line(r.GetRunId()) + "\n" + v.fields(
		"calls", strings.Join(counts, ", "),
		"thread", Line(r.GetThreadId()),
		"agent", Line(r.GetAgentId()),
		"caller", forWhom(r.GetCaller(), r.GetOnBehalfOf()),
		"parent", orNone(r.GetParentRunId() != "", "run "+Line(r.GetParentRunId())+", call "+Line(r.GetParentCallId())),
		"labels", labelsOf(r.GetLabels()),
		"created", orNone(r.GetCreatedAt() != nil, v.clock(r.GetCreatedAt())),
		"last call", orNone(r.GetLastCallAt() != nil, v.clock(r.GetLastCallAt())),
		"mode", Line(r.GetPermissionMode()),
		"blocked by", Line(r.GetBlockedCallId()),
		"because", fold(Line(r.GetBlockedReason())),
		"since", orNone(r.GetChangedAt() != nil, v.clock(r.GetChangedAt())),
		"namespace", Line(r.GetNamespace()),
	) + v.open(r.GetWaits()) + v.children(r.GetChildren())
}

// Described formats what a call would do.
func (v View) Described(d *tooldv1.DescribeCallResponse) string {
	if !d.GetValid() {
		return v.paint(bad, "NOT VALID") + "  " + v.paint(bold, Line(d.GetTool())) + "\n" + v.Error(d.GetError())
	}
	var b strings.Builder
	b.WriteString(v.paint(good, "VALID") + "  " + v.paint(bold, Line(d.GetTool())) + "  " + fold(Line(d.GetDescription().GetTitle())) + "\n")
	b.WriteString(v.fields(
		"verdict", name(d.GetOutcome()),
		"effect", effect(d.GetAssessment(), d.GetDescription().GetKind()),
		"isolation", isolation(d.GetIsolation()),
		"tool digest", Line(d.GetToolDigest()),
	))
	for _, g := range d.GetVerdicts() {
		b.WriteString("  " + v.paint(dim, "gate") + " " + verdict(g) + "\n")
	}
	arguments := d.GetEffectiveArguments()
	b.WriteString("\n" + v.paint(bold, "Arguments") + " " + v.announce(arguments) + "\n" + indent(v.Arguments(arguments)))
	b.WriteString(v.describe(d.GetDescription(), arguments))
	return b.String()
}
