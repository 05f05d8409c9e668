// Package permission is a gate that decides by rules. A call is allowed, needs the approval of a person, is denied, or blocks its run.
//
// Rules match calls by tool, arguments, tier, source, caller and expressions. Each rule belongs to a layer: the operator's, a namespace's,
// a thread's or a run's. A block or a deny in any layer refuses the call. Otherwise the nearest layer that has a matching rule decides. In
// that layer, ask always overrides ask, and ask overrides allow, whatever their order in the file. When no rule matches a call, its tier
// decides.
//
// An allow is a granting rule; all other actions restrict. A text or command may be read in several ways. A granting rule must then match
// narrowly, in all relevant ways of reading. A restricting rule matches broadly, in any way of reading.
//
// Only a remembered answer or a mode can replace the answer of a person to an ask.
//
// Rules can be replaced while calls wait. The new rules apply when a call is gated again. An earlier approval never overrides a rule that
// now refuses the call. New rules do not cancel a waiting question.
package permission

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A Config configures a gate.
type Config struct {
	Rules *Rules // nil decides by tier: OBSERVE is allowed, CONFIRM asks, ESCALATE asks a person other than the caller
	// SingleUser says that only one person uses the daemon. When a rule requires a second person (four eyes), that person types a
	// confirmation instead.
	SingleUser bool
	// Remembered returns remembered answers. Nil means that no answers are remembered, and that tickets do not offer to remember an answer.
	Remembered Remembered
	// Commands maps the id of a built-in tool ([tool.Descriptor.OwnID]) to a function that splits the command of a call into simple
	// commands. Rules and remembered answers are then applied to each simple command. Calls of other tools are not split.
	Commands map[string]Splitter
	// Paths finds the workspace files to which paths in arguments refer. Nil means that rules see only the text of a path, as sent and
	// cleaned.
	Paths Paths
	// Modes returns the chosen permission modes. Nil means that none is ever chosen.
	Modes Modes
	// Above returns the modes of the parent runs and threads of a call, for example of the run that started a subagent. Their restrictions
	// apply to the call, and their permissions do not. Nil means no parents.
	Above func(in *hook.Input) []string
}

// A Gate is a [hook.Gate]. Its methods may be called concurrently.
type Gate struct {
	singleUser bool
	remembered Remembered
	commands   map[string]Splitter
	paths      Paths
	modes      Modes
	above      func(in *hook.Input) []string
	rules      atomic.Pointer[inForce]
}

// New returns a gate.
func New(cfg Config) *Gate {
	g := &Gate{singleUser: cfg.SingleUser, remembered: cfg.Remembered, commands: cfg.Commands, paths: cfg.Paths, modes: cfg.Modes, above: cfg.Above}
	g.Swap(cfg.Rules)
	return g
}

// splitter returns the function that splits the commands of a tool, or nil. For a tool of another source, it returns nil even when the
// operator has renamed the tool to the id of a shell.
func (g *Gate) splitter(d *tool.Descriptor) Splitter {
	if d.SourceID != "" && d.Source != "builtin" {
		return nil
	}
	return g.commands[d.OwnID()]
}

// Rules returns the active rules.
func (g *Gate) Rules() *Rules { return g.rules.Load().Rules }

// Waits reports whether questions of UNATTENDED runs wait for an answer.
func (g *Gate) Waits() bool { return g.rules.Load().unattended != deny }

// Swap activates rules. Nil activates the default rules. The numbers of hits start again at zero.
func (g *Gate) Swap(rules *Rules) {
	if rules == nil {
		rules = Default()
	}
	g.rules.Store(&inForce{Rules: rules, since: time.Now()})
}

// Trial returns a gate that decides by other rules, for the same tools, files and modes. It uses no remembered answers. The modes are those
// of the gate when modes is nil.
func (g *Gate) Trial(rules *Rules, modes Modes) *Gate {
	if modes == nil {
		modes = g.modes
	}
	return New(Config{Rules: rules, SingleUser: g.singleUser, Commands: g.commands, Paths: g.paths, Modes: modes, Above: g.above})
}

// Reload parses a rule file and activates its rules. On an error, which is a [*ParseError], the old rules stay active.
func (g *Gate) Reload(name string, file []byte) error {
	rules, err := Parse(name, file)
	if err != nil {
		return err
	}
	g.Swap(rules)
	return nil
}

// Check implements [hook.Gate]. Its only side effect is that it counts hits.
func (g *Gate) Check(_ context.Context, in *hook.Input) (hook.Verdict, error) {
	if in.Descriptor == nil {
		return hook.Verdict{}, errors.New("call without a descriptor")
	}
	rules := g.rules.Load()
	d := g.judge(rules.Rules, in)
	if in.Answer() == nil { // A call with a question is counted only once, before its answer.
		rules.count(in.Namespace, &d)
	}
	return g.verdict(in, &d).By(hook.Rule{Name: d.name(), Reason: d.reason()}), nil
}

func (g *Gate) verdict(in *hook.Input, d *decision) hook.Verdict {
	switch d.action {
	case allow:
		return hook.AllowBecause(d.replacement())
	case deny:
		return hook.Deny("Denied: " + d.because())
	case block:
		return hook.Block(d.because())
	}
	if a := in.Answer(); a != nil && a.Action == tool.Resume && g.satisfies(a, in, d) {
		return hook.Allow()
	}
	if in.Run.Unattended && !g.Waits() {
		return hook.SetResult(&tool.Result{Status: tool.StatusError, Error: &tool.Error{
			Code: tool.Denied, Reason: "UNATTENDED", Message: "Denied: " + d.unanswerable(),
		}})
	}
	return hook.Suspend(g.ticket(in, d)).Under(d.version)
}

// judge decides a call by rules, modes and remembered answers. Check and Explain both use it, so an explanation always agrees with the
// decision.
func (g *Gate) judge(rules *Rules, in *hook.Input) decision {
	c := rules.candidatesOf(in.Descriptor)
	ls, modes := g.layersOf(rules, in)
	s := g.subject(c, in)
	var d decision
	if split := g.splitter(in.Descriptor); split == nil || !c.byArguments {
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
	if !slices.Contains(tiers, s.tier) { // an unknown tier counts as the strictest one
		s.tier = tool.Escalate
	}
	return s
}

// judgeCommand decides each simple command of a compound command and returns the strictest decision.
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

// maxParts is the maximum number of simple commands that are decided one by one.
const maxParts = 1000

// commandSubjects returns the subjects to decide for a command, up to two for each simple command. The first is matched alone. With the
// second, restricting rules also see the whole command, because such a rule may span several simple commands. A command that cannot be
// fully read adds one subject for the rest.
func (g *Gate) commandSubjects(s subject) []subject {
	s.isCommand = true
	parts, known := g.splitter(s.in.Descriptor)(s.in.Arguments)
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

// satisfies reports whether an approval is enough for the current rules, which may have become stricter since the approval.
func (g *Gate) satisfies(a *tool.Decision, in *hook.Input, d *decision) bool {
	if a.ResultInstead != nil && !d.instead {
		return false
	}
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
	return (&tool.Approvers{Roles: d.approvers.roles, Groups: d.approvers.groups}).Admit(p)
}
