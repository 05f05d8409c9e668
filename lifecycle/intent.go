package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
)

// intent writes that the attempt starts. When it cannot be written, the tool does not run. A BEHIND call whose intent has
// to be written first becomes SYNC here.
func (p *pipeline) intent(context.Context) outcome.Conclusion {
	p.attempt = len(p.l.peek().Attempts) + 1
	p.l.intake.output.Cut(nil)
	attempt := call.Attempt{Number: p.attempt, Epoch: p.l.e.epoch, Started: time.Now()}
	write := p.l.commit
	if p.basis.Unwritten {
		write = p.l.advance
	}
	err := write(step{
		apply: func(c *call.Call) {
			p.found.write(c)
			c.Status = call.Running
			c.Attempts = append(slices.Clip(c.Attempts), attempt)
			if c.Started.IsZero() {
				c.Started = attempt.Started
			}
		},
		events:     p.event(call.Event{Type: call.EventAttemptStarted, Attempt: p.attempt, Time: attempt.Started}),
		durability: store.Full,
	})
	if err != nil {
		return p.unwritten(err)
	}
	p.l.e.cfg.FailPoint("before-tool")
	return nil
}

// unwritten is how a pipeline run ends whose step the journal did not take.
func (p *pipeline) unwritten(err error) outcome.Conclusion {
	if out := p.outcomeWithout(err); out != nil {
		return out
	}
	return outcome.Unaccepted{Err: err}
}

// outcomeWithout returns the outcome of a call whose step the journal did not take; nil when it has none. A call that was never stored never
// came to be, unless events of it were published: were it forgotten, the same call_id would publish others under their numbers. A cancel may
// have stored it since the step was refused; it wins, also before it has reached this pipeline run. When the journal is lost, recovery decides.
func (p *pipeline) outcomeWithout(err error) *outcome.Terminal {
	p.l.e.log.Error("journal refused a step", zap.String("call_id", p.l.key.ID), zap.Error(err))
	p.l.mu.Lock()
	known, wish := p.l.stored || p.l.log.Published() > 0, p.l.c.Cancel
	p.l.mu.Unlock()
	switch {
	case !known || errors.Is(err, store.ErrFatal) || errors.Is(err, store.ErrClosed):
		return nil
	case wish != nil:
		return outcome.StoppedBy(outcome.Wished(wish), call.NotStarted)
	}
	return outcome.NotStored(p.forOperators(err.Error()))
}

// refuse notes that a call never came to be. If it has come into the journal since, it ends as every other call does.
func (p *pipeline) refuse(ctx context.Context, err error, ran bool) {
	l := p.l
	l.slot.Take()
	out := p.outcomeWithout(err)
	if out == nil {
		l.lose(refusal.OfCall(err, l.key.ID)) // with the slot: the next holder must see it
		l.unslot()
		return
	}
	l.unslot()
	if ran {
		out = outcome.CutOff(p.forOperators(err.Error()))
	}
	p.finish(ctx, out)
}
