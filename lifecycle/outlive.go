package lifecycle

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// expect checks whether an attempt may have survived the end of the previous daemon, because its tool runs in another program. If so,
// expect returns true and waits for that program in the background. Meanwhile the attempt stays open, and the call keeps its turn in the
// thread.
func expect(p *pipeline) bool {
	l := p.l
	c := l.record()
	if c.Status != call.Running || c.Cancel != nil || !began(c) || c.Operation() != nil || !p.same() {
		return false
	}
	t, ok := p.def.Tool.(tool.Continuer)
	if !ok {
		return false
	}
	p.attempt, p.resume, p.outlived = len(c.Attempts), c.LastInput(), true
	if p.capacity.ownTurn() {
		_, _, p.capacity.leaveThread, _ = l.e.limits.Threads.Enter(p.capacity.thread(), nil) // The attempt runs already, so it does not wait. Later calls wait for it.
	}
	x := t.Expect(p.call(nil))
	l.retain()
	go awaitRunner(p, x)
	return true
}

// awaitRunner waits until the program of an attempt reconnects, and then continues the attempt. If the program does not reconnect in time,
// awaitRunner recovers the call as if there were no program.
func awaitRunner(p *pipeline, x tool.Expected) {
	l := p.l
	defer l.release()
	back := awaitBack(l, x)
	if !l.e.drain.Admit() {
		return // The daemon stops. The next daemon finds the call unchanged.
	}
	if back {
		ctx := l.started(l.e.trace.Begin(context.Background(), l.record()))
		l.unwatched()
		p.capacity.slot.Take(l.e.limits.Slots, p.capacity.demand())
		p.run(ctx)
		return
	}
	defer l.e.drain.Leave()
	x.Forget()
	if p.capacity.leaveThread != nil {
		p.capacity.leaveThread()
	}
	r := recovery{e: l.e}
	if err := r.recoverCall(context.Background(), l); err != nil {
		l.e.log.Error("call not recovered; the next start tries again", zap.String("call_id", l.key.ID), zap.Error(err))
	}
	r.end()
}

// awaitBack reports whether the program of an attempt reconnected in time. A cancel request ends the wait early, unless another daemon may
// still run the call.
func awaitBack(l *activeCall, x tool.Expected) bool {
	within := x.Within
	if l.e.hold.Began() {
		within = max(within, l.e.hold.store.Hold())
	}
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		l.mu.Lock()
		wish, changed := l.c.Cancel != nil, l.log.Changed()
		l.mu.Unlock()
		if wish && !l.e.hold.Began() {
			return false
		}
		select {
		case <-x.Back:
			return true
		case <-over.C:
			return false
		case <-changed:
		case <-l.e.drain.Closed():
			return false // The daemon stops.
		}
	}
}

// settled notifies the tool that the outcome of its attempt is stored.
func (p *pipeline) settled() {
	if p.attempt == 0 || p.def == nil {
		return
	}
	if s, ok := p.def.Tool.(tool.Settler); ok {
		s.Settled(p.l.key.Namespace, p.l.key.ID, p.attempt)
	}
}
