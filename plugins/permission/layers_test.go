package permission_test

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// modes are the chosen modes, by run or thread ID.
type modes map[string]string

func (m modes) Modes(_, run, thread string) (ofRun, ofThread string) { return m[run], m[thread] }

// A modelRule is a simplified rule for the reference implementation naive: a glob for the ID, an optional condition on the member p, and an
// optional tier.
type modelRule struct {
	name, action, id, value string
	tier                    string
	number                  int
}

func (r *modelRule) text() string {
	pattern := r.id
	if r.value != "" {
		pattern += fmt.Sprintf(`(p = "%s")`, r.value)
	}
	text := fmt.Sprintf("{name: %s, action: %s, tools: ['%s']", r.name, r.action, pattern)
	if r.tier != "" {
		text += ", tiers: [" + r.tier + "]"
	}
	return text + "}"
}

func (r *modelRule) holds(id, value string, tier tool.Tier) bool {
	idHolds, _ := path.Match(r.id, id)
	if r.action == "allow" && r.tier == "" && tier == tool.Escalate {
		return false
	}
	return idHolds && (r.value == "" || r.value == value) && (r.tier == "" || r.tier == string(tier))
}

// moreSpecific compares rules of one action as the documentation describes it.
func moreSpecific(a, b modelRule) int {
	rank := func(r modelRule) []int {
		spelled := len(strings.ReplaceAll(r.id, "*", ""))
		if !strings.Contains(r.id, "*") {
			spelled += 100
		}
		looks, tiers := 0, 0
		if r.value != "" {
			looks = 1
		}
		if r.tier != "" {
			tiers = 1
		}
		return []int{spelled, looks, tiers, -r.number}
	}
	return slices.Compare(rank(b), rank(a))
}

// naive is a simple reference implementation that decides as the documentation describes it: a block anywhere, the nearest deny, else the
// nearest layer that names the call. In that layer, ask always beats ask, and ask beats allow. The nearest layer comes first in layers.
func naive(layers [][]modelRule, id, value string, tier tool.Tier) (action, rule string) {
	most := func(rules []modelRule, action string) *modelRule {
		var held []modelRule
		for _, r := range rules {
			if r.action == action && r.holds(id, value, tier) {
				held = append(held, r)
			}
		}
		if len(held) == 0 {
			return nil
		}
		slices.SortFunc(held, moreSpecific)
		return &held[0]
	}
	for _, action := range []string{"block", "deny"} {
		for _, rules := range layers {
			if r := most(rules, action); r != nil {
				return action, r.name
			}
		}
	}
	for _, rules := range layers {
		for _, action := range []string{"ask always", "ask", "allow"} {
			if r := most(rules, action); r != nil {
				return action, r.name
			}
		}
	}
	if tier == tool.Observe {
		return "allow", ""
	}
	return "ask", ""
}

func TestOrderAndLayersAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := 0
		rule := rapid.Custom(func(t *rapid.T) modelRule {
			number++
			return modelRule{
				name: fmt.Sprintf("r%d", number), number: number,
				action: rapid.SampledFrom([]string{"allow", "ask", "ask always", "deny", "block", "allow", "ask", "allow"}).Draw(t, "action"),
				id:     rapid.SampledFrom([]string{"*", "read*", "r*", "read_file", "write", "*e"}).Draw(t, "id"),
				value:  rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "value"),
				tier:   rapid.SampledFrom([]string{"", "", "OBSERVE", "CONFIRM", "ESCALATE"}).Draw(t, "tier"),
			}
		})
		layer := func(name string) []modelRule { return rapid.SliceOfN(rule, 0, 4).Draw(t, name) }
		operator, namespace, thread, run := layer("operator"), layer("namespace"), layer("thread"), layer("run")
		file := "rules:" + list(operator, 2) + "namespaces:\n  default:\n    rules:" + list(namespace, 6) +
			"modes:\n  forthread:\n    rules:" + list(thread, 6) + "  forrun:\n    rules:" + list(run, 6)
		rules, err := permission.Parse("r", []byte(file))
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		layers := [][]modelRule{namespace, operator}
		chosen := modes{}
		if rapid.Bool().Draw(t, "thread has a mode") {
			chosen["thread"] = "forthread"
			layers = slices.Concat([][]modelRule{thread}, layers)
		}
		if rapid.Bool().Draw(t, "run has a mode") {
			chosen["run"] = "forrun"
			layers = slices.Concat([][]modelRule{run}, layers)
		}
		g := permission.New(permission.Config{Rules: rules, Modes: chosen})
		for range 4 {
			id := rapid.SampledFrom([]string{"read_file", "write", "x"}).Draw(t, "tool")
			value := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "p")
			tier := rapid.SampledFrom([]tool.Tier{tool.Observe, tool.Confirm, tool.Escalate}).Draw(t, "tier of the call")
			in := input(id, tier)
			in.Arguments = tool.NewArguments("", map[string]any{"p": value})
			in.Run = tool.Run{ID: "run", Thread: "thread"}
			action, name := naive(layers, id, value, tier)
			if got := g.Explain(in); got.Action != action || got.Rule != name {
				t.Fatalf("%s %s %s: %s by %q, the model says %s by %q\n%s", id, value, tier, got.Action, got.Rule, action, name, file)
			}
			want := map[string]string{"allow": "ALLOW", "ask": "SUSPEND", "ask always": "SUSPEND", "deny": "DENY", "block": "BLOCK"}[action]
			v, err := g.Check(t.Context(), in)
			if err != nil || kind(v) != want {
				t.Fatalf("verdict %s (%v), explained as %s", kind(v), err, action)
			}
		}
	})
}

func list(rules []modelRule, indent int) string {
	if len(rules) == 0 {
		return " []\n"
	}
	var b strings.Builder
	for _, r := range rules {
		b.WriteString("\n" + strings.Repeat(" ", indent) + "- " + r.text())
	}
	return b.String() + "\n"
}

func TestLayers(t *testing.T) {
	const file = `
default: {CONFIRM: deny}
rules:
  - {name: push, action: ask always, tools: [push]}
  - {name: never, action: deny, tools: [never]}
  - {name: list, action: allow, tools: [list]}
namespaces:
  team:
    default: {CONFIRM: ask}
    rules:
      - {name: team push, action: allow, tools: [push, never]}
      - {name: team list, action: deny, tools: [list]}
`
	tests := []struct{ namespace, tool, want string }{
		{"default", "push", "SUSPEND"},
		{"team", "push", "ALLOW"}, // the nearer layer decides
		{"team", "never", "DENY"}, // a deny in any layer decides
		{"team", "list", "DENY"},  // a deny in any layer decides
		{"default", "list", "ALLOW"},
		{"default", "other", "DENY"}, // the default decides
		{"team", "other", "SUSPEND"}, // the nearest default decides
	}
	for _, tt := range tests {
		in := input(tt.tool, tool.Confirm)
		in.Namespace = tt.namespace
		if got := kind(check(t, gate(t, file), in)); got != tt.want {
			t.Errorf("%s in %s: verdict = %s, want %s", tt.tool, tt.namespace, got, tt.want)
		}
	}
}

func TestModes(t *testing.T) {
	const file = `
unattended: wait
rules:
  - {action: ask, tools: [ask]}
  - {action: ask, tools: [two], count: 2}
  - {action: ask, tools: [eyes], four_eyes: true}
  - {action: ask always, tools: [always]}
  - {action: deny, tools: [deny]}
  - {action: block, tools: [block]}
modes:
  night:
    chosen_by: [caller]
    default: {CONFIRM: deny}
    rules:
      - {action: allow, tools: [ask, always, deny]}
      - {action: deny, tools: [plain]}
`
	edit := func(d *tool.Description) { d.Kind, d.Locations = tool.KindEdit, []tool.Location{{Path: "a"}} }
	tests := []struct {
		name, ofRun, ofThread, tool string
		effects                     tool.Effects
		describe                    func(*tool.Description)
		want                        string
	}{
		{"no mode", "", "", "ask", tool.Effects{}, nil, "SUSPEND"},
		{"default", "default", "", "ask", tool.Effects{}, nil, "SUSPEND"},
		{"plan", "plan", "", "ask", tool.Effects{}, nil, "DENY"},
		{"plan, read-only", "plan", "", "plain", tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}, nil, "ALLOW"},
		{"plan, read-only and asked", "plan", "", "ask", tool.Effects{Mutability: tool.ReadOnly}, nil, "SUSPEND"},
		{"plan of the thread", "", "plan", "ask", tool.Effects{}, nil, "DENY"},
		{"plan of the thread stays under bypass of the run", "bypass", "plan", "ask", tool.Effects{}, nil, "DENY"},
		{"plan and a block", "plan", "", "block", tool.Effects{}, nil, "BLOCK"},
		{"bypass, asked", "bypass", "", "ask", tool.Effects{}, nil, "ALLOW"},
		{"bypass, by default", "bypass", "", "plain", tool.Effects{Safety: tool.SafetyDestructive}, nil, "ALLOW"},
		{"bypass of the thread", "", "bypass", "ask", tool.Effects{}, nil, "ALLOW"},
		{"the run's mode counts in place of the thread's", "default", "bypass", "ask", tool.Effects{}, nil, "SUSPEND"},
		{"bypass, ask always", "bypass", "", "always", tool.Effects{}, nil, "SUSPEND"},
		{"bypass, four eyes", "bypass", "", "eyes", tool.Effects{}, nil, "SUSPEND"},
		{"bypass, two votes", "bypass", "", "two", tool.Effects{}, nil, "SUSPEND"},
		{"bypass, ESCALATE", "bypass", "", "plain", tool.Effects{Tier: tool.Escalate}, nil, "SUSPEND"},
		{"bypass, denied", "bypass", "", "deny", tool.Effects{}, nil, "DENY"},
		{"bypass, blocked", "bypass", "", "block", tool.Effects{}, nil, "BLOCK"},
		{"accept_edits, an edit", "accept_edits", "", "ask", tool.Effects{}, edit, "ALLOW"},
		{"accept_edits, no edit", "accept_edits", "", "ask", tool.Effects{}, nil, "SUSPEND"},
		{"accept_edits, an edit of nothing that is named", "accept_edits", "", "ask", tool.Effects{}, func(d *tool.Description) { d.Kind = tool.KindEdit }, "SUSPEND"},
		{"accept_edits, a description that failed", "accept_edits", "", "ask", tool.Effects{}, func(d *tool.Description) { edit(d); d.Degraded = true }, "SUSPEND"},
		{"accept_edits, destructive", "accept_edits", "", "ask", tool.Effects{Safety: tool.SafetyDestructive}, edit, "SUSPEND"},
		{"accept_edits, over the network", "accept_edits", "", "ask", tool.Effects{OpenWorld: true}, edit, "SUSPEND"},
		{"accept_edits, ask always", "accept_edits", "", "always", tool.Effects{}, edit, "SUSPEND"},
		{"accept_edits, denied", "accept_edits", "", "deny", tool.Effects{}, edit, "DENY"},
		{"a rule set, an ask", "night", "", "ask", tool.Effects{}, nil, "ALLOW"},
		{"a rule set, ask always of a layer behind", "night", "", "always", tool.Effects{}, nil, "ALLOW"},
		{"a rule set beats no deny", "night", "", "deny", tool.Effects{}, nil, "DENY"},
		{"a rule set's deny", "night", "", "plain", tool.Effects{}, nil, "DENY"},
		{"a rule set's default", "night", "", "x", tool.Effects{}, nil, "DENY"},
		{"a rule set of the thread under bypass of the run", "bypass", "night", "plain", tool.Effects{}, nil, "DENY"},
		{"a mode that was taken away", "gone", "", "plain", tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}, nil, "DENY"},
		{"a mode that was taken away, and a block", "gone", "", "block", tool.Effects{}, nil, "BLOCK"},
	}
	rules, err := permission.Parse("r", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := permission.New(permission.Config{Rules: rules, Modes: modes{"run": tt.ofRun, "thread": tt.ofThread}})
			in := input(tt.tool, tool.Confirm)
			in.Assessment = tt.effects
			in.Run = tool.Run{ID: "run", Thread: "thread"}
			if tt.describe != nil {
				tt.describe(&in.Description)
			}
			if got := kind(check(t, g, in)); got != tt.want {
				t.Errorf("verdict = %s, want %s: %s", got, tt.want, g.Explain(in).Why)
			}
		})
	}
}

func TestMayChoose(t *testing.T) {
	rules, err := permission.Parse("r", []byte("modes:\n  night: {chosen_by: [caller]}\n  day: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for mode, who := range map[string]string{
		"default": "caller delegate approver operator", "plan": "caller delegate approver operator", "accept_edits": "approver operator",
		"bypass": "operator", "night": "caller", "day": "operator", "other": "",
	} {
		for _, role := range []string{"caller", "delegate", "approver", "operator", "viewer", "worker"} {
			may, exists := rules.MayChoose(mode, tool.Principal{Roles: []string{role}})
			if want := slices.Contains(strings.Fields(who), role); may != want {
				t.Errorf("%s may choose %s = %t", role, mode, may)
			}
			if exists != (who != "") {
				t.Errorf("%s exists = %t", mode, exists)
			}
		}
	}
}

func TestUnattended(t *testing.T) {
	yes := &tool.Decision{Action: tool.Resume, DecidedBy: tool.Principal{Subject: "bob", Roles: []string{"approver"}}}
	tests := []struct {
		name, rules string
		answer      *tool.Decision
		want        string
	}{
		{"a question", "", nil, "DENY"},
		{"a question that waits", "unattended: wait", nil, "SUSPEND"},
		{"denied in so many words", "unattended: deny", nil, "DENY"},
		{"ask always", `rules: [{action: ask always, tools: [x]}]`, nil, "DENY"},
		{"an answer that was given", "", yes, "ALLOW"},
		{"nothing to ask", `rules: [{action: allow, tools: [x]}]`, nil, "ALLOW"},
		{"a block", `rules: [{action: block, tools: [x]}]`, nil, "BLOCK"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := input("x", tool.Confirm)
			in.Run.Unattended = true
			v := check(t, gate(t, tt.rules), in.WithAnswer(tt.answer))
			if got := kind(v); got != tt.want {
				t.Errorf("verdict = %s, want %s", got, tt.want)
			}
			if tt.want == "DENY" && !strings.Contains(v.Result().ModelText(), "no person is present") {
				t.Errorf("the model reads %q", v.Result().ModelText())
			}
			if tt.want == "DENY" && v.Result().Error.Reason != "UNATTENDED" {
				t.Errorf("reason = %q", v.Result().Error.Reason)
			}
		})
	}
}

// The test checks that a tool is hidden only when every possible call of it is denied.
func TestHiddenLooksAtConditions(t *testing.T) {
	tests := []struct {
		name, rules, namespace string
		want                   bool
	}{
		{"denied with some arguments", `rules: [{action: deny, tools: ["write(a)"]}]`, "", false},
		{"denied by an expression", `rules: [{action: deny, tools: [write], when: "true"}]`, "", false},
		{"blocked with some arguments, denied with all", `rules: [{action: deny, tools: [write]}, {action: block, tools: ["write(a)"]}]`, "", false},
		{"denied in the namespace", `namespaces: {team: {rules: [{action: deny, tools: [write]}]}}`, "team", true},
		{"denied in another", `namespaces: {team: {rules: [{action: deny, tools: [write]}]}}`, "default", false},
		{"denied by default, allowed with some arguments", "default: {CONFIRM: deny, ESCALATE: deny}\nrules: [{action: ask, tools: [\"write(a)\"]}]", "", false},
		{"denied by default, allowed in a mode", "default: {CONFIRM: deny, ESCALATE: deny}\nmodes: {m: {rules: [{action: ask, tools: [write]}]}}", "", false},
		{"denied by default, another default in a mode", "default: {CONFIRM: deny, ESCALATE: deny}\nmodes: {m: {default: {CONFIRM: ask}}}", "", false},
		{"denied by default, with a mode for other tools", "default: {CONFIRM: deny, ESCALATE: deny}\nmodes: {m: {rules: [{action: ask, tools: [read]}]}}", "", true},
		{"denied by default, but not in the namespace", "default: {CONFIRM: deny, ESCALATE: deny}\nnamespaces: {team: {default: {CONFIRM: ask}}}", "team", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := tool.Principal{Subject: "alice", Namespace: cmp.Or(tt.namespace, "default")}
			if got := gate(t, tt.rules).Hidden(p, descriptor("write")); got != tt.want {
				t.Errorf("Hidden = %t, want %t", got, tt.want)
			}
		})
	}
}
