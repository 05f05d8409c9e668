package permission_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

func gate(t testing.TB, file string) *permission.Gate {
	t.Helper()
	rules, err := permission.Parse("rules.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return permission.New(permission.Config{Rules: rules})
}

func input(id string, tier tool.Tier) *hook.Input {
	return &hook.Input{
		Namespace: "default", CallID: "call-1",
		Descriptor: &tool.Descriptor{ID: id, Source: "builtin"},
		Assessment: tool.Effects{Tier: tier},
		Caller:     tool.Principal{Subject: "alice"},
	}
}

func check(t testing.TB, g *permission.Gate, in *hook.Input) hook.Verdict {
	t.Helper()
	v, err := g.Check(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func denied(v hook.Verdict) bool {
	return v.Kind() == hook.KindSetResult && v.Result().IsError() && v.Result().Error.Code == tool.Denied && !v.Result().Error.TerminateRun
}

// kind returns the verdict's kind, or DENY for a result that denies.
func kind(v hook.Verdict) string {
	if denied(v) {
		return "DENY"
	}
	return string(v.Kind())
}

func TestCheck(t *testing.T) {
	const all = `
rules:
  - {action: allow, tools: ["*"]}
  - {action: ask,   tools: ["b*"]}
  - {action: deny,  tools: ["ba*"]}
  - {action: block, tools: ["bas*"]}
`
	tests := []struct {
		name, rules, id string
		tier            tool.Tier
		want            string
	}{
		{"observe by default", "", "x", tool.Observe, "ALLOW"},
		{"confirm by default", "", "x", tool.Confirm, "SUSPEND"},
		{"escalate by default", "", "x", tool.Escalate, "SUSPEND"},
		{"an empty tier is CONFIRM", "", "x", "", "SUSPEND"},
		{"an unknown tier is ESCALATE", "default: {ESCALATE: block}", "x", "LOW", "BLOCK"},
		{"another default", "default: {CONFIRM: deny}", "x", tool.Confirm, "DENY"},
		{"a default that is not named stays", "default: {CONFIRM: deny}", "x", tool.Escalate, "SUSPEND"},
		{"allow", all, "x", tool.Confirm, "ALLOW"},
		{"ask beats allow", all, "b", tool.Observe, "SUSPEND"},
		{"deny beats ask", all, "ba", tool.Observe, "DENY"},
		{"block beats deny", all, "bash", tool.Observe, "BLOCK"},
		{"allow does not reach ESCALATE", all, "x", tool.Escalate, "SUSPEND"},
		{"allow that names ESCALATE", `rules: [{action: allow, tiers: [ESCALATE], tools: [x]}]`, "x", tool.Escalate, "ALLOW"},
		{"a broad deny beats a narrow allow", `rules: [{action: allow, tools: [bash]}, {action: deny, tools: ["*"]}]`, "bash", tool.Confirm, "DENY"},
		{"by tier alone", `rules: [{action: deny, tiers: [CONFIRM, ESCALATE]}]`, "x", tool.Confirm, "DENY"},
		{"another tier", `rules: [{action: deny, tiers: [ESCALATE]}]`, "x", tool.Confirm, "SUSPEND"},
		{"by source", `rules: [{action: deny, sources: [builtin]}]`, "x", tool.Observe, "DENY"},
		{"another source", `rules: [{action: deny, sources: [mcp]}]`, "x", tool.Observe, "ALLOW"},
		{"by caller", `rules: [{action: deny, callers: ["al*"]}]`, "x", tool.Observe, "DENY"},
		{"another caller", `rules: [{action: deny, callers: [bob]}]`, "x", tool.Observe, "ALLOW"},
		{"all conditions must hold", `rules: [{action: deny, tools: [x], callers: [bob]}]`, "x", tool.Observe, "ALLOW"},
		{"a class", `rules: [{action: deny, tools: ["[xy]"]}]`, "y", tool.Observe, "DENY"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := kind(check(t, gate(t, tt.rules), input(tt.id, tt.tier))); got != tt.want {
				t.Errorf("verdict = %s, want %s", got, tt.want)
			}
		})
	}
}

// The test checks that a restricting rule also matches aliases of a tool and the person behind the caller, and that a granting rule does
// not.
func TestBroadAndNarrow(t *testing.T) {
	tests := []struct{ name, rules, want string }{
		{"deny by alias", `rules: [{action: deny, tools: [cat]}]`, "DENY"},
		{"allow by alias", `rules: [{action: allow, tools: [cat]}]`, "SUSPEND"},
		{"deny behind the caller", `rules: [{action: deny, callers: [carol]}]`, "DENY"},
		{"allow behind the caller", `rules: [{action: allow, callers: [carol]}]`, "SUSPEND"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := input("read", tool.Confirm)
			in.Descriptor.Aliases = []string{"cat"}
			in.OnBehalfOf = "carol"
			if got := kind(check(t, gate(t, tt.rules), in)); got != tt.want {
				t.Errorf("verdict = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTicket(t *testing.T) {
	in := input("bash", tool.Confirm)
	in.Description = tool.Description{Title: "Run make test"}
	got := check(t, gate(t, `
approvers: [operator]
expires_in: 2h
rules:
  - {action: ask, tools: ["*"], reason: Everything is looked at., four_eyes: true}
  - {action: ask, tools: ["ba*"], expires_in: 3h}
  - {name: shell, action: ask, tools: [bash], reason: Commands are looked at., approvers: [approver], expires_in: 90m}
`), in).Ticket()
	want := tool.Ticket{
		Action:     "approval",
		Message:    "Allow bash: Run make test? Commands are looked at.",
		Parameters: json.RawMessage(`{"tool":"bash","tier":"CONFIRM","rule":"shell","reason":"Commands are looked at."}`),
		Approvers:  &tool.Approvers{Roles: []string{"approver"}},
		ExpiresIn:  90 * time.Minute,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ticket of the most specific rule (-want +got):\n%s", d)
	}

	got = check(t, gate(t, "{approvers: [operator], expires_in: 2h}"), input("bash", tool.Escalate)).Ticket()
	want = tool.Ticket{
		Action:     "approval",
		Message:    "Allow bash? Somebody other than the caller has to answer.",
		Parameters: json.RawMessage(`{"tool":"bash","tier":"ESCALATE","four_eyes":true}`),
		Approvers:  &tool.Approvers{Roles: []string{"operator"}, DistinctFromCaller: true},
		ExpiresIn:  2 * time.Hour,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ticket of ESCALATE (-want +got):\n%s", d)
	}

	// four_eyes: false cannot weaken the tier's requirement
	got = check(t, gate(t, `rules: [{action: ask, tools: [bash], four_eyes: false}]`), input("bash", tool.Escalate)).Ticket()
	if !got.Approvers.DistinctFromCaller {
		t.Error("a rule weakened ESCALATE")
	}
	got = check(t, gate(t, `rules: [{action: ask, tools: [bash], four_eyes: true}]`), input("bash", tool.Observe)).Ticket()
	if !got.Approvers.DistinctFromCaller {
		t.Error("four_eyes of a rule is not asked for")
	}
}

func TestReasons(t *testing.T) {
	tests := []struct{ rules, want string }{
		{`rules: [{name: no shell, action: deny, tools: [bash]}]`, `Denied: not allowed by the rule "no shell"`},
		{`rules: [{action: allow, tools: [x]}, {action: deny, tools: [bash]}]`, `Denied: not allowed by the rule "rule 2"`},
		{`rules: [{action: deny, tools: [bash], reason: Use the build tool.}]`, `Denied: Use the build tool.`},
		{`default: {CONFIRM: deny}`, `Denied: calls of the tier CONFIRM are not allowed here`},
	}
	for _, tt := range tests {
		if got := check(t, gate(t, tt.rules), input("bash", tool.Confirm)).Result().ModelText(); got != tt.want {
			t.Errorf("the model reads %q, want %q", got, tt.want)
		}
	}
	v := check(t, gate(t, `rules: [{action: block, tools: [bash], reason: Never.}]`), input("bash", tool.Confirm))
	if v.Kind() != hook.KindBlock || v.Reason() != "Never." {
		t.Errorf("verdict = %s %q", v.Kind(), v.Reason())
	}
}

// TestAnswer checks that four eyes require two people, and that a person cannot approve calls made on their own behalf (T62, T114). An
// approval is checked against the current rules.
func TestAnswer(t *testing.T) {
	yes := func(by, result string) *tool.Decision {
		return &tool.Decision{ID: "d", Action: tool.Resume, Result: result, DecidedBy: tool.Principal{Subject: by, Roles: []string{"caller", "approver"}}}
	}
	both := func(one, other string) *tool.Decision {
		d := yes(other, "")
		for _, name := range []string{one, other} {
			d.Votes = append(d.Votes, tool.Vote{Action: tool.Resume, Voter: tool.Principal{Subject: name, Roles: []string{"approver"}}})
		}
		return d
	}
	instead := yes("bob", "")
	instead.ResultInstead = &tool.ResultInstead{Message: "by hand"}
	grouped := func(groups ...string) *tool.Decision {
		d := yes("bob", "")
		d.DecidedBy.Groups = groups
		return d
	}
	const fourEyes = `rules: [{action: ask, tools: [x], four_eyes: true}]`
	const finance = `rules: [{action: ask, tools: [x], approvers: {groups: [finance, board]}}]`
	const two = `rules: [{action: ask, tools: [x], count: 2}]`
	const twoOthers = `rules: [{action: ask, tools: [x], count: 2, four_eyes: true}]`
	tests := []struct {
		name, rules string
		single      bool
		answer      *tool.Decision
		want        string
	}{
		{"yes", "", false, yes("bob", ""), "ALLOW"},
		{"a result in the tool's place", `rules: [{action: ask, tools: [x], result_instead: true}]`, false, instead, "ALLOW"},
		{"a result in the tool's place, for which there is no right now", "", false, instead, "SUSPEND"},
		{"a result in the tool's place never beats a deny", `rules: [{action: deny, tools: [x]}]`, false, instead, "DENY"},
		{"yes of the caller", "", false, yes("alice", ""), "ALLOW"},
		{"no", "", false, &tool.Decision{Action: tool.Cancel, DecidedBy: tool.Principal{Subject: "bob"}}, "SUSPEND"},
		{"an answer without an action", "", false, &tool.Decision{DecidedBy: tool.Principal{Subject: "bob"}}, "SUSPEND"},
		{"a yes never beats a deny", `rules: [{action: deny, tools: [x]}]`, false, yes("bob", ""), "DENY"},
		{"a yes never beats a block", `rules: [{action: block, tools: [x]}]`, false, yes("bob", ""), "BLOCK"},
		{"an operator has to answer now, and an approver's yes of before", `approvers: [operator]`, false, yes("bob", ""), "SUSPEND"},
		{"the same by a rule, with four eyes", `rules: [{action: ask, tools: [x], four_eyes: true, approvers: [operator]}]`, false, yes("bob", ""), "SUSPEND"},
		{"one role of several", `approvers: [operator, approver]`, false, yes("bob", ""), "ALLOW"},
		{"a member of the group", finance, false, grouped("hr", "board"), "ALLOW"},
		{"a group must answer now, and the yes of before is of another group", finance, false, grouped("hr"), "SUSPEND"},
		{"the same, and the yes of before is of nobody's group", finance, false, yes("bob", ""), "SUSPEND"},
		{"a group for all rules", `approvers: {groups: [finance]}`, false, grouped("finance"), "ALLOW"},
		{"a rule that names roles keeps the group of the file", "approvers: {groups: [finance]}\nrules: [{action: ask, tools: [x], approvers: [approver]}]", false, yes("bob", ""), "SUSPEND"},
		{"an operator of the group, and an approver's yes", `approvers: {roles: [operator], groups: [finance]}`, false, grouped("finance"), "SUSPEND"},
		{"four eyes", fourEyes, false, yes("bob", ""), "ALLOW"},
		{"four eyes now, and the caller's yes of before", fourEyes, false, yes("alice", ""), "SUSPEND"},
		{"the same for whom the caller acts for", fourEyes, false, yes("carol", ""), "SUSPEND"},
		{"four eyes, and nobody", fourEyes, false, yes("", ""), "SUSPEND"},
		{"two people", two, false, both("bob", "alice"), "ALLOW"},
		{"two people now, and one yes of before", two, false, yes("bob", ""), "SUSPEND"},
		{"two people, and one twice", two, false, both("bob", "bob"), "SUSPEND"},
		{"two people, and nobody", two, false, both("", "bob"), "SUSPEND"},
		{"two others now, and the caller's yes of before", twoOthers, false, both("bob", "alice"), "SUSPEND"},
		{"two operators now, and two approvers of before", "approvers: [operator]\n" + two, false, both("bob", "dan"), "SUSPEND"},
		{"one is enough now, and the caller was the other", fourEyes, false, both("bob", "alice"), "ALLOW"},
		{"single user where two are asked for, typed", two, true, yes("alice", `{"confirm":"x"}`), "ALLOW"},
		{"single user where two are asked for, not typed", two, true, yes("alice", ""), "SUSPEND"},
		{"single user, typed", fourEyes, true, yes("alice", `{"confirm":"x"}`), "ALLOW"},
		{"single user, not typed", fourEyes, true, yes("alice", ""), "SUSPEND"},
		{"single user, mistyped", fourEyes, true, yes("alice", `{"confirm":"y"}`), "SUSPEND"},
		{"single user where no four eyes are asked for", "", true, yes("alice", ""), "ALLOW"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules, err := permission.Parse("rules.yaml", []byte(tt.rules))
			if err != nil {
				t.Fatal(err)
			}
			g := permission.New(permission.Config{Rules: rules, SingleUser: tt.single})
			in := input("x", tool.Confirm)
			in.OnBehalfOf = "carol"
			if got := kind(check(t, g, in.WithAnswer(tt.answer))); got != tt.want {
				t.Errorf("verdict = %s, want %s", got, tt.want)
			}
			if got := kind(check(t, g, in)); got == "ALLOW" {
				t.Error("allowed without an answer")
			}
		})
	}
}

// TestGroupsOfACommand checks the question about a compound command whose parts name different groups.
func TestGroupsOfACommand(t *testing.T) {
	const file = `rules:
  - {action: ask, tools: ['bash(git *)'], approvers: {groups: [dev, ops]}}
  - {action: ask, tools: ['bash(kubectl *)'], approvers: {groups: [ops]}}
  - {action: ask, tools: ['bash(psql *)'], approvers: {groups: [dba]}}
`
	rules, err := permission.Parse("rules.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	g := permission.New(permission.Config{Rules: rules, Commands: map[string]permission.Splitter{"bash": split}})
	tests := []struct{ command, want string }{
		{"git push", "[approver] [dev ops]"},
		{"git push; kubectl apply", "[approver] [ops]"},
		{"kubectl apply; psql -l", "[operator] []"}, // no group may approve both parts
		{"kubectl apply; make", "[approver] [ops]"},
	}
	for _, tt := range tests {
		a := check(t, g, callOf(t, "bash", command(tt.command))).Ticket().Approvers
		if got := fmt.Sprint(a.Roles, a.Groups); got != tt.want {
			t.Errorf("%s is answered by %s, want %s", tt.command, got, tt.want)
		}
	}
}

func TestSeveralPeople(t *testing.T) {
	reasoned := check(t, gate(t, `rules: [{action: ask, tools: [x], count: 2, reason: two people}]`), input("x", tool.Confirm)).Ticket()
	if reasoned.Message != "Allow x? two people. 2 people have to agree." {
		t.Errorf("message %q", reasoned.Message)
	}
	got := check(t, gate(t, `rules: [{action: ask, tools: [x], count: 2}]`), input("x", tool.Confirm)).Ticket()
	if got.Approvers.Count != 2 || got.Message != "Allow x? 2 people have to agree." {
		t.Errorf("ticket %q for %+v", got.Message, got.Approvers)
	}
	got = check(t, gate(t, `rules: [{action: ask, tools: [x], count: 3, four_eyes: true}]`), input("x", tool.Confirm)).Ticket()
	if got.Approvers.Count != 3 || !got.Approvers.DistinctFromCaller || got.Message != "Allow x? 3 people have to agree, none of them the caller." {
		t.Errorf("ticket %q for %+v", got.Message, got.Approvers)
	}
}

// TestResultInstead checks that only a rule gives the right to answer in the tool's place.
func TestResultInstead(t *testing.T) {
	for rules, want := range map[string]bool{
		`rules: [{action: ask, tools: [x]}]`:                                        false,
		`rules: [{action: ask, tools: [x], result_instead: false}]`:                 false,
		`rules: [{action: ask, tools: [x], result_instead: true}]`:                  true,
		`rules: [{action: ask always, tools: [x], result_instead: true, count: 2}]`: true,
	} {
		g := gate(t, rules)
		if got := check(t, g, input("x", tool.Confirm)).Ticket().Approvers.ResultInstead; got != want {
			t.Errorf("%s: the ticket gives the right: %t", rules, got)
		}
		if got := g.Explain(input("x", tool.Confirm)).Instead; got != want {
			t.Errorf("%s: explained as %t", rules, got)
		}
	}
}

func TestSingleUserTypesTheName(t *testing.T) {
	g := permission.New(permission.Config{SingleUser: true})
	got := check(t, g, input("deploy", tool.Escalate)).Ticket()
	want := tool.Ticket{
		Action:         "approval",
		Message:        `Allow deploy? Type "deploy" to confirm.`,
		Parameters:     json.RawMessage(`{"tool":"deploy","tier":"ESCALATE","single_user":true}`),
		ResponseSchema: json.RawMessage(`{"type":"object","properties":{"confirm":{"const":"deploy"}},"required":["confirm"],"additionalProperties":false}`),
		Approvers:      &tool.Approvers{Roles: []string{"approver"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ticket (-want +got):\n%s", d)
	}
	if got := check(t, g, input("deploy", tool.Confirm)).Ticket(); got.ResponseSchema != nil {
		t.Error("a plain question asks for typing")
	}
}

// TestHidden checks that a tool that is denied to a caller with any arguments does not exist for that caller (T115).
func TestHidden(t *testing.T) {
	observe := &tool.Effects{Tier: tool.Observe}
	tests := []struct {
		name, rules string
		d           tool.Descriptor
		caller      string
		want        bool
	}{
		{"no rule", "", tool.Descriptor{ID: "x"}, "alice", false},
		{"denied", `rules: [{action: deny, tools: [x]}]`, tool.Descriptor{ID: "x"}, "alice", true},
		{"denied by an alias", `rules: [{action: deny, tools: [y]}]`, tool.Descriptor{ID: "x", Aliases: []string{"y"}}, "alice", true},
		{"denied by the id of its source", `rules: [{action: deny, tools: [y]}]`, tool.Descriptor{ID: "x", SourceID: "y"}, "alice", true},
		{"denied to somebody else", `rules: [{action: deny, tools: [x], callers: [bob]}]`, tool.Descriptor{ID: "x"}, "alice", false},
		{"denied to this caller", `rules: [{action: deny, tools: [x], callers: [bob]}]`, tool.Descriptor{ID: "x"}, "bob", true},
		{"asked", `rules: [{action: ask, tools: [x]}]`, tool.Descriptor{ID: "x"}, "alice", false},
		{"blocked, which must be able to happen", `rules: [{action: block, tools: [x]}]`, tool.Descriptor{ID: "x"}, "alice", false},
		{"denied for one tier", `rules: [{action: deny, tiers: [CONFIRM]}]`, tool.Descriptor{ID: "x"}, "alice", false},
		{"denied for every tier it can have", `rules: [{action: deny, tiers: [CONFIRM, ESCALATE]}]`, tool.Descriptor{ID: "x"}, "alice", true},
		{"milder with some arguments", `rules: [{action: deny, tiers: [CONFIRM, ESCALATE]}]`, tool.Descriptor{ID: "x", Mildest: observe}, "alice", false},
		{"denied by the defaults", `default: {CONFIRM: deny, ESCALATE: deny}`, tool.Descriptor{ID: "x"}, "alice", true},
		{"but for one", "default: {CONFIRM: deny, ESCALATE: deny}\nrules: [{action: ask, tools: [x]}]", tool.Descriptor{ID: "x"}, "alice", false},
		{"an unknown tier is ESCALATE", `default: {ESCALATE: deny}`, tool.Descriptor{ID: "x", Effects: tool.Effects{Tier: "LOW"}}, "alice", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gate(t, tt.rules).Hidden(tool.Principal{Subject: tt.caller}, &tt.d); got != tt.want {
				t.Errorf("Hidden = %t, want %t", got, tt.want)
			}
		})
	}
}

// The test checks that a failed reload changes nothing, and that a successful one replaces the rules (T103). TestAnswer checks how new
// rules affect earlier answers.
func TestReloadKeepsTheOldRules(t *testing.T) {
	g := gate(t, `rules: [{action: deny, tools: [x]}]`)
	old := g.Rules()
	err := g.Reload("new.yaml", []byte("rules:\n  - action: alow\n    tools: [x]\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "new.yaml:2:13: ") {
		t.Errorf("Reload = %v, want the line and the column", err)
	}
	if g.Rules() != old || kind(check(t, g, input("x", tool.Observe))) != "DENY" {
		t.Error("a broken file took effect")
	}
	if err := g.Reload("new.yaml", []byte("rules: [{action: allow, tools: [x]}]")); err != nil {
		t.Fatal(err)
	}
	if got := kind(check(t, g, input("x", tool.Confirm))); got != "ALLOW" {
		t.Errorf("verdict under the new rules = %s", got)
	}
	g.Swap(nil)
	if got := kind(check(t, g, input("x", tool.Confirm))); got != "SUSPEND" {
		t.Errorf("verdict without rules = %s", got)
	}
}

func TestReloadWhileChecking(t *testing.T) {
	g := permission.New(permission.Config{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 200 {
			if err := g.Reload("r", []byte(`rules: [{action: allow, tools: [x]}]`)); err != nil {
				t.Error(err)
			}
			g.Swap(nil)
		}
	})
	for range 200 {
		if got := kind(check(t, g, input("x", tool.Confirm))); got != "ALLOW" && got != "SUSPEND" {
			t.Errorf("verdict = %s", got)
		}
	}
	wg.Wait()
}

func TestCheckWithoutDescriptor(t *testing.T) {
	if v, err := permission.New(permission.Config{}).Check(t.Context(), &hook.Input{}); err == nil {
		t.Errorf("verdict = %s, want an error, which denies", v.Kind())
	}
}

func BenchmarkCheck(b *testing.B) {
	g := gate(b, `rules: [{action: allow, tools: ["read*", glob, grep]}, {action: deny, tools: ["web_*"]}, {action: ask, tools: [bash], four_eyes: true}]`)
	in := input("grep", tool.Confirm)
	b.ReportAllocs()
	for b.Loop() {
		if v, err := g.Check(b.Context(), in); err != nil || v.Kind() != hook.KindAllow {
			b.Fatal(v.Kind(), err)
		}
	}
}

// The test checks that a question contains the version of the rules, and that other rules have another version.
func TestQuestionNamesItsRules(t *testing.T) {
	one, two := "rules: [{name: a, action: ask, tools: [t]}]", "rules: [{name: b, action: ask, tools: [t]}]"
	g := gate(t, one)
	first := check(t, g, input("t", tool.Confirm)).Policy()
	if err := g.Reload("rules.yaml", []byte(two)); err != nil {
		t.Fatal(err)
	}
	second := check(t, g, input("t", tool.Confirm)).Policy()
	if again := check(t, gate(t, one), input("t", tool.Confirm)).Policy(); len(first) != 16 || first == second || first != again {
		t.Errorf("named %q and %q, %q for the same again", first, second, again)
	}
}
