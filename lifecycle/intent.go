package lifecycle

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
)

// intent stores that the attempt starts. If that fails, the tool does not run. When the intent of a BEHIND call must be stored before the
// tool starts, the call becomes SYNC.
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

// unwritten returns the conclusion of a pipeline run. The journal has refused a change of its call with err.
func (p *pipeline) unwritten(err error) outcome.Conclusion {
	if out := p.outcomeWithout(err); out != nil {
		return out
	}
	return outcome.Unaccepted{Err: err}
}

// outcomeWithout returns the outcome of a call after the journal refused a change of this call. The rules are:
//
//   - A call that is neither stored nor published gets no outcome (nil). It counts as never accepted, and its id can be used again.
//   - A call that is stored or published must get an outcome. Otherwise a new call with the same call_id would publish other events under the same numbers.
//   - A cancellation that was stored meanwhile determines the outcome.
//   - After a failure of the journal the result is nil, because recovery decides.
func (p *pipeline) outcomeWithout(err error) *outcome.Terminal {
	p.l.e.log.Error("journal refused a change of a call", zap.String("call_id", p.l.key.ID), zap.Error(err))
	p.l.mu.Lock()
	known, wish := p.l.stored || p.l.log.Published() > 0, p.l.c.Cancel
	p.l.mu.Unlock()
	switch {
	case !known || settle(err, p.l.key.ID).is == fatal:
		return nil
	case wish != nil:
		return outcome.StoppedBy(outcome.CancelRequested(wish), call.NotStarted)
	}
	return outcome.NotStored(p.forOperators(err.Error()))
}

// refuse ends a call whose step the journal refused. If the call is neither stored nor published, refuse marks it as never accepted.
// Otherwise it ends the call with an outcome. ran reports that the tool has run.
func (p *pipeline) refuse(ctx context.Context, err error, ran bool) settlement {
	l := p.l
	l.slot.Take()
	out := p.outcomeWithout(err)
	if out == nil {
		defer l.unslot() // Release the slot only after lose, so that the next goroutine with the slot sees the settlement.
		return l.lose(err)
	}
	l.unslot()
	if ran {
		out = outcome.CutOff(p.forOperators(err.Error()))
	}
	return p.finish(ctx, out)
}
