package lifecycle

import (
	"context"
	"errors"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// standing is where a call of a batch is, as its batch sees it.
type standing int

const (
	over      standing = iota // it has ended, or cannot be read
	fresh                     // it has not begun
	asking                    // a gate's question is open
	halting                   // its tool's own question is open, or what became of it
	decided                   // a decision is stored, and nothing carries the call on
	moving                    // a pipeline runs
	elsewhere                 // its work goes on elsewhere, and nothing of it is here
	stuck                     // the journal did not take its end: recovery decides
)

func (l *live) standing() standing {
	if l == nil {
		return over
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return stuck
	case l.cancel != nil:
		return moving
	case l.c.Status.Terminal():
		return over
	}
	switch l.c.Status {
	case call.New:
		return fresh
	case call.Resuming:
		return decided
	case call.Running:
		if l.c.Operation() != nil {
			return elsewhere
		}
	case call.Suspended:
		if asksOfRun(l.c.Open()) {
			return halting
		}
		return asking
	}
	return stuck
}

// standings is where all calls of a batch are.
type standings []standing

func (b *batch) look() standings {
	at := make(standings, len(b.lives))
	for i, l := range b.lives {
		at[i] = l.standing()
	}
	return at
}

func (at standings) count(what ...standing) (n int) {
	for _, s := range at {
		for _, w := range what {
			if s == w {
				n++
			}
		}
	}
	return n
}

func (b *batch) parallel() bool { return b.record.Strategy == call.Parallel }

// atOnce returns how many calls may execute, or wait for that, at the same time.
func (b *batch) atOnce() int {
	n := len(b.record.Calls)
	if b.record.Strategy == call.Sequential {
		n = 1
	}
	if most := b.record.MaxParallel; most > 0 {
		n = min(n, most)
	}
	return n
}

// room returns how many calls more may execute.
func (b *batch) room(at standings) int {
	if b.record.MaxParallel == 0 {
		return len(at)
	}
	return b.record.MaxParallel - at.count(moving) + len(b.pending)
}

// advance does what can be done, and returns when nothing moves. What it does follows from a look that was taken before it was
// asked who ended how: a call that is seen to have made room is seen to have failed, too.
func (b *batch) advance() {
	for {
		at := b.look()
		held := b.stopped()
		if held {
			b.withdraw()
		} else if b.serve(at) {
			continue
		}
		switch {
		case !held && b.resume(at):
		case !held && b.mayBegin(at):
			b.begin()
		case at.count(moving) > 0:
			<-b.signal
		case at.count(over) == len(at):
			b.end()
			return
		default:
			return
		}
	}
}

// stopped reports whether nothing may begin: the daemon stops, somebody cancels all calls, or the store is a copy whose calls
// an operator did not release.
func (b *batch) stopped() bool {
	if b.e.Draining() || b.e.failure() != nil {
		return true
	}
	for _, l := range b.lives {
		if l != nil && b.e.holds(l.record()) {
			return true
		}
	}
	return b.e.batches.still(b.key) // last: an operator who releases calls holds their batch before
}

// serve ends what was cancelled or will not run, and executes what has room. It reports whether there was something to do.
func (b *batch) serve(at standings) (did bool) {
	room := b.room(at)
	if b.interrupt() {
		return true
	}
	for i, s := range at {
		if l := b.lives[i]; (s == fresh || s == decided) && l.record().Cancel != nil {
			b.launch(b.enter(l)) // which ends it: the wish was first
			did = true
		}
	}
	b.pending = slices.DeleteFunc(b.pending, func(m *member) bool {
		if wish := m.l.record().Cancel; wish != nil {
			m.l.stop(wished(wish)) // who stored it may not have come to that
		} else if room <= 0 && m.ctx.Err() == nil {
			return false
		}
		b.launch(m)
		room--
		did = true
		return true
	})
	return did
}

// resume carries decided calls on, and reports whether there was something to do. In a batch that is not PARALLEL they
// run as its strategy has it: alone, or neighbours that are safe together.
func (b *batch) resume(at standings) bool {
	waits := b.record.Replay == call.AllDecided
	if at.count(decided) == 0 || waits && (at.count(asking, halting) > 0 || at.count(moving) > 0 || b.mayBegin(at)) {
		return false
	}
	if !b.parallel() && at.count(moving, stuck) > 0 {
		return false
	}
	began, room, declines := 0, b.room(at), b.record.FailFast && b.declines(at)
	for i, s := range at {
		if s != decided || b.lives[i].standing() != decided {
			continue
		}
		l := b.lives[i]
		c := l.record()
		if declines && !l.declined() {
			continue
		}
		safe := b.record.Strategy == call.Auto && together(c.Assessment)
		if !b.parallel() && began > 0 && !safe || began >= room {
			break
		}
		l.goOn(context.Background(), *c.LastRound().Decision)
		if began++; !b.parallel() && !safe {
			break
		}
	}
	return began > 0
}

// declines reports whether a decision ends a call and that is not done yet. With fail_fast the others end by it, so none of
// them goes on before.
func (b *batch) declines(at standings) bool {
	for i, s := range at {
		if (s == decided || s == moving) && b.lives[i].declined() {
			return true
		}
	}
	return false
}

// declined reports whether a decision has to end the call.
func (l *live) declined() bool {
	c := l.record()
	if c.Status != call.Resuming {
		return false
	}
	d := c.LastRound().Decision
	return d != nil && d.Action == tool.Cancel // nil: it was cancelled
}

// together reports whether calls with these effects run together in a batch of the strategy AUTO.
func together(e tool.Effects) bool { return e.Mutability == tool.ReadOnly && e.ConcurrencySafe }

// mayBegin reports whether calls that have not begun may do so.
func (b *batch) mayBegin(at standings) bool {
	if at.count(fresh) == 0 {
		return false
	}
	if b.parallel() {
		return true
	}
	if at.count(moving, elsewhere, stuck) > 0 || at.count(decided) > 0 && b.record.Replay == call.Immediate {
		return false
	}
	return b.record.Strategy != call.Sequential || !b.halted(at)
}

// halted reports whether a tool's own question, open or with a decision that waits, stops a batch whose calls need one another.
func (b *batch) halted(at standings) bool {
	for i, s := range at {
		if s == halting || s == decided && asksOfRun(&b.lives[i].record().LastRound().Suspension) {
			return true
		}
	}
	return false
}

// A member is a call of the batch with the pipeline run that it is in.
type member struct {
	l   *live
	p   *pipeline
	ctx context.Context
}

// enter begins the pipeline run of a call from the start of its path.
func (b *batch) enter(l *live) *member {
	p := l.lookupPipeline()
	p.fromStart()
	return &member{l: l, p: p, ctx: l.start(b.e.follow(context.Background(), l.record()))}
}

// walk takes the pipeline run to the stage of that name, and returns how it ended before, or nil. It has a goroutine
// of its own, because a hook may end it.
func (m *member) walk(to string) conclusion {
	done := make(chan struct{})
	m.l.e.workers.run(func() {
		defer close(done)
		m.p.early = m.p.check(m.ctx, to)
	})
	<-done
	return m.p.early
}

// launch carries a pipeline run to its end, without waiting.
func (b *batch) launch(m *member) {
	b.e.workers.run(func() { m.l.run(m.ctx, m.p) })
}

// settle carries a pipeline run that needs no tool to its end.
func (b *batch) settle(m *member) {
	done := make(chan struct{})
	b.e.workers.run(func() {
		defer close(done)
		m.l.run(m.ctx, m.p)
	})
	<-done
}

// release ends a pipeline run that leaves the call as it was.
func (m *member) release() {
	m.p.leaveSource(postponed{})
	for _, release := range m.p.releases {
		m.p.giveBack(release)
	}
	m.l.endPipeline(m.ctx)
	m.l.e.leave()
	m.l.release()
}

// withdraw takes the calls back that wait for room to execute.
func (b *batch) withdraw() {
	for _, m := range b.pending {
		m.release()
	}
	b.pending = nil
}

// begin asks the gates of calls that have not begun, in model order, and executes those that may run now: of a PARALLEL
// batch all when all gates were asked, of the others one, or neighbours that are safe together. A call that does not simply run
// is left as it was behind others that may: they run first, and then it is looked at anew.
func (b *batch) begin() {
	var group []*member
	for i, s := range b.look() {
		if s != fresh {
			continue
		}
		m := b.enter(b.lives[i])
		m.p.tentative = !b.parallel() && len(group) > 0
		out := m.walk(stageGate)
		alone := b.record.Strategy == call.Sequential || b.record.Strategy == call.Auto && out == nil && !together(m.p.in.Assessment)
		if out == nil && !(m.p.tentative && alone) {
			out = m.walk(stageQueue)
		}
		if m.p.tentative && (out != nil || alone) || out != nil && m.drained() {
			m.release()
			break
		}
		if out != nil {
			b.settle(m)
			if ended, ok := out.(*outcome); ok && ended.block != "" || !b.parallel() {
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
func (b *batch) execute(group []*member) {
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
func (m *member) drained() bool { return errors.Is(context.Cause(m.ctx), causeDrained) }
