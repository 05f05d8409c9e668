package show

import (
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Ticket formats the open question of a call with everything that a decision covers: the complete arguments, the description and its diff,
// the roles that may answer, and the expiry. s is the suspension to decide.
func (v View) Ticket(c *tooldv1.Call, s *tooldv1.Suspension) string {
	return v.ticketHead(s) + v.ticketFields(c, s) + v.ticketBody(s, "approve --remember NUMBER")
}

// Question formats a ticket that begins with the action that the call would perform. The first screen then shows what an approval allows.
func (v View) Question(c *tooldv1.Call, s *tooldv1.Suspension) string {
	return v.ticketHead(s) + strings.TrimPrefix(v.ticketBody(s, "a, then the number"), "\n") + "\n" + v.ticketFields(c, s)
}

func (v View) ticketHead(s *tooldv1.Suspension) string {
	d := s.GetDescription()
	title := d.GetTitle()
	if title == "" {
		title = s.GetPending().GetName()
	}
	return v.paint(bold+";"+waits, strings.ToUpper(Line(s.GetAction()))) + "  " + v.paint(bold, fold(Line(title))) + "\n"
}

func (v View) ticketFields(c *tooldv1.Call, s *tooldv1.Suspension) string {
	return v.fields(
		"suspension", Line(s.GetSuspensionId()),
		"call", Line(s.GetPending().GetId()),
		"tool", Line(s.GetPending().GetName()),
		"asked by", v.askedBy(c, s),
		"run", v.runOf(c.GetRun()),
		"effect", effect(c.GetAssessment(), s.GetDescription().GetKind()),
		"isolation", isolation(c.GetIsolation()),
		"answered by", approvers(s.GetApprovers()),
		"votes", votes(s),
		"claimed by", v.claimed(s),
		"waits since", v.clock(s.GetCreatedAt()),
		"expires", v.clock(s.GetExpiresAt())+onExpiry(s),
		"digest", Line(s.GetDigest()),
	)
}

func (v View) ticketBody(s *tooldv1.Suspension, remember string) string {
	var b strings.Builder
	if m := s.GetMessage(); m != "" {
		b.WriteString("\n" + v.paint(bold, "Question") + "\n" + indent(fold(Text(m))))
	}
	if r := resumeMode(s.GetResumeMode()); r != "" {
		b.WriteString(indent(v.paint(dim, r)))
	}
	arguments := s.GetPending().GetArguments()
	b.WriteString(v.describe(s.GetDescription(), arguments)) // a diff is easier to read than the arguments, so it comes first
	b.WriteString("\n" + v.paint(bold, "Arguments") + " " + v.announce(arguments) + "\n" + indent(v.Arguments(arguments)))
	if p := s.GetParameters(); p != "" {
		b.WriteString("\n" + v.paint(bold, "Parameters") + "\n" + indent(v.Arguments(p)))
	}
	for i, o := range s.GetRememberOptions() {
		if i == 0 {
			b.WriteString("\n" + v.paint(bold, "Offers to remember the approval") + v.paint(dim, "  "+remember) + "\n")
		}
		b.WriteString(fmt.Sprintf("  %d  ", i+1) + cut(OptionTitle(o), tableWidth-6) + "\n")
	}
	if r := s.GetResponseSchema(); r != "" {
		b.WriteString("\n" + v.paint(bold, "Schema of the answer") + " " + v.announce(r) + "\n" + indent(prettyJSON(r)))
	}
	return b.String()
}

// Waiting formats one entry of the inbox: the question, what would run, and the command that answers it. It cuts long arguments and shows
// their length.
func (v View) Waiting(c *tooldv1.Call) string {
	s := c.GetSuspension()
	d := s.GetDescription()
	title := d.GetTitle()
	if title == "" {
		title = s.GetPending().GetName()
	}
	head := fmt.Sprintf("%s  %s  %s", v.paint(waits, cut(Line(s.GetAction()), 20)), v.paint(bold, cut(Line(s.GetPending().GetName()), 20)),
		v.paint(dim, v.age(s.GetCreatedAt())+" ago, expires in "+Duration(max(s.GetExpiresAt().AsTime().Sub(v.Now), 0))))
	var b strings.Builder
	b.WriteString(head + "\n")
	b.WriteString("  " + cut(Line(title), tableWidth-2) + "\n")
	if m := s.GetMessage(); m != "" && m != title {
		b.WriteString("  " + cut(Line(m), tableWidth-2) + "\n")
	}
	arguments := s.GetPending().GetArguments()
	shown := fold(Line(JSON(arguments)))
	if columns(shown) > 3*tableWidth {
		shown = cut(shown, 3*tableWidth) + v.paint(dim, " ("+ArgumentsSize(arguments)+" in all)")
	}
	b.WriteString("  " + v.paint(dim, "runs") + " " + shown + "\n")
	for _, n := range d.GetNotes() {
		b.WriteString("  " + v.paint(waits, "! ") + cut(Line(n), tableWidth-4) + "\n")
	}
	if who := v.claimed(s); who != "" {
		b.WriteString("  " + v.paint(waits, "claimed by "+who) + "\n")
	}
	b.WriteString("  " + v.paint(dim, v.answerCommand(s)) + "\n")
	return b.String()
}

func (v View) answerCommand(s *tooldv1.Suspension) string {
	if s.GetResumeMode() == tooldv1.ResumeMode_RESUME_MODE_REPLAY_TOOL_CALL && s.GetResponseSchema() == "" {
		return v.command("approve", Line(s.GetSuspensionId()))
	}
	return v.command("answer", Line(s.GetSuspensionId()), "…")
}

// describe formats a description after the arguments that it was made from. It omits a text preview that the arguments contain literally.
func (v View) describe(d *tooldv1.Description, arguments string) string {
	if d == nil {
		return ""
	}
	var b strings.Builder
	for i, l := range d.GetLocations() {
		if i == 0 {
			b.WriteString("\n" + v.paint(bold, "Touches") + "\n")
		}
		b.WriteString("  " + Line(l.GetPath()))
		if l.GetLine() > 0 {
			fmt.Fprintf(&b, ":%d", l.GetLine())
		}
		b.WriteString("\n")
	}
	for _, c := range d.GetPreview() {
		if c.GetType() != tooldv1.ContentType_CONTENT_TYPE_TEXT || !containsValue(arguments, c.GetText()) {
			b.WriteString("\n" + v.content(c))
		}
	}
	for i, p := range d.GetCommand() {
		if i == 0 {
			b.WriteString("\n" + v.paint(bold, "Parts") + "\n")
		}
		b.WriteString("  " + fold(Line(p.GetText())) + "  " + v.paint(waits, partEffect(p)) + "\n")
	}
	for i, n := range d.GetNotes() {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(v.paint(waits, "! ") + fold(Line(n)) + "\n")
	}
	if d.GetDegraded() {
		b.WriteString(v.paint(waits, "! ") + "The tool could not describe this call.\n")
	}
	return b.String()
}

func partEffect(p *tooldv1.CommandPart) string {
	text := name(p.GetSafety())
	if p.GetUnknown() {
		text += ", not known before it runs"
	}
	if p.GetReason() != "" {
		text += ": " + Line(p.GetReason())
	}
	return text
}

func containsValue(arguments, text string) bool {
	members, _ := objectMembers(arguments)
	for _, m := range members {
		if value, isText := textOf(m.raw); isText && value == text {
			return true
		}
	}
	return false
}

func (v View) askedBy(c *tooldv1.Call, s *tooldv1.Suspension) string {
	who := Line(s.GetOrigin())
	if caller := c.GetCaller().GetSubject(); caller != "" {
		who += ", for a call of " + Line(caller)
	}
	if other := c.GetRun().GetOnBehalfOf(); other != "" {
		who += " on behalf of " + Line(other)
	}
	return who
}

func (v View) runOf(r *tooldv1.Run) string {
	var parts []string
	if r.GetRunId() != "" {
		parts = append(parts, Line(r.GetRunId()))
	}
	if r.GetThreadId() != "" {
		parts = append(parts, "thread "+Line(r.GetThreadId()))
	}
	if a := r.GetAgent().GetAgentId(); a != "" {
		parts = append(parts, "agent "+Line(a))
	}
	return strings.Join(parts, ", ")
}

func effect(a *tooldv1.Assessment, k tooldv1.Kind) string {
	if a == nil {
		return ""
	}
	parts := []string{name(a.GetSafety()), "tier " + name(a.GetTier())}
	if name(a.GetMutability()) != name(a.GetSafety()) {
		parts = append([]string{name(a.GetMutability())}, parts...)
	}
	if kind := name(k); kind != "" {
		parts = append(parts, "kind "+kind)
	}
	if a.GetOpenWorld() {
		parts = append(parts, "reaches systems outside the operator's control")
	}
	for _, r := range a.GetResources() {
		parts = append(parts, resource(r))
	}
	return strings.Join(parts, ", ")
}

func resource(r *tooldv1.Resource) string {
	text := "uses " + Line(r.GetKind())
	if r.GetId() == "" {
		text = "uses every " + Line(r.GetKind())
	} else {
		text += " " + Line(r.GetId())
	}
	if r.GetShared() {
		text += " (shared)"
	}
	return text
}

func isolation(i *tooldv1.Isolation) string {
	if i == nil || i.GetRequired() == 0 {
		return ""
	}
	text := "required " + name(i.GetRequired())
	if n := name(i.GetNetwork()); n != "" && (i.GetRequired() > tooldv1.IsolationLevel_ISOLATION_LEVEL_NONE || i.GetNetwork() > tooldv1.NetworkMode_NETWORK_MODE_NONE) {
		text += ", network " + n
	}
	var held, not []string
	for _, f := range i.GetFacts() {
		if f.GetHeld() {
			held = append(held, Line(f.GetName()))
		} else {
			not = append(not, Line(f.GetName()))
		}
	}
	switch {
	case held == nil && not != nil:
		return text + "; nothing is isolated"
	case held == nil:
		return text
	}
	text += "; applied: " + strings.Join(held, ", ")
	if not != nil {
		text += "; not applied: " + strings.Join(not, ", ")
	}
	return text
}

// inGroups says to which groups an approver must belong.
func inGroups(groups []string) string {
	if len(groups) == 0 {
		return ""
	}
	return " in " + Line(strings.Join(groups, " or "))
}

func approvers(a *tooldv1.Approvers) string {
	if a == nil {
		return "the caller, an approver or an operator"
	}
	roles := make([]string, 0, len(a.GetRoles()))
	for _, r := range a.GetRoles() {
		roles = append(roles, name(r))
	}
	text := strings.Join(roles, " or ")
	if text == "" {
		text = "APPROVER"
	}
	text += inGroups(a.GetGroups())
	if a.GetDistinctFromCaller() {
		text += ", not the caller"
	}
	if a.GetCount() > 1 {
		text += fmt.Sprintf(", %d of them", a.GetCount())
	}
	if a.GetResultInstead() {
		text += "; except the caller, they may also give the result in the tool's place (--result-instead)"
	}
	return text
}

// votes lists the approvers who have approved so far.
func votes(s *tooldv1.Suspension) string {
	texts := make([]string, 0, len(s.GetVotes()))
	for _, v := range s.GetVotes() {
		text := name(v.GetAction()) + " by " + principal(v.GetVoter())
		if v.GetEdited() {
			text += " with the arguments " + cut(Line(v.GetArguments()), tableWidth)
		}
		texts = append(texts, text)
	}
	if all := Votes(s); all != "" {
		texts = append([]string{all}, texts...)
	}
	return strings.Join(texts, "; ")
}

func onExpiry(s *tooldv1.Suspension) string {
	if s.GetOnExpiry() == tooldv1.ExpiryAction_EXPIRY_ACTION_DEFAULT_RESULT {
		return ", then answered with " + fold(Line(JSON(s.GetDefaultResult())))
	}
	return ", then cancelled"
}

func resumeMode(m tooldv1.ResumeMode) string {
	switch m {
	case tooldv1.ResumeMode_RESUME_MODE_USE_DECISION_AS_TOOL_RESULT:
		return "The answer becomes the result; the tool does not run."
	case tooldv1.ResumeMode_RESUME_MODE_PASS_DECISION_TO_TOOL:
		return "The answer becomes the arguments of the tool."
	default:
		return ""
	}
}
