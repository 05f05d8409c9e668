package lifecycle

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

const (
	rememberFor  = 24 * time.Hour      // unless the decision says
	rememberMost = 30 * 24 * time.Hour // no rule is for ever
	maxRules     = 10_000              // in a namespace
	maxOptions   = 16
	maxOption    = 1 << 10 // bytes
)

// rememberOptions returns what a yes to a ticket may be kept for. A question that is about more than one person's word, or about
// what cannot be undone, offers nothing, whatever the gate says.
func (p *pipeline) rememberOptions(t *tool.Ticket, origin string) []tool.RememberOption {
	e := p.in.Assessment.Normal()
	a := t.Approvers
	if origin == call.OriginTool || a == nil || a.DistinctFromCaller || a.Count > 1 || e.Tier == tool.Escalate || e.Safety == tool.SafetyDestructive ||
		t.ResumeMode != "" && t.ResumeMode != tool.ReplayToolCall {
		return nil
	}
	var options []tool.RememberOption
	for _, o := range t.RememberOptions {
		if o.Option != "" && len(o.Option) <= maxOption && len(o.Title) <= maxOption && len(options) < maxOptions {
			options = append(options, o)
		}
	}
	return options
}

// ruleOf returns the rule that a decision asks to keep; nil when it asks for none. The decision gets the rule's end.
func (e *Engine) ruleOf(c *call.Call, s *call.Suspension, p tool.Principal, d *tool.Decision) (*call.Rule, error) {
	m := d.Remember
	if m == nil {
		return nil, nil
	}
	switch {
	case d.Action == tool.Cancel:
		return nil, call.InvalidField("decision.remember", "a CANCEL is not kept; a rule of the operator's can deny")
	case len(s.RememberOptions) == 0:
		return nil, call.InvalidField("decision.remember", "this question offers nothing to keep: it is asked each time")
	case d.Arguments != "":
		return nil, call.InvalidField("decision.remember", "what is offered is about the arguments that were asked about; edit them or keep the answer")
	}
	i := slices.IndexFunc(s.RememberOptions, func(o tool.RememberOption) bool { return o.Option == m.Option })
	if i < 0 {
		return nil, call.InvalidField("decision.remember.option", "is not one of the ticket's remember_options")
	}
	if err := mayRemember(c, p, m.Scope); err != nil {
		return nil, err
	}
	until, err := rememberedUntil(m.Until, d.Time)
	if err != nil {
		return nil, err
	}
	if len(e.policies.all(c.Namespace)) >= maxRules {
		return nil, call.Refuse(call.ResourceExhausted, "RULES_FULL", "%d answers are kept here already; RevokeRule makes room", maxRules)
	}
	kept := *m
	kept.Until = until
	d.Remember = &kept
	return &call.Rule{
		ID: "r-" + rand.Text(), Namespace: c.Namespace, Gate: s.Origin, Option: m.Option, Title: s.RememberOptions[i].Title, Tool: c.Tool, ToolDigest: c.ToolDigest,
		Principal: c.Caller.Subject, OnBehalfOf: c.OnBehalfOf, Scope: m.Scope, ScopeID: scopeOf(m.Scope, c.Run.ID, c.Run.Thread),
		By: p, Approvers: askedOf(s), CallID: c.ID, DecisionID: d.ID, Created: d.Time, Until: until,
	}, nil
}

// mayRemember refuses scopes that the call does not have, and the one that is an operator's.
func mayRemember(c *call.Call, p tool.Principal, s tool.Scope) error {
	switch s {
	case tool.RunScope, tool.ThreadScope:
		if scopeOf(s, c.Run.ID, c.Run.Thread) == "" {
			return call.InvalidField("decision.remember.scope", "is %s, and the call belongs to none", s)
		}
	case tool.NamespaceScope:
		if !p.HasRole("operator") {
			return call.Refuse(call.PermissionDenied, "OPERATOR_REQUIRED", "keeping an answer for the whole namespace needs the role operator")
		}
	default:
		return call.InvalidField("decision.remember.scope", "is %q; want RUN, THREAD or NAMESPACE", s)
	}
	return nil
}

func rememberedUntil(wish, now time.Time) (time.Time, error) {
	switch {
	case wish.IsZero():
		return now.Add(rememberFor), nil
	case !wish.After(now):
		return wish, call.InvalidField("decision.remember.until", "is past")
	case wish.After(now.Add(rememberMost)):
		return wish, call.InvalidField("decision.remember.until", "is more than 30 days away")
	}
	return wish, nil
}

// policyOf is a rule as it is stored.
func policyOf(r *call.Rule) (store.Policy, error) {
	b, err := json.Marshal(r)
	return store.Policy{Namespace: r.Namespace, Kind: policyRule, Key: r.ID, Scope: r.Scope, ScopeID: r.ScopeID, Expires: r.Until, Value: b}, err
}

// Rules returns the rules in force that a principal may see, oldest first: its own calls' ones, and all of the namespace
// with a role that looks at others'. They are shared: read them only.
func (e *Engine) Rules(p tool.Principal) []*call.Rule {
	return slices.DeleteFunc(e.policies.all(p.Namespace), func(r *call.Rule) bool { return !view.SeesRule(p, r) })
}

// askedOf are the roles that a question asks.
func askedOf(s *call.Suspension) []string {
	if s.Approvers == nil {
		return nil
	}
	return s.Approvers.Roles
}

// RevokeRule ends a rule. When it returns, no gate will find it any more.
func (e *Engine) RevokeRule(ctx context.Context, p tool.Principal, id string) (*call.Rule, error) {
	e.policies.setting.Lock()
	defer e.policies.setting.Unlock()
	i := slices.IndexFunc(e.Rules(p), func(r *call.Rule) bool { return r.ID == id })
	if i < 0 {
		return nil, call.Refuse(call.NotFound, "RULE_NOT_FOUND", "no rule %q is in force here; ListRules lists them", id)
	}
	rule := *e.Rules(p)[i]
	rule.Revoked = &call.Revocation{By: p, Time: e.store.Now()}
	stored, err := policyOf(&rule)
	if err != nil {
		return nil, err
	}
	if err := e.putPolicy(ctx, stored); err != nil {
		return nil, err
	}
	e.policies.dropRule(&rule)
	e.log.Info("rule revoked", zap.String("rule_id", id), zap.String("tool", rule.Tool), zap.String("by", p.Subject))
	return &rule, nil
}

// putPolicy stores what belongs to no call.
func (e *Engine) putPolicy(ctx context.Context, policy store.Policy) error {
	err := e.store.PutPolicy(context.WithoutCancel(ctx), policy)
	if errors.Is(err, store.ErrFatal) {
		e.fatal(err)
	}
	if err != nil {
		return storeRefusal(err, policy.Key)
	}
	return nil
}
