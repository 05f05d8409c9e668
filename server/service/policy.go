package service

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// Policy reads and tries permission rules.
type Policy interface {
	// Policy returns the rules in force that can apply in a namespace.
	Policy(namespace string) PolicyState
	// TryCalls judges the newest calls of the principal's namespace by the text of a rule file; nil means the rules in force.
	TryCalls(ctx context.Context, p tool.Principal, text *string, last int) (*Trial, error)
	// TryCall judges one call by the text of a rule file. If c is nil, it only checks the text.
	TryCall(ctx context.Context, p tool.Principal, text *string, c *TrialCall) (*Trial, error)
}

// A PolicyState has rules in force. The proto message GetPolicyResponse describes the fields.
type PolicyState struct {
	File, Version string
	Since         time.Time
	Counted       bool // false when the hits of the namespace are not counted
	Waits         bool
	Whole         bool    // the file has no rules of other namespaces
	Text          *string // nil without a file
	Rules         []PolicyRule
	Defaults      []PolicyDefault
}

// A PolicyRule is a rule. The proto message of the same name describes the fields.
type PolicyRule struct {
	Layer, Name, Action  string
	Line, Column         int
	Tools                []string
	Tiers                []tool.Tier
	Sources, Callers     []string
	When, Reason         string
	FourEyes             bool
	Roles, Groups        []string
	Count                int
	Expires              time.Duration
	Instead              bool
	Remember             []string
	RemembersNone, Hides bool
	Hits                 int64
	Last                 time.Time
}

// A PolicyDefault is the action for a tier.
type PolicyDefault struct {
	Layer  string
	Tier   tool.Tier
	Action string
	Hits   int64
	Last   time.Time
}

// A TrialCall is a call to judge.
type TrialCall struct {
	Spec   call.Spec
	Caller tool.Principal
	Mode   string // empty means the mode in force for the run
}

// A Trial is the result of a trial. The proto messages TryRulesResponse and Replay describe the fields.
type Trial struct {
	Error           *RuleProblem
	Warnings        []RuleProblem
	Version         string
	Judged, Skipped int
	Since           time.Time
	Complete        bool
	Before, After   map[string]int // number of calls by outcome: ALLOW, SUSPEND, DENY, BLOCK
	Changed         []ChangedCall
	InForce, Tried  *Ruling // set when one call is judged
	CallError       string
}

// A RuleProblem is a place in the text of a rule file.
type RuleProblem struct {
	Line, Column int
	Text         string
}

// A ChangedCall is a past call that is judged differently.
type ChangedCall struct {
	Call          *call.Call
	Decided       tool.DecisionAction // the last decision of a person; empty when no person decided
	Before, After ShortRuling
}

// A ShortRuling says how rules decide a call, and which rule decided.
type ShortRuling struct {
	Outcome, Action, Rule string
	Line                  int
}

// A Ruling explains how rules decide a call.
type Ruling struct {
	ShortRuling

	Why, Layer, Pattern, Mode, Command string
	Roles, Groups                      []string
	Count                              int
	FourEyes, Hidden                   bool
	Tried                              []TriedRule
}

// A TriedRule is a rule that names the tool of a call.
type TriedRule struct {
	Layer, Rule      string
	Line, Column     int
	Action           string
	Pattern, Command string
	Holds            bool
	WhyNot           string
}

// Limits of a trial.
const (
	maxTrialCalls = 1000
	maxWarnings   = 100
	maxTried      = 200
	maxTitle      = 200 // bytes
)

// GetPolicy returns the rules in force that can apply in the namespace.
func (s *calls) GetPolicy(ctx context.Context, _ *tooldv1.GetPolicyRequest) (*tooldv1.GetPolicyResponse, error) {
	id := access.From(ctx)
	p := s.policy.Policy(id.Namespace)
	resp := &tooldv1.GetPolicyResponse{File: p.File, Version: p.Version, Since: translate.FromTime(p.Since), UnattendedWaits: p.Waits}
	if p.Whole || id.Has(access.Administrator) {
		resp.Text = p.Text
	}
	if p.File != "" && !id.Has(access.Administrator) {
		resp.File = filepath.Base(p.File)
	}
	for i := range p.Rules {
		resp.Rules = append(resp.Rules, fromPolicyRule(&p.Rules[i], p.Counted))
	}
	for _, d := range p.Defaults {
		resp.Defaults = append(resp.Defaults, &tooldv1.PolicyDefault{
			Layer: d.Layer, Tier: fromTier(d.Tier), Action: fromRuleAction(d.Action), Hits: fromHits(d.Hits, d.Last, p.Counted),
		})
	}
	return resp, nil
}

func fromPolicyRule(r *PolicyRule, counted bool) *tooldv1.PolicyRule {
	out := &tooldv1.PolicyRule{
		Layer: r.Layer, Name: r.Name, Action: fromRuleAction(r.Action), Line: int32(r.Line), Column: int32(r.Column), Tools: r.Tools,
		Tiers: translate.Each(r.Tiers, func(t *tool.Tier) tooldv1.Tier { return fromTier(*t) }), Sources: r.Sources, Callers: r.Callers, When: r.When, Reason: r.Reason, FourEyes: r.FourEyes,
		ApproverRoles: r.Roles, ApproverGroups: r.Groups, Count: int32(r.Count), ResultInstead: r.Instead, Remember: r.Remember,
		RemembersNone: r.RemembersNone, HidesTools: r.Hides, Hits: fromHits(r.Hits, r.Last, counted),
	}
	if r.Expires > 0 {
		out.ExpiresIn = durationpb.New(r.Expires)
	}
	return out
}

func fromHits(count int64, last time.Time, counted bool) *tooldv1.RuleHits {
	if !counted {
		return &tooldv1.RuleHits{}
	}
	return &tooldv1.RuleHits{Count: &count, LastAt: translate.FromTime(last)}
}

func fromTier(t tool.Tier) tooldv1.Tier { return tooldv1.Tier(tooldv1.Tier_value["TIER_"+string(t)]) }

func fromRuleAction(action string) tooldv1.RuleAction {
	return tooldv1.RuleAction(tooldv1.RuleAction_value["RULE_ACTION_"+strings.ReplaceAll(strings.ToUpper(action), " ", "_")])
}

// TryRules judges past calls, or one call, by the text of a rule file.
func (s *calls) TryRules(ctx context.Context, req *tooldv1.TryRulesRequest) (*tooldv1.TryRulesResponse, error) {
	p := access.From(ctx).Principal
	var t *Trial
	var err error
	switch of := req.GetSubject().(type) {
	case *tooldv1.TryRulesRequest_LastCalls:
		if of.LastCalls < 1 || of.LastCalls > maxTrialCalls {
			return nil, call.InvalidField("last_calls", "is %d; want 1 to %d", of.LastCalls, maxTrialCalls)
		}
		t, err = s.policy.TryCalls(ctx, p, req.Rules, int(of.LastCalls))
	case *tooldv1.TryRulesRequest_Call:
		var c *TrialCall
		if c, err = toTrialCall(p, of.Call); err == nil {
			t, err = s.policy.TryCall(ctx, p, req.Rules, c)
		}
	default:
		t, err = s.policy.TryCall(ctx, p, req.Rules, nil)
	}
	if err != nil {
		return nil, err
	}
	return fromTrial(t), nil
}

func toTrialCall(p tool.Principal, in *tooldv1.TrialCall) (*TrialCall, error) {
	spec, err := translate.ToSpec(in.GetSpec())
	if err == nil {
		err = translate.Required("call.spec.tool", spec.Tool)
	}
	for _, name := range append([]string{in.GetCaller(), in.GetPermissionMode()}, in.GetRoles()...) {
		if err == nil {
			err = translate.Short("call", name, translate.MaxRunID)
		}
	}
	if err != nil {
		return nil, err
	}
	c := &TrialCall{Spec: spec, Mode: in.GetPermissionMode(), Caller: tool.Principal{Namespace: p.Namespace, Subject: in.GetCaller(), Roles: in.GetRoles()}}
	if c.Caller.Subject == "" {
		c.Caller.Subject = p.Subject
	}
	if len(c.Caller.Roles) == 0 {
		c.Caller.Roles = []string{"caller"}
	}
	return c, nil
}

func fromTrial(t *Trial) *tooldv1.TryRulesResponse {
	if t.Error != nil {
		return &tooldv1.TryRulesResponse{Error: fromRuleProblem(t.Error)}
	}
	resp := &tooldv1.TryRulesResponse{
		Warnings: translate.Each(t.Warnings[:min(len(t.Warnings), maxWarnings)], fromRuleProblem), Version: t.Version, CallError: t.CallError,
		InForce: fromRuling(t.InForce), Tried: fromRuling(t.Tried),
	}
	if t.Before == nil {
		return resp
	}
	resp.Replay = &tooldv1.Replay{
		Judged: int32(t.Judged), Skipped: int32(t.Skipped), Since: translate.FromTime(t.Since), Complete: t.Complete,
		Before: fromTotals(t.Before), After: fromTotals(t.After),
	}
	for _, c := range t.Changed {
		resp.Replay.Changed = append(resp.Replay.Changed, &tooldv1.ChangedCall{
			CallId: c.Call.ID, Tool: c.Call.Tool, Title: cut(c.Call.Description.Title, maxTitle), Caller: c.Call.Caller.Subject,
			CreatedAt: translate.FromTime(c.Call.Created), Before: fromShortRuling(c.Before), After: fromShortRuling(c.After),
			Decided: tooldv1.DecisionAction(tooldv1.DecisionAction_value["DECISION_ACTION_"+string(c.Decided)]),
		})
	}
	return resp
}

// cut returns the beginning of a text, without a part of a character at its end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

func fromRuleProblem(p *RuleProblem) *tooldv1.RuleProblem {
	return &tooldv1.RuleProblem{Line: int32(p.Line), Column: int32(p.Column), Message: p.Text}
}

func fromTotals(of map[string]int) *tooldv1.ReplayTotals {
	return &tooldv1.ReplayTotals{Allowed: int32(of["ALLOW"]), Asked: int32(of["SUSPEND"]), Refused: int32(of["DENY"]), Blocked: int32(of["BLOCK"])}
}

func fromShortRuling(r ShortRuling) *tooldv1.ShortRuling {
	return &tooldv1.ShortRuling{Outcome: translate.FromVerdictKind(r.Outcome), Action: fromRuleAction(r.Action), Rule: r.Rule, Line: int32(r.Line)}
}

func fromRuling(r *Ruling) *tooldv1.Ruling {
	if r == nil {
		return nil
	}
	out := &tooldv1.Ruling{
		Decision: fromShortRuling(r.ShortRuling), Why: r.Why, Layer: r.Layer, Pattern: r.Pattern, Mode: r.Mode, Command: cut(r.Command, maxTitle),
		ApproverRoles: r.Roles, ApproverGroups: r.Groups, Count: int32(r.Count), FourEyes: r.FourEyes, Hidden: r.Hidden,
	}
	for _, t := range r.Tried[:min(len(r.Tried), maxTried)] {
		out.Tried = append(out.Tried, &tooldv1.TriedRule{
			Layer: t.Layer, Rule: t.Rule, Line: int32(t.Line), Action: fromRuleAction(t.Action), Pattern: t.Pattern, Command: cut(t.Command, maxTitle),
			Holds: t.Holds, WhyNot: t.WhyNot,
		})
	}
	return out
}
