package permission_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

func TestParseErrors(t *testing.T) {
	tests := []struct {
		name, file string
		at         string // line:column
		reason     string
	}{
		{"broken list", "rules:\n  - tools: [x\n  - b: c\n", "3:3", "not YAML"},
		{"tab", "\tb: 1\n", "1:2", "not YAML"},
		{"no mapping", "- a\n", "1:1", "want a mapping"},
		{"a word", "hello\n", "1:1", "want a mapping"},
		{"two documents", "rules: []\n---\nrules: []\n", "3:1", "one document"},
		{"unknown key", "rules: []\n\nrule: []\n", "3:1", `unknown key "rule"; known are approvers, default, expires_in, modes, namespaces, rules, unattended, version`},
		{"key twice", "rules: []\nrules: []\n", "2:1", "already defined"},
		{"version", "version: 2\n", "1:10", "want 1"},
		{"unknown tier", "default:\n  LOW: ask\n", "2:3", "CONFIRM, ESCALATE, OBSERVE"},
		{"unknown default", "default:\n  CONFIRM: maybe\n", "2:12", `unknown "maybe"; want block, deny, ask always, ask, allow`},
		{"rules as a mapping", "rules:\n  a: b\n", "2:3", "want a list"},
		{"rules as nothing", "rules:\n", "1:8", "want a list"},
		{"rule as a word", "rules: [x]\n", "1:9", "want a mapping"},
		{"unknown key of a rule", "rules:\n  - action: deny\n    tool: x\n", "3:5", `unknown key "tool"`},
		{"unknown action", "rules:\n  - tools: [x]\n    action: permit\n", "3:13", `unknown "permit"`},
		{"no action", "rules:\n  - tools: [x]\n", "2:5", "no action"},
		{"names nothing", "rules:\n  - action: allow\n", "2:5", "names nothing"},
		{"empty list", "rules:\n  - action: allow\n    tools: []\n", "3:12", "empty"},
		{"tools as a word", "rules:\n  - action: allow\n    tools: x\n", "3:12", "want a list"},
		{"bad glob", "rules:\n  - action: allow\n    tools: [\"[a\"]\n", "3:14", "not a glob"},
		{"glob without quotes", "rules:\n  - action: allow\n    tools: [*]\n", "3:14", "not YAML"},
		{"glob without quotes that looks like an alias", "rules:\n  - action: allow\n    tools: [*x]\n", "3:13", "quotes"},
		{"number as a tool", "rules:\n  - action: allow\n    tools: [1]\n", "3:13", "put it in quotes"},
		{"bad tier", "rules:\n  - action: allow\n    tiers: [CONFIRM, confirm]\n", "3:22", `unknown "confirm"`},
		{"four eyes as a word", "rules:\n  - action: ask\n    tools: [x]\n    four_eyes: maybe\n", "4:16", "true or false"},
		{"four eyes on allow", "rules:\n  - action: allow\n    tools: [x]\n    four_eyes: true\n", "4:16", "no effect"},
		{"approvers on deny", "rules:\n  - action: deny\n    tools: [x]\n    approvers: [approver]\n", "4:16", "no effect"},
		{"approvers that cannot approve", "approvers: [caller]\n", "1:13", `unknown "caller"; want approver, operator`},
		{"approvers as a word", "approvers: approver\n", "1:12", "want a mapping"},
		{"approvers that name nobody", "approvers: {}\n", "1:12", "names nobody; want roles, groups or both"},
		{"no groups", "approvers: {groups: []}\n", "1:21", "empty"},
		{"unknown key of approvers", "approvers: {group: [x]}\n", "1:13", `unknown key "group"; known are groups, roles`},
		{"expiry", "expires_in: 3 days\n", "1:13", "such as 90m"},
		{"expiry beyond 30 days", "expires_in: 721h\n", "1:13", "720h"},
		{"no expiry", "expires_in: 0s\n", "1:13", "720h"},
		{"nobody", "rules:\n  - action: ask\n    tools: [x]\n    count: 0\n", "4:12", "from 1 to 100"},
		{"too many people", "rules:\n  - action: ask\n    tools: [x]\n    count: 101\n", "4:12", "from 1 to 100"},
		{"people for nothing", "rules:\n  - action: deny\n    tools: [x]\n    count: 2\n", "4:12", "no effect"},
		{"a result in the tool's place on allow", "rules:\n  - action: allow\n    tools: [x]\n    result_instead: true\n", "4:21", "no effect"},
		{"remember what is not there", "rules:\n  - action: ask\n    tools: [x]\n    remember: [exactly]\n", "4:16", "exact, path, command, origin"},
		{"remember in a word", "rules:\n  - action: ask\n    tools: [x]\n    remember: exact\n", "4:15", "want none, or a list"},
		{"remember on ask always", "rules:\n  - action: ask always\n    tools: [x]\n    remember: none\n", "4:15", "no effect on the action ask always"},
		{"unattended", "unattended: allow\n", "1:13", "want deny, wait"},
		{"a mode that there is", "modes:\n  bypass: {}\n", "2:3", "is built in"},
		{"a mode's key", "modes:\n  x: {approvers: [operator]}\n", "2:7", `unknown key "approvers"; known are chosen_by, default, rules`},
		{"a namespace's key", "namespaces:\n  x: {chosen_by: [operator]}\n", "2:7", `unknown key "chosen_by"`},
		{"a name with spaces", "namespaces:\n  a b: {}\n", "2:3", "not a name"},
		{"namespaces as a list", "namespaces: [a]\n", "1:13", "want a mapping"},
		{"too many rules in all", "rules:\n" + strings.Repeat("  - {action: deny, tools: [x]}\n", 600) + "modes:\n  a:\n    rules:\n" + strings.Repeat("    - {action: deny, tools: [x]}\n", 600), "605:5", "1200 rules"},
		{"an empty pair of parentheses", "rules:\n  - action: deny\n    tools: [bash()]\n", "3:17", "omit them"},
		{"no closing parenthesis", "rules:\n  - action: deny\n    tools:\n    - bash(git *\n", "4:11", "want tool, tool(glob)"},
		{"a bad glob on the argument", "rules:\n  - action: deny\n    tools:\n    - 'bash([a)'\n", "4:13", "not a glob"},
		{"a bad regex", "rules:\n  - action: deny\n    tools:\n    - 'bash(command =~ \"(\")'\n", "4:24", "not a regular expression"},
		{"a large regex", "rules:\n  - action: deny\n    tools:\n    - 'bash(command =~ \"x{400}y{400}\")'\n", "4:24", "too large"},
		{"no closing slash", "rules:\n  - action: deny\n    tools: [\"/x\"]\n", "3:14", "closing /"},
		{"a bad regex of ids", "rules:\n  - action: deny\n    tools: [\"/(/\"]\n", "3:15", "not a regular expression"},
		{"no value", "rules:\n  - action: deny\n    tools:\n    - 'x(a = \"1\", b = c)'\n", "4:23", "double quotes"},
		{"no operator", "rules:\n  - action: deny\n    tools:\n    - 'x(a = \"1\", b \"c\")'\n", "4:21", "want one of ="},
		{"no comma", "rules:\n  - action: deny\n    tools:\n    - 'x(a = \"1\" b = \"c\")'\n", "4:18", "comma"},
		{"a bad index", "rules:\n  - action: deny\n    tools:\n    - 'x(a = \"1\", b[01] = \"c\")'\n", "4:21", "[0], [*]"},
		{"an expression that does not parse", "rules:\n  - action: deny\n    when: arguments.path ==\n", "3:28", "Syntax error"},
		{"an expression with an unknown name", "rules:\n  - action: deny\n    when: 'arguments.a == 1 && calller.subject == \"x\"'\n", "3:39", "undeclared reference"},
		{"an expression with an unknown member", "rules:\n  - action: deny\n    when: caller.sub == \"x\"\n", "3:17", "undeclared reference"},
		{"an expression on a second line", "rules:\n  - action: deny\n    when: |\n      call.tool == 'x' &&\n        nothing\n", "5:9", "undeclared reference"},
		{"an expression that is a text", "rules:\n  - action: deny\n    when: call.tool\n", "3:11", "true or false"},
		{"an empty expression", "rules:\n  - action: deny\n    when: ''\n", "3:11", "want an expression"},
		{"a deep expression", "rules:\n  - action: deny\n    when: " + strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200) + "\n", "3:11", "recursion"},
		{"anchor", "approvers: &a [approver]\n", "1:12", "anchor"},
		{"alias", "approvers: [approver]\nrules: *a\n", "2:8", "list"},
		{"merge", "rules:\n  - <<: {action: deny}\n    tools: [x]\n", "2:5", "merge"},
		{"long reason", "rules:\n  - action: deny\n    tools: [x]\n    reason: " + strings.Repeat("x", 501) + "\n", "4:13", "501 bytes"},
		{"huge", strings.Repeat("#\n", 1<<20), "1:1", "256 KiB"},
		// Without the limits, each of these files would overflow the daemon's stack or take seconds.
		{"deep lists", strings.Repeat("[", 1<<17), "1:65", "too deep"},
		{"deep mappings", strings.Repeat("{a: ", 1<<15), "1:257", "too deep"},
		{"deep blocks on a line", strings.Repeat("- ", 1<<16), "1:513", "too deep"},
		{"deep complex keys", "a: 1\n" + strings.Repeat("? ", 1<<16), "2:513", "too deep"},
		{"many anchors", strings.Repeat("&a ", 1<<15), "1:769", "too deep"},
		{"many keys", strings.Repeat("k: 1\n", 20000), "12001:2", "too many keys"},
		{"many rules", "rules:\n" + strings.Repeat("  - {action: deny, tools: [x]}\n", 1001), "2:3", "1001 rules"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules, err := permission.Parse("r.yaml", []byte(tt.file))
			var refused *permission.ParseError
			if !errors.As(err, &refused) || rules != nil {
				t.Fatalf("Parse = %v, want a ParseError", err)
			}
			if at := fmt.Sprintf("%d:%d", refused.Line, refused.Column); at != tt.at || !strings.Contains(refused.Reason, tt.reason) {
				t.Errorf("%v, want %s and %q", err, tt.at, tt.reason)
			}
			if !strings.HasPrefix(err.Error(), "r.yaml:"+tt.at+": ") {
				t.Errorf("%v does not name the file and the place", err)
			}
		})
	}
}

func TestParseEmpty(t *testing.T) {
	for _, file := range []string{"", "# nothing yet\n", "---\n", "{}", "rules: []\n", "version: 1\n"} {
		rules, err := permission.Parse("r.yaml", []byte(file))
		if err != nil {
			t.Errorf("%q: %v", file, err)
			continue
		}
		g := permission.New(permission.Config{Rules: rules})
		for tier, want := range map[tool.Tier]hook.VerdictKind{tool.Observe: hook.KindAllow, tool.Confirm: hook.KindSuspend, tool.Escalate: hook.KindSuspend} {
			if got := check(t, g, input("x", tier)).Kind(); got != want {
				t.Errorf("%q: %s is %s, want %s", file, tier, got, want)
			}
		}
	}
}

// The examples in the documentation must parse.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/permission.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) == 0 {
		t.Fatal("the page has no example")
	}
	for _, example := range examples {
		if _, err := permission.Parse("permission.md", example[1]); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "rules: []", "default: {CONFIRM: deny}\nexpires_in: 2h\napprovers: [operator]\n", "approvers: {groups: [finance]}\n",
		"rules:\n  - name: a\n    action: ask\n    tools: [\"*\", 'b?']\n    tiers: [ESCALATE]\n    reason: |\n      because\n    four_eyes: true\n",
		"rules: [{action: ask always, tools: ['a(b ~ \"c\", d[*].e !=~ \"f\")', '/x|y/(z*)'], when: 'arguments.a == 1'}]",
		"namespaces: {a: {rules: [{action: block, tools: [b]}]}}\nmodes: {c: {chosen_by: [caller], default: {OBSERVE: ask always}}}\nunattended: wait\n",
		"rules:\n  - action: deny\n    when: |2\n        true\n", "rules:\n  - action: deny\n    when: >-\n      x\n      y\n", "rules: [{action: deny, when: \"\\x41\\n.\"}]",
		"a: &x [*x]\n", "? a\n: b\n", "<<: {a: 1}\n", "a: !!binary |\n  x\n", "rules: [{action: deny, callers: [\"[a-\"]}]", "a: \x00", "\ufeffrules: []\n", "%YAML 1.1\n---\nrules: []\n", strings.Repeat("[", 70), strings.Repeat("- ", 300), "-\n -\n  -\n   -\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		rules, err := permission.Parse("f", file)
		var refused *permission.ParseError
		switch {
		case err == nil && rules == nil:
			t.Error("neither rules nor an error")
		case err != nil && (!errors.As(err, &refused) || refused.Line < 1 || refused.Column < 1 || refused.File != "f"):
			t.Errorf("error without a place: %v", err)
		case err == nil:
			_ = rules.Warnings([]*tool.Descriptor{descriptor("bash"), descriptor("write")})
			g := permission.New(permission.Config{Rules: rules})
			for _, tier := range []tool.Tier{tool.Observe, tool.Confirm, tool.Escalate} {
				if v := check(t, g, input("bash", tier)); v.Kind() == "" {
					t.Error("no verdict")
				}
			}
		}
	})
}

// FuzzPattern checks three properties of patterns: the position of an error is inside the pattern, matching ends, and a deny matches
// everything that an allow with the same pattern matches.
func FuzzPattern(f *testing.F) {
	for _, seed := range []struct{ pattern, arguments string }{
		{`write(src/*)`, `{"path":"src/../x"}`}, {`/^w/(*)`, `{"path":""}`}, {`write(path = "a", content !~ "*x*")`, `{"path":"a","content":"b"}`},
		{`write(l[*].k =~ "^a$")`, `{"l":[{"k":"a"},{"k":"b"}]}`}, {`write(["a b"][0] != "5.0")`, `{"a b":[5]}`}, {`write("a[^b-d]?\\*")`, `{"path":"axx*"}`},
		{`*(n = "1e2")`, `{"n":100.0}`}, {`write(`, `{}`}, {`write(a = "b)`, `{}`}, {`/(`, `{}`}, {`write([*] = "x")`, `{}`}, {`write(a[99999999999] = "x")`, `{}`},
	} {
		f.Add(seed.pattern, seed.arguments)
	}
	f.Fuzz(func(t *testing.T, pattern, arguments string) {
		v, err := call.ParseJSON(arguments, 0)
		value, isObject := v.(map[string]any)
		if err != nil || !isObject || !utf8.ValidString(pattern) {
			return
		}
		verdicts := map[string]string{}
		for _, action := range []string{"allow", "deny"} {
			file := "rules:\n  - {action: " + action + ", tools: [" + jsonOf(pattern) + "]}\n"
			rules, err := permission.Parse("r", []byte(file))
			if err != nil {
				var refused *permission.ParseError
				if !errors.As(err, &refused) || refused.Line != 2 || refused.Column > len(file) {
					t.Fatalf("%q: error without a place: %v", pattern, err)
				}
				return
			}
			in := input("write", tool.Confirm)
			in.Descriptor = descriptor("write")
			in.Arguments = tool.NewArguments(arguments, value)
			verdicts[action] = kind(check(t, permission.New(permission.Config{Rules: rules}), in))
		}
		if verdicts["allow"] == "ALLOW" && verdicts["deny"] != "DENY" {
			t.Errorf("%q allows %s and does not deny it", pattern, arguments)
		}
	})
}
