package lifecycle

import (
	"context"
	"errors"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/batch"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// batchState returns where a call of a batch is.
func (l *activeCall) batchState() batch.State {
	if l == nil {
		return batch.Ended
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return batch.Stuck
	case l.cancel != nil:
		return batch.Running
	case l.c.Status.Terminal():
		return batch.Ended
	}
	switch l.c.Status {
	case call.New:
		return batch.New
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

// look returns where all calls of the batch are. It reads the states before the rest: a call that is seen to have ended is seen to have
// failed, too.
func (b *activeBatch) look() *batch.Batch {
	r := b.record
	at := &batch.Batch{Strategy: r.Strategy, Replay: r.Replay, FailFast: r.FailFast, MaxParallel: r.MaxParallel, Calls: make([]batch.Call, len(b.members))}
	for i, l := range b.members {
		at.Calls[i].State = l.batchState()
	}
	at.Held = b.stopped()
	for i, l := range b.members {
		if l == nil {
			continue
		}
		c, s := l.record(), &at.Calls[i]
		s.Cancelled, s.Safe = c.Cancel != nil, together(c.Assessment)
		switch {
		case c.Status.Terminal() && c.Result != nil:
			s.Failed, s.Blocks = c.Status != call.Succeeded, c.Result.Error != nil && c.Result.Error.TerminateRun
		case c.Status == call.Resuming:
			round := c.LastRound()
			s.Declined = round.Decision != nil && round.Decision.Action == tool.Cancel // nil: it was cancelled
			s.Halted = s.State == batch.Decided && round.Suspension.AfterGates()
		}
	}
	for _, m := range b.pending {
		s := &at.Calls[m.index()]
		s.Pending, s.Stopped = true, m.ctx.Err() != nil
	}
	return at
}

func (b *activeBatch) parallel() bool { return b.record.Strategy == call.Parallel }

// atOnce returns how many calls may execute, or wait for that, at the same time.
func (b *activeBatch) atOnce() int {
	n := len(b.record.Calls)
	if b.record.Strategy == call.Sequential {
		n = 1
	}
	if most := b.record.MaxParallel; most > 0 {
		n = min(n, most)
	}
	return n
}

// advance carries out plans until nothing moves.
func (b *activeBatch) advance() {
	for {
		at := b.look()
		switch next := at.Next(); next.Do {
		case batch.Withdraw:
			b.withdraw()
		case batch.Interrupt:
			b.interrupt(at, next)
		case batch.Launch:
			b.launchAll(next.Calls)
		case batch.Resume:
			b.resume(next.Calls)
		case batch.Begin:
			b.begin(at)
		case batch.Wait:
			<-b.signal
		case batch.End:
			b.end()
			return
		default:
			return
		}
	}
}

// stopped reports whether nothing may begin: the daemon stops, somebody cancels all calls, or the store is a copy whose calls
// an operator did not release.
func (b *activeBatch) stopped() bool {
	if b.e.drain.Refusing() || b.e.drain.Err() != nil {
		return true
	}
	for _, l := range b.members {
		if l != nil && b.e.held.Holds(l.record()) {
			return true
		}
	}
	return b.e.batches.still(b.key) // last: an operator who releases calls holds their batch before
}

// interrupt ends calls without running them.
func (b *activeBatch) interrupt(at *batch.Batch, plan batch.Plan) {
	for _, i := range plan.Calls {
		if m := b.takePending(i); m != nil {
			m.p.early = outcome.Interrupted(plan.Why)
			b.launch(m)
		} else if l := b.members[i]; l.batchState() == at.Calls[i].State {
			b.skip(l, plan.Why)
		}
	}
}

// skip ends a call without running it.
func (b *activeBatch) skip(l *activeCall, why string) {
	p, asked := l.lookupPipeline(), l.record().LastRound()
	l.finishFound(context.Background(), p, outcome.Interrupted(why))
	if asked != nil {
		p.abandoned(&asked.Suspension)
	}
}

// launchAll runs the pipelines of calls to their end. A cancelled one ends there, because the request was first.
func (b *activeBatch) launchAll(calls []int) {
	for _, i := range calls {
		m := b.takePending(i)
		if m == nil {
			m = b.enter(b.members[i])
		} else if wish := m.l.record().Cancel; wish != nil {
			m.l.stop(outcome.Wished(wish)) // the goroutine that stored it may not have done so yet
		}
		b.launch(m)
	}
}

// takePending removes a call from those that wait to execute; nil: it does not.
func (b *activeBatch) takePending(i int) *member {
	at := slices.IndexFunc(b.pending, func(m *member) bool { return m.index() == i })
	if at < 0 {
		return nil
	}
	m := b.pending[at]
	b.pending = slices.Delete(b.pending, at, at+1)
	return m
}

// resume resumes decided calls.
func (b *activeBatch) resume(calls []int) {
	for _, i := range calls {
		if l := b.members[i]; l.batchState() == batch.Decided {
			l.resumePipeline(context.Background(), *l.record().LastRound().Decision)
		}
	}
}

// together reports whether calls with these effects run together in a batch of the strategy AUTO.
func together(e tool.Effects) bool { return e.Mutability == tool.ReadOnly && e.ConcurrencySafe }

// A member is a call of the batch with the pipeline run that it is in.
type member struct {
	l   *activeCall
	p   *pipeline
	ctx context.Context
}

// index is the place of the call in its batch.
func (m *member) index() int { return m.l.record().BatchPosition - 1 }

// enter begins the pipeline run of a call from the start of its path.
func (b *activeBatch) enter(l *activeCall) *member {
	p := l.lookupPipeline()
	p.fromStart()
	return &member{l: l, p: p, ctx: l.start(b.e.follow(context.Background(), l.record()))}
}

// walk takes the pipeline run to the stage of that name, and returns how it ended before, or nil. It has a goroutine
// of its own, because a hook may end it.
func (m *member) walk(to string) outcome.Conclusion {
	done := make(chan struct{})
	m.l.e.workers.run(func() {
		defer close(done)
		m.p.early = m.p.check(m.ctx, to)
	})
	<-done
	return m.p.early
}

// launch carries a pipeline run to its end, without waiting.
func (b *activeBatch) launch(m *member) {
	b.e.workers.run(func() { m.l.run(m.ctx, m.p) })
}

// settle carries a pipeline run that needs no tool to its end.
func (b *activeBatch) settle(m *member) {
	done := make(chan struct{})
	b.e.workers.run(func() {
		defer close(done)
		m.l.run(m.ctx, m.p)
	})
	<-done
}

// release ends a pipeline run that leaves the call as it was.
func (m *member) release() {
	m.p.leaveSource(outcome.Postponed{})
	for _, release := range m.p.releases {
		m.p.giveBack(release)
	}
	m.l.endPipeline(m.ctx)
	m.l.e.drain.Leave()
	m.l.release()
}

// withdraw takes the calls back that wait for room to execute.
func (b *activeBatch) withdraw() {
	for _, m := range b.pending {
		m.release()
	}
	b.pending = nil
}

// begin asks the gates of calls that have not begun, in model order, and executes those that may run now: of a PARALLEL
// batch all when all gates were asked, of the others one, or neighbours that are safe together. A call that does not simply run
// is left as it was behind others that may: they run first, and then it is looked at anew.
func (b *activeBatch) begin(at *batch.Batch) {
	var group []*member
	for _, l := range b.members {
		if l.batchState() != batch.New {
			continue
		}
		m := b.enter(l)
		m.p.tentative = !b.parallel() && len(group) > 0
		out := m.walk(stageGate)
		alone := at.Alone(out != nil || together(m.p.in.Assessment))
		if out == nil && !(m.p.tentative && alone) {
			out = m.walk(stageQueue)
		}
		if m.p.tentative && (out != nil || alone) || out != nil && m.drained() {
			m.release()
			break
		}
		if out != nil {
			b.settle(m)
			if ended, ok := out.(*outcome.Terminal); ok && ended.Block != "" || !b.parallel() {
				break // what follows from it is seen to first
			}
			continue
		}
		if group = append(group, m); alone {
			break
		}
	}
	b.execute(group)
}

// execute runs calls that were allowed: together, all of their Before hooks run before the first of their tools.
func (b *activeBatch) execute(group []*member) {
	if len(group) == 1 && !b.parallel() {
		b.launch(group[0])
		return
	}
	for _, m := range group {
		m.p.group, m.p.stages = b.key.ID+"/"+group[0].l.key.ID, b.e.groupPath
		switch out := m.walk(stageQueue); {
		case out == nil:
			b.pending = append(b.pending, m)
		case m.drained():
			m.release()
		default:
			b.settle(m)
		}
	}
}

// drained reports whether the pipeline run was stopped because the daemon stops: the next one begins the call.
func (m *member) drained() bool { return errors.Is(context.Cause(m.ctx), outcome.Drained) }
