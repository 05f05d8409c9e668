// Package permission is a gate that decides by rules: a call is allowed, needs a person, is denied, or blocks its run.
//
// Rules name calls by tool, arguments, tier, source, caller and expressions. They are in layers: the operator's, and
// those of a namespace, a thread and a run. A block or a deny in any layer refuses; else the nearest layer that names the
// call decides, and in it ask always beats ask beats allow, whatever the order in the file. A call that no rule names is
// decided by its tier. What takes something away is read broadly, what gives narrowly.
//
// An ask may be satisfied by an answer that was kept or by a mode; nothing else is.
//
// Rules can be replaced while calls wait. They act when a call is gated again: a yes that was given never beats a rule
// that says no now, and a waiting question is not voided by new rules.
package permission

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A Config is what a gate starts with.
type Config struct {
	Rules *Rules // nil decides by tier: OBSERVE is allowed, CONFIRM asks, ESCALATE asks somebody other than the caller
	// SingleUser says that there is nobody else to ask: four eyes become a confirmation that is typed.
	SingleUser bool
	// Remembered is where kept answers are; nil keeps none, and tickets offer none to keep.
	Remembered Remembered
	// Commands says by tool id how a call is split into simple commands. Rules and kept answers hold for one of these; a
	// call of another tool is one whole.
	Commands map[string]Splitter
	// Paths says which files of the workspace paths in arguments name; nil: rules see paths as they were sent, and clean.
	Paths Paths
	// Modes says which permission modes were chosen; nil means that none ever is.
	Modes Modes
	// Above returns the modes of the runs and threads above a call, such as those in which a subagent was asked that makes it. What
	// they take away holds for the call too; what answers for a person does not. nil means that nothing is above.
	Above func(in *hook.Input) []string
}

// A Gate is a [hook.Gate]. Its methods may be called from many goroutines.
type Gate struct {
	singleUser bool
	remembered Remembered
	commands   map[string]Splitter
	paths      Paths
	modes      Modes
	above      func(in *hook.Input) []string
	rules      atomic.Pointer[Rules]
}

// New returns a gate.
func New(cfg Config) *Gate {
	g := &Gate{singleUser: cfg.SingleUser, remembered: cfg.Remembered, commands: cfg.Commands, paths: cfg.Paths, modes: cfg.Modes, above: cfg.Above}
	g.Swap(cfg.Rules)
	return g
}

// Rules returns the rules in force.
func (g *Gate) Rules() *Rules { return g.rules.Load() }

// Waits reports whether questions of UNATTENDED runs wait for an answer.
func (g *Gate) Waits() bool { return g.rules.Load().unattended != deny }

// Swap puts rules in force; nil means those of a gate without rules.
func (g *Gate) Swap(rules *Rules) {
	if rules == nil {
		rules = Default()
	}
	g.rules.Store(rules)
}

// Reload parses a rule file and puts it in force. On an error, a [*ParseError], the old rules stay.
func (g *Gate) Reload(name string, file []byte) error {
	rules, err := Parse(name, file)
	if err != nil {
		return err
	}
	g.Swap(rules)
	return nil
}

// Check implements [hook.Gate]. It is pure.
func (g *Gate) Check(_ context.Context, in *hook.Input) (hook.Verdict, error) {
	if in.Descriptor == nil {
		return hook.Verdict{}, errors.New("call without a descriptor")
	}
	d := g.judge(in)
	switch d.action {
	case allow:
		return hook.AllowBecause(d.inPlace()), nil
	case deny:
		return hook.Deny("Denied: " + d.because()), nil
	case block:
		return hook.Block(d.because()), nil
	}
	if a := in.Answer(); a != nil && a.Action == tool.Resume && g.satisfies(a, in, &d) {
		return hook.Allow(), nil
	}
	if in.Run.Unattended && !g.Waits() {
		return hook.SetResult(&tool.Result{Status: tool.StatusError, Error: &tool.Error{
			Code: tool.Denied, Reason: "UNATTENDED", Message: "Denied: " + d.unanswerable(),
		}}), nil
	}
	return hook.Suspend(g.ticket(in, &d)).Under(d.version), nil
}

// judge says what rules, modes and kept answers make of a call. It is the one place that decides: what is explained is
// what it returns.
func (g *Gate) judge(in *hook.Input) decision {
	rules := g.rules.Load()
	c := rules.candidatesOf(in.Descriptor)
	ls, modes := g.layersOf(rules, in)
	s := g.subject(c, in)
	var d decision
	if split := g.commands[in.Descriptor.ID]; split == nil || !c.byArguments {
		d = modes.under(rules.decide(c, &s, &ls), in)
	} else {
		d = g.judgeCommand(rules, c, s, &ls, &modes)
	}
	d.version = rules.version
	if d.action == ask && d.alone() && g.remembered != nil {
		if id := g.rememberedBy(rules, c, s, &ls, &d); id != "" {
			d.action, d.kept = allow, id
		}
	}
	return d
}

func (g *Gate) subject(c *candidates, in *hook.Input) subject {
	s := subject{in: in, tier: in.Assessment.Normal().Tier, primary: c.fields.primary, paths: g.paths}
	if !slices.Contains(tiers, s.tier) { // the strictest that there is
		s.tier = tool.Escalate
	}
	return s
}

// judgeCommand judges each simple command of a compound one; the strictest verdict counts.
func (g *Gate) judgeCommand(rules *Rules, c *candidates, s subject, ls *layers, modes *chosen) decision {
	var d decision
	for i, s := range g.commandSubjects(s) {
		one := modes.under(rules.decide(c, &s, ls), s.in)
		if s.part.Text != s.in.Arguments.String(s.primary) {
			one.part = s.part.Text
		}
		one.unclear = s.unclear && one.pattern != nil && len(one.pattern.conditions) > 0
		if i == 0 {
			d = one
		} else {
			d = stricter(d, one)
		}
	}
	return d
}

// maxParts bounds the simple commands that are looked at one by one.
const maxParts = 1000

// commandSubjects returns what of a command has to be judged: each part by itself, so that each finds the rule that is
// about it, and each with the whole in view, so that what takes away may be about several.
func (g *Gate) commandSubjects(s subject) []subject {
	s.isCommand = true
	parts, known := g.commands[s.in.Descriptor.ID](s.in.Arguments)
	if len(parts) > maxParts {
		parts, known = parts[:maxParts], Unclear
	}
	rest := s
	rest.alsoWhole, rest.unclear = true, known == Unclear
	if len(parts) == 0 {
		return []subject{rest}
	}
	s.understood, s.hasPart = known == Whole, true
	whole := s.in.Arguments.String(s.primary)
	list := make([]subject, 0, 2*len(parts))
	for _, s.part = range parts {
		s.alsoWhole = false
		list = append(list, s)
		if s.part.Text != whole {
			s.alsoWhole = true
			list = append(list, s)
		}
	}
	if rest.unclear {
		list = append(list, rest)
	}
	return list
}

// satisfies reports whether a yes is good enough for the rules as they are now: they may have become stricter since it
// was given.
func (g *Gate) satisfies(a *tool.Decision, in *hook.Input, d *decision) bool {
	if g.singleUser && !d.alone() {
		var typed struct {
			Confirm string `json:"confirm"`
		}
		return mayAnswer(a.DecidedBy, d) && json.Unmarshal([]byte(a.Result), &typed) == nil && typed.Confirm == in.Descriptor.ID
	}
	agreed := map[string]bool{}
	for _, p := range a.Voters() {
		if by := p.Subject; by != "" && mayAnswer(p, d) && (!d.fourEyes || by != in.Caller.Subject && by != in.OnBehalfOf) {
			agreed[by] = true
		}
	}
	return len(agreed) >= max(d.count, 1)
}

func mayAnswer(p tool.Principal, d *decision) bool {
	return slices.ContainsFunc(d.approvers, func(role string) bool { return slices.Contains(p.Roles, role) })
}
