package permission

import (
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Policy lists the active rules that can apply in a namespace.
type Policy struct {
	File     string       // name of the rule file; "" for the default rules
	Text     []byte       // text of the file; nil for the default rules
	Version  string       // beginning of the file's SHA-256 in hexadecimal; "" for the default rules
	Since    time.Time    // when the rules became active; the hits count from then
	Counted  bool         // false when the hits of this namespace are not counted, because there are too many namespaces
	Waits    bool         // questions of UNATTENDED runs wait for an answer
	Whole    bool         // the file has no rules for other namespaces
	Rules    []ListedRule // ordered by layer (modes, namespace, operator), then by action (strongest first), then as in the file
	Defaults []ListedTier // actions for calls that no rule matches, ordered by layer as the field Rules is
}

// A ListedRule is a rule as the file has it. Empty fields say that the rule does not limit or set them.
type ListedRule struct {
	Layer, Name, Action  string
	Line, Column         int
	Tools                []string // patterns
	Tiers                []tool.Tier
	Sources, Callers     []string
	When, Reason         string
	FourEyes             bool
	Roles, Groups        []string // roles and groups of the approvers
	Count                int      // approvals that are needed; 0 means one
	Expires              time.Duration
	Instead              bool
	Remember             []string // nil means all kinds
	RemembersNone, Hides bool     // Hides says that the rule hides tools, so calls of them do not reach the rule
	Hits                 int64
	Last                 time.Time // time of the last hit; zero when there was none
}

// A ListedTier is the action of a layer for a tier.
type ListedTier struct {
	Layer  string
	Tier   tool.Tier
	Action string
	Hits   int64
	Last   time.Time
}

// Policy returns the active rules that can apply to calls of a namespace, with their hits there.
func (g *Gate) Policy(namespace string) Policy {
	f := g.rules.Load()
	t := f.tally(namespace)
	p := Policy{File: f.file, Text: f.text, Version: f.version, Since: f.since, Counted: t != nil, Waits: f.unattended != deny, Whole: true}
	for name := range f.namespaces {
		p.Whole = p.Whole && name == namespace
	}
	for _, l := range f.layers() {
		if strings.HasPrefix(l.name, namespaceLayer) && f.namespaces[namespace] != l {
			continue
		}
		listed := make([]ListedRule, 0, len(l.rules))
		for _, r := range l.rules {
			one := r.listed()
			one.Layer = l.name
			one.Hits, one.Last = f.of(t, r.slot)
			listed = append(listed, one)
		}
		slices.SortStableFunc(listed, func(a, b ListedRule) int {
			return slices.Index(weightiest, action(a.Action)) - slices.Index(weightiest, action(b.Action))
		})
		p.Rules = append(p.Rules, listed...)
		for i, tier := range tiers {
			if a, ok := l.byTier[tier]; ok {
				hits, last := f.of(t, l.slot+i)
				p.Defaults = append(p.Defaults, ListedTier{l.name, tier, string(a), hits, last})
			}
		}
	}
	return p
}

func (f *inForce) of(t tally, slot int) (hits int64, last time.Time) {
	if t == nil {
		return 0, last
	}
	if after := t[slot].last.Load(); after > 0 {
		last = f.since.Add(time.Duration(after))
	}
	return t[slot].count.Load(), last
}

func (r *rule) listed() ListedRule {
	out := ListedRule{
		Name: r.name, Action: string(r.action), Line: r.line, Column: r.column, Tiers: r.tiers, Sources: r.sources, Callers: r.callers,
		Reason: r.reason, FourEyes: r.fourEyes, Roles: r.approvers.roles, Groups: r.approvers.groups, Count: r.count, Expires: r.expiresIn,
		Instead: r.instead, Remember: r.remember, RemembersNone: r.remember != nil && len(r.remember) == 0,
	}
	for _, p := range r.tools {
		out.Tools = append(out.Tools, p.text)
	}
	if r.when != nil {
		out.When = r.when.text
	}
	e := entry{rule: r}
	out.Hides = r.action == deny && (len(r.tools) == 0 && e.unconditional() || slices.ContainsFunc(r.tools, func(p *pattern) bool {
		e := entry{r, p}
		return e.unconditional()
	}))
	return out
}
