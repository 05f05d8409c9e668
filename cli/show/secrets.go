package show

import (
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Secrets lists the secrets with the tools that may use them. Below the table it explains why some cannot be read.
func (v View) Secrets(secrets []*tooldv1.Secret) string {
	rows := make([][]cell, 0, len(secrets))
	var wrong strings.Builder
	for _, s := range secrets {
		state, age := cell{"not read yet", dim}, ""
		if s.GetRead() != nil {
			state, age = cell{"good", good}, v.age(s.GetRead())
		}
		if s.GetProblem() != "" {
			state = cell{"cannot be read", bad}
			wrong.WriteString("  " + v.paint(bad, Line(s.GetName())) + "  " + Line(s.GetProblem()) + "\n")
		}
		rows = append(rows, []cell{{Line(s.GetName()), bold}, {Line(s.GetBackend() + " " + s.GetPlace()), ""}, state, {age, dim}, {allowed(s.GetAllow()), ""}})
	}
	text := v.table([]string{"SECRET", "FROM", "STATE", "READ", "FOR"}, 32, rows)
	if wrong.Len() > 0 {
		text += "\ncannot be read:\n" + wrong.String() // the table has no room for the whole message
	}
	return text
}

// allowed lists the tools that may use a secret.
func allowed(list []*tooldv1.SecretAllow) string {
	if len(list) == 0 {
		return "nobody"
	}
	var all []string
	for _, a := range list {
		text := strings.Join(a.GetTools(), ",")
		if len(a.GetParameters()) > 0 {
			text += " (" + strings.Join(a.GetParameters(), ",") + ")"
		}
		if len(a.GetNamespaces()) > 0 {
			text += " in " + strings.Join(a.GetNamespaces(), ",")
		}
		all = append(all, text)
	}
	return Line(strings.Join(all, "; "))
}
