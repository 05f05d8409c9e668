package permission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// An Explanation says what rules, modes and kept answers make of a call, before anybody answers, and why.
type Explanation struct {
	Action    string   `json:"action"` // allow, ask, ask always, deny or block
	Why       string   `json:"why"`
	Rule      string   `json:"rule,omitempty"`
	Line      int      `json:"line,omitempty"`
	Column    int      `json:"column,omitempty"`
	Pattern   string   `json:"pattern,omitempty"` // of the rule, that holds
	Layer     string   `json:"layer,omitempty"`
	Mode      string   `json:"mode,omitempty"`    // that decided
	Kept      string   `json:"kept,omitempty"`    // the kept answer that decided
	Command   string   `json:"command,omitempty"` // of a compound command, the part that decided
	Approvers []string `json:"approvers,omitempty"`
	Count     int      `json:"count,omitempty"`
	FourEyes  bool     `json:"four_eyes,omitempty"`
	Tried     []Tried  `json:"tried,omitempty"` // what names the tool, in the order in which it counts
}

// A Tried is a rule that names the tool.
type Tried struct {
	Layer   string `json:"layer"`
	Rule    string `json:"rule"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Action  string `json:"action"`
	Pattern string `json:"pattern,omitempty"`
	Command string `json:"command,omitempty"` // the simple command that it was held against
	Holds   bool   `json:"holds"`
	WhyNot  string `json:"why_not,omitempty"`
}

// Explain says why a call would be treated as it is, by the code that treats it.
func (g *Gate) Explain(in *hook.Input) Explanation {
	d := g.judge(in)
	e := Explanation{
		Action: string(d.action), Rule: d.name(), Mode: d.mode, Kept: d.kept, Command: d.part, Why: d.why(), Tried: g.tried(in),
	}
	if d.layer != nil {
		e.Layer = d.layer.name
	}
	if d.rule != nil {
		e.Line, e.Column = d.rule.line, d.rule.column
	}
	if d.pattern != nil {
		e.Pattern = d.pattern.text
	}
	if d.action.asks() {
		e.Approvers, e.Count, e.FourEyes = d.approvers, max(d.count, 1), d.fourEyes
	}
	return e
}

// why says in a sentence what decided.
func (d *decision) why() string {
	switch {
	case d.kept != "":
		return fmt.Sprintf("the answer %s was kept and holds for this call", d.kept)
	case d.mode == ModePlan && d.action == deny:
		return "the mode plan allows only calls that change nothing"
	case d.mode != "" && d.action == deny:
		return fmt.Sprintf("the mode %q was chosen and does not exist", d.mode)
	case d.mode != "":
		return fmt.Sprintf("the mode %s answers what one person could have answered", d.mode)
	case d.rule == nil:
		return fmt.Sprintf("no rule names this call, and the default for %s is %s", d.tier, d.action)
	}
	text := fmt.Sprintf("%s: the most specific %s that holds", d.rule.name, d.action)
	if d.unclear {
		text += "; the command cannot be read in full, so that it may be what the rule is about"
	}
	switch {
	case d.action.refuses():
		text += "; refusals count in every layer"
	case d.layer.name != operatorLayer:
		text += " in the nearest layer that names this call"
	}
	return text
}

// tried holds every rule that names the tool against the call.
func (g *Gate) tried(in *hook.Input) []Tried {
	rules := g.rules.Load()
	c := rules.candidatesOf(in.Descriptor)
	ls, _ := g.layersOf(rules, in)
	subjects := []subject{g.subject(c, in)}
	if g.commands[in.Descriptor.ID] != nil && c.byArguments {
		subjects = slices.DeleteFunc(g.commandSubjects(subjects[0]), func(s subject) bool {
			return s.hasPart && !s.alsoWhole && s.part.Text != in.Arguments.String(s.primary)
		})
	}
	var tried []Tried
	for i := range subjects {
		for _, l := range slices.Concat(ls.list[:ls.n], ls.above) {
			for _, e := range c.of(rules, l) {
				one := Tried{
					Layer: l.name, Rule: e.rule.name, Line: e.rule.line, Column: e.rule.column, Action: string(e.rule.action),
					WhyNot: e.fails(&subjects[i]),
				}
				if part := subjects[i].part.Text; part != in.Arguments.String(c.fields.primary) {
					one.Command = part
				}
				one.Holds = one.WhyNot == ""
				if e.pattern != nil {
					one.Pattern = e.pattern.text
				}
				tried = append(tried, one)
			}
		}
	}
	return tried
}

// A Warning is about a rule that is valid and probably not meant so.
type Warning struct {
	Line, Column int
	Text         string
}

// Warnings looks for rules that name an argument which no tool has, and for rules that allow by an expression that also
// holds for what is around it.
func (r *Rules) Warnings(tools []*tool.Descriptor) []Warning {
	var found []Warning
	all := []*layer{r.operator}
	for _, layers := range []map[string]*layer{r.namespaces, r.modes} {
		for _, l := range layers {
			all = append(all, l)
		}
	}
	for _, l := range all {
		for _, rule := range l.rules {
			warn := func(format string, args ...any) {
				found = append(found, Warning{rule.line, rule.column, rule.name + ": " + fmt.Sprintf(format, args...)})
			}
			for _, p := range rule.tools {
				p.warn(rule, tools, warn)
			}
			if rule.when != nil {
				for _, at := range rule.when.reads {
					rule.warnOf(at, tools, warn)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Warning) int { return a.Line - b.Line })
	return slices.Compact(found)
}

func (p *pattern) warn(rule *rule, tools []*tool.Descriptor, warn func(string, ...any)) {
	named := slices.DeleteFunc(slices.Clone(tools), func(d *tool.Descriptor) bool { return !p.names(d, rule.action == allow) })
	if i := slices.IndexFunc(tools, func(d *tool.Descriptor) bool { return oneOff(p.id.text, d.ID) }); len(named) == 0 && i >= 0 && p.id.regex == nil && !p.id.glob {
		warn("names no tool %s; did you mean %s?", clip(p.id.text, 60), tools[i].ID)
	}
	for i := range p.conditions {
		c := &p.conditions[i]
		if rule.action == allow && c.regex != nil && !c.not && !(strings.HasPrefix(c.text, "^") && strings.HasSuffix(c.text, "$")) {
			warn("allows by /%s/, which also holds for longer texts; begin it with ^ and end it with $", clip(c.text, 60))
		}
		switch {
		case len(named) == 0: // tools come and go
		case len(c.place) > 0:
			lacks(c.place, named, warn)
		case !slices.ContainsFunc(named, func(d *tool.Descriptor) bool { return fieldsOf(d).primary != "" }):
			warn("no tool that %s names has a primary argument", p.id.text)
		}
	}
	if rule.action == allow && p.id.regex != nil && !(strings.HasPrefix(p.id.text, "/^") && strings.HasSuffix(p.id.text, "$/")) {
		warn("allows tools by %s, which also holds for longer ids; begin it with ^ and end it with $", p.id.text)
	}
}

// oneOff reports whether two names differ in one character, or in case alone.
func oneOff(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return len(a) == len(b) && a[i+1:] == b[i+1:] || len(a)+1 == len(b) && a[i:] == b[i+1:]
}

// warnOf warns of an argument that an expression reads and none of the rule's tools has.
func (r *rule) warnOf(at place, tools []*tool.Descriptor, warn func(string, ...any)) {
	named := slices.DeleteFunc(slices.Clone(tools), func(d *tool.Descriptor) bool {
		return len(r.tools) > 0 && !slices.ContainsFunc(r.tools, func(p *pattern) bool { return p.names(d, r.action == allow) })
	})
	if len(at) > 0 && len(named) > 0 {
		lacks(at, named, warn)
	}
}

// lacks warns when none of the tools has a place in its arguments.
func lacks(at place, tools []*tool.Descriptor, warn func(string, ...any)) {
	if slices.ContainsFunc(tools, func(d *tool.Descriptor) bool { return hasPlace(d.Parameters, at) }) {
		return
	}
	var ids []string
	for _, d := range tools[:min(len(tools), 5)] {
		ids = append(ids, d.ID)
	}
	if len(tools) > len(ids) {
		ids = append(ids, "…")
	}
	warn("names the argument %s, which no tool that it is for has (%s)", at, strings.Join(ids, ", "))
}
