package wire

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

// A PolicyConfig has the dependencies of [Policy]. All fields are required.
type PolicyConfig struct {
	Gate  *permission.Gate
	Tools *registry.Registry
	// List returns a page of the calls that a principal sees.
	List func(ctx context.Context, p tool.Principal, q call.Query) (call.Page, error)
}

// Policy returns the part of the daemon that reads and tries permission rules.
func Policy(c PolicyConfig) service.Policy {
	return &rules{PolicyConfig: c, find: Definitions(c.Tools), declared: Frontend(c.Tools), busy: make(chan struct{}, 1)}
}

type rules struct {
	PolicyConfig
	find     lifecycle.Tools
	declared func(*tool.FrontendTool) (*lifecycle.Definition, error)
	busy     chan struct{} // holds one element while a trial runs
}

const (
	trialTime = 10 * time.Second // time limit for all calls of one trial
	trialPage = 20               // number of calls that are in memory at a time; each may have arguments and a result of 1 MiB
	titleTime = 200 * time.Millisecond
)

// Policy implements [service.Policy].
func (t *rules) Policy(namespace string) service.PolicyState {
	p := t.Gate.Policy(namespace)
	out := service.PolicyState{File: p.File, Version: p.Version, Since: p.Since, Counted: p.Counted, Waits: p.Waits, Whole: p.Whole}
	if p.Text != nil {
		s := string(p.Text)
		out.Text = &s
	}
	for _, r := range p.Rules {
		out.Rules = append(out.Rules, service.PolicyRule(r))
	}
	for _, d := range p.Defaults {
		out.Defaults = append(out.Defaults, service.PolicyDefault(d))
	}
	return out
}

// A trial compares two gates.
type trial struct {
	*service.Trial
	rules         *permission.Rules
	before, after *permission.Gate
}

// begin waits until no other trial runs, and parses the rules. The caller invokes end when the trial is over. When the text has an error,
// the trial contains the error and no gates.
func (t *rules) begin(ctx context.Context, p tool.Principal, text *string) (_ *trial, end func(), err error) {
	select {
	case t.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	end = func() { <-t.busy }
	one := &trial{Trial: &service.Trial{}, rules: t.Gate.Rules()}
	if text != nil {
		rules, err := permission.Parse("rules", []byte(*text))
		var at *permission.ParseError
		if errors.As(err, &at) {
			one.Error = &service.RuleProblem{Line: at.Line, Column: at.Column, Text: at.Reason}
			return one, end, nil
		}
		if err != nil {
			end()
			return nil, nil, err
		}
		one.rules = rules
	}
	one.Version = one.rules.Version()
	var tools []*tool.Descriptor
	for _, e := range t.Tools.View(registry.Offer{Namespace: p.Namespace}).List() {
		tools = append(tools, &e.Descriptor)
	}
	for _, w := range one.rules.Warnings(tools) {
		one.Warnings = append(one.Warnings, service.RuleProblem(w))
	}
	return one, end, nil
}

// TryCalls implements [service.Policy].
func (t *rules) TryCalls(ctx context.Context, p tool.Principal, text *string, last int) (*service.Trial, error) {
	one, end, err := t.begin(ctx, p, text)
	if err != nil {
		return nil, err
	}
	defer end()
	if one.Error != nil {
		return one.Trial, nil
	}
	one.before, one.after = t.Gate.Trial(t.Gate.Rules(), nil), t.Gate.Trial(one.rules, nil)
	one.Before, one.After = map[string]int{}, map[string]int{}
	stop := time.Now().Add(trialTime)
	for q := (call.Query{}); ; {
		q.Limit = min(trialPage, last-one.Judged-one.Skipped)
		page, err := t.List(ctx, p, q)
		if err != nil {
			return nil, err
		}
		for _, c := range page.Calls {
			if time.Now().After(stop) {
				return one.Trial, nil
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := one.judge(ctx, t.inputOf(c), c); err != nil {
				return nil, err
			}
		}
		if q.After = page.Next; q.After == 0 || one.Judged+one.Skipped >= last {
			one.Complete = true
			return one.Trial, nil
		}
	}
}

// judge asks both gates about a past call and adds their answers to the trial. in is nil for a call that cannot be judged.
func (t *trial) judge(ctx context.Context, in *hook.Input, c *call.Call) error {
	t.Since = c.Created
	if in == nil {
		t.Skipped++
		return nil
	}
	before, is, err := rulingOf(ctx, t.before, in)
	if err != nil {
		return err
	}
	after, will, err := rulingOf(ctx, t.after, in)
	if err != nil {
		return err
	}
	t.Judged++
	t.Before[before.Outcome]++
	t.After[after.Outcome]++
	if before.Outcome != after.Outcome || before.Action != after.Action || !sameApprovers(&is, &will) {
		t.Changed = append(t.Changed, service.ChangedCall{Call: shown(c), Decided: decided(c), Before: before, After: after})
	}
	return nil
}

// shown copies the fields of a call that a trial shows, so that the result of the call can be freed.
func shown(c *call.Call) *call.Call {
	return &call.Call{ID: c.ID, Tool: c.Tool, Description: tool.Description{Title: c.Description.Title}, Caller: c.Caller, Created: c.Created}
}

func sameApprovers(a, b *permission.Explanation) bool {
	return a.FourEyes == b.FourEyes && a.Count == b.Count && slices.Equal(a.Approvers, b.Approvers) && slices.Equal(a.Groups, b.Groups)
}

// decided returns what people decided on the latest question of the permission gate.
func decided(c *call.Call) tool.DecisionAction {
	for _, r := range slices.Backward(c.Rounds) {
		if r.Suspension.Origin == permission.Name && r.Decision != nil {
			return r.Decision.Action
		}
	}
	return ""
}

func rulingOf(ctx context.Context, g *permission.Gate, in *hook.Input) (service.ShortRuling, permission.Explanation, error) {
	v, err := g.Check(ctx, in)
	if err != nil {
		return service.ShortRuling{}, permission.Explanation{}, err
	}
	e := g.Ruling(in)
	return service.ShortRuling{Outcome: gating.ShownKind(v), Action: e.Action, Rule: e.Rule, Line: e.Line}, e, nil
}

// inputOf returns the input of the gate for a past call, from its record. It returns nil when the call has no accepted arguments or its tool
// does not exist.
func (t *rules) inputOf(c *call.Call) *hook.Input {
	def, err := t.definition(c.Namespace, c.Tool, c.Frontend)
	if c.Effective == "" || c.Purge != nil || err != nil {
		return nil
	}
	args, err := call.Parse(c.Effective).Arguments(def.Descriptor.MaxArguments)
	if err != nil {
		return nil
	}
	return &hook.Input{
		Namespace: c.Namespace, CallID: c.ID, Descriptor: def.Descriptor, ToolDigest: c.ToolDigest, Requested: c.Requested, Arguments: args, Run: c.Run,
		Caller: c.Caller, OnBehalfOf: c.OnBehalfOf, Assessment: c.Assessment, Description: c.Description, Attempt: 1,
	}
}

func (t *rules) definition(namespace, name string, declared *tool.FrontendTool) (*lifecycle.Definition, error) {
	if declared != nil {
		return t.declared(declared)
	}
	def, ok := t.find.Lookup(namespace, name)
	if !ok {
		return nil, tool.Errorf(tool.NotFound, "there is no tool %q here; ListTools lists them", name)
	}
	return def, nil
}

// TryCall implements [service.Policy].
func (t *rules) TryCall(ctx context.Context, p tool.Principal, text *string, c *service.TrialCall) (*service.Trial, error) {
	one, end, err := t.begin(ctx, p, text)
	if err != nil {
		return nil, err
	}
	defer end()
	if one.Error != nil || c == nil {
		return one.Trial, nil
	}
	in, err := t.suppose(ctx, c)
	if err != nil {
		one.CallError = (&tool.Result{Status: tool.StatusError, Error: tool.AsError(err)}).ModelText()
		return one.Trial, nil
	}
	var modes permission.Modes
	if c.Mode != "" {
		modes = oneMode(c.Mode)
	}
	if one.InForce, err = explain(ctx, t.Gate.Trial(t.Gate.Rules(), modes), in); err == nil {
		one.Tried, err = explain(ctx, t.Gate.Trial(one.rules, modes), in)
	}
	return one.Trial, err
}

// suppose returns the input of the gate for a call that does not exist. The hooks that rewrite arguments are not asked.
func (t *rules) suppose(ctx context.Context, c *service.TrialCall) (*hook.Input, error) {
	var declared *tool.FrontendTool
	if i := slices.IndexFunc(c.Spec.Frontend, func(f tool.FrontendTool) bool { return f.Name == c.Spec.Tool }); i >= 0 {
		declared = &c.Spec.Frontend[i]
	}
	def, err := t.definition(c.Caller.Namespace, c.Spec.Tool, declared)
	if err != nil {
		return nil, err
	}
	args, err := call.Parse(cmp.Or(c.Spec.Arguments, "{}")).Arguments(def.Descriptor.MaxArguments)
	if err == nil {
		err = def.Schema.ValidateArguments(args)
	}
	if err != nil {
		return nil, err
	}
	in := &hook.Input{
		Namespace: c.Caller.Namespace, CallID: cmp.Or(c.Spec.ID, "trial"), Descriptor: def.Descriptor, ToolDigest: def.Digest, Requested: c.Spec.Arguments,
		Arguments: args, Run: c.Spec.Run, Caller: c.Caller, OnBehalfOf: c.Spec.OnBehalfOf, Assessment: def.Assess(args), Attempt: 1,
	}
	if d, ok := def.Tool.(tool.Describer); ok {
		ctx, cancel := context.WithTimeout(ctx, titleTime)
		defer cancel()
		in.Description, err = d.Describe(ctx, &tool.Call{
			Namespace: in.Namespace, ID: in.CallID, Tool: in.Descriptor.OwnID(), Attempt: 1, Run: in.Run, Caller: in.Caller, Arguments: args,
		})
		in.Description.Degraded = in.Description.Degraded || err != nil
	}
	return in, nil
}

// oneMode is the permission mode of every run.
type oneMode string

func (m oneMode) Modes(_, _, _ string) (ofRun, ofThread string) { return string(m), "" }

func explain(ctx context.Context, g *permission.Gate, in *hook.Input) (*service.Ruling, error) {
	short, _, err := rulingOf(ctx, g, in)
	if err != nil {
		return nil, err
	}
	e := g.Explain(in)
	out := &service.Ruling{
		ShortRuling: short, Why: e.Why, Layer: e.Layer, Pattern: e.Pattern, Mode: e.Mode, Command: e.Command, Roles: e.Approvers, Groups: e.Groups,
		Count: e.Count, FourEyes: e.FourEyes, Hidden: g.Hidden(in.Caller, in.Descriptor),
	}
	for _, tried := range e.Tried {
		out.Tried = append(out.Tried, service.TriedRule(tried))
	}
	return out, nil
}
