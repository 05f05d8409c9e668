package permission_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// descriptor returns a tool for tests. There is one for each sort of argument.
func descriptor(id string) *tool.Descriptor {
	schemas := map[string]string{
		"bash":  `{"type":"object","properties":{"timeout":{"type":"integer"},"command":{"type":"string"}},"required":["command"]}`,
		"write": `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`,
		"move":  `{"type":"object","properties":{"source":{"type":"string"},"destination":{"type":"string"}},"required":["source","destination"]}`,
		"fetch": `{"type":"object","properties":{"url":{"type":"string"},"headers":{"type":"object"}},"required":["url"]}`,
	}
	return &tool.Descriptor{ID: id, Source: "builtin", Parameters: json.RawMessage(schemas[id])}
}

// callOf returns a call with these arguments that needs approval.
func callOf(t testing.TB, id, arguments string) *hook.Input {
	t.Helper()
	in := input(id, tool.Confirm)
	in.Descriptor = descriptor(id)
	in.ToolDigest = "d1"
	v, err := call.ParseJSON(arguments, 0)
	if err != nil {
		t.Fatal(err)
	}
	in.Arguments = tool.NewArguments(arguments, v.(map[string]any))
	return in
}

// split is a Splitter without a shell parser. Semicolons separate parts, and a dollar sign makes a command unclear. The other spelling of a
// part has no directory before its first word.
func split(args tool.Arguments) (parts []permission.Part, known permission.Known) {
	known = permission.Whole
	for text := range strings.SplitSeq(args.String("command"), ";") {
		text = strings.TrimSpace(text)
		part := permission.Part{Text: text}
		if bare, found := strings.CutPrefix(text, "/bin/"); found {
			part = permission.Part{Text: bare, Also: []string{text}}
		}
		if strings.Contains(text, "$") {
			known = permission.Unclear
		}
		parts = append(parts, part)
	}
	return parts, known
}

func splitterOf(id string) permission.Splitter {
	if id == "bash" {
		return split
	}
	return nil
}

func command(text string) string {
	b, _ := json.Marshal(map[string]string{"command": text})
	return string(b)
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name, tool, arguments string
		want                  []string // expected options, in addition to the exact arguments
	}{
		{"a file", "write", `{"path":"src/server/a.go","content":""}`, []string{`path "src/server"`}},
		{"an absolute path", "write", `{"path":"/srv/x/a","content":""}`, []string{`path "/srv/x"`}},
		{"detours", "write", `{"path":"./src//server/./a.go","content":""}`, []string{`path "src/server"`}},
		{"a file at the root, which would be everything", "write", `{"path":"a.go","content":""}`, nil},
		{"a path that climbs", "write", `{"path":"src/../../a/b","content":""}`, nil},
		{"two paths", "move", `{"source":"a/b","destination":"c/d"}`, nil},
		{"a program", "bash", command("ls -la src"), []string{`command "ls"`}},
		{"a subcommand", "bash", command("git commit -m x"), []string{`command "git commit"`}},
		{"a subcommand alone", "bash", command("go test"), []string{`command "go test"`}},
		{"a path is no subcommand", "bash", command("cat src/a.go"), []string{`command "cat"`}},
		{"an interpreter", "bash", command("python3.12 -c x"), nil},
		{"a wrapper", "bash", command("env git commit"), nil},
		{"an absolute shell", "bash", command("/usr/bin/sh x"), nil},
		{"an assignment", "bash", command("PATH=. git status"), nil},
		{"a quoted program", "bash", command("'ls' x"), nil},
		{"an option as the program", "bash", command("-x"), nil},
		{"nothing", "bash", command("  "), nil},
		{"odd space", "bash", command("git\tcommit"), nil},
		{"a compound command", "bash", command("git status; ls"), nil},
		{"what does not parse", "bash", command("git $x"), nil},
		{"a URL", "fetch", `{"url":"https://Docs.RS:443/serde?x=1"}`, []string{`origin "https://docs.rs"`}},
		{"another port", "fetch", `{"url":"http://docs.rs:8080/"}`, []string{`origin "http://docs.rs:8080"`}},
		{"IPv6", "fetch", `{"url":"http://[::1]:80/"}`, []string{`origin "http://[::1]"`}},
		{"a user in the URL", "fetch", `{"url":"https://docs.rs@evil.test/"}`, nil},
		{"another scheme", "fetch", `{"url":"file:///etc/passwd"}`, nil},
		{"no URL", "fetch", `{"url":"docs.rs/x"}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := callOf(t, tt.tool, tt.arguments)
			got := permission.Options(in, splitterOf(tt.tool))
			if len(got) == 0 || !strings.HasPrefix(got[0], "exact sha256:") {
				t.Fatalf("options = %q, want the exact arguments first", got)
			}
			if d := cmp.Diff(tt.want, slices.Clip(got[1:]), cmp.Transformer("empty", func(s []string) string { return fmt.Sprint(s) })); d != "" {
				t.Errorf("options (-want +got):\n%s", d)
			}
			for _, option := range got {
				if !holds(t, option, in, splitterOf(tt.tool)) {
					t.Errorf("%s does not hold for the call that it was offered for", option)
				}
				if permission.Title(option) == option {
					t.Errorf("%s has no title", option)
				}
			}
		})
	}
}

// holds reports whether a gate allows the call because of the remembered option.
func holds(t *testing.T, option string, in *hook.Input, split permission.Splitter) bool {
	t.Helper()
	cfg := permission.Config{Remembered: &kept{rules: []*call.Rule{
		{ID: "r1", Option: option, By: tool.Principal{Subject: "bob", Roles: []string{"approver"}}},
	}}}
	if split != nil {
		cfg.Commands = map[string]permission.Splitter{in.Descriptor.ID: split}
	}
	return kind(check(t, permission.New(cfg), in)) == "ALLOW"
}

func TestNothingIsOfferedForWhatIsLookedAtEachTime(t *testing.T) {
	for _, effects := range []tool.Effects{
		{Tier: tool.Escalate}, {Tier: "LOW"}, {Safety: tool.SafetyDestructive}, {Safety: "AWFUL"},
	} {
		in := callOf(t, "bash", command("git commit"))
		option := permission.Options(in, split)[0]
		in.Assessment = effects
		if got := permission.Options(in, split); got != nil {
			t.Errorf("%+v: options = %q", effects, got)
		}
		if holds(t, option, in, split) {
			t.Errorf("%+v: an option that was kept for a milder call holds", effects)
		}
	}
}

// The test checks that a remembered answer does not cover a path with "..", an extended command or another origin (T04, T46, T48).
func TestKeptOptions(t *testing.T) {
	exact := permission.Options(callOf(t, "write", `{"path":"a","content":"b"}`), nil)[0]
	tests := []struct {
		option, tool, arguments string
		want                    bool
	}{
		{exact, "write", `{"content":"b","path":"a"}`, true}, // the order of members does not matter
		{exact, "write", `{"path":"a","content":"c"}`, false},
		{exact, "write", `{"path":"a","content":"b","x":null}`, false},
		{`path "src/a"`, "write", `{"path":"src/a/b/c"}`, true},
		{`path "src/a"`, "write", `{"path":"src/a"}`, true},
		{`path "src/a"`, "write", `{"path":"src/ab"}`, false},
		{`path "src/a"`, "write", `{"path":"/src/a/b"}`, false},
		{`path "src/a"`, "write", `{"path":"src/a/../b"}`, false},
		{`path "src/a"`, "write", `{"path":"src/a/x/../y"}`, false}, // A link could make this path lead elsewhere.
		{`path "src/a"`, "write", `{"path":"src/a\\..\\b"}`, false},
		{`path "src/a"`, "write", `{"path":["src/a"]}`, false},
		{`path "src/a"`, "write", `{}`, false},
		{`path "src/a"`, "move", `{"source":"src/a/x","destination":"/etc/x"}`, false},
		{`command "git commit"`, "bash", command("git commit"), true},
		{`command "git commit"`, "bash", command("git commit -m x"), true},
		{`command "git commit"`, "bash", command("git commit-tree x"), false},
		{`command "git commit"`, "bash", command("git  commit"), false},
		{`command "git commit"`, "bash", command("git commit; git commit -m x"), true},
		{`command "git commit"`, "bash", command("git commit; rm -rf /"), false},
		{`command "git commit"`, "bash", command("git commit $(rm -rf /)"), false},
		{`command "git commit"`, "write", `{"path":"git commit"}`, false},
		{`origin "https://docs.rs"`, "fetch", `{"url":"https://docs.rs/x"}`, true},
		{`origin "https://docs.rs"`, "fetch", `{"url":"http://docs.rs/x"}`, false},
		{`origin "https://docs.rs"`, "fetch", `{"url":"https://docs.rs.evil.test/x"}`, false},
		{`origin "https://docs.rs"`, "fetch", `{"url":"https://docs.rs@evil.test/x"}`, false},
		{`origin "https://docs.rs"`, "fetch", `{"url":"https://docs.rs:8443/x"}`, false},
		{`origin ""`, "fetch", `{"url":"x"}`, false},
		{`path ""`, "write", `{"path":""}`, false},
		{`command ""`, "bash", command(""), false},
		{`anything`, "write", `{}`, false},
		{``, "write", `{}`, false},
		{`path src`, "write", `{"path":"src/a"}`, false},
	}
	for _, tt := range tests {
		if got := holds(t, tt.option, callOf(t, tt.tool, tt.arguments), splitterOf(tt.tool)); got != tt.want {
			t.Errorf("%s for %s %s = %t, want %t", tt.option, tt.tool, tt.arguments, got, tt.want)
		}
	}
}

// kept contains remembered answers by tool digest.
type kept struct {
	rules []*call.Rule
	asked []call.RuleQuery
}

func (k *kept) Rules(q *call.RuleQuery) []*call.Rule {
	k.asked = append(k.asked, *q)
	if q.ToolDigest != "d1" {
		return nil
	}
	return k.rules
}

// TestRemembered checks that a remembered answer replaces an ask and nothing stronger, and applies only to the tool digest for which it was
// given (T63).
func TestRemembered(t *testing.T) {
	approver := tool.Principal{Subject: "bob", Roles: []string{"approver"}}
	tests := []struct {
		name, rules string
		change      func(*hook.Input, *call.Rule)
		want        string
	}{
		{"by default", "", nil, "ALLOW"},
		{"an ask", `rules: [{action: ask, tools: [bash]}]`, nil, "ALLOW"},
		{"a deny", `rules: [{action: deny, tools: [bash]}]`, nil, "DENY"},
		{"a block", `rules: [{action: block, tools: [bash]}]`, nil, "BLOCK"},
		{"four eyes", `rules: [{action: ask, tools: [bash], four_eyes: true}]`, nil, "SUSPEND"},
		{"ESCALATE", "", func(in *hook.Input, _ *call.Rule) { in.Assessment.Tier = tool.Escalate }, "SUSPEND"},
		{"DESTRUCTIVE", "", func(in *hook.Input, _ *call.Rule) { in.Assessment.Safety = tool.SafetyDestructive }, "SUSPEND"},
		{"a changed tool", "", func(in *hook.Input, _ *call.Rule) { in.ToolDigest = "d2" }, "SUSPEND"},
		{"kept by somebody who may not answer now", "approvers: [operator]", nil, "SUSPEND"},
		{"another pattern", "", func(_ *hook.Input, r *call.Rule) { r.Option = `command "git push"` }, "SUSPEND"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rule := call.Rule{ID: "r1", Option: `command "git commit"`, By: approver}
			in := callOf(t, "bash", command("git commit -m x"))
			in.Run = tool.Run{ID: "run", Thread: "thread"}
			if tt.change != nil {
				tt.change(in, &rule)
			}
			rules, err := permission.Parse("rules.yaml", []byte(tt.rules))
			if err != nil {
				t.Fatal(err)
			}
			source := &kept{rules: []*call.Rule{&rule}}
			g := permission.New(permission.Config{Rules: rules, Remembered: source, Commands: map[string]permission.Splitter{"bash": split}})
			v := check(t, g, in)
			if got := kind(v); got != tt.want {
				t.Errorf("verdict = %s, want %s", got, tt.want)
			}
			for _, q := range source.asked {
				want := call.RuleQuery{Gate: "permission", Namespace: "default", Principal: "alice", Run: "run", Thread: "thread", Tool: "bash", ToolDigest: in.ToolDigest}
				if q != want {
					t.Errorf("asked for %+v", q)
				}
			}
		})
	}
}

func TestTicketOffersToRemember(t *testing.T) {
	g := permission.New(permission.Config{Remembered: &kept{}, Commands: map[string]permission.Splitter{"bash": split}})
	in := callOf(t, "bash", command("git commit"))
	var want []tool.RememberOption
	for _, option := range permission.Options(in, split) {
		want = append(want, tool.RememberOption{Option: option, Title: permission.Title(option)})
	}
	if got := check(t, g, in).Ticket().RememberOptions; len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("options = %q", got)
	}
	in.Assessment.Tier = tool.Escalate
	if got := check(t, g, in).Ticket().RememberOptions; got != nil {
		t.Errorf("options of four eyes = %q", got)
	}
	if got := check(t, permission.New(permission.Config{}), callOf(t, "bash", command("git commit"))).Ticket().RememberOptions; got != nil {
		t.Errorf("options with nowhere to keep them = %q", got)
	}
}

func jsonOf(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
