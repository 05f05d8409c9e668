package policy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

const (
	rememberFor  = 24 * time.Hour      // duration of a rule when the decision gives none
	rememberMost = 30 * 24 * time.Hour // maximum duration of a rule; every rule expires
	maxRules     = 10_000              // maximum number of rules in a namespace
	maxOptions   = 16
	maxOption    = 1 << 10 // maximum length of an option in bytes
)

// Options returns the ticket's options for remembering an approval. Only a gate's yes-or-no question has options, and only if a single
// approver may answer it, even the caller. A call of the tier ESCALATE and a destructive call have none. This holds even if the gate offers
// options.
func Options(t *tool.Ticket, assessed tool.Effects, origin string) []tool.RememberOption {
	e, a := assessed.Normal(), t.Approvers
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

// Remember returns the rule that a decision asks to store, or nil when it asks for none. It writes the expiry time of the rule into the
// decision.
func (p *Policies) Remember(c *call.Call, s *call.Suspension, by tool.Principal, d *tool.Decision) (*call.Rule, error) {
	m := d.Remember
	if m == nil {
		return nil, nil
	}
	if err := p.acceptsRules(s, c.Namespace); err != nil {
		return nil, err
	}
	switch {
	case d.Action == tool.Cancel:
		return nil, call.InvalidField("decision.remember", "is not allowed with CANCEL; only an operator's rule can deny later calls")
	case d.Arguments != "":
		return nil, call.InvalidField("decision.remember", "the options are for the original arguments; send either remember or edited arguments")
	}
	i := slices.IndexFunc(s.RememberOptions, func(o tool.RememberOption) bool { return o.Option == m.Option })
	if i < 0 {
		return nil, call.InvalidField("decision.remember.option", "is not one of the ticket's remember_options")
	}
	if err := mayRemember(c, by, m.Scope); err != nil {
		return nil, err
	}
	until, err := rememberedUntil(m.Until, d.Time)
	if err != nil {
		return nil, err
	}
	kept := *m
	kept.Until = until
	d.Remember = &kept
	rule := &call.Rule{
		ID: "r-" + rand.Text(), Namespace: c.Namespace, Gate: s.Origin, Option: m.Option, Title: s.RememberOptions[i].Title, Tool: c.Tool, ToolDigest: c.ToolDigest,
		Principal: c.Caller.Subject, OnBehalfOf: c.OnBehalfOf, Scope: m.Scope, ScopeID: scopeOf(m.Scope, c.Run.ID, c.Run.Thread),
		By: by, CallID: c.ID, DecisionID: d.ID, Created: call.StampOf(d.Time), Until: call.StampOf(until),
	}
	if a := s.Approvers; a != nil {
		rule.Approvers, rule.Groups = a.Roles, a.Groups
	}
	return rule, nil
}

// acceptsRules returns an error when no answer to s may be remembered.
func (p *Policies) acceptsRules(s *call.Suspension, namespace string) error {
	switch {
	case len(s.RememberOptions) == 0:
		return call.InvalidField("decision.remember", "this ticket has no remember_options: toold asks each time")
	case len(p.all(namespace)) >= maxRules:
		return call.Refuse(call.ResourceExhausted, "RULES_FULL", "this namespace has %d remembered rules, which is the limit; RevokeRule removes one", maxRules)
	}
	return nil
}

// Scopes returns the scopes for which the principal by may remember an approval, or why there are none.
func (p *Policies) Scopes(c *call.Call, s *call.Suspension, by tool.Principal) (scopes []tool.Scope, err error) {
	if err := p.acceptsRules(s, c.Namespace); err != nil {
		return nil, err
	}
	for _, scope := range [...]tool.Scope{tool.RunScope, tool.ThreadScope, tool.NamespaceScope} {
		if refused := mayRemember(c, by, scope); refused != nil {
			err = refused
		} else {
			scopes = append(scopes, scope)
		}
	}
	if len(scopes) > 0 {
		err = nil
	}
	return scopes, err
}

// mayRemember returns an error when a rule may not have the scope s: the call has no such scope, or p is no operator and s is the
// namespace.
func mayRemember(c *call.Call, p tool.Principal, s tool.Scope) error {
	switch s {
	case tool.RunScope, tool.ThreadScope:
		if scopeOf(s, c.Run.ID, c.Run.Thread) == "" {
			return call.InvalidField("decision.remember.scope", "is %s, but the call has no such scope", s)
		}
	case tool.NamespaceScope:
		if !p.HasRole("operator") {
			return call.Refuse(call.PermissionDenied, "OPERATOR_REQUIRED", "a rule for the whole namespace needs the role operator")
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
		return wish, call.InvalidField("decision.remember.until", "is in the past")
	case wish.After(now.Add(rememberMost)):
		return wish, call.InvalidField("decision.remember.until", "is more than 30 days away")
	}
	return wish, nil
}

// Stored returns the form in which the journal stores a rule.
func Stored(r *call.Rule) (store.Policy, error) {
	b, err := json.Marshal(r)
	return store.Policy{Namespace: r.Namespace, Kind: KindRule, Key: r.ID, Scope: r.Scope, ScopeID: r.ScopeID, Expires: r.Until, Value: b}, err
}

// Rules returns the rules in force that a principal may see, oldest first. The rules are shared; do not change them.
func (s *Service) Rules(p tool.Principal) []*call.Rule {
	return slices.DeleteFunc(s.cfg.Policies.all(p.Namespace), func(r *call.Rule) bool { return !view.SeesRule(p, r) })
}

// RevokeRule ends a rule. After it returns, no gate finds the rule.
func (s *Service) RevokeRule(ctx context.Context, p tool.Principal, id string) (*call.Rule, error) {
	s.setting.Lock()
	defer s.setting.Unlock()
	seen := s.Rules(p)
	i := slices.IndexFunc(seen, func(r *call.Rule) bool { return r.ID == id })
	if i < 0 {
		return nil, call.Refuse(call.NotFound, "RULE_NOT_FOUND", "no rule %q is in force here; ListRules lists them", id)
	}
	rule := *seen[i]
	rule.Revoked = &call.Revocation{By: p, Time: s.cfg.Policies.store.Now().Time()}
	stored, err := Stored(&rule)
	if err != nil {
		return nil, err
	}
	if err := s.put(ctx, stored); err != nil {
		return nil, err
	}
	s.cfg.Policies.dropRule(&rule)
	s.cfg.Log.Info("rule revoked", zap.String("rule_id", id), zap.String("tool", rule.Tool), zap.String("by", p.Subject))
	return &rule, nil
}
