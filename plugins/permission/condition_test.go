package permission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// verdictOf returns the verdict of one rule, for a call of a tool with tier CONFIRM.
func verdictOf(t *testing.T, action, pattern, id, arguments string) string {
	t.Helper()
	return kind(check(t, gate(t, fmt.Sprintf("rules:\n  - action: %s\n    tools:\n      - '%s'\n", action, strings.ReplaceAll(pattern, "'", "''"))), callOf(t, id, arguments)))
}

// TestConditions tests each row with an allow and with a deny. The row says which of the two rules matches.
func TestConditions(t *testing.T) {
	const doc = `{"s":"abc","n":5,"f":1.50,"big":9007199254740993,"yes":true,"no":null,"o":{"p":{"q":"deep"},"a.b":"dotted"},` +
		`"l":["x","y"],"ll":[{"k":"a"},{"k":"b"}],"gap":[{"k":"a"},{}],"e":[],"path":"src/a.go","up":"src/../etc","lines":"a\nrm"}`
	const both, neither, denyOnly = "both", "neither", "deny only"
	tests := []struct{ pattern, want string }{
		// operators
		{`s = "abc"`, both}, {`s = "ab"`, neither}, {`s = "ABC"`, neither},
		{`s != "abc"`, neither}, {`s != "x"`, both},
		{`s ~ "a*"`, both}, {`s ~ "a?c"`, both}, {`s ~ "[a-b]b[^d]"`, both}, {`s ~ "b*"`, neither}, {`s ~ "a\\*"`, neither},
		{`s !~ "a*"`, neither}, {`s !~ "b*"`, both},
		{`s =~ "b"`, both}, {`s =~ "^b"`, neither}, {`s =~ "^a.c$"`, both},
		{`s !=~ "b"`, neither}, {`s !=~ "^b"`, both},
		{`s="abc"`, both}, {`  s  =  "abc"  `, both},
		// kinds of values
		{`n = "5"`, both}, {`n = "5.0"`, both}, {`n = "5e0"`, both}, {`n = "50e-1"`, both}, {`n = "6"`, neither}, {`n != "5.0"`, neither},
		{`f = "1.5"`, both}, {`f = "1.50"`, both}, {`big = "9007199254740993"`, both}, {`big = "9007199254740992"`, neither},
		{`s = "0x5"`, neither}, {`n = "0x5"`, neither}, {`n = " 5"`, both}, {`n ~ "5*"`, both}, {`n =~ "^[0-9]+$"`, both},
		{`yes = "true"`, both}, {`yes != "false"`, both}, {`no = "null"`, both},
		{`l = "[\"x\",\"y\"]"`, both}, {`o.p ~ "*deep*"`, both}, {`o.p = "deep"`, neither}, {`o.p != "deep"`, both},
		// places
		{`o.p.q = "deep"`, both}, {`o["a.b"] = "dotted"`, both}, {`["o"]["p"].q = "deep"`, both}, {`l[0] = "x"`, both}, {`l[1] = "x"`, neither},
		{`ll[1].k = "b"`, both}, {`s = "abc", n = "5"`, both}, {`s = "abc", n = "6"`, neither},
		// a condition on a missing field is false, even a negated one
		{`z = "x"`, neither}, {`z != "x"`, neither}, {`z !~ "x"`, neither}, {`z !=~ "x"`, neither}, {`o.z != "x"`, neither}, {`s.z != "x"`, neither},
		{`s[0] != "x"`, neither}, {`l[2] != "x"`, neither}, {`l.x != "x"`, neither}, {`o[0] != "x"`, neither}, {`e[0] != "x"`, neither},
		// [*]: an allow matches when every element does, a deny when one element does
		{`l[*] = "x"`, denyOnly}, {`l[*] ~ "[xy]"`, both}, {`l[*] != "x"`, denyOnly}, {`l[*] != "z"`, both}, {`l[*] = "z"`, neither},
		{`ll[*].k ~ "?"`, both}, {`ll[*].k = "a"`, denyOnly}, {`gap[*].k = "a"`, denyOnly}, {`gap[*].k != "z"`, denyOnly},
		{`e[*] = "x"`, neither}, {`e[*] != "x"`, neither}, {`s[*] != "x"`, neither},
		// a path is compared with and without "." and ".." elements
		{`path ~ "src/*"`, both}, {`path !~ "src/*"`, neither},
		{`up ~ "src/*"`, denyOnly}, {`up ~ "etc"`, denyOnly}, {`up !~ "src/*"`, denyOnly}, {`up = "src/../etc"`, denyOnly}, {`up !~ "usr/*"`, both},
		// a line break does not hide the text after it
		{`lines =~ "a.rm"`, both}, {`lines ~ "a*rm"`, both}, {`lines ~ "a?rm"`, both},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			want := map[string][2]string{both: {"ALLOW", "DENY"}, neither: {"SUSPEND", "SUSPEND"}, denyOnly: {"SUSPEND", "DENY"}}[tt.want]
			for i, action := range []string{"allow", "deny"} {
				if got := verdictOf(t, action, "x("+tt.pattern+")", "x", doc); got != want[i] {
					t.Errorf("%s: verdict = %s, want %s", action, got, want[i])
				}
			}
		})
	}
}

func TestPatterns(t *testing.T) {
	tests := []struct {
		pattern, tool, arguments string
		want                     bool
	}{
		{"write", "write", `{"path":"a"}`, true},
		{"writ", "write", `{"path":"a"}`, false},
		{"wr*", "write", `{"path":"a"}`, true},
		{"/^wr.*e$/", "write", `{"path":"a"}`, true},
		{"/rit/", "write", `{"path":"a"}`, true},
		{"/^rit/", "write", `{"path":"a"}`, false},
		{"/a|wr(it|o)e/", "write", `{"path":"a"}`, true},
		{"/^w/(src/*)", "write", `{"path":"src/a"}`, true},
		{"/^w/(src/*)", "write", `{"path":"lib/a"}`, false},
		{"write(src/*)", "write", `{"path":"src/a/b"}`, true}, // * matches slashes too
		{"write(src/*)", "write", `{"path":"src/../etc/passwd"}`, false},
		{"write(src/*)", "write", `{"path":"src/a/../../x"}`, false},
		{"write(src/*)", "write", `{"path":"https://../src/x"}`, false},
		{"write(src/*)", "write", `{}`, false},
		{"write(*)", "write", `{"path":""}`, true},
		{`write("a = \"b\"")`, "write", `{"path":"a = \"b\""}`, true}, // a quoted glob may look like conditions
		{`write(content = "x")`, "write", `{"path":"a","content":"x"}`, true},
		{"fetch(https://docs.rs/*)", "fetch", `{"url":"https://docs.rs/serde"}`, true},
		{"fetch(https://docs.rs/*)", "fetch", `{"url":"https://docs.rs.evil.test/"}`, false},
		{"fetch(*)", "x", `{"url":"a"}`, false},
		{"x(*)", "x", `{"url":"a"}`, false}, // without a schema there is no primary argument
	}
	for _, tt := range tests {
		t.Run(tt.pattern+" "+tt.arguments, func(t *testing.T) {
			want := "SUSPEND"
			if tt.want {
				want = "ALLOW"
			}
			if got := verdictOf(t, "allow", tt.pattern, tt.tool, tt.arguments); got != want {
				t.Errorf("verdict = %s, want %s", got, want)
			}
		})
	}
}

func TestGlobs(t *testing.T) {
	tests := []struct {
		glob, text string
		want       bool
	}{
		{"*", "", true}, {"**", "abc", true}, {"?", "", false}, {"?", "é", true}, {"a*", "a", true}, {"*a", "ba", true}, {"*a", "ab", false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "axbxc", true}, {"a*b*c", "abxcb", false}, {"*ab*", "xxabxx", true},
		{"*ab?*", "xxabab", true}, {"*ab?", "abab", false}, {"*?b", "ab", true}, {"*?b", "b", false}, {"[a-c]*[0-9]", "b-7", true},
		{"[^a-c]", "b", false}, {"[]]", "]", false}, {`[\]]`, "]", true}, {`[a\-z]`, "-", true}, {`\*`, "*", true}, {`\*`, "x", false},
		{"a*", "ba", false}, {"git *", "git ", true}, {"git *", "git", false}, {"*x*y", "xy", true}, {"*x*y", "yx", false}, {"ab", "abc", false},
	}
	for _, tt := range tests {
		t.Run(tt.glob+" "+tt.text, func(t *testing.T) {
			file := "rules:\n  - action: deny\n    tools:\n      - 'x(v ~ " + jsonOf(tt.glob) + ")'\n"
			rules, err := permission.Parse("r", []byte(file))
			if err != nil {
				if tt.want {
					t.Error(err)
				}
				return
			}
			got := kind(check(t, permission.New(permission.Config{Rules: rules}), callOf(t, "x", `{"v":`+jsonOf(tt.text)+`}`)))
			if (got == "DENY") != tt.want {
				t.Errorf("match = %t, want %t", got == "DENY", tt.want)
			}
		})
	}
}

// TestCommands checks that a compound command is allowed only when every part is allowed, and refused when one part is refused.
func TestCommands(t *testing.T) {
	const rules = `
rules:
  - {name: git,     action: allow,      tools: ["bash(git *)"]}
  - {name: list,    action: allow,      tools: ['bash(command =~ "^ls( |$)")']}
  - {name: remove,  action: deny,       tools: ["bash(rm *)"]}
  - {name: push,    action: ask,        tools: ["bash(git push *)"], approvers: [operator], expires_in: 1h}
  - {name: tag,     action: ask,        tools: ["bash(git tag *)"], approvers: [approver, operator], expires_in: 2h, four_eyes: true}
  - {name: release, action: ask always, tools: ["bash(make release*)"]}
  - {name: reboot,  action: deny,       tools: ["bash(/bin/reboot*)"]}
  - {name: only,    action: deny,       tools: ['bash(command ~ "p*", command !~ "pw*")']}
  - {name: words,   action: allow,      tools: [bash], when: 'arguments.command.startsWith("echo ")'}
  - {name: curl,    action: deny,       tools: [bash], when: 'arguments.command.contains("| sh")'}
`
	tests := []struct{ command, want, rule string }{
		{"git status", "ALLOW", "git"},
		{"git status; ls", "ALLOW", "git"},
		{"git status; ls -l; echo x", "ALLOW", "git"},
		{"git status; make", "SUSPEND", ""},
		{"make; git status", "SUSPEND", ""},
		{"git status; rm -rf /", "DENY", "remove"},
		{"rm x; git status", "DENY", "remove"},
		{"echo a; reboot", "SUSPEND", ""}, // The allow for echo covers only its own part.
		{"curl x | sh; ls", "DENY", "curl"},
		{"git $x", "DENY", "only"}, // a command that cannot be parsed may contain anything that a rule denies (T122)
		{"rm $x", "DENY", "remove"},
		{"echo $x", "DENY", "only"},
		{"git $x; rm y", "DENY", "remove"}, // The part that can be parsed is denied.
		{"git status; $x", "DENY", "only"},
		{"/bin/rm x", "DENY", "remove"},
		{"/bin/git status", "ALLOW", "git"},
		{"ls; /bin/reboot now", "DENY", "reboot"}, // denied under another spelling
		{"ls; poweroff", "DENY", "only"},
		{"git push o; make", "SUSPEND", "push"},
		{"make release; git push o", "SUSPEND", "release"},
	}
	rulesOf, err := permission.Parse("r", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	g := permission.New(permission.Config{Rules: rulesOf, Commands: map[string]permission.Splitter{"bash": split}})
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			in := callOf(t, "bash", command(tt.command))
			if got := kind(check(t, g, in)); got != tt.want {
				t.Errorf("verdict = %s, want %s", got, tt.want)
			}
			if got := g.Explain(in); got.Rule != tt.rule {
				t.Errorf("decided by %q, want %q: %s", got.Rule, tt.rule, got.Why)
			}
		})
	}
	// a question about several parts combines the requirements of all of them
	ticket := check(t, g, callOf(t, "bash", command("git push o; git tag v1"))).Ticket()
	if a := ticket.Approvers; fmt.Sprint(a.Roles) != "[operator]" || !a.DistinctFromCaller || ticket.ExpiresIn.String() != "1h0m0s" {
		t.Errorf("approvers = %+v, expires in %v", a, ticket.ExpiresIn)
	}
	if !strings.Contains(string(ticket.Parameters), `"command":"git push o"`) {
		t.Errorf("parameters = %s, want the part that asks", ticket.Parameters)
	}
}

// The test checks that a remembered answer for one part and a rule for the other part allow the whole command. The person is asked about a
// part that neither of them covers.
func TestRememberedCommands(t *testing.T) {
	rules, err := permission.Parse("r", []byte(`rules: [{action: allow, tools: ["bash(ls*)"]}, {action: ask always, tools: ["bash(git push*)"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	source := &kept{rules: []*call.Rule{
		{ID: "r1", Option: `command "git"`, By: tool.Principal{Subject: "bob", Roles: []string{"approver"}}},
	}}
	g := permission.New(permission.Config{Rules: rules, Remembered: source, Commands: map[string]permission.Splitter{"bash": split}})
	for text, want := range map[string]string{
		"git status": "ALLOW", "ls": "ALLOW", "git status; ls": "ALLOW", "ls; git log": "ALLOW",
		"git status; make": "SUSPEND", "git push": "SUSPEND", "git status; git push": "SUSPEND", "git $x": "SUSPEND",
	} {
		if got := kind(check(t, g, callOf(t, "bash", command(text)))); got != want {
			t.Errorf("%s: verdict = %s, want %s", text, got, want)
		}
	}
}

// The test checks that a regular expression is not matched with a text for which this could take seconds, because matching cannot be
// interrupted.
func TestTextsThatAreTooLong(t *testing.T) {
	long := `{"path":"` + strings.Repeat("abcdefghij ", 80_000) + `"}`
	for _, pattern := range []string{`write(path =~ ".{0,200}z")`, `write(path !=~ ".{0,200}b")`} {
		if got := verdictOf(t, "allow", pattern, "write", long); got != "SUSPEND" {
			t.Errorf("allow %s: verdict = %s", pattern, got)
		}
		if got := verdictOf(t, "deny", pattern, "write", long); got != "DENY" {
			t.Errorf("deny %s: verdict = %s", pattern, got)
		}
	}
	if got := verdictOf(t, "allow", `write(path =~ "abc")`, "write", long); got != "ALLOW" {
		t.Errorf("a small expression: verdict = %s", got)
	}
	for id, want := range map[string]string{"yes": "SUSPEND", "no": "DENY"} {
		if got := kind(check(t, whenGate(t, `arguments.path.matches(".{0,200}b")`), callOf(t, id, long))); got != want {
			t.Errorf("%s by an expression: verdict = %s, want %s", id, got, want)
		}
	}
}
