package permission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

func TestExplain(t *testing.T) {
	const file = `rules:
  - name: writing
    action: allow
    tools: ["write(src/*)"]
  - {name: ci, action: deny, tools: ["write(.github/*)"]}
  - {name: others, action: deny, tools: [write], callers: [bob]}
  - {name: web, action: deny, tools: [fetch]}
namespaces:
  default:
    rules:
      - {name: looked at, action: ask, tools: [write], when: 'arguments.content.size() > 3', four_eyes: true, count: 2}
`
	g := gate(t, file)
	got := g.Explain(callOf(t, "write", `{"path":"src/a","content":"long"}`))
	want := permission.Explanation{
		Action: "ask", Rule: "looked at", Line: 11, Column: 9, Pattern: "write", Layer: "namespace default",
		Why:       "looked at: the most specific ask that holds in the nearest layer that names this call",
		Approvers: []string{"approver"}, Count: 2, FourEyes: true,
		Tried: []permission.Tried{
			{Layer: "namespace default", Rule: "looked at", Line: 11, Column: 9, Action: "ask", Pattern: "write", Holds: true},
			{Layer: "operator", Rule: "ci", Line: 5, Column: 5, Action: "deny", Pattern: "write(.github/*)", WhyNot: "for other arguments"},
			{Layer: "operator", Rule: "others", Line: 6, Column: 5, Action: "deny", Pattern: "write", WhyNot: "for other callers"},
			{Layer: "operator", Rule: "writing", Line: 2, Column: 5, Action: "allow", Pattern: "write(src/*)", Holds: true},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("explanation (-want +got):\n%s", d)
	}
	for arguments, why := range map[string]string{
		`{"path":"src/a","content":"x"}`:     "writing: the most specific allow that holds",
		`{"path":".github/x","content":"x"}`: "ci: the most specific deny that holds; refusals count in every layer",
		`{"path":"x","content":"x"}`:         "no rule names this call, and the default for CONFIRM is ask",
	} {
		if got := g.Explain(callOf(t, "write", arguments)).Why; got != why {
			t.Errorf("%s: %q, want %q", arguments, got, why)
		}
	}
}

func TestExplainModesAndKeptAnswers(t *testing.T) {
	source := &kept{rules: []permission.RememberedRule{{ID: "r1", Option: `command "git"`, By: tool.Principal{Subject: "bob", Roles: []string{"approver"}}}}}
	in := callOf(t, "bash", command("git status"))
	in.Run = tool.Run{ID: "run"}
	for mode, why := range map[string]string{
		"":       "the answer r1 was kept and holds for this call",
		"bypass": "the mode bypass answers what one person could have answered",
		"plan":   "the mode plan allows only calls that change nothing",
		"gone":   `the mode "gone" was chosen and does not exist`,
	} {
		g := permission.New(permission.Config{Remembered: source, Modes: modes{"run": mode}, Commands: map[string]permission.Splitter{"bash": split}})
		if got := g.Explain(in).Why; got != why {
			t.Errorf("mode %q: %q, want %q", mode, got, why)
		}
		reasons := map[string]string{"": "the kept answer r1", "bypass": "the mode bypass"}
		if v := check(t, g, in); v.Kind() == hook.KindAllow && v.Reason() != reasons[mode] {
			t.Errorf("mode %q: the record says %q, want %q", mode, v.Reason(), reasons[mode])
		}
	}
}

func TestWarnings(t *testing.T) {
	deep := &tool.Descriptor{ID: "deep", Parameters: json.RawMessage(`{
		"type":"object","$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"child":{"$ref":"#/$defs/node"}}}},
		"properties":{"node":{"$ref":"#/$defs/node"},"free":{"type":"object"},"map":{"type":"object","additionalProperties":{"type":"object","properties":{"x":{}}}},
			"list":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}}},"pair":{"type":"array","prefixItems":[{"type":"string"}],"items":false},
			"either":{"anyOf":[{"type":"string"},{"type":"object","properties":{"a":{}}}]},"open":true,
			"loose":{"type":"object","properties":{"a":{}},"additionalProperties":true}}}`)}
	tools := []*tool.Descriptor{descriptor("bash"), descriptor("write"), descriptor("fetch"), {ID: "bare"}, deep}
	tests := []struct{ pattern, want string }{
		{`bash(command = "x")`, ""}, {`bash(comand = "x")`, "comand, which no tool that it is for has (bash)"},
		{`*(path = "x")`, ""}, {`*(nothing = "x")`, "(bash, write, fetch, bare, deep)"},
		{`mcp_*(nothing = "x")`, ""}, // tools come and go
		{`bash(git *)`, ""}, {`bare(x)`, "no tool that bare names has a primary argument"},
		{`deep(node.child.child.name = "x")`, ""}, {`deep(node.child.nam = "x")`, "node.child.nam,"},
		{`deep(free.anything.at[3].all = "x")`, ""}, {`deep(map.any.x = "x")`, ""}, {`deep(map.any.y = "x")`, "map.any.y,"},
		{`deep(list[*].k = "x")`, ""}, {`deep(list[0].k = "x")`, ""}, {`deep(list[*].j = "x")`, "list[*].j,"}, {`deep(list.k = "x")`, "list.k,"},
		{`deep(pair[0] = "x")`, ""}, {`deep(pair[1] = "x")`, "pair[1],"}, {`deep(either.a = "x")`, ""}, {`deep(either.b = "x")`, "either.b,"},
		{`deep(loose.a = "x")`, ""}, {`deep(loose.b = "x")`, "loose.b,"}, // allowed is not the same as known
		{`deep(open.x[1] = "x")`, ""}, {`deep(["node"]["a b"] = "x")`, `node["a b"],`},
		{`bash(command =~ "git")`, "which also holds for longer texts"}, {`bash(command =~ "^git$")`, ""},
		{`/bash/`, "which also holds for longer ids"}, {`/^bash$/`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			file := "rules:\n  - {name: n, action: allow, tools: [" + jsonOf(tt.pattern) + "]}\n"
			warned(t, file, tools, tt.want)
		})
	}
	for expression, want := range map[string]string{
		`arguments.command == "x"`: "", `arguments.comand == "x"`: "comand,", `arguments["comand"] == "x"`: "comand,", `size(arguments) == 1`: "",
		`arguments.list[0].k == "x"`: "", `arguments.list[0].j == "x"`: "list[0].j,", `arguments.list.exists(e, e.j == 1)`: "", `call.tool == "x"`: "",
	} {
		warned(t, "rules:\n  - {name: n, action: deny, when: "+jsonOf(expression)+"}\n", tools, want)
	}
}

func warned(t *testing.T, file string, tools []*tool.Descriptor, want string) {
	t.Helper()
	rules, err := permission.Parse("r", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	got := rules.Warnings(tools)
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("%s: warned: %+v", file, got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0].Text, want) || !strings.HasPrefix(got[0].Text, "n: ") || got[0].Line != 2):
		t.Errorf("%s: warnings = %+v, want one with %q", file, got, want)
	}
}
