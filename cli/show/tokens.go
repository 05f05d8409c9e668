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
			rights = "read-only " + rights
		}
		kind := strings.ToLower(strings.TrimPrefix(t.GetKind().String(), "TOKEN_KIND_"))
		rows = append(rows, []cell{
			{Line(t.GetTokenId()), bold}, {kind, ""}, {coarse(max(t.GetExpiresAt().AsTime().Sub(v.Now), 0)), dim},
			{Line(t.GetName()), ""}, {Line(t.GetPrincipal().GetSubject()), ""}, {rights, ""},
		})
	}
	return v.table([]string{"TOKEN-ID", "KIND", "ENDS IN", "NAME", "SUBJECT", "ROLES"}, 32, rows)
}

func rolesOf(p *tooldv1.Principal) string {
	var names []string
	for _, r := range p.GetRoles() {
		names = append(names, strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_")))
	}
	return strings.Join(names, ",")
}
