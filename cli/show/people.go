package show

import (
	"strconv"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// WhoAmI formats a principal and what it may do with tickets.
func (v View) WhoAmI(w *tooldv1.WhoAmIResponse) string {
	p := w.GetPrincipal()
	expires, rights := "never", ""
	if w.GetExpiresAt() != nil {
		expires = v.clock(w.GetExpiresAt())
	}
	if w.GetReadOnly() {
		rights = "read-only"
	}
	roles := make([]string, 0, len(p.GetRoles()))
	for _, r := range p.GetRoles() {
		roles = append(roles, strings.ToLower(name(r)))
	}
	text := v.fields(
		"subject", Line(p.GetSubject()), "namespace", Line(p.GetNamespace()), "roles", strings.Join(roles, ", "), "groups", Line(strings.Join(p.GetGroups(), ", ")),
		"by", Line(p.GetMethod()), "rights", rights, "expires", expires,
	)
	for _, t := range w.GetTickets() {
		text += "\n" + v.rights(t)
	}
	return text
}

func (v View) rights(t *tooldv1.TicketRights) string {
	scopes := make([]string, 0, len(t.GetRememberScopes()))
	for _, s := range t.GetRememberScopes() {
		scopes = append(scopes, strings.ToLower(name(s)))
	}
	remember := v.right(t.GetRemember())
	if len(scopes) > 0 {
		remember += ", for this " + strings.Join(scopes, " or ")
	}
	return v.fields(
		"suspension", Line(t.GetSuspensionId()), "call", Line(t.GetCallId()), "approve", v.right(t.GetApprove()), "decline", v.right(t.GetDecline()),
		"edit arguments", v.right(t.GetEdit()), "give the result", v.right(t.GetResultInstead()), "remember", remember,
	)
}

func (v View) right(r *tooldv1.Right) string {
	if r.GetAllowed() {
		return v.paint(good, "yes")
	}
	return "no: " + Line(r.GetMessage())
}

// Claim formats the claim that holds after a request, or nil.
func (v View) Claim(c *tooldv1.Claim) string {
	if c == nil {
		return "released\n"
	}
	if c.GetHandedOverBy() != nil {
		return "handed over to " + principal(c.GetClaimedBy()) + " until " + v.clock(c.GetUntil()) + "\n"
	}
	return "claimed until " + v.clock(c.GetUntil()) + "\n"
}

// claimed says who looks at a ticket. It returns "" when nobody does.
func (v View) claimed(s *tooldv1.Suspension) string {
	c := s.GetClaim()
	if c == nil || !v.Now.Before(c.GetUntil().AsTime()) {
		return ""
	}
	by := ""
	if c.GetHandedOverBy() != nil {
		by = ", asked by " + principal(c.GetHandedOverBy())
	}
	return principal(c.GetClaimedBy()) + by + ", until " + v.clock(c.GetUntil())
}

// Counts formats the numbers of calls by status, and of questions by action.
func (v View) Counts(c *tooldv1.CountCallsResponse) string {
	var fields []string
	add := func(name string, n int64) {
		text := strconv.FormatInt(n, 10)
		if c.GetAtLeast() {
			text = "at least " + text
		}
		fields = append(fields, name, text)
	}
	for _, s := range c.GetStatuses() {
		add(Status(s.GetStatus()), s.GetCount())
	}
	for _, s := range c.GetActions() {
		add("asks for "+Line(s.GetAction()), s.GetCount())
	}
	if len(fields) == 0 {
		return "nothing runs or waits\n"
	}
	return v.fields(fields...)
}
