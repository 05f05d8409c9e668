package grpcserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const twoNamespaces = `
default: {OBSERVE: allow, CONFIRM: ask, ESCALATE: ask}
rules:
  - {name: reading, action: allow, tools: [echo, talk]}
  - {name: writing, action: ask, tools: ['write(text ~ "a*")'], reason: It changes files., expires_in: 2h, remember: none}
  - {name: never, action: deny, tools: [secret]}
namespaces:
  other:
    rules:
      - {name: theirs, action: ask always, tools: [echo], when: 'arguments.text == "x"', approvers: [operator], count: 2, four_eyes: true}
modes:
  careful:
    rules:
      - {name: all, action: ask, tools: ["*"], callers: ["a*"], tiers: [OBSERVE]}
`

// TestPolicy checks which rules each principal sees, and the hits of these rules. Only hits in the principal's own namespace count. No
// principal sees the rules of another namespace.
func TestPolicy(t *testing.T) {
	w := newWorld(t, options{})
	w.swapRules(twoNamespaces)
	for range 3 {
		w.do("alice", "echo", `{"text":"x"}`)
	}
	w.do("mallory", "echo", `{"text":"y"}`)
	w.do("alice", "transfer", `{"text":"x"}`)
	w.do("alice", "secret", `{}`) // The tool is hidden, so the gate does not check the rule.
	got, err := w.calls("vera").GetPolicy(within(t), &tooldv1.GetPolicyRequest{})
	must(t, err)
	want := []string{
		"mode careful: all ask * hits 0", "operator: never deny secret hits 0 hides", "operator: writing ask write(text ~ \"a*\") hits 0",
		"operator: reading allow echo,talk hits 3", "operator OBSERVE allow 0", "operator CONFIRM ask 1", "operator ESCALATE ask 0",
	}
	if lines := policyLines(got); !slices.Equal(lines, want) {
		t.Errorf("rules:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	reading := got.GetRules()[3]
	if got.Text != nil || got.GetFile() != "rules" || len(got.GetVersion()) != 16 || reading.GetLine() != 4 || reading.GetColumn() != 5 || reading.GetHits().GetLastAt().AsTime().Before(got.GetSince().AsTime()) {
		t.Errorf("policy of vera: %v", got)
	}
	if r := got.GetRules()[2]; r.GetExpiresIn().AsDuration().Hours() != 2 || !r.GetRemembersNone() || r.GetReason() != "It changes files." {
		t.Errorf("writing: %v", r)
	}
	got, err = w.calls("mallory").GetPolicy(within(t), &tooldv1.GetPolicyRequest{})
	must(t, err)
	lines := policyLines(got)
	for _, want := range []string{"namespace other: theirs ask always echo hits 0", "operator: reading allow echo,talk hits 1"} {
		if !slices.Contains(lines, want) {
			t.Errorf("mallory does not see %q in:\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if r := got.GetRules()[1]; r.GetWhen() != `arguments.text == "x"` || r.GetCount() != 2 || !r.GetFourEyes() || !slices.Equal(r.GetApproverRoles(), []string{"operator"}) {
		t.Errorf("theirs: %v", r)
	}
	if got.GetText() != twoNamespaces {
		t.Errorf("the file has only rules of mallory's namespace, and its text is %q", got.GetText())
	}
	w.swapRules(rules) // With new rules, the hits begin at zero.
	if got, err = w.calls("vera").GetPolicy(within(t), &tooldv1.GetPolicyRequest{}); err != nil || got.GetText() != rules || got.GetDefaults()[0].GetHits().GetCount() != 0 {
		t.Errorf("after a reload: %v, %v", got, err)
	}
}

func policyLines(p *tooldv1.GetPolicyResponse) (lines []string) {
	name := func(a tooldv1.RuleAction) string {
		return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(a.String(), "RULE_ACTION_"), "_", " "))
	}
	for _, r := range p.GetRules() {
		line := fmt.Sprintf("%s: %s %s %s hits %d", r.GetLayer(), r.GetName(), name(r.GetAction()), strings.Join(r.GetTools(), ","), r.GetHits().GetCount())
		if r.GetHidesTools() {
			line += " hides"
		}
		lines = append(lines, line)
	}
	for _, d := range p.GetDefaults() {
		lines = append(lines, fmt.Sprintf("%s %s %s %d", d.GetLayer(), strings.TrimPrefix(d.GetTier().String(), "TIER_"), name(d.GetAction()), d.GetHits().GetCount()))
	}
	return lines
}

// TestTryRules judges past calls of a namespace by other rules. It ignores calls of other namespaces and runs nothing. The rules in force
// do not change.
func TestTryRules(t *testing.T) {
	w := newWorld(t, options{})
	w.swapRules("rules:\n  - {name: shell, action: ask, tools: [write]}\n  - {name: reading, action: allow, tools: [echo]}\n")
	for _, text := range []string{"a1", "a2", "b"} {
		w.do("alice", "write", `{"text":"`+text+`"}`)
	}
	w.do("alice", "echo", `{"text":"x"}`)
	w.do("alice", "echo", `{"wrong":"x"}`) // has no effective arguments, so it cannot be judged
	w.do("mallory", "echo", `{"text":"x"}`)
	list, err := w.calls("oscar").ListCalls(within(t), &tooldv1.ListCallsRequest{Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}})
	must(t, err)
	w.decide("ann", list.GetCalls()[2], tooldv1.DecisionAction_DECISION_ACTION_CANCEL)
	before := w.writes.Load()

	next := "rules:\n  - {name: some, action: allow, tools: ['write(text ~ \"a*\")']}\n  - {name: shell, action: ask, tools: ['write(text ~ \"b*\")']}\n  - {name: quiet, action: block, tools: [echo]}\n"
	got, err := w.calls("oscar").TryRules(within(t), &tooldv1.TryRulesRequest{Rules: &next, Subject: &tooldv1.TryRulesRequest_LastCalls{LastCalls: 1000}})
	must(t, err)
	r := got.GetReplay()
	if r.GetJudged() != 4 || r.GetSkipped() != 1 || !r.GetComplete() || r.GetBefore().String() != (&tooldv1.ReplayTotals{Allowed: 1, Asked: 3}).String() ||
		r.GetAfter().String() != (&tooldv1.ReplayTotals{Allowed: 2, Asked: 1, Blocked: 1}).String() {
		t.Errorf("replay = %v", r)
	}
	var changes []string
	for _, c := range r.GetChanged() {
		changes = append(changes, fmt.Sprintf("%s %s %s:%d > %s:%d %s", c.GetCaller(), c.GetTool(), c.GetBefore().GetRule(), c.GetBefore().GetLine(), c.GetAfter().GetRule(), c.GetAfter().GetLine(), strings.TrimPrefix(c.GetDecided().String(), "DECISION_ACTION_")))
	}
	want := []string{"alice echo reading:3 > quiet:4 UNSPECIFIED", "alice write shell:2 > some:2 UNSPECIFIED", "alice write shell:2 > some:2 CANCEL"}
	if !slices.Equal(changes, want) {
		t.Errorf("changed:\n%s\nwant:\n%s", strings.Join(changes, "\n"), strings.Join(want, "\n"))
	}
	if w.writes.Load() != before {
		t.Error("a trial ran a tool")
	}
	if got, err = w.calls("oscar").TryRules(within(t), &tooldv1.TryRulesRequest{Rules: &next, Subject: &tooldv1.TryRulesRequest_LastCalls{LastCalls: 1}}); err != nil || got.GetReplay().GetJudged()+got.GetReplay().GetSkipped() != 1 {
		t.Errorf("the last call: %v, %v", got, err)
	}
	policy, err := w.calls("oscar").GetPolicy(within(t), &tooldv1.GetPolicyRequest{})
	must(t, err)
	if hits := policy.GetRules()[0].GetHits().GetCount(); hits != 3 {
		t.Errorf("the rule in force has %d hits after trials, want 3: trials count as nothing, and an answered question counts once", hits)
	}
}

// TestTryOneCall judges one call that was never made, and checks the errors for wrong rule files.
func TestTryOneCall(t *testing.T) {
	w := newWorld(t, options{})
	try := func(text, id, args string) *tooldv1.TryRulesResponse {
		t.Helper()
		got, err := w.calls("oscar").TryRules(within(t), &tooldv1.TryRulesRequest{Rules: &text, Subject: &tooldv1.TryRulesRequest_Call{Call: &tooldv1.TrialCall{
			Spec: &tooldv1.CallSpec{Tool: id, Arguments: args, Run: &tooldv1.Run{RunId: "r1"}}, Caller: "nightly", PermissionMode: "plan",
		}}})
		must(t, err)
		return got
	}
	text := "rules:\n  - {name: night, action: deny, tools: [write], callers: [nightly]}\n"
	got := try(text, "write", `{"text":"x"}`)
	if d := got.GetTried().GetDecision(); d.GetOutcome() != tooldv1.VerdictAction_VERDICT_ACTION_DENY || d.GetRule() != "night" || !got.GetTried().GetHidden() || !got.GetTried().GetTried()[0].GetHolds() {
		t.Errorf("tried: %v", got.GetTried())
	}
	if d := got.GetInForce(); d.GetDecision().GetAction() != tooldv1.RuleAction_RULE_ACTION_DENY || d.GetMode() != "plan" || d.GetWhy() == "" {
		t.Errorf("in force: %v", d)
	}
	if got = try(text, "write", `{"text":7}`); !strings.Contains(got.GetCallError(), "text") || got.GetTried() != nil {
		t.Errorf("invalid arguments: %v", got)
	}
	if got = try(text, "nothing", ``); !strings.Contains(got.GetCallError(), `no tool "nothing"`) {
		t.Errorf("no tool: %v", got)
	}
	if got = try("rules:\n  - {name: x, action: alow, tools: [a]}\n", "write", ``); got.GetError().GetLine() != 2 || got.GetError().GetColumn() != 23 || !strings.Contains(got.GetError().GetMessage(), "alow") {
		t.Errorf("error of the text: %v", got)
	}
	if got = try("rules:\n  - {name: x, action: deny, tools: ['write(txet = \"a\")']}\n", "write", `{"text":"x"}`); len(got.GetWarnings()) != 1 || got.GetWarnings()[0].GetLine() != 2 {
		t.Errorf("warnings: %v", got.GetWarnings())
	}
	for name, req := range map[string]*tooldv1.TryRulesRequest{
		"too many": {Subject: &tooldv1.TryRulesRequest_LastCalls{LastCalls: 1001}}, "none": {Subject: &tooldv1.TryRulesRequest_LastCalls{}},
		"no tool": {Subject: &tooldv1.TryRulesRequest_Call{Call: &tooldv1.TrialCall{Spec: &tooldv1.CallSpec{}}}},
	} {
		if _, err := w.calls("oscar").TryRules(within(t), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// do calls a tool and waits until the call has ended or is suspended.
func (w *world) do(user, id, arguments string) {
	w.t.Helper()
	_, err := w.calls(user).CallTool(within(w.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: id, Arguments: arguments}})
	must(w.t, err)
}

// decide answers the open question of a call.
func (w *world) decide(user string, c *tooldv1.Call, action tooldv1.DecisionAction) {
	w.t.Helper()
	s := c.GetSuspension()
	stream, err := w.calls(user).ResumeTool(within(w.t), &tooldv1.ResumeToolRequest{SuspensionId: s.GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: longID("decision-" + c.GetCallId()), Action: action, ExpectedDigest: s.GetDigest(),
	}})
	must(w.t, err)
	_, err = readAll(stream.Recv)
	must(w.t, err)
}
