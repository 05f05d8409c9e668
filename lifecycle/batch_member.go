package lifecycle

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/batch"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// A member implements [batch.Member].
type member struct{ l *activeCall }

func (m member) Record() *call.Call { return m.l.record() }

func (m member) SetConcurrent(is bool) { m.l.concurrent.Store(is) }

func (m member) Release() { m.l.release() }

func (m member) Resume() {
	m.l.resumePipeline(context.Background(), *m.l.record().LastRound().Decision)
}

func (m member) State() batch.State {
	l := m.l
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.settlement.is != committed:
		return batch.Stuck
	case l.cancel != nil:
		return batch.Running
	case l.c.Status.Terminal():
		return batch.Ended
	}
	switch l.c.Status {
	case call.New:
		return batch.NotBegun
	case call.Resuming:
		return batch.Decided
	case call.Running:
		if l.c.Operation() != nil {
			return batch.Elsewhere
		}
	case call.Suspended:
		if l.c.Open().AfterGates() {
			return batch.Halting
		}
		return batch.Asking
	}
	return batch.Stuck
}

func (m member) Interrupt(why string) {
	p, c := lookupPipeline(m.l), m.l.record()
	asked := c.LastRound()
	if s := p.finishFound(context.Background(), outcome.Interrupted(why)); s.is == committed && asked != nil && unanswered(c) == nil {
		p.abandoned(&asked.Suspension) // The question has an answer, but the answer will not reach the tool, so notify the tool here. If the question has no answer, finish notifies the tool.
	}
}

func (m member) Enter() batch.Run {
	p := lookupPipeline(m.l)
	p.fromStart()
	return &memberRun{member: m, p: p, ctx: m.l.start(m.l.e.trace.Begin(context.Background(), m.l.record()))}
}

// A memberRun implements [batch.Run].
type memberRun struct {
	member member
	p      *pipeline
	ctx    context.Context
}

func (r *memberRun) Member() batch.Member { return r.member }

func (r *memberRun) Gates(tentative bool) bool {
	r.p.tentative = tentative
	return r.walk(stageGate)
}

func (r *memberRun) Queue() bool { return r.walk(stageQueue) }

// walk runs the pipeline up to the stage with this name, and reports whether the pipeline run ended before. It runs the stages in a
// separate goroutine, because a hook may call runtime.Goexit.
func (r *memberRun) walk(to string) (ended bool) {
	r.wait(func() { r.p.early = r.p.check(r.ctx, to) })
	return r.p.early != nil
}

func (r *memberRun) wait(fn func()) {
	done := make(chan struct{})
	r.member.l.e.workers.Run(func() {
		defer close(done)
		fn()
	})
	<-done
}

func (r *memberRun) Blocks() bool {
	ended, ok := r.p.early.(*outcome.Terminal)
	return ok && ended.Block != ""
}

func (r *memberRun) Effects() *tool.Effects { return &r.p.in.Assessment }

func (r *memberRun) Group(id string) { r.p.group, r.p.stages = id, r.member.l.e.groupPath }

func (r *memberRun) Interrupt(why string) { r.p.early = outcome.Interrupted(why) }

func (r *memberRun) Cancel() {
	if wish := r.member.l.record().Cancel; wish != nil {
		r.member.l.stop(outcome.CancelRequested(wish))
	}
}

func (r *memberRun) Stopped() bool { return r.ctx.Err() != nil }

func (r *memberRun) Drained() bool { return errors.Is(context.Cause(r.ctx), outcome.Drained) }

func (r *memberRun) Launch() {
	r.member.l.e.workers.Run(func() { r.p.run(r.ctx) })
}

func (r *memberRun) Settle() { r.wait(func() { r.p.run(r.ctx) }) }

func (r *memberRun) Release() {
	r.p.capacity.leaveSource(outcome.Postponed{})
	for _, release := range r.p.capacity.releases {
		r.p.capacity.giveBack(release)
	}
	r.member.l.endPipeline(r.ctx)
	r.member.l.e.drain.Leave()
	r.member.l.release()
}
