package lifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// describeDeadline is the time limit for a tool's description of a call.
const describeDeadline = 200 * time.Millisecond

// makeInput creates the input of hooks. Before the assessment, it has the effects of the descriptor.
func (p *pipeline) makeInput() {
	c := p.l.peek()
	p.see(c)
	p.in = p.unread
	if p.in == nil {
		p.in = newInput(c, p.def)
	}
	p.in.Epoch = p.l.e.epoch
	p.in.Arguments, p.in.Documents = p.basis.Arguments, p.documents
}

// newInput returns the hook input of a call before its arguments are parsed.
func newInput(c *call.Call, def *Definition) *hook.Input {
	in := &hook.Input{
		Namespace: c.Namespace, CallID: c.ID, ToolDigest: c.ToolDigest, Requested: c.Requested,
		Run: c.Run, Caller: c.Caller, OnBehalfOf: c.OnBehalfOf, Attempt: len(c.Attempts) + 1,
	}
	if def == nil {
		in.Descriptor = &tool.Descriptor{ID: c.Tool}
	} else {
		in.Descriptor, in.ToolDigest = def.Descriptor, def.Digest
	}
	in.Assessment = in.Descriptor.Effects.Normal()
	return in
}

// assess determines the effects of the call, and its description for gates and people.
func (p *pipeline) assess(ctx context.Context) outcome.Conclusion {
	if len(p.hooks.Rewrite) > 0 { // Use a copy: a Rewrite hook that missed its deadline may still read the old input.
		in := *p.in
		p.in = &in
	}
	p.in.Assessment = p.def.Assess(p.basis.Arguments)
	p.in.Description = p.describe(ctx)
	p.basis.Unwritten = p.fresh && p.in.Assessment.Mutability == tool.ReadOnly
	f, c := &p.found, p.l.peek()
	f.assessed, f.assessment, f.description, f.digest, f.isolation = true, p.shownEffects(), p.in.Description, c.ToolDigest, c.Isolation
	if !p.fresh { // The call has waited, so the tool and the isolation may have changed.
		f.digest, f.isolation = p.basis.ToolDigest, p.l.e.catalog.IsolationOf(p.def.Descriptor)
	}
	p.accept()
	return nil
}

// shownEffects returns the assessment for people. The ids of resources pass the filters, because they can contain text of the arguments.
func (p *pipeline) shownEffects() tool.Effects {
	e := p.in.Assessment
	if len(e.Resources) > 0 && p.hooks.Scrubs {
		e.Resources = slices.Clone(e.Resources)
		for i := range e.Resources {
			e.Resources[i].ID = p.scrubber().Text(e.Resources[i].ID)
		}
	}
	return e
}

// setResources replaces the resources of the assessment. It changes a copy of the input, because a hook may still hold the input.
func (p *pipeline) setResources(list []tool.Resource) {
	in := *p.in
	in.Assessment.Resources = list
	p.in = &in
	p.found.assessment = p.shownEffects()
}

// describe returns the tool's description of the call. It fills missing fields with defaults, also when the tool fails.
func (p *pipeline) describe(ctx context.Context) tool.Description {
	d := tool.Description{}
	if t, ok := p.def.Tool.(tool.Describer); ok {
		var err error
		d, err = hook.Bounded(ctx, p.def.AskedWithin(describeDeadline), func(ctx context.Context) (tool.Description, error) {
			return t.Describe(ctx, p.call(nil))
		})
		if err != nil {
			d = tool.Description{Degraded: true, Preview: []tool.Content{{Type: tool.ContentText, Text: p.basis.Arguments.Text()}}}
		}
	}
	calllog.ReadableDescription(&d)
	if d.Kind == "" {
		d.Kind = gating.KindOf(p.def.Descriptor.Effects)
	}
	if d.Title == "" {
		d.Title = p.def.Descriptor.Name()
	}
	if p.hooks.Scrubs {
		d = p.scrubber().Description(d)
	}
	return d
}
