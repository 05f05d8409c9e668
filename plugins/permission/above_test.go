package permission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// A subagent was started in a mode. The test checks that the restrictions of this mode apply to the subagent's calls, and that its
// permissions do not. A forged or very long list of parents causes no failure.
func TestModesAbove(t *testing.T) {
	const file = `
rules:
  - {action: allow, tools: [open]}
  - {action: ask, tools: [asked]}
  - {action: ask always, tools: [always]}
modes:
  deploy:
    default: {CONFIRM: allow}
    rules: [{action: allow, tools: [kubectl, asked, always]}]
  careful:
    rules: [{action: ask, tools: [open], count: 2}, {action: deny, tools: [write]}]
  closed: {default: {CONFIRM: deny}}
`
	rules, err := permission.Parse("r", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, own, tool string
		above           []string
		want            string
	}{
		{"an allow", "", "kubectl", []string{"deploy"}, "SUSPEND"},
		{"an allow over an ask behind it", "", "asked", []string{"deploy"}, "SUSPEND"},
		{"an allow over an ask always behind it", "", "always", []string{"deploy"}, "SUSPEND"},
		{"a default that allows", "", "plain", []string{"deploy"}, "SUSPEND"},
		{"an allow where it was chosen", "deploy", "kubectl", nil, "ALLOW"},
		{"an allow where it was chosen, too", "deploy", "kubectl", []string{"deploy"}, "ALLOW"},
		{"an ask", "", "open", []string{"careful"}, "SUSPEND"},
		{"a deny", "", "write", []string{"careful"}, "DENY"},
		{"a deny under an own mode", "deploy", "write", []string{"careful"}, "DENY"},
		{"a default that denies", "", "plain", []string{"closed"}, "DENY"},
		{"a default that denies under an own allow", "deploy", "kubectl", []string{"closed"}, "DENY"},
		{"what it does not name", "", "open", []string{"deploy"}, "ALLOW"},
		{"several, the strictest counts", "", "kubectl", []string{"deploy", "closed", "careful"}, "DENY"},
		{"one many times", "", "open", slices.Repeat([]string{"deploy"}, 100), "ALLOW"},
		{"many with own ones", "deploy", "open", []string{"deploy", "careful", "closed", "careful", "deploy"}, "SUSPEND"},
		{"one that is gone", "", "open", []string{"gone"}, "DENY"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := permission.New(permission.Config{
				Rules: rules, Modes: modes{"run": tt.own, "thread": tt.own}, Above: func(*hook.Input) []string { return tt.above },
			})
			in := input(tt.tool, tool.Confirm)
			in.Run = tool.Run{ID: "run", Thread: "thread"}
			v := check(t, g, in)
			if got := kind(v); got != tt.want {
				t.Errorf("verdict = %s, want %s: %s", got, tt.want, g.Explain(in).Why)
			}
		})
	}
	g := permission.New(permission.Config{Rules: rules, Above: func(*hook.Input) []string { return []string{"careful"} }})
	in := input("open", tool.Confirm)
	e := g.Explain(in)
	if e.Action != "ask" || e.Count != 2 || !strings.Contains(e.Layer, "careful") || len(e.Tried) != 2 {
		t.Errorf("explained as %+v", e)
	}
}
