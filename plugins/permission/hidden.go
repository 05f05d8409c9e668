package permission

import (
	"slices"

	"github.com/toold-dev/toold/tool"
)

// Hidden reports whether a tool is denied to a principal with any arguments. Tool lists for the principal omit such a tool, and a call of
// it gets the error for an unknown tool. A tool is not hidden when a rule can block calls of it, because a call of a hidden tool could not
// block the run.
func (g *Gate) Hidden(p tool.Principal, d *tool.Descriptor) bool {
	rules := g.Rules()
	c := rules.candidatesOf(d)
	if !c.mayHide {
		return false
	}
	var ls layers
	ls.add(rules.namespaces[p.Namespace])
	ls.add(rules.operator)
	mildest := slices.Index(tiers, d.MildestEffects().Tier)
	for _, tier := range tiers[max(mildest, 0):] {
		if !rules.denies(c, tier, p.Subject, &ls) {
			return false
		}
	}
	return true
}

// denies reports whether every call of a tier is denied. It returns false when a rule can block such a call. Otherwise it returns true in
// two cases: a deny without conditions matches; or the default denies, and neither a mode nor a rule other than a deny can apply.
func (r *Rules) denies(c *candidates, tier tool.Tier, caller string, ls *layers) bool {
	var denied, named bool
	for _, l := range ls.list[:ls.n] {
		for _, e := range c.of(r, l) {
			if e.rule.passesOver(tier, caller, "") != "" {
				continue
			}
			if e.rule.action == block {
				return false
			}
			named = named || e.rule.action != deny
			denied = denied || e.rule.action == deny && e.unconditional()
		}
	}
	if denied || named {
		return denied
	}
	for _, mode := range r.modes { // The caller may choose this mode for a run.
		if _, ok := mode.byTier[tier]; ok || slices.ContainsFunc(c.others[mode], func(e entry) bool {
			return e.rule.action != deny && e.rule.passesOver(tier, caller, "") == ""
		}) {
			return false
		}
	}
	for _, l := range ls.list[:ls.n] {
		if a, ok := l.byTier[tier]; ok {
			return a == deny
		}
	}
	return false
}

// unconditional reports whether the rule ignores the arguments and other contents of the call.
func (e *entry) unconditional() bool {
	return e.rule.when == nil && (e.pattern == nil || len(e.pattern.conditions) == 0)
}
