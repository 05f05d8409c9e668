package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/tool"
)

// Describe returns a preview of a call. It runs and stores nothing. It does not call Admit hooks, so the preview uses no rate limit or
// budget.
func (e *Engine) Describe(ctx context.Context, p tool.Principal, spec call.Spec) (*call.Preview, error) {
	if err := e.requests.CheckCall(&spec); err != nil {
		return nil, err
	}
	if err := e.owners.Claim(ctx, p, &spec.Run, ""); err != nil {
		return nil, err
	}
	c := &call.Call{
		Frontend: spec.Declared(), Namespace: p.Namespace, ID: or(spec.ID, newID()), Tool: spec.Tool, Run: spec.Run, Caller: p, OnBehalfOf: spec.OnBehalfOf,
		Requested: spec.Arguments, Class: call.Behind, Status: call.New,
	}
	def, ok := e.catalog.Lookup(c)
	if !ok {
		return nil, call.Refuse(call.NotFound, "TOOL_NOT_FOUND", "there is no tool %q here; ListTools lists them", spec.Tool)
	}
	c.Tool, c.ToolDigest = def.Descriptor.ID, def.Digest
	l := newActiveCall(e, c.Key())
	l.c = c
	pipe := newPipeline(l)
	pipe.def, pipe.arguments = def, call.Parse(spec.Arguments)
	return preview(ctx, p, pipe), nil
}

// DescribeEdit returns a preview of a suspended call as it would be if the principal approved it with these arguments. The refusals are those
// of [Engine.Resume].
func (e *Engine) DescribeEdit(ctx context.Context, p tool.Principal, suspensionID, arguments string) (*call.Preview, error) {
	l, err := e.decisions.acquire(ctx, p.Namespace, &call.ResumeRequest{SuspensionID: suspensionID})
	if err != nil {
		return nil, err
	}
	defer l.release()
	c := *l.record()
	round, err := decision.Find(&c, p, suspensionID)
	if err != nil {
		return nil, err
	}
	edit := tool.Decision{Action: tool.Resume, Arguments: arguments, ExpectedDigest: round.Suspension.Digest}
	a, err := e.decisions.check.Check(&c, round, p, &call.ResumeRequest{SuspensionID: suspensionID, Decision: edit})
	if err != nil {
		return nil, err
	}
	a.Apply(&c)
	l = newActiveCall(e, c.Key()) // a copy, to which the decision is applied
	l.c = &c
	pipe := newPipeline(l)
	pipe.def, _ = e.catalog.Lookup(&c) // The tool exists, because the arguments were checked with it.
	pipe.arguments = call.Parse(arguments)
	out := preview(ctx, p, pipe)
	out.Digest = a.Decision.AppliesTo
	return out, nil
}

// preview runs the stages of a call up to and including its gates. Nothing is stored.
func preview(ctx context.Context, p tool.Principal, pipe *pipeline) *call.Preview {
	e, c, def := pipe.l.e, pipe.l.c, pipe.def
	out := &call.Preview{Tool: def.Descriptor.ID, ToolDigest: def.Digest, Isolation: e.catalog.IsolationOf(def.Descriptor), Assessment: def.Descriptor.Effects.Normal()}
	end := pipe.check(ctx, stageRewrite)
	for _, step := range []func(context.Context) outcome.Conclusion{pipe.rewrite, pipe.assess, pipe.secrets} {
		if end == nil {
			end = step(ctx)
		}
	}
	if ended, ok := end.(*outcome.Terminal); ok {
		out.Error = ended.Result.Error
		if pipe.hooks.Scrubs {
			out.Error = pipe.scrubber().Error(out.Error)
		}
		return out
	}
	a := askGates(ctx, pipe)
	out.Valid, out.Effective = true, pipe.basis.Arguments.Text()
	out.Assessment, out.Description = pipe.shownEffects(), pipe.in.Description
	out.Verdicts, out.Outcome, out.Reason = a.All, gating.ShownKind(a.Verdict), gating.Reason(a.Verdict)
	if a.failed != nil && a.Verdict.Kind() != hook.KindBlock {
		out.Outcome, out.Reason = "FAILED", a.failed.Result.Error.Message
	}
	if out.Outcome != string(hook.KindAllow) && !(out.Outcome == string(hook.KindSuspend) && view.SeesTicket(p, c, e.cfg.Approvers.Of(c.Namespace, a.Verdict.Ticket().Approvers))) {
		out.Description, out.Assessment.Resources = view.Bare(out.Description), nil
	}
	return out
}
