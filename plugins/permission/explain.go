package permission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// An Explanation says how rules, modes and remembered answers decide a call before a person is asked, and why.
type Explanation struct {
	Action    string   `json:"action"` // allow, ask, ask always, deny or block
	Why       string   `json:"why"`
	Rule      string   `json:"rule,omitempty"`
	Line      int      `json:"line,omitempty"`
	Column    int      `json:"column,omitempty"`
	Pattern   string   `json:"pattern,omitempty"` // pattern of the rule that matched
	Layer     string   `json:"layer,omitempty"`
	Mode      string   `json:"mode,omitempty"`      // the mode that decided
	Kept      string   `json:"kept,omitempty"`      // ID of the remembered answer that decided
	Command   string   `json:"command,omitempty"`   // the part of a compound command that decided
	Approvers []string `json:"approvers,omitempty"` // roles
	Groups    []string `json:"groups,omitempty"`    // groups, to one of which an approver belongs
	Count     int      `json:"count,omitempty"`
	FourEyes  bool     `json:"four_eyes,omitempty"`
	Instead   bool     `json:"result_instead,omitempty"`
	Tried     []Tried  `json:"tried,omitempty"` // rules that name the tool, the strongest first
}

// A Tried is a rule that names the tool, with its result for the call.
type Tried struct {
	Layer   string `json:"layer"`
	Rule    string `json:"rule"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Action  string `json:"action"`
	Pattern string `json:"pattern,omitempty"`
	Command string `json:"command,omitempty"` // the simple command with which the rule was compared
	Holds   bool   `json:"holds"`
	WhyNot  string `json:"why_not,omitempty"`
}

// Explain explains the decision about a call. It uses the same code as Check, so both always agree.
func (g *Gate) Explain(in *hook.Input) Explanation {
	e := g.Ruling(in)
	e.Tried = g.tried(in)
	return e
}

// Ruling returns an explanation without the rules that were tried.
func (g *Gate) Ruling(in *hook.Input) Explanation {
	d := g.judge(g.Rules(), in)
	e := Explanation{Action: string(d.action), Rule: d.name(), Mode: d.mode, Kept: d.kept, Command: d.part, Why: d.why()}
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
		e.Approvers, e.Groups, e.Count, e.FourEyes, e.Instead = d.approvers.roles, d.approvers.groups, max(d.count, 1), d.fourEyes, d.instead
	}
	return e
}

// why explains the decision in one sentence.
func (d *decision) why() string {
	switch {
	case d.kept != "":
		return fmt.Sprintf("the remembered answer %s applies to this call", d.kept)
	case d.mode == ModePlan && d.action == deny:
		return "the mode plan allows only calls that change nothing"
	case d.mode != "" && d.action == deny:
		return fmt.Sprintf("the chosen mode %q does not exist", d.mode)
	case d.mode != "":
		return fmt.Sprintf("the mode %s approves calls that one person could approve", d.mode)
	case d.rule == nil:
		return fmt.Sprintf("no rule matches this call, and the default for %s is %s", d.tier, d.action)
	}
	text := fmt.Sprintf("%s: the most specific %s that holds", d.rule.name, d.action)
	if d.unclear {
		text += "; the command cannot be analysed completely, so the rule may apply to it"
	}
	switch {
	case d.action.refuses():
		text += "; refusals count in every layer"
	case d.layer.name != operatorLayer:
		text += " in the nearest layer with a rule for this call"
	}
	return text
}

// tried matches every rule that names the tool with the call.
func (g *Gate) tried(in *hook.Input) []Tried {
	rules := g.Rules()
	c := rules.candidatesOf(in.Descriptor)
	ls, _ := g.layersOf(rules, in)
	subjects := []subject{g.subject(c, in)}
	if g.splitter(in.Descriptor) != nil && c.byArguments {
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

// A Warning is about a rule that is valid but probably a mistake.
type Warning struct {
	Line, Column int
	Text         string
}

// Warnings returns likely mistakes in the rules, such as an argument that no tool has, or a comparison that does not fit the schema of the
// argument.
func (r *Rules) Warnings(descriptors []*tool.Descriptor) []Warning {
	var found []Warning
	tools := make([]known, len(descriptors))
	for i, d := range descriptors {
		tools[i] = known{d, schemaOf(d.Parameters)}
	}
	for _, l := range r.layers() {
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
				for _, c := range rule.when.claims {
					c.warn(having(c.at, rule.named(tools)), warn)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Warning) int { return a.Line - b.Line })
	return slices.Compact(found)
}

// A known tool is a descriptor with its schema parsed, so that the schema is parsed once for all rules.
type known struct {
	*tool.Descriptor
	schema any
}

func (p *pattern) warn(rule *rule, tools []known, warn func(string, ...any)) {
	named := slices.DeleteFunc(slices.Clone(tools), func(d known) bool { return !p.names(d.Descriptor, rule.action == allow) })
	if i := slices.IndexFunc(tools, func(d known) bool { return oneOff(p.id.text, d.ID) }); len(named) == 0 && i >= 0 && p.id.regex == nil && !p.id.glob {
		warn("names no tool %s; did you mean %s?", clip(p.id.text, 60), tools[i].ID)
	}
	for i := range p.conditions {
		c := &p.conditions[i]
		if rule.action == allow && c.regex != nil && !c.not && !(strings.HasPrefix(c.text, "^") && strings.HasSuffix(c.text, "$")) {
			warn("allows by /%s/, which also matches longer texts; begin it with ^ and end it with $", clip(c.text, 60))
		}
		switch {
		case len(named) == 0: // No warning, because the tool may be registered later.
		case len(c.path) > 0:
			lacks(c.path, named, warn)
			c.claim(c.path).warn(having(c.path, named), warn)
		case !slices.ContainsFunc(named, func(d known) bool { return fieldsOf(d.Descriptor).primary != "" }):
			warn("no tool that %s names has a primary argument", p.id.text)
		case len(named) == 1:
			at := argPath{{name: fieldsOf(named[0].Descriptor).primary}}
			c.claim(at).warn(having(at, named), warn)
		}
	}
	if rule.action == allow && p.id.regex != nil && !(strings.HasPrefix(p.id.text, "/^") && strings.HasSuffix(p.id.text, "$/")) {
		warn("allows tools by %s, which also matches longer ids; begin it with ^ and end it with $", p.id.text)
	}
}

// oneOff reports whether two names differ in one character or only in case.
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

// warnOf warns when an expression reads an argument that none of the rule's tools has.
func (r *rule) warnOf(at argPath, tools []known, warn func(string, ...any)) {
	if named := r.named(tools); len(at) > 0 && len(named) > 0 {
		lacks(at, named, warn)
	}
}

// named returns the tools to which the rule applies.
func (r *rule) named(tools []known) []known {
	return slices.DeleteFunc(slices.Clone(tools), func(d known) bool {
		return len(r.tools) > 0 && !slices.ContainsFunc(r.tools, func(p *pattern) bool { return p.names(d.Descriptor, r.action == allow) })
	})
}

// having returns the tools whose arguments have the path.
func having(at argPath, tools []known) []known {
	return slices.DeleteFunc(slices.Clone(tools), func(d known) bool { return !hasPath(d.schema, at) })
}

// lacks warns when the arguments of none of the tools have the path.
func lacks(at argPath, tools []known, warn func(string, ...any)) {
	if len(having(at, tools)) == 0 {
		warn("names the argument %s, which none of its tools has (%s)", at, idsOf(tools))
	}
}

// idsOf returns a text with the IDs of tools. Of a long list, it contains only the first ones.
func idsOf(tools []known) string {
	var ids []string
	for _, d := range tools[:min(len(tools), 5)] {
		ids = append(ids, d.ID)
	}
	if len(tools) > len(ids) {
		ids = append(ids, "…")
	}
	return strings.Join(ids, ", ")
}
