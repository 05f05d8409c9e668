package permission

import (
	"slices"

	"github.com/toold-dev/toold/tool"
)

// layers are the layers that apply to a call, nearest first: run, thread, namespace, operator.
type layers struct {
	list [4]*layer
	n    int
	// above contains the layers of the parent runs and threads. These layers can only restrict the call.
	above []*layer
}

func (l *layers) add(one *layer) {
	if one != nil {
		l.list[l.n] = one
		l.n++
	}
}

// addAbove adds a layer of a parent. It adds each layer once, because the caller may have forged the list of parents and repeat one.
func (l *layers) addAbove(one *layer) {
	if !slices.Contains(l.above, one) {
		l.above = append(l.above, one)
	}
}

// decide returns the decision for a subject. It decides once for the call itself, and once for each parent run or thread as if the parent
// had made the call. It returns the strictest of these decisions, so permissions of a parent have no effect.
func (r *Rules) decide(c *candidates, s *subject, ls *layers) decision {
	d := r.decideIn(c, s, ls)
	for _, own := range ls.above {
		var there layers
		there.add(own)
		there.add(r.namespaces[s.in.Namespace])
		there.add(r.operator)
		d = stricter(d, r.decideIn(c, s, &there))
	}
	return d
}

// decideIn decides with the layers of the call itself. It uses the first of these that exists:
//
//   - a block in any layer
//   - a deny in any layer
//   - a matching rule, from the nearest layer that has one
//   - a default, from the nearest layer that has one
func (r *Rules) decideIn(c *candidates, s *subject, ls *layers) decision {
	if found, in := r.refusal(c, s, ls); found != nil {
		return r.by(found, in, s)
	}
	for _, l := range ls.list[:ls.n] {
		list := c.of(r, l)
		for i := range list {
			if e := &list[i]; !e.rule.action.refuses() && e.fails(s) == "" {
				return r.by(e, l, s)
			}
		}
	}
	d := decision{tier: s.tier, fourEyes: s.tier == tool.Escalate, approvers: r.approvers, expiresIn: r.expiresIn}
	for _, l := range ls.list[:ls.n] {
		if a, ok := l.byTier[s.tier]; ok {
			d.action, d.layer = a, l
			break
		}
	}
	return d
}

// refusal returns the matching rule that refuses the call: a block of any layer, otherwise the deny of the nearest layer.
func (r *Rules) refusal(c *candidates, s *subject, ls *layers) (found *entry, in *layer) {
	for _, l := range ls.list[:ls.n] {
		list := c.of(r, l)
		for i := range list {
			e := &list[i]
			if !e.rule.action.refuses() || e.rule.action == deny && found != nil {
				break
			}
			if e.fails(s) != "" {
				continue
			}
			if e.rule.action == block {
				return e, l
			}
			found, in = e, l
			break
		}
	}
	return found, in
}

// by returns the decision that a rule makes.
func (r *Rules) by(e *entry, l *layer, s *subject) decision {
	d := decision{
		action: e.rule.action, rule: e.rule, pattern: e.pattern, layer: l, tier: s.tier, fourEyes: s.tier == tool.Escalate || e.rule.fourEyes,
		approvers: e.rule.approvers.or(r.approvers), count: e.rule.count, expiresIn: r.expiresIn, instead: e.rule.instead,
		remember: e.rule.remember,
	}
	if e.rule.expiresIn > 0 {
		d.expiresIn = e.rule.expiresIn
	}
	return d
}

// Reasons why a rule that names the tool does not match the call.
const (
	otherTier      = "for other tiers"
	otherCaller    = "for other callers"
	otherArguments = "for other arguments"
	whenFalse      = "when is false"
)

// fails returns the reason why the rule does not match, or "" when it matches. A granting rule matches narrowly and a restricting rule
// broadly; see the package comment.
func (e *entry) fails(s *subject) string {
	r := e.rule
	if why := r.passesOver(s.tier, s.in.Caller.Subject, s.in.OnBehalfOf); why != "" {
		return why
	}
	grants := r.action == allow
	if e.pattern != nil {
		for i := range e.pattern.conditions {
			if !e.pattern.conditions[i].holdsIn(s, grants) {
				return otherArguments
			}
		}
	}
	if r.when != nil && !r.when.holds(s, grants) {
		return whenFalse
	}
	return ""
}

// passesOver returns the reason why the rule can match no call of this tier and caller, or "". An allow matches the tier ESCALATE only when
// the rule lists that tier. An allow never matches because of the person behind the caller.
func (r *rule) passesOver(tier tool.Tier, caller, onBehalfOf string) string {
	grants := r.action == allow
	if len(r.tiers) > 0 && !slices.Contains(r.tiers, tier) || grants && len(r.tiers) == 0 && tier == tool.Escalate {
		return otherTier
	}
	if len(r.callers) > 0 && !tool.AnyGlob(r.callers, caller) && (grants || onBehalfOf == "" || !tool.AnyGlob(r.callers, onBehalfOf)) {
		return otherCaller
	}
	return ""
}

// stricter returns the stricter of two decisions that both apply, for example to two parts of a command. Two questions are combined into
// one with the requirements of both.
func stricter(a, b decision) decision {
	if slices.Index(weightiest, b.action) < slices.Index(weightiest, a.action) {
		a, b = b, a
	}
	if !b.action.asks() || !a.action.asks() {
		return a
	}
	a.fourEyes = a.fourEyes || b.fourEyes
	a.count = max(a.count, b.count)
	a.instead = a.instead && b.instead
	if a.expiresIn == 0 || b.expiresIn > 0 && b.expiresIn < a.expiresIn {
		a.expiresIn = b.expiresIn
	}
	a.approvers = a.approvers.and(b.approvers)
	if a.remember == nil {
		a.remember = b.remember
	} else if b.remember != nil {
		a.remember = slices.DeleteFunc(slices.Clone(a.remember), func(kind string) bool { return !slices.Contains(b.remember, kind) })
	}
	return a
}
