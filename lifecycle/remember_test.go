package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

var approvesAll = tool.Principal{Namespace: "ns", Subject: "oda", Roles: []string{"approver", "operator"}}

// remembering returns a gate that offers to remember the answer. It asks unless it has an answer or a rule with the option "any".
func remembering(w **world, ticket tool.Ticket) gate {
	ticket.RememberOptions = []tool.RememberOption{{Option: "exact", Title: "this"}, {Option: "any", Title: "everything"}}
	if ticket.Approvers == nil {
		ticket.Approvers = &tool.Approvers{}
	}
	return func(in *hook.Input) (hook.Verdict, error) {
		if in.Answer() != nil {
			return hook.Allow(), nil
		}
		kept := (*w).cfg.Policies.Rules(&call.RuleQuery{
			Gate: "ask", Namespace: in.Namespace, Principal: in.Caller.Subject, OnBehalfOf: in.OnBehalfOf,
			Run: in.Run.ID, Thread: in.Run.Thread, Tool: in.Descriptor.ID, ToolDigest: in.ToolDigest,
		})
		if slices.ContainsFunc(kept, func(r *call.Rule) bool { return r.Option == "any" }) {
			return hook.Allow(), nil
		}
		return hook.Suspend(ticket), nil
	}
}

// keeping is like inBubble, with a gate that remembers answers.
func keeping(t *testing.T, tools []tool.Tool, ticket tool.Ticket, run func(t *testing.T, w *world)) {
	t.Helper()
	var w *world
	inBubble(t, tools, gates(namedGate("ask", remembering(&w, ticket))), func(t *testing.T, in *world) {
		w = in
		w.again()
		run(t, w)
	})
}

// again restarts the engine on the same journal. The gate reads the policies of the new engine.
func (w *world) again() {
	w.t.Helper()
	w.kill()
	w.cfg.Policies = policy.New(w.store)
	w.open()
	synctest.Wait()
}

func keep(option string, scope tool.Scope) tool.Decision {
	return tool.Decision{Action: tool.Resume, Remember: &tool.Remember{Option: option, Scope: scope}}
}

func (w *world) wantAsked(s call.Spec, asked bool) *call.Call {
	w.t.Helper()
	want := call.Succeeded
	if asked {
		want = call.Suspended
	}
	c := w.do(s)
	if c.Status != want {
		w.t.Errorf("call of %s in %s is %s, want %s", s.Tool, s.Run.ID, c.Status, want)
	}
	return c
}

func elsewhere(run, thread string) call.Spec {
	s := spec("t", "")
	s.Run = tool.Run{ID: run, Thread: thread}
	return s
}

func TestRemember(t *testing.T) {
	tests := []struct {
		scope             tool.Scope
		otherRun, nowhere bool // whether the gate asks for a call of another run, or of no run
		otherThread       bool
	}{
		{tool.RunScope, true, true, true},
		{tool.ThreadScope, false, true, true},
		{tool.NamespaceScope, false, false, false},
	}
	for _, tt := range tests {
		t.Run(string(tt.scope), func(t *testing.T) {
			keeping(t, []tool.Tool{echo("t", mutating), echo("u", mutating)}, tool.Ticket{}, func(t *testing.T, w *world) {
				w.answer(approvesAll, w.wantAsked(spec("t", ""), true), keep("any", tt.scope))
				for range 2 { // The second round is after a restart.
					w.wantAsked(spec("t", `{"x":2}`), false)
					w.wantAsked(elsewhere("run-2", "thread-1"), tt.otherRun)
					w.wantAsked(elsewhere("run-3", "thread-2"), tt.otherThread)
					w.wantAsked(elsewhere("", ""), tt.nowhere)
					w.wantAsked(spec("u", ""), true)
					behalf := spec("t", "")
					behalf.OnBehalfOf = "dave"
					w.wantAsked(behalf, true)
					w.again()
				}
				time.Sleep(24*time.Hour - time.Minute)
				w.wantAsked(spec("t", ""), false)
				time.Sleep(time.Minute)
				w.wantAsked(spec("t", ""), true) // By now, the rule has expired.
				w.again()
				w.wantAsked(spec("t", ""), true)
			})
		})
	}
}

// TestRuleRecord checks that a rule applies only to the caller that asked, to the unchanged tool, and to questions of the same gate.
func TestRuleRecord(t *testing.T) {
	keeping(t, []tool.Tool{echo("t", mutating)}, tool.Ticket{}, func(t *testing.T, w *world) {
		d := keep("any", tool.NamespaceScope)
		d.Remember.Until = w.store.Now().Add(72 * time.Hour).Time()
		d.ID = "decision-to-be-kept"
		c := w.do(spec("t", ""))
		d.ExpectedDigest = c.Open().Digest
		c = w.answer(approvesAll, c, d)
		if got := c.Rounds[0].Decision.Remember; got == nil || !got.Until.Equal(d.Remember.Until) {
			t.Errorf("the decision is stored with %+v", got)
		}
		w.answer(approvesAll, c, d) // A repeated decision creates no second rule.
		rules := w.e.Policies().Rules(carol)
		if len(rules) != 1 {
			t.Fatalf("rules %+v", rules)
		}
		r := *rules[0]
		want := call.Rule{ID: r.ID, Namespace: "ns", Gate: "ask", Option: "any", Title: "everything", Tool: "t", ToolDigest: c.ToolDigest, Principal: "alice",
			Scope: tool.NamespaceScope, CallID: c.ID, DecisionID: d.ID, Created: r.Created, Until: call.StampOf(d.Remember.Until), By: r.By, Approvers: []string{"approver"}}
		if fmt.Sprintf("%+v", r) != fmt.Sprintf("%+v", want) || r.By.Subject != "oda" || r.Created == 0 || r.ID == "" {
			t.Errorf("rule %+v", r)
		}
		other := tool.Principal{Namespace: "ns", Subject: "albert", Roles: []string{"caller"}}
		for p, sees := range map[*tool.Principal]bool{&alice: true, &bob: true, &other: false, &eve: false} {
			if got := len(w.e.Policies().Rules(*p)) == 1; got != sees {
				t.Errorf("%s sees the rule: %t", p.Subject, got)
			}
		}
		watcher, err := w.e.Execute(t.Context(), other, elsewhere("run-of-albert", ""), call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := watcher.Wait(t.Context(), time.Hour); err != nil || c.Status != call.Suspended {
			t.Errorf("a call of somebody else is %s, %v", c.Status, err)
		}
		probe := &probe{}
		w.tools.put(probe.toolAs(tool.Descriptor{ID: "t", Description: "changed"}))
		w.wantAsked(spec("t", ""), true)
		if in := w.cfg.Policies.Rules(&call.RuleQuery{Gate: "another", Namespace: "ns", Principal: "alice", Tool: "t", ToolDigest: c.ToolDigest}); in != nil {
			t.Errorf("another gate finds %+v", in)
		}
	})
}

func TestRememberRefused(t *testing.T) {
	keeping(t, []tool.Tool{echo("t", mutating)}, tool.Ticket{}, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		no := keep("any", tool.RunScope)
		no.Action = tool.Cancel
		edited := keep("any", tool.RunScope)
		edited.Arguments = `{}`
		ended := keep("any", tool.RunScope)
		ended.Remember.Until = w.store.Now().Time()
		long := keep("any", tool.RunScope)
		long.Remember.Until = w.store.Now().Add(30*24*time.Hour + time.Minute).Time()
		for name, d := range map[string]tool.Decision{
			"a no": no, "an edit": edited, "an end that is past": ended, "more than 30 days": long,
			"another option": keep("every", tool.RunScope), "no option": keep("", tool.RunScope), "no scope": keep("any", ""),
		} {
			t.Log(name)
			w.refuse(bob, c, d, call.InvalidArgument, "INVALID_FIELD")
		}
		w.refuse(bob, c, keep("any", tool.NamespaceScope), call.PermissionDenied, "OPERATOR_REQUIRED")
		nowhere := w.do(elsewhere("", ""))
		w.refuse(bob, nowhere, keep("any", tool.RunScope), call.InvalidArgument, "INVALID_FIELD")
		w.refuse(bob, nowhere, keep("any", tool.ThreadScope), call.InvalidArgument, "INVALID_FIELD")
		w.refuse(alice, c, keep("any", tool.RunScope), call.PermissionDenied, "NOT_AN_APPROVER")
		if rules := w.e.Policies().Rules(carol); len(rules) != 0 {
			t.Errorf("rules %+v", rules)
		}
		d := keep("any", tool.RunScope)
		d.ID = "decision-to-be-kept"
		w.answer(bob, c, d)
		d.Remember = nil
		_, err := w.resume(bob, c, d)
		wantRefusal(t, err, call.AlreadyExists, "DECISION_ID_REUSED")
	})
}

// TestNothingToKeep checks questions that must not offer to remember the answer: those that another person or several people must answer,
// those about effects that cannot be undone, and those that ask for more than yes or no. This holds even if the gate offers it.
func TestNothingToKeep(t *testing.T) {
	tests := map[string]struct {
		ticket  tool.Ticket
		effects tool.Effects
	}{
		"four eyes":      {tool.Ticket{Approvers: &tool.Approvers{DistinctFromCaller: true}}, mutating},
		"two people":     {tool.Ticket{Approvers: &tool.Approvers{Count: 2}}, mutating},
		"ESCALATE":       {tool.Ticket{}, tool.Effects{Tier: tool.Escalate}},
		"DESTRUCTIVE":    {tool.Ticket{}, tool.Effects{Safety: tool.SafetyDestructive}},
		"another answer": {tool.Ticket{ResumeMode: tool.UseDecisionAsToolResult}, mutating},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			keeping(t, []tool.Tool{echo("t", tt.effects)}, tt.ticket, func(t *testing.T, w *world) {
				c := w.do(spec("t", ""))
				if got := c.Open().RememberOptions; got != nil {
					t.Errorf("offered %v", got)
				}
				d := keep("any", tool.RunScope)
				d.Result = `1`
				w.refuse(bob, c, d, call.InvalidArgument, "INVALID_FIELD")
			})
		})
	}
	// A tool's own question never offers to remember the answer.
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{RememberOptions: []tool.RememberOption{{Option: "any"}}, Approvers: &tool.Approvers{}})}, nil, func(t *testing.T, w *world) {
		if c := w.do(spec("t", "")); len(c.Open().RememberOptions) != 0 {
			t.Errorf("offered %v", c.Open().RememberOptions)
		}
	})
}

// TestRevokeRule checks that a rule applies to no call after RevokeRule has returned, also after a crash.
func TestRevokeRule(t *testing.T) {
	stranger := tool.Principal{Namespace: "ns", Subject: "albert", Roles: []string{"caller"}}
	for _, p := range []tool.Principal{bob, alice, carol} {
		keeping(t, []tool.Tool{echo("t", mutating)}, tool.Ticket{}, func(t *testing.T, w *world) {
			w.answer(bob, w.do(spec("t", "")), keep("any", tool.RunScope))
			w.answer(bob, w.do(elsewhere("run-2", "")), keep("any", tool.RunScope))
			rules := w.e.Policies().Rules(carol)
			id := rules[slices.IndexFunc(rules, func(r *call.Rule) bool { return r.ScopeID == "run-1" })].ID
			for _, no := range []tool.Principal{stranger, eve} {
				_, err := w.e.Policies().RevokeRule(t.Context(), no, id)
				wantRefusal(t, err, call.NotFound, "RULE_NOT_FOUND")
			}
			waiting := w.do(elsewhere("run-3", ""))
			if r, err := w.e.Policies().RevokeRule(t.Context(), p, id); err != nil || r.Revoked == nil || r.Revoked.By.Subject != p.Subject {
				t.Fatalf("revoked %+v, %v", r, err)
			}
			for range 2 {
				w.wantAsked(spec("t", ""), true)
				w.wantAsked(elsewhere("run-2", ""), false)
				_, err := w.e.Policies().RevokeRule(t.Context(), p, id)
				wantRefusal(t, err, call.NotFound, "RULE_NOT_FOUND")
				w.again()
			}
			if now := w.get(waiting.ID); now.Status != call.Suspended || now.Open().Digest != waiting.Open().Digest {
				t.Error("a call that waits was touched")
			}
		})
	}
}

// TestRuleCommitsWithDecision checks that a rule is stored if and only if its decision is stored, also when the journal fails.
func TestRuleCommitsWithDecision(t *testing.T) {
	keeping(t, []tool.Tool{echo("t", mutating)}, tool.Ticket{}, func(t *testing.T, w *world) {
		full := false
		w.useStore(nil, func(c *store.Change) error {
			if full && c.Decision != nil {
				return store.ErrFull
			}
			return nil
		})
		w.again()
		c := w.do(spec("t", ""))
		full = true
		w.refuse(bob, c, keep("any", tool.RunScope), call.ResourceExhausted, "STORAGE_FULL")
		w.wantAsked(spec("t", ""), true)
		full = false
		w.answer(bob, c, keep("any", tool.RunScope))
		w.store = w.store.LosePower()
		w.again()
		if w.get(c.ID).Rounds[0].Decision == nil {
			t.Error("the decision is lost")
		}
		w.wantAsked(spec("t", ""), false)
	})
}

func TestRulesEndWithTheRun(t *testing.T) {
	keeping(t, []tool.Tool{echo("t", mutating)}, tool.Ticket{}, func(t *testing.T, w *world) {
		w.answer(bob, w.do(spec("t", "")), keep("any", tool.RunScope))
		w.wantAsked(spec("t", ""), false)
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
			t.Fatal(err)
		}
		w.wantAsked(spec("t", ""), true)
		w.again()
		w.wantAsked(spec("t", ""), true)
	})
}

// TestT103RememberVoidsNothing checks calls that wait for an approval. Their questions stay open and valid when another decision creates a
// rule, and when the rule is revoked.
func TestT103RememberVoidsNothing(t *testing.T) {
	p := &probe{}
	keeping(t, []tool.Tool{p.tool("t", mutating)}, tool.Ticket{}, func(t *testing.T, w *world) {
		var waiting []*call.Call
		for i := range 100 {
			waiting = append(waiting, w.do(spec("t", fmt.Sprintf(`{"n":%d}`, i))))
		}
		w.answer(bob, w.do(spec("t", "")), keep("any", tool.ThreadScope))
		w.wantAsked(spec("t", ""), false)
		w.again()
		for i, c := range waiting {
			now := w.get(c.ID)
			if now.Status != call.Suspended || now.Open().ID != c.Open().ID || now.Open().Digest != c.Open().Digest {
				t.Fatalf("waiting call %d is %s", i, now.Status)
			}
			if now = w.answer(carolApproves, c, yes()); now.Status != call.Succeeded || len(now.Rounds) != 1 {
				t.Fatalf("waiting call %d is %s after its approval", i, now.Status)
			}
			if i == 50 {
				if _, err := w.e.Policies().RevokeRule(t.Context(), bob, w.e.Policies().Rules(bob)[0].ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		if p.runs.Load() != 102 {
			t.Errorf("%d runs", p.runs.Load())
		}
	})
}
