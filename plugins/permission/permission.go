// Package permission is a gate that decides by rules: a call is allowed, needs a person, is denied, or blocks its run.
//
// Rules name tools by globs and tiers. Block beats deny beats ask beats allow, whatever the order in the file; a call
// that no rule names is decided by its tier. Within one action the more specific rule gives reason, approvers and expiry.
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
}

// A Gate is a [hook.Gate]. Its methods may be called from many goroutines.
type Gate struct {
	singleUser bool
	remembered Remembered
	commands   map[string]Splitter
	rules      atomic.Pointer[Rules]
}

// New returns a gate.
func New(cfg Config) *Gate {
	g := &Gate{singleUser: cfg.SingleUser, remembered: cfg.Remembered, commands: cfg.Commands}
	g.Swap(cfg.Rules)
	return g
}

// Rules returns the rules in force.
func (g *Gate) Rules() *Rules { return g.rules.Load() }

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
	rules := g.rules.Load()
	d := rules.decide(subject{
		caller: in.Caller.Subject, onBehalfOf: in.OnBehalfOf, descriptor: in.Descriptor, tier: in.Assessment.Normal().Tier,
	})
	switch d.action {
	case allow:
		return hook.Allow(), nil
	case deny:
		return hook.Deny("Denied: " + d.because()), nil
	case block:
		return hook.Block(d.because()), nil
	}
	if a := in.Answer(); a != nil && a.Action == tool.Resume && g.satisfies(a, in, d) {
		return hook.Allow(), nil
	}
	if g.isRemembered(in, d) {
		return hook.Allow(), nil
	}
	return hook.Suspend(g.ticket(in, d)), nil
}

// isRemembered reports whether an answer that was kept serves this call.
func (g *Gate) isRemembered(in *hook.Input, d decision) bool {
	if g.remembered == nil || d.fourEyes || d.count > 1 || !rememberable(in.Assessment) {
		return false
	}
	kept := g.remembered.Remembered(Query{
		Namespace: in.Namespace, Principal: in.Caller.Subject, OnBehalfOf: in.OnBehalfOf, Run: in.Run.ID, Thread: in.Run.Thread,
		Tool: in.Descriptor.ID, ToolDigest: in.ToolDigest,
	})
	return slices.ContainsFunc(kept, func(r RememberedRule) bool {
		return mayAnswer(r.By, d) && Matches(r.Option, in, g.commands[in.Descriptor.ID])
	})
}

func mayAnswer(p tool.Principal, d decision) bool {
	return slices.ContainsFunc(d.approvers, func(role string) bool { return slices.Contains(p.Roles, role) })
}

// satisfies reports whether a yes is good enough for the rules as they are now: they may have become stricter since it
// was given.
func (g *Gate) satisfies(a *tool.Decision, in *hook.Input, d decision) bool {
	if g.singleUser && (d.fourEyes || d.count > 1) {
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

// Hidden reports whether a tool is denied to a principal whatever the arguments are. Such a tool is not in the
// principal's lists, and a call of it finds no tool. A tool that would block the run is not hidden: the block would
// never happen.
func (g *Gate) Hidden(p tool.Principal, d *tool.Descriptor) bool {
	rules := g.rules.Load()
	mildest := slices.Index(tiers, d.MildestEffects().Tier)
	for _, tier := range tiers[max(mildest, 0):] {
		if rules.decide(subject{caller: p.Subject, descriptor: d, tier: tier}).action != deny {
			return false
		}
	}
	return true
}
