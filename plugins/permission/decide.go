package permission

import (
	"slices"

	"github.com/toold-dev/toold/tool"
)

// layers are those that hold for a call, the nearest first: run, thread, namespace, operator.
type layers struct {
	list [4]*layer
	n    int
	// above are those of the runs and threads above it. They only take away.
	above []*layer
}

func (l *layers) add(one *layer) {
	if one != nil {
		l.list[l.n] = one
		l.n++
	}
}

// addAbove adds a layer of above once, however often the lineage names it: the caller may have written that.
func (l *layers) addAbove(one *layer) {
	if !slices.Contains(l.above, one) {
		l.above = append(l.above, one)
	}
}

// decide finds the rule that counts. A layer from above is asked as if the call had been made there, and counts where it says the
// stricter thing: what it allows, nobody is spared for.
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

// decideIn finds the rule that counts among layers that are not above: a block in any layer, else a deny in any, else what the
// nearest layer says that names the call, and the nearest default when none does.
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

// refusal finds the block or deny that holds; a block wherever it stands, of denies that of the nearest layer.
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

// by is the decision of a rule.
func (r *Rules) by(e *entry, l *layer, s *subject) decision {
	d := decision{
		action: e.rule.action, rule: e.rule, pattern: e.pattern, layer: l, tier: s.tier, fourEyes: s.tier == tool.Escalate || e.rule.fourEyes,
		approvers: r.approvers, count: e.rule.count, expiresIn: r.expiresIn, remember: e.rule.remember,
	}
	if len(e.rule.approvers) > 0 {
		d.approvers = e.rule.approvers
	}
	if e.rule.expiresIn > 0 {
		d.expiresIn = e.rule.expiresIn
	}
	return d
}

// Why a rule does not hold for a call that its pattern names the tool of.
const (
	otherTier      = "for other tiers"
	otherCaller    = "for other callers"
	otherArguments = "for other arguments"
	whenFalse      = "when is false"
)

// fails says why the rule does not hold; "" when it does. What takes something away is read broadly, what gives narrowly.
func (e *entry) fails(s *subject) string {
	r := e.rule
	if why := r.passesOver(s.tier, s.in.Caller.Subject, s.in.OnBehalfOf); why != "" {
		return why
	}
	gives := r.action == allow
	if e.pattern != nil {
		for i := range e.pattern.conditions {
			if !e.pattern.conditions[i].holdsIn(s, gives) {
				return otherArguments
			}
		}
	}
	if r.when != nil && !r.when.holds(s, gives) {
		return whenFalse
	}
	return ""
}

// passesOver says why the rule holds for no call of this tier and caller; "" when it may. An allow holds for ESCALATE only
// when it names the tier, and never for the person behind the caller.
func (r *rule) passesOver(tier tool.Tier, caller, onBehalfOf string) string {
	gives := r.action == allow
	if len(r.tiers) > 0 && !slices.Contains(r.tiers, tier) || gives && len(r.tiers) == 0 && tier == tool.Escalate {
		return otherTier
	}
	if len(r.callers) > 0 && !tool.AnyGlob(r.callers, caller) && (gives || onBehalfOf == "" || !tool.AnyGlob(r.callers, onBehalfOf)) {
		return otherCaller
	}
	return ""
}

// stricter returns the decision that counts of two that both hold, such as for parts of a command, with what either asks for.
func stricter(a, b decision) decision {
	if slices.Index(weightiest, b.action) < slices.Index(weightiest, a.action) {
		a, b = b, a
	}
	if !b.action.asks() || !a.action.asks() {
		return a
	}
	a.fourEyes = a.fourEyes || b.fourEyes
	a.count = max(a.count, b.count)
	if a.expiresIn == 0 || b.expiresIn > 0 && b.expiresIn < a.expiresIn {
		a.expiresIn = b.expiresIn
	}
	a.approvers = both(a.approvers, b.approvers)
	if a.remember == nil {
		a.remember = b.remember
	} else if b.remember != nil {
		a.remember = slices.DeleteFunc(slices.Clone(a.remember), func(kind string) bool { return !slices.Contains(b.remember, kind) })
	}
	return a
}

// both returns the roles that may answer for two questions: those that may answer each, else the operator, who stands
// above.
func both(a, b []string) []string {
	var roles []string
	for _, role := range a {
		if slices.Contains(b, role) {
			roles = append(roles, role)
		}
	}
	if len(roles) == 0 {
		return []string{"operator"}
	}
	return roles
}
