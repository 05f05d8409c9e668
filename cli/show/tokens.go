package show

import (
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Tokens lists stored credentials.
func (v View) Tokens(tokens []*tooldv1.Token) string {
	rows := make([][]cell, 0, len(tokens))
	for _, t := range tokens {
		rights := rolesOf(t.GetPrincipal())
		if t.GetReadOnly() {
			rights += " (read-only)"
		}
		kind := strings.ToLower(strings.TrimPrefix(t.GetKind().String(), "TOKEN_KIND_"))
		rows = append(rows, []cell{
			{Line(t.GetTokenId()), bold}, {kind, ""}, {Line(t.GetName()), ""}, {Line(t.GetPrincipal().GetSubject()), ""}, {rights, ""},
			{Duration(max(t.GetExpiresAt().AsTime().Sub(v.Now), 0)), dim},
		})
	}
	return v.table([]string{"TOKEN-ID", "KIND", "NAME", "SUBJECT", "ROLES", "ENDS IN"}, 32, rows)
}

func rolesOf(p *tooldv1.Principal) string {
	var names []string
	for _, r := range p.GetRoles() {
		names = append(names, strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_")))
	}
	return strings.Join(names, ",")
}
