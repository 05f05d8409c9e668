package permission

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// An action is what a rule does with a call.
type action string

const (
	allow action = "allow"
	ask   action = "ask"
	deny  action = "deny"
	block action = "block"
)

// weightiest lists the actions in the order in which they beat each other.
var weightiest = []action{block, deny, ask, allow}

// tiers lists the tiers from the mildest on.
var tiers = []tool.Tier{tool.Observe, tool.Confirm, tool.Escalate}

// maxExpiry is the longest that a file may let a ticket wait.
const maxExpiry = 30 * 24 * time.Hour

// maxCount is how many people a rule may ask for.
const maxCount = 100

// Rules are a parsed rule file. They never change.
type Rules struct {
	rules     []rule // the most specific first, then as in the file
	byTier    map[tool.Tier]action
	approvers []string
	expiresIn time.Duration // 0: as long as any ticket of the daemon
}

// A rule holds for a call when each of its lists that is not empty does.
type rule struct {
	name    string
	action  action
	tools   []string // globs
	tiers   []tool.Tier
	sources []string
	callers []string // globs on subjects
	reason  string

	fourEyes  bool
	approvers []string
	expiresIn time.Duration
	count     int // people who have to agree; 0 is one
}

// Default returns the rules of a gate that was given none.
func Default() *Rules {
	return &Rules{
		byTier:    map[tool.Tier]action{tool.Observe: allow, tool.Confirm: ask, tool.Escalate: ask},
		approvers: []string{"approver"},
	}
}

// A subject is what rules look at.
type subject struct {
	caller, onBehalfOf string
	descriptor         *tool.Descriptor
	tier               tool.Tier
}

// A decision is what rules say about a subject.
type decision struct {
	action    action
	rule      *rule // nil when the tier decided
	tier      tool.Tier
	fourEyes  bool
	approvers []string
	expiresIn time.Duration
	count     int
}

// decide finds the rule that counts. An unknown tier counts as the strictest one.
func (r *Rules) decide(s subject) decision {
	if !slices.Contains(tiers, s.tier) {
		s.tier = tool.Escalate
	}
	d := decision{action: r.byTier[s.tier], tier: s.tier, fourEyes: s.tier == tool.Escalate, approvers: r.approvers, expiresIn: r.expiresIn}
	for _, action := range weightiest {
		i := slices.IndexFunc(r.rules, func(r rule) bool { return r.action == action && r.holds(s) })
		if i < 0 {
			continue
		}
		found := &r.rules[i]
		d.action, d.rule = action, found
		d.fourEyes, d.count = d.fourEyes || found.fourEyes, found.count
		if len(found.approvers) > 0 {
			d.approvers = found.approvers
		}
		if found.expiresIn > 0 {
			d.expiresIn = found.expiresIn
		}
		return d
	}
	return d
}

// holds reports whether the rule names this call. What takes something away is read broadly: it also holds for an alias
// and for the person behind the caller. What gives is read narrowly: it holds for ids, and for ESCALATE only when it
// names the tier.
func (r *rule) holds(s subject) bool {
	gives := r.action == allow
	if len(r.tiers) > 0 && !slices.Contains(r.tiers, s.tier) || gives && len(r.tiers) == 0 && s.tier == tool.Escalate {
		return false
	}
	if len(r.sources) > 0 && !slices.Contains(r.sources, s.descriptor.Source) {
		return false
	}
	if len(r.tools) > 0 && !matches(r.tools, s.descriptor.ID) &&
		(gives || !slices.ContainsFunc(s.descriptor.Aliases, func(alias string) bool { return matches(r.tools, alias) })) {
		return false
	}
	return len(r.callers) == 0 || matches(r.callers, s.caller) || !gives && s.onBehalfOf != "" && matches(r.callers, s.onBehalfOf)
}

func matches(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return ok && err == nil // malformed globs are refused with the file
	})
}

// specificity ranks rules of one action: first by how much of the tool's id they spell out, then by how many other
// conditions they have.
func (r *rule) specificity() (spelled, conditions int) {
	spelled = 1000
	for _, glob := range r.tools {
		n := len(glob) - strings.Count(glob, "*") - strings.Count(glob, "?")
		if !strings.ContainsAny(glob, `*?[\`) {
			n += 100 // an id in full
		}
		spelled = min(spelled, n)
	}
	if len(r.tools) == 0 {
		spelled = 0
	}
	for _, has := range []bool{len(r.callers) > 0, len(r.tiers) > 0, len(r.sources) > 0} {
		if has {
			conditions++
		}
	}
	return spelled, conditions
}

// name returns the name of the rule that decided; "" when the tier did.
func (d decision) name() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.name
}

// reason returns the reason that the rule gives.
func (d decision) reason() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.reason
}

// because says why a call is refused, for the model.
func (d decision) because() string {
	switch {
	case d.rule == nil:
		return fmt.Sprintf("calls of the tier %s are not allowed here", d.tier)
	case d.rule.reason != "":
		return d.rule.reason
	default:
		return fmt.Sprintf("not allowed by the rule %q", d.rule.name)
	}
}
