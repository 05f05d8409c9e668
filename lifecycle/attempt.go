package lifecycle

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// The owner of an attempt. One goroutine claims it, once.
const (
	attemptRuns int32 = iota
	attemptReturned
	attemptAbandoned
)

// An attempt is one run of the tool, and the context that the tool gets: that of the pipeline run, which ends with the attempt's
// time too. It is one piece, because a context with a deadline, one that looks for its end and their timers were measured
// at 2 KB and 3 µs of a call.
type attempt struct {
	context.Context // of the pipeline run
	cancel          context.CancelCauseFunc
	p               *pipeline
	reporter        reporter
	limit           time.Duration
	deadline        time.Time
	stopping        atomic.Bool
}

// Deadline implements [context.Context].
func (a *attempt) Deadline() (time.Time, bool) { return a.deadline, true }

// Err implements [context.Context].
func (a *attempt) Err() error {
	err := a.Context.Err()
	if err != nil && outcome.AttemptTimedOut(context.Cause(a.Context)) {
		return context.DeadlineExceeded
	}
	return err
}

// expire ends the attempt's time.
func (a *attempt) expire() {
	if a.p.owner.Load() == attemptRuns {
		a.cancel(outcome.AttemptTimeout(a.limit))
		a.stopped()
	}
}

// stopped notes that the context has ended. A tool that does not heed that for the grace period is abandoned: this
// goroutine ends the pipeline run then, and the one of the tool is left with it.
func (a *attempt) stopped() {
	if a.p.owner.Load() != attemptRuns || a.stopping.Swap(true) {
		return
	}
	a.reporter.hangUp() // a tool that waits for keys is not to wait for the grace period
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

// attempting makes the attempt of a pipeline run whose context is ctx.
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
	if ctx.Err() != nil { // the context ended before the attempt existed
		a.stopped()
	}
	return a
}

// execute runs the tool. Result, cancel and timeout race, and are preferred in this order: a result that is complete before the
// tool was stopped stands.
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

// invoke calls the tool and catches what it throws.
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
