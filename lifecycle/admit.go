package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
	"go.uber.org/zap"
)

// queue waits, at most for the queue timeout, for the call's turn in its thread and for a place for the attempt.
func (p *pass) queue(ctx context.Context) *end {
	if out := p.awaitThread(ctx); out != nil {
		return out
	}
	if p.alone() && p.leaveLane == nil {
		if out := p.takeLane(ctx); out != nil {
			return out
		}
	}
	if !p.takePlace() {
		turn, giveUp := p.l.e.places.line(p.want)
		if out := p.wait(ctx, turn, giveUp); out != nil {
			return out
		}
		p.placed = true
	}
	return nil
}

// takePlace reports whether the pass has a place.
func (p *pass) takePlace() bool {
	if !p.placed {
		p.want = p.l.e.places.wantOf(&p.in.Caller, p.def.Descriptor)
		p.placed = p.l.e.places.take(p.want)
	}
	return p.placed
}

// wait waits for what is given up when it does not come in time. The call is told to be queued, once.
func (p *pass) wait(ctx context.Context, turn <-chan struct{}, giveUp func()) *end {
	return p.waitFor(ctx, turn, giveUp, p.queueLimit())
}

func (p *pass) queueLimit() time.Duration {
	return or(p.l.record().Timeouts.Queue, or(p.def.Descriptor.Timeouts.Queue, p.l.e.cfg.QueueTimeout))
}

func (p *pass) waitFor(ctx context.Context, turn <-chan struct{}, giveUp func(), limit time.Duration) *end {
	if p.queued.IsZero() {
		// While it waits the call is in the journal: a restart finds it.
		err := p.l.advance(step{apply: p.found.write, events: []call.Event{{Type: call.EventQueued}}, durability: store.Normal})
		if err != nil {
			giveUp()
			return p.unwritten(err)
		}
		p.queued = time.Now()
	}
	timer := time.NewTimer(limit - time.Since(p.queued))
	defer timer.Stop()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		giveUp()
		return p.stopped(ctx)
	case <-timer.C:
		giveUp()
		return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&tool.Error{
			Code: tool.Timeout, Reason: "QUEUE", Aborted: true, Retryable: true,
			Message: fmt.Sprintf("Timed out after %v in the queue; it was not run", limit),
		})}
	}
}

// admit asks the circuit of the source and the Admit hooks for this attempt.
func (p *pass) admit(ctx context.Context) *end {
	if out := p.connect(); out != nil {
		return out
	}
	for _, entry := range p.hooks.Admit {
		if !entry.Match.Holds(p.in) {
			continue
		}
		release, err := hook.BoundedOr(ctx, entry.Deadline, func(ctx context.Context) (func(), error) { return entry.Hook.Admit(ctx, p.in) }, p.giveBack)
		if err != nil && ctx.Err() != nil {
			return p.stopped(ctx) // that is no fault of the hook
		}
		var refusal *tool.Error
		if err != nil && !errors.As(err, &refusal) {
			if out := p.failedHook("admit", entry.Name, entry.OnFailure, err); out != nil {
				return out
			}
			continue
		}
		if err != nil {
			e := *refusal
			e.DeveloperMessage = p.forOperators(e.DeveloperMessage)
			e.Code, e.Retryable, e.Aborted = tool.ResourceExhausted, true, true
			e.Reason = or(e.Reason, entry.Name)
			return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&e)}
		}
		if release != nil {
			p.releases = append(p.releases, release)
		}
	}
	return nil
}

// giveBack has an Admit hook take back what an attempt was admitted with.
func (p *pass) giveBack(release func()) {
	if release == nil {
		return
	}
	_, err := hook.Bounded(context.Background(), 0, func(context.Context) (struct{}, error) { release(); return struct{}{}, nil })
	if err != nil {
		p.l.e.log.Error("admit hook gave nothing back", zap.String("call_id", p.l.key.ID), zap.Error(err))
	}
}

// before runs the Before hooks of this attempt. Only a required one can fail the call.
func (p *pass) before(ctx context.Context) *end {
	for _, entry := range p.hooks.Before {
		if !entry.Match.Holds(p.in) {
			continue
		}
		commands, err := hook.Bounded(ctx, entry.Deadline, func(ctx context.Context) ([]tool.Command, error) { return entry.Hook.Before(ctx, p.in) })
		if err == nil {
			p.commands = append(p.commands, commands...)
			continue
		}
		p.l.e.stats.hookFailures.Add(1)
		p.l.e.log.Warn("before hook failed", zap.String("hook", entry.Name), zap.String("call_id", p.l.key.ID), zap.Error(err))
		if out := broken(entry.Name, err); out != nil {
			return out
		}
		if entry.Required {
			return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&tool.Error{
				Code: tool.ExecutionFailed, Reason: entry.Name, Aborted: true, DeveloperMessage: p.forOperators(err.Error()),
				Message: fmt.Sprintf("Not run: the hook %q failed", entry.Name),
			})}
		}
	}
	return nil
}
