package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// parse returns an outcome if the arguments are not valid for the tool. The arguments were already parsed when the request arrived.
func (p *pipeline) parse(ctx context.Context) outcome.Conclusion {
	turn := p.l.peek().Turn
	if turn.Truncated {
		return outcome.Truncated()
	}
	args, err := p.arguments.Arguments(p.def.Descriptor.MaxArguments)
	if err == nil && turn.Strict && !p.rewritten {
		var removed bool
		if args, removed, err = p.l.e.catalog.WithoutNulls(p.def, args); removed {
			p.found.rewriters = []string{strictMode}
		}
	}
	if err == nil {
		err = p.def.Validate(ctx, args, p.forOperators)
	}
	if err != nil && ctx.Err() != nil {
		return p.stopped(ctx)
	}
	if err != nil {
		return outcome.Invalid(err, "")
	}
	p.freeze(args)
	p.makeInput()
	return nil
}

// strictMode is the name under which the removal of nulls is recorded as a rewrite.
const strictMode = "strict"

// freeze makes args the effective arguments of this pipeline run, and computes its basis.
func (p *pipeline) freeze(args tool.Arguments) {
	p.basis = gating.NewBasis(p.def.Digest, p.def.Descriptor, args)
}

// rewrite passes the arguments to the Rewrite hooks, which may change them. On resume the hooks run only when the decision contains new
// arguments.
func (p *pipeline) rewrite(ctx context.Context) outcome.Conclusion {
	names := p.found.rewriters
	if !p.rewritten {
		for i := range p.hooks.Rewrite {
			entry := &p.hooks.Rewrite[i]
			if !entry.Match.Holds(p.in) {
				continue
			}
			text, err := hooks.Timed(ctx, &p.found.hookRuns, "REWRITE", entry, func(ctx context.Context) (string, error) { return entry.Hook.Rewrite(ctx, p.in) }, nil)
			if err != nil && ctx.Err() != nil {
				return p.stopped(ctx) // The hook did not fail: the call was stopped.
			}
			if err != nil {
				if out := p.failedHook("rewrite", entry.Name, entry.OnFailure, err); out != nil {
					return out
				}
				continue
			}
			if text == p.in.Arguments.Text() {
				continue
			}
			args, err := call.Parse(text).Arguments(p.def.Descriptor.MaxArguments)
			if err == nil {
				err = p.def.Validate(ctx, args, p.forOperators)
			}
			if err != nil && ctx.Err() != nil {
				return p.stopped(ctx)
			}
			if err != nil {
				return outcome.Invalid(err, entry.Name)
			}
			names = append(names, entry.Name)
			p.freeze(args)
			next := *p.in
			next.Arguments = args
			p.in = &next
		}
	}
	if !p.rewritten {
		p.found.rewritten, p.found.effective, p.found.rewriters = true, p.basis.Arguments.Text(), names
	}
	return nil
}
