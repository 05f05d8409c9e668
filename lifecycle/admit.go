package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/limit"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// queue waits for the call's turn in its thread and for a slot, at most for the queue timeout.
func (c *capacity) queue(ctx context.Context) outcome.Conclusion {
	if out := c.awaitThread(ctx); out != nil {
		return out
	}
	if c.ownTurn() && c.leaveThread == nil {
		if out := c.enterThread(ctx); out != nil {
			return out
		}
	}
	if p := c.p; !c.takeSlot() {
		turn, giveUp := c.slot.Wait()
		if out := c.wait(ctx, turn, giveUp, p.l.e.limits.Slots.Waits(c.demand())); out != nil {
			return out
		}
		c.slot.Granted()
	}
	return nil
}

// takeSlot takes a slot if one is free, and reports whether the call has a slot.
func (c *capacity) takeSlot() bool {
	p := c.p
	return c.slot.Held() || c.slot.TryTake(p.l.e.limits.Slots, c.demand())
}

// demand returns the limits that the call counts against.
func (c *capacity) demand() limit.Demand {
	p := c.p
	return p.l.e.limits.Slots.Demand(&p.in.Caller, p.def.Descriptor)
}

// ownTurn reports whether the call needs a turn in its thread. It needs a turn when it must not run at the same time as calls that overlap
// it.
func (c *capacity) ownTurn() bool {
	p := c.p
	return !p.in.Assessment.ConcurrencySafe && p.in.Run.Thread != "" && !p.l.concurrent.Load()
}

func (c *capacity) thread() limit.Thread {
	p := c.p
	return limit.Thread{Namespace: p.l.key.Namespace, Thread: p.in.Run.Thread, Parent: p.in.Run.ParentCall}
}

// enterThread waits for the call's turn in its thread, at most for the queue timeout. If the call names resources, enterThread assesses it
// again when its turn comes, because an earlier call may have changed what a name refers to. If the resources are different then, the call
// waits for the new resources. If they are different once more, the call waits until it is alone.
func (c *capacity) enterThread(ctx context.Context) outcome.Conclusion {
	for again := false; ; again = true {
		named := c.p.in.Assessment.Resources
		if out := c.awaitTurn(ctx, named); out != nil || len(named) == 0 {
			return out
		}
		now := c.p.def.Assess(c.p.basis.Arguments).Resources
		if slices.Equal(now, named) {
			return nil
		}
		c.leaveThread()
		c.leaveThread = nil
		if again {
			now = nil
		}
		c.p.setResources(now)
	}
}

// awaitTurn waits for the turn of a call with these resources. On success it sets leaveThread.
func (c *capacity) awaitTurn(ctx context.Context, resources []tool.Resource) outcome.Conclusion {
	p := c.p
	turn, ahead, leave, ok := p.l.e.limits.Threads.Enter(c.thread(), resources)
	if !ok {
		return outcome.ThreadFull()
	}
	select {
	case <-turn:
	default:
		done := p.l.e.limits.Slots.WaitElsewhere(c.demand())
		out := c.wait(ctx, turn, leave, &call.Queued{Reason: "THREAD", Ahead: ahead})
		done()
		if out != nil {
			return out
		}
	}
	c.leaveThread = leave
	return nil
}

// wait waits for the turn of the call. It publishes one event that says why the call is queued. It invokes giveUp when the turn does not
// come in time.
func (c *capacity) wait(ctx context.Context, turn <-chan struct{}, giveUp func(), why *call.Queued) outcome.Conclusion {
	return c.waitFor(ctx, turn, giveUp, c.queueLimit(), why)
}

func (c *capacity) queueLimit() time.Duration {
	p := c.p
	return or(p.l.record().Timeouts.Queue, or(p.def.Descriptor.Timeouts.Queue, p.l.e.cfg.QueueTimeout))
}

func (c *capacity) waitFor(ctx context.Context, turn <-chan struct{}, giveUp func(), limit time.Duration, why *call.Queued) outcome.Conclusion {
	p := c.p
	if c.queued.IsZero() {
		// A waiting call must be in the journal, so that a restart finds it.
		err := p.l.advance(step{apply: p.found.write, events: []call.Event{{Type: call.EventQueued, Queued: why}}, durability: store.Normal})
		if err != nil {
			giveUp()
			return p.unwritten(err)
		}
		c.queued = time.Now()
	}
	timer := time.NewTimer(limit - time.Since(c.queued))
	defer timer.Stop()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		giveUp()
		return p.stopped(ctx)
	case <-timer.C:
		giveUp()
		return outcome.QueueTimeout(limit)
	}
}

// admit checks that the circuit of the source is closed, and calls the Admit hooks for this attempt.
func (c *capacity) admit(ctx context.Context) outcome.Conclusion {
	if out := c.enterSource(); out != nil {
		return out
	}
	for i := range c.p.hooks.Admit {
		entry := &c.p.hooks.Admit[i]
		if !entry.Match.Holds(c.p.in) {
			continue
		}
		release, err := hooks.Timed(ctx, &c.p.found.hookRuns, "ADMIT", entry, func(ctx context.Context) (func(), error) { return entry.Hook.Admit(ctx, c.p.in) }, c.giveBack)
		if err != nil && ctx.Err() != nil {
			return c.p.stopped(ctx) // The hook did not fail: the call was stopped.
		}
		var refusal *tool.Error
		if err != nil && !errors.As(err, &refusal) {
			if out := c.p.failedHook("admit", entry.Name, entry.OnFailure, err); out != nil {
				return out
			}
			continue
		}
		if err != nil {
			return outcome.NotAdmitted(entry.Name, refusal, c.p.forOperators)
		}
		if release != nil {
			c.releases = append(c.releases, release)
		}
	}
	return nil
}

// enterSource counts the call as a visit to its source. It returns an outcome if the circuit of the source is open.
func (c *capacity) enterSource() outcome.Conclusion {
	p := c.p
	visit, wait, failures := p.l.e.limits.Circuits.Enter(p.in.Caller.Namespace, p.def.Descriptor.Source)
	if wait == 0 {
		c.visit = visit
		return nil
	}
	return outcome.CircuitOpen(p.def.Descriptor.ID, failures, wait)
}

// leaveSource reports the outcome of the call to the circuit of its source. Any answer of the upstream, even an error, shows that the
// upstream works. A question, a cancellation or a timeout does not show whether it works.
func (c *capacity) leaveSource(how outcome.Conclusion) {
	p := c.p
	if c.visit == (limit.Visit{}) {
		return
	}
	var code tool.Code
	out, ended := how.(*outcome.Terminal)
	if ended && out.Result.Error != nil {
		code = out.Result.Error.Code
	}
	reached := ended && out.Executed == call.Finished && !slices.Contains([]tool.Code{tool.Upstream, tool.Timeout, tool.Cancelled, tool.Internal}, code)
	namespace, source := p.in.Caller.Namespace, p.def.Descriptor.Source
	if opened := p.l.e.limits.Circuits.Leave(namespace, source, c.visit, code == tool.Upstream, reached); opened > 0 {
		p.l.e.log.Warn("circuit opened: an upstream failed several times in a row", zap.String("source", source),
			zap.String("namespace", namespace), zap.Duration("for", opened))
	}
	c.visit = limit.Visit{}
}

// giveBack calls the release function of an Admit hook, which undoes the admission of an attempt.
func (c *capacity) giveBack(release func()) {
	p := c.p
	if release == nil {
		return
	}
	_, err := hook.Bounded(context.Background(), 0, func(context.Context) (struct{}, error) { release(); return struct{}{}, nil })
	if err != nil {
		p.l.e.log.Error("release of an admit hook failed", zap.String("call_id", p.l.key.ID), zap.Error(err))
	}
}

// before calls the Before hooks of this attempt. A failed hook fails the call only if the hook is required or broke the protocol.
func (p *pipeline) before(ctx context.Context) outcome.Conclusion {
	for i := range p.hooks.Before {
		entry := &p.hooks.Before[i]
		if !entry.Match.Holds(p.in) {
			continue
		}
		commands, err := hooks.Timed(ctx, &p.found.hookRuns, "BEFORE", entry, func(ctx context.Context) ([]tool.Command, error) { return entry.Hook.Before(ctx, p.in) }, nil)
		if err == nil {
			p.commands = append(p.commands, commands...)
			continue
		}
		p.l.e.stats.hookFailures.Add(1)
		p.l.e.log.Warn("before hook failed", zap.String("hook", entry.Name), zap.String("call_id", p.l.key.ID), zap.Error(err))
		if out := hooks.Broken(entry.Name, err); out != nil {
			return out
		}
		if entry.Required {
			return outcome.BeforeFailed(entry.Name, p.forOperators(err.Error()))
		}
	}
	return nil
}
