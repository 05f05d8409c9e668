package lifecycle

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// resumeRun continues a decided call in the background. For a call of a batch it does nothing, because the batch decides when the call
// continues.
func (l *activeCall) resumeRun(request context.Context, d tool.Decision) {
	if l.record().BatchID == "" {
		l.resumePipeline(request, d)
	}
}

// resumePipeline continues a decided call in the background, also a call of a batch.
func (l *activeCall) resumePipeline(request context.Context, d tool.Decision) {
	ctx := l.start(l.e.trace.Begin(request, l.record()))
	l.e.workers.Run(func() { l.applyDecision(ctx, d) })
}

// applyDecision applies a stored decision: it ends a declined call, uses the answer as the result of the call, or runs the stages again.
func (l *activeCall) applyDecision(ctx context.Context, d tool.Decision) {
	c := l.record()
	s := c.LastRound().Suspension
	p := newPipeline(l)
	p.def, _ = l.e.catalog.Lookup(c)
	p.arguments, p.found.hookRuns = call.Parse(c.Effective), c.HookRuns
	if p.def != nil {
		args, _ := p.arguments.Arguments(p.def.Descriptor.MaxArguments)
		p.freeze(args)
		p.makeInput()
	}
	holds := p.def == nil || p.holds(&s, &d)
	instead := gating.Instead(c)
	switch {
	case d.Action == tool.Cancel:
		if p.settleRun(ctx, outcome.Declined(d.Reason)).is == committed {
			p.abandoned(&s)
		}
	case s.Origin == call.OriginDoubt:
		doubt{p}.answered(ctx, &d, holds)
	case s.ResumeMode == tool.UseDecisionAsToolResult && holds && d.ResultInstead == nil:
		p.settleRun(ctx, outcome.Answered(call.NotStarted, &tool.Result{Status: tool.StatusSuccess, Data: d.Result}))
	case instead != nil && p.def != nil && !p.holds(&instead.Suspension, instead.Decision):
		p.settleRun(ctx, outcome.ToolChanged())
	case instead != nil:
		p.rewritten, p.stages = true, newInsteadPath()
		p.run(ctx)
	default:
		p.rewritten = true
		if holds { // If holds is false, the tool has changed since the question. The call then asks again.
			p.resume = &tool.ResumeInput{SuspensionID: s.ID, Reason: s.Action, Round: s.Round, Result: d.Result, Decision: d, Basis: s.Description.Basis}
		}
		switch {
		case s.ResumeMode == tool.PassDecisionToTool:
			p.arguments, p.rewritten = call.Parse(d.Result), false
		case d.Arguments != "":
			p.arguments, p.rewritten = call.Parse(d.Arguments), false
		}
		p.run(ctx)
	}
}

// holds reports whether the tool and its arguments are still those that the decision was given for.
func (p *pipeline) holds(s *call.Suspension, d *tool.Decision) bool {
	return p.basis.With(p.decidedArguments(s, d)).Holds(p.l.record(), s, d, p.def.Descriptor.MaxArguments)
}

// decidedArguments returns the arguments that a decision was given for.
func (p *pipeline) decidedArguments(s *call.Suspension, d *tool.Decision) tool.Arguments {
	text := d.Arguments
	if s.ResumeMode == tool.PassDecisionToTool {
		text = d.Result
	}
	if text == "" {
		return p.basis.Arguments
	}
	args, _ := call.Parse(text).Arguments(p.def.Descriptor.MaxArguments) // There is no error: the text was validated together with the decision.
	return args
}

// settleRun ends a resumed call without running its tool.
func (p *pipeline) settleRun(ctx context.Context, out *outcome.Terminal) settlement {
	l := p.l
	defer l.release()
	defer l.e.drain.Leave()
	if ctx.Err() != nil && out.Status == call.Succeeded && !errors.Is(context.Cause(ctx), outcome.Drained) {
		out = outcome.StoppedBy(context.Cause(ctx), begun(l.record()))
	}
	if out.Status == call.Succeeded && p.def != nil {
		if broken := (returned{p}).checkData(out.Result); broken != nil {
			broken.Executed = call.NotStarted
			out = broken
		}
	}
	rounds := l.e.trace.Rounds(l.record)
	s := p.finish(ctx, out)
	l.endPipeline(ctx)
	l.e.trace.End(ctx, l.record, rounds)
	return s
}

// abandoned notifies a tool that its question s will not be answered.
func (p *pipeline) abandoned(s *call.Suspension) {
	if p.def == nil || s.Origin != call.OriginTool {
		return
	}
	a, ok := p.def.Tool.(tool.Abandoner)
	if !ok {
		return
	}
	_, _ = hook.Bounded(context.Background(), p.l.e.cfg.Grace, func(ctx context.Context) (struct{}, error) {
		a.Abandon(ctx, p.call(nil))
		return struct{}{}, nil
	})
}
