package permission

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/tool"
)

// An entry is a rule with one of its patterns, which may match a tool.
type entry struct {
	rule    *rule
	pattern *pattern // nil when the rule applies to all tools
}

// candidates are the rules that may match one tool, with the facts about the tool that they need. They are immutable.
type candidates struct {
	fields      fields
	operator    []entry // ordered by the strength of the action, then the most specific first, then as in the file
	others      map[*layer][]entry
	byArguments bool // a rule depends on the arguments
	mayHide     bool // the tool may be denied with any arguments
}

// maxIndexed is the maximum number of tools in an index. It is limited because tools are replaced over time.
const maxIndexed = 4096

// An index caches the candidates of tools.
type index struct {
	byTool sync.Map // maps *tool.Descriptor to *candidates
	size   atomic.Int64
}

// candidatesOf returns the candidates of a tool. The cache uses the address of the descriptor as key, because a descriptor never changes.
func (r *Rules) candidatesOf(d *tool.Descriptor) *candidates {
	if known, ok := r.index.byTool.Load(d); ok {
		return known.(*candidates)
	}
	c := r.selectFor(d)
	if r.index.size.Add(1) > maxIndexed {
		r.index.byTool.Clear()
		r.index.size.Store(1)
	}
	r.index.byTool.Store(d, c)
	return c
}

// selectFor computes the candidates of a tool from all rules.
func (r *Rules) selectFor(d *tool.Descriptor) *candidates {
	c := &candidates{fields: fieldsOf(d), others: map[*layer][]entry{}}
	c.mayHide = r.deniesByDefault()
	c.operator = c.entries(r.operator, d)
	for _, layers := range []map[string]*layer{r.namespaces, r.modes} {
		for _, l := range layers {
			if list := c.entries(l, d); len(list) > 0 {
				c.others[l] = list
			}
		}
	}
	return c
}

// deniesByDefault reports whether calls that match no rule may be denied.
func (r *Rules) deniesByDefault() bool {
	denies := func(l *layer) bool { return slices.Contains(slices.Collect(maps.Values(l.byTier)), deny) }
	return denies(r.operator) || slices.ContainsFunc(slices.Collect(maps.Values(r.namespaces)), denies)
}

func (c *candidates) entries(l *layer, d *tool.Descriptor) []entry {
	var list []entry
	for _, rule := range l.rules {
		if len(rule.sources) > 0 && !slices.Contains(rule.sources, d.Source) {
			continue
		}
		if len(rule.tools) == 0 {
			list = append(list, entry{rule: rule})
		}
		for _, p := range rule.tools {
			if p.names(d, rule.action == allow) {
				list = append(list, entry{rule, p})
			}
		}
	}
	for _, e := range list {
		c.byArguments = c.byArguments || !e.unconditional()
		c.mayHide = c.mayHide || e.rule.action == deny
	}
	slices.SortStableFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(slices.Index(weightiest, a.rule.action), slices.Index(weightiest, b.rule.action)),
			slices.Compare(b.specificity(), a.specificity()))
	})
	return list
}

// names reports whether the pattern names a tool. A restricting rule also matches the tool's aliases.
func (p *pattern) names(d *tool.Descriptor, grants bool) bool {
	return p.id.match(d.ID) || !grants && (p.id.match(d.OwnID()) || slices.ContainsFunc(d.Aliases, p.id.match))
}

// specificity returns numbers by which entries with the same action are ordered; larger means more specific. The numbers are, in this
// order: literal characters of the tool ID, number of arguments, literal characters of their conditions, number of other conditions.
func (e *entry) specificity() []int {
	var spelled, looks, literal, conditions int
	if e.pattern != nil {
		spelled, looks = e.pattern.id.spelled(), len(e.pattern.conditions)
		for _, c := range e.pattern.conditions {
			switch {
			case c.glob != nil:
				literal += c.glob.literal
			case c.regex == nil:
				literal += len(c.text) + 100
			}
		}
	}
	for _, has := range []bool{len(e.rule.callers) > 0, len(e.rule.tiers) > 0, len(e.rule.sources) > 0, e.rule.when != nil} {
		if has {
			conditions++
		}
	}
	return []int{spelled, looks, literal, conditions}
}

func (c *candidates) of(r *Rules, l *layer) []entry {
	if l == r.operator {
		return c.operator
	}
	return c.others[l]
}
