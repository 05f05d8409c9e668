package permission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// whenGate returns a gate with the same expression in an allow for the tool yes and in a deny for the tool no.
func whenGate(t testing.TB, expression string) *permission.Gate {
	t.Helper()
	text := "'" + strings.ReplaceAll(expression, "'", "''") + "'"
	return gate(t, "rules:\n  - {action: allow, tools: [yes], when: "+text+"}\n  - {action: deny, tools: [no], when: "+text+"}\n")
}

func TestWhen(t *testing.T) {
	const holds, fails, broken = "holds", "fails", "takes away only"
	tests := []struct{ expression, arguments, want string }{
		{`true`, `{}`, holds},
		{`arguments.s == "a"`, `{"s":"a"}`, holds},
		{`arguments.s == "a"`, `{"s":"b"}`, fails},
		{`arguments.n > 4 && arguments.n <= 5`, `{"n":5}`, holds},
		{`arguments.n == 1.5`, `{"n":1.5}`, holds},
		{`arguments.n > 4.5`, `{"n":5}`, holds}, // numbers of different types can be compared
		{`arguments.l.exists(x, x.startsWith("/etc"))`, `{"l":["/srv","/etc/x"]}`, holds},
		{`arguments.l.all(x, x < 3)`, `{"l":[1,2,3]}`, fails},
		{`arguments["a.b"].c[1] == null`, `{"a.b":{"c":[1,null]}}`, holds},
		{`arguments.s.matches("^a+$")`, `{"s":"aaa"}`, holds},
		{`has(arguments.s)`, `{}`, fails},
		{`!has(arguments.s)`, `{}`, holds},
		{`size(arguments) == 0`, `{}`, holds},
		{`"s" in arguments`, `{"s":1}`, holds},
		{`arguments.yes`, `{"yes":true}`, holds},
		{`call.tool in ["yes", "no"] && call.source == "builtin" && call.namespace == "default" && call.id == "call-1"`, `{}`, holds},
		{`caller.subject == "alice" && caller.on_behalf_of == "carol" && "caller" in caller.roles`, `{}`, holds},
		{`run.id == "run" && run.thread == "thread" && run.agent == "agent" && run.origin == "cron" && !run.unattended`, `{}`, holds},
		{`run.labels["team"] == "a"`, `{}`, holds},
		{`run.labels["x"] == "a"`, `{}`, fails},
		{`assessment.tier == "CONFIRM" && assessment.mutability == "MUTATING" && assessment.safety == "MUTATING" && !assessment.open_world`, `{}`, holds},
		// a missing argument makes the expression false, also inside of a negation
		{`arguments.z == "a"`, `{}`, fails}, {`arguments.z != "a"`, `{}`, fails}, {`!(arguments.z == "a")`, `{}`, fails},
		{`arguments.o.z != "a"`, `{"o":{}}`, fails}, {`arguments.l[3] != "a"`, `{"l":[1]}`, fails}, {`!arguments.l.exists(x, x.z == 1)`, `{"l":[{}]}`, fails},
		{`arguments.z == "a" || true`, `{}`, holds},
		// An expression that cannot be evaluated counts as true for a deny and as false for an allow.
		{`arguments.s > 4`, `{"s":"a"}`, broken},
		{`arguments.s.startsWith("a")`, `{"s":1}`, broken},
		{`arguments.s`, `{"s":"a"}`, broken},
		{`1 / arguments.n == 1`, `{"n":0}`, broken},
		{`arguments.l.all(x, arguments.l.all(y, arguments.l.all(z, x + y + z < 1000)))`, `{"l":[` + strings.Repeat("1,", 200) + `1]}`, broken}, // This expression is too expensive.
		{`arguments.s.matches(arguments.p)`, `{"s":"a","p":"("}`, broken},
	}
	for _, tt := range tests {
		t.Run(tt.expression, func(t *testing.T) {
			g := whenGate(t, tt.expression)
			want := map[string][2]string{holds: {"ALLOW", "DENY"}, fails: {"SUSPEND", "SUSPEND"}, broken: {"SUSPEND", "DENY"}}[tt.want]
			for i, id := range []string{"yes", "no"} {
				in := callOf(t, id, tt.arguments)
				in.OnBehalfOf, in.Caller.Roles = "carol", []string{"caller"}
				in.Run = tool.Run{ID: "run", Thread: "thread", Agent: tool.Agent{ID: "agent"}, Origin: "cron", Labels: map[string]string{"team": "a"}}
				if got := kind(check(t, g, in)); got != want[i] {
					t.Errorf("%s: verdict = %s, want %s", id, got, want[i])
				}
			}
		})
	}
}

// FuzzWhen uses arguments as from a model and expressions as from an operator. It checks that evaluation always ends, and that an allow
// does not match when its evaluation fails.
func FuzzWhen(f *testing.F) {
	for _, seed := range []struct{ expression, arguments string }{
		{`arguments.a == 1`, `{"a":1}`}, {`arguments.a.b[2].c != "x"`, `{"a":{"b":[1,2,{"c":"x"}]}}`}, {`!arguments.x`, `{}`},
		{`arguments.l.map(x, x * 2).exists(y, y > 3)`, `{"l":[1,2]}`}, {`arguments.s.matches("a+")`, `{"s":"aaa"}`}, {`has(arguments.a.b)`, `{"a":null}`},
		{`call.tool == "yes" || 1 / arguments.z > 0`, `{"z":0}`}, {`arguments.n < 1e300`, `{"n":1e400}`}, {`[1,2,3][arguments.n] == 1`, `{"n":9223372036854775808}`},
	} {
		f.Add(seed.expression, seed.arguments)
	}
	f.Fuzz(func(t *testing.T, expression, arguments string) {
		v, err := call.ParseJSON(arguments, 0)
		value, isObject := v.(map[string]any)
		quoted, quoteErr := json.Marshal(expression)
		if err != nil || !isObject || quoteErr != nil {
			return
		}
		rules, err := permission.Parse("r", []byte("rules:\n  - {action: allow, tools: [yes], when: "+string(quoted)+"}\n  - {action: deny, tools: [no], when: "+string(quoted)+"}\n"))
		if err != nil {
			return
		}
		g := permission.New(permission.Config{Rules: rules})
		verdicts := map[string]string{}
		for _, id := range []string{"yes", "no"} {
			in := input(id, tool.Confirm)
			in.Arguments = tool.NewArguments(arguments, value)
			verdicts[id] = kind(check(t, g, in))
		}
		if !strings.Contains(expression, "call") && verdicts["yes"] == "ALLOW" && verdicts["no"] != "DENY" {
			t.Errorf("%s with %s allows and does not deny", expression, arguments)
		}
	})
}
