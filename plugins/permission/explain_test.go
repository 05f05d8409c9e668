package permission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
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
		Why:       "looked at: the most specific ask that holds in the nearest layer with a rule for this call",
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
		`{"path":"x","content":"x"}`:         "no rule matches this call, and the default for CONFIRM is ask",
	} {
		if got := g.Explain(callOf(t, "write", arguments)).Why; got != why {
			t.Errorf("%s: %q, want %q", arguments, got, why)
		}
	}
}

func TestExplainModesAndKeptAnswers(t *testing.T) {
	source := &kept{rules: []*call.Rule{{ID: "r1", Option: `command "git"`, By: tool.Principal{Subject: "bob", Roles: []string{"approver"}}}}}
	in := callOf(t, "bash", command("git status"))
	in.Run = tool.Run{ID: "run"}
	for mode, why := range map[string]string{
		"":       "the remembered answer r1 applies to this call",
		"bypass": "the mode bypass approves calls that one person could approve",
		"plan":   "the mode plan allows only calls that change nothing",
		"gone":   `the chosen mode "gone" does not exist`,
	} {
		g := permission.New(permission.Config{Remembered: source, Modes: modes{"run": mode}, Commands: map[string]permission.Splitter{"bash": split}})
		if got := g.Explain(in).Why; got != why {
			t.Errorf("mode %q: %q, want %q", mode, got, why)
		}
		reasons := map[string]string{"": "the remembered answer r1", "bypass": "the mode bypass"}
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
		{`bash(command = "x")`, ""}, {`bash(comand = "x")`, "comand, which none of its tools has (bash)"},
		{`*(path = "x")`, ""}, {`*(nothing = "x")`, "(bash, write, fetch, bare, deep)"},
		{`mcp_*(nothing = "x")`, ""}, // The tool may be registered later.
		{`bash(git *)`, ""}, {`bare(x)`, "no tool that bare names has a primary argument"},
		{`deep(node.child.child.name = "x")`, ""}, {`deep(node.child.nam = "x")`, "node.child.nam,"},
		{`deep(free.anything.at[3].all = "x")`, ""}, {`deep(map.any.x = "x")`, ""}, {`deep(map.any.y = "x")`, "map.any.y,"},
		{`deep(list[*].k = "x")`, ""}, {`deep(list[0].k = "x")`, ""}, {`deep(list[*].j = "x")`, "list[*].j,"}, {`deep(list.k = "x")`, "list.k,"},
		{`deep(pair[0] = "x")`, ""}, {`deep(pair[1] = "x")`, "pair[1],"}, {`deep(either.a = "x")`, ""}, {`deep(either.b = "x")`, "either.b,"},
		{`deep(loose.a = "x")`, ""}, {`deep(loose.b = "x")`, "loose.b,"}, // the schema allows both members but describes only one
		{`deep(open.x[1] = "x")`, ""}, {`deep(["node"]["a b"] = "x")`, `node["a b"],`},
		{`bash(command =~ "git")`, "which also matches longer texts"}, {`bash(command =~ "^git$")`, ""},
		{`/bash/`, "which also matches longer ids"}, {`/^bash$/`, ""},
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

// The test checks the warnings for a rule that compares an argument with a value that its schema does not allow. Such a rule is never true,
// always true, or cannot be evaluated.
func TestWarningsOfTypes(t *testing.T) {
	typed := &tool.Descriptor{ID: "typed", Parameters: json.RawMessage(`{
		"type":"object","additionalProperties":false,"$defs":{"count":{"type":"integer"}},
		"properties":{"s":{"type":"string"},"n":{"type":"number"},"i":{"$ref":"#/$defs/count"},"b":{"type":"boolean"},"o":{"type":"object"},
			"l":{"type":"array","items":{"enum":["x","y"]}},"e":{"type":"string","enum":["fast","slow"]},"c":{"const":3},"any":{},
			"sn":{"type":["string","null"]},"or":{"anyOf":[{"type":"integer"},{"type":"boolean"}]},"and":{"allOf":[{"type":["string","integer"]},{"type":["integer","null"]}]},
			"open":{"type":"object","additionalProperties":{"type":"boolean"}},"re":{"type":"object","patternProperties":{"^a":{"type":"string"}}},
			"pair":{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}},"path":{"enum":["./a"]}}}`)}
	other := &tool.Descriptor{ID: "other", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"string"}}}`)}
	marked := &tool.Descriptor{ID: "marked", Annotations: map[string]string{"primary_argument": "n"}, Parameters: typed.Parameters}
	tools := []*tool.Descriptor{typed, other, marked}
	for condition, want := range map[string]string{
		`s = "5"`: "", `s ~ "*"`: "", `any ~ "x"`: "", `sn = "x"`: "", `sn = "null"`: "",
		`n = "5"`: "", `n = "five"`: `n = "five" never holds: n is a number (typed)`, `n != "five"`: `n != "five" always holds`, `n ~ "5*"`: "", `n ~ "five*"`: "never holds",
		`n ~ "[f-k]"`: "never holds", `n ~ "[4-6]?"`: "", `n =~ "five"`: "", // Warnings does not analyze regular expressions
		`i = "5"`: "", `i = "5.0"`: "", `i = "5.5"`: "i is an integer",
		`b = "true"`: "", `b = "yes"`: "b is true or false", `b ~ "t*"`: "", `b ~ "y*"`: "b is true or false", `b =~ "^(yes|no)$"`: "b is true or false", `b !~ "y*"`: "always holds",
		`o ~ "*secret*"`: "", `o ~ "secret*"`: "o is an object", `o ~ "{*"`: "", `o = "{\"a\":1}"`: "", `o = "x"`: "o is an object", `o = "{ \"a\":1}"`: "o is an object",
		`l ~ "x*"`: "l is a list, whose elements are [*]", `l ~ "*x"`: "l is a list", `l ~ "[[]*"`: "", `l[*] = "x"`: "", `l[*] = "z"`: `l[*] is one of "x", "y"`, `l[1] = "z"`: "l[1] is one of",
		`e = "fast"`: "", `e = "fasst"`: `e is one of "fast", "slow"`, `e ~ "f*"`: "", `e !~ "x*"`: `e !~ "x*" always holds`, `e =~ "^x"`: "never holds", `c = "3.0"`: "", `c = "4"`: "c is 3",
		`or = "true"`: "", `or = "7"`: "", `or = "x"`: "or is an integer or true or false", `and = "7"`: "", `and = "x"`: "and is an integer or null",
		`open.k = "true"`: "", `open.k = "x"`: "open.k is true or false", `re.a = "x"`: "", `pair[0] = "x"`: "", `pair[1] = "x"`: "pair[1] is an integer", `pair[*] = "x"`: "",
		`path = "a"`: "", // a path is compared in several forms
		`gone = "x"`: "names the argument gone, which none of its tools has (typed)",
	} {
		for _, action := range []string{"allow", "deny"} {
			if action == "allow" && strings.Contains(condition, "=~") {
				continue // Another warning is expected in this case.
			}
			warned(t, "rules:\n  - {name: n, action: "+action+", tools: ["+jsonOf("typed("+condition+")")+"]}\n", tools, want)
		}
	}
	for pattern, want := range map[string]string{`marked(5*)`: "", `marked(five)`: "n is a number (marked)", `*(n = "five")`: "", `*(b = "x")`: "b is true or false (typed, marked)"} {
		warned(t, "rules:\n  - {name: n, action: deny, tools: ["+jsonOf(pattern)+"]}\n", tools, want)
	}
	for expression, want := range map[string]string{
		`arguments.s == "5"`: "", `arguments.s == 5`: `s == 5 never holds: s is a text (typed)`, `5 == arguments.s`: "never holds", `arguments.s != 5`: "s != 5 always holds",
		`arguments.s > 5`: "s > 5 cannot be evaluated: s is a text", `5 > arguments.s`: "s < 5 cannot be evaluated", `arguments.n > 5`: "", `arguments.i >= 5.5`: "", `arguments.i == 5.0`: "",
		`arguments.n > "5"`: `n > "5" cannot be evaluated`, `arguments.b == true`: "", `arguments.b == "true"`: "b is true or false", `arguments.sn == null`: "", `arguments.s == null`: "never holds",
		`arguments.e in ["fast", "slow"]`: "", `arguments.e in ["fast", "fasst"]`: `e == "fasst" never holds`, `"x" in arguments.l`: "", `"x" in arguments.o`: "", `"rm" in arguments.s`: "in s cannot be evaluated",
		`arguments.s.startsWith("a")`: "", `arguments.n.startsWith("5")`: "n.startsWith cannot be evaluated: n is a number", `arguments.l[0] == "z"`: "l[0] is one of", `arguments["e"] == "x"`: "e is one of",
		`has(arguments.s) == true`: "", `size(arguments.s) == 5`: "", `string(arguments.n) == "5"`: "", `arguments.s == arguments.e`: "", `arguments.or == 5 || arguments.or == true`: "",
		`arguments.path == "a"`: "", `arguments.l.exists(e, e == 5)`: "", `arguments == {}`: "", `[1, 2][arguments.i] == 1`: "",
	} {
		warned(t, "rules:\n  - {name: n, action: deny, tools: [typed], when: "+jsonOf(expression)+"}\n", tools, want)
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
