package lifecycle

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// Values of pipeline.owner. Exactly one goroutine sets it, to returned or to abandoned.
const (
	attemptRuns int32 = iota
	attemptReturned
	attemptAbandoned
)

// An attempt is one execution of the tool, and also the context that the tool receives. The context ends with the pipeline run or when the
// attempt times out. One type has both roles, because separate contexts and timers were measured to cost 2 KB and 3 µs for each call.
type attempt struct {
	context.Context // context of the pipeline run
	cancel          context.CancelCauseFunc
	p               *pipeline
	reporter        reporter
	limit           time.Duration
	deadline        time.Time
	stopping        atomic.Bool
}

func (a *attempt) Deadline() (time.Time, bool) { return a.deadline, true }

// Err implements [context.Context]. It returns DeadlineExceeded after a timeout of the attempt.
func (a *attempt) Err() error {
	err := a.Context.Err()
	if err != nil && outcome.AttemptTimedOut(context.Cause(a.Context)) {
		return context.DeadlineExceeded
	}
	return err
}

// expire stops the attempt because its time is over.
func (a *attempt) expire() {
	if a.p.owner.Load() == attemptRuns {
		a.cancel(outcome.AttemptTimeout(a.limit))
		a.stopped()
	}
}

// stopped is called when the context has ended, and returns without waiting. If the tool does not return within the grace period, another
// goroutine abandons the attempt and ends the pipeline run. The goroutine of the tool continues, but its result has no effect.
func (a *attempt) stopped() {
	if a.p.owner.Load() != attemptRuns || a.stopping.Swap(true) {
		return
	}
	a.reporter.hangUp() // Closing the input lets a tool that waits for input return within the grace period.
	p := a.p
	time.AfterFunc(p.l.e.cfg.Grace, func() {
		p.l.retain()
		defer p.l.release()
		if p.owner.CompareAndSwap(attemptRuns, attemptAbandoned) {
			a.reporter.close()
			p.abandon(a.Context, context.Cause(a.Context))
		}
	})
}

// attempting creates the attempt of a pipeline run. ctx is the context of the pipeline run.
func (p *pipeline) attempting(ctx context.Context) *attempt {
	l := p.l
	a := &attempt{Context: ctx, p: p, reporter: reporter{p: p}}
	p.owner.Store(attemptRuns)
	l.mu.Lock()
	a.limit = or(l.c.Timeouts.Attempt, or(p.def.Descriptor.Timeouts.Attempt, l.e.cfg.Attempt))
	a.cancel, l.attempt = l.cancel, a
	l.mu.Unlock()
	a.deadline = time.Now().Add(a.limit)
	if p.outlived {
		a.deadline = p.l.record().Attempts[p.attempt-1].Started.Add(a.limit)
	}
	if ctx.Err() != nil { // The context ended before l.attempt was set, so nothing else invokes stopped.
		a.stopped()
	}
	return a
}

// execute runs the tool. If the tool completed its result before it was stopped, that result counts. Otherwise the first reason for the
// stop determines the outcome.
func (p *pipeline) execute(ctx context.Context) outcome.Conclusion {
	if out := p.own(ctx); out != nil {
		return out
	}
	attempt := p.attempting(ctx)
	defer attempt.reporter.close()
	defer time.AfterFunc(time.Until(attempt.deadline), attempt.expire).Stop()
	a := p.invoke(attempt)
	p.l.e.cfg.FailPoint("after-tool")
	if !p.owner.CompareAndSwap(attemptRuns, attemptReturned) {
		p.keepLate(a)
		return nil
	}
	attempt.reporter.close()
	return returned{p}.conclusion(attempt, a)
}

// invoke calls the tool and recovers its panics.
func (p *pipeline) invoke(ctx *attempt) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			a.panicked = p.panicked(v, call.Started)
		}
	}()
	c := p.call(&ctx.reporter)
	c.Deadline = ctx.deadline
	if p.outlived {
		a.result, a.err = p.def.Tool.(tool.Continuer).Continue(ctx, c)
		return a
	}
	a.result, a.err = p.def.Tool.Execute(ctx, c)
	return a
}
