package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Cancel ends a call. The wish is stored first and then carried out, children before parents. With wait it returns the
// call when it is terminal or wait is over, otherwise its current record. Cancelling a call that has ended changes nothing.
func (e *Engine) Cancel(ctx context.Context, p tool.Principal, id, reason string, wait time.Duration) (*call.Call, error) {
	if len(reason) > 1<<10 {
		return nil, call.InvalidField("reason", "has %d bytes; at most 1,024 are accepted", len(reason))
	}
	l, err := e.acquireVisible(ctx, p, id)
	if err != nil {
		return nil, err
	}
	defer l.release()
	if !mayEnd(p, l.record()) {
		return nil, call.Refuse(call.PermissionDenied, "NOT_YOUR_CALL", "only its caller or an operator may cancel call %q", id)
	}
	if err := e.cancelTree(ctx, l, call.CancelRequest{By: p, Reason: reason, Cause: "CLIENT", Time: time.Now()}); err != nil {
		return nil, refusal.OfCall(err, id)
	}
	if wait > 0 {
		l.waitTerminal(ctx, wait)
	}
	return view.Call(p, l.snapshot()), nil
}

// maxDepth bounds how deep calls may be nested.
const maxDepth = 32

// cancelTree cancels the children of a call, then the call.
func (e *Engine) cancelTree(ctx context.Context, l *activeCall, r call.CancelRequest) error {
	a := cancelling{e: e}
	defer a.end()
	return a.ask(ctx, l, r, 0)
}

// cancelling is a cancel on its way through calls.
type cancelling struct {
	e     *Engine
	later parents // the pipeline runs of calls that rested above calls that they made: they begin when all were asked
	start bool    // from a start, which does not end calls that only wait for people: they begin nothing, and to tell their tool takes time
}

func (a *cancelling) end() { a.later.end() }

// ask cancels the children of a call, then the call, and waits for none of them.
func (a *cancelling) ask(ctx context.Context, l *activeCall, r call.CancelRequest, depth int) error {
	if err := a.askBelow(ctx, l, r, depth); err != nil {
		return err
	}
	return a.cancel(l, r)
}

// askBelow cancels the children of a call.
func (a *cancelling) askBelow(ctx context.Context, l *activeCall, r call.CancelRequest, depth int) error {
	e := a.e
	if depth == maxDepth {
		return nil
	}
	children, err := a.children(ctx, l.key)
	if err != nil {
		return err
	}
	if r.Cause != call.CauseSuperseded {
		r.Cause = "PARENT"
	}
	for _, child := range children {
		c, err := e.acquire(ctx, child)
		if err != nil {
			continue
		}
		mine := c.record().Caller.Subject == l.record().Caller.Subject // any caller may name any parent
		if mine && !(a.start && c.record().Status == call.Suspended && lookupPipeline(c).def.stopper() == nil) {
			err = a.ask(ctx, c, r, depth+1)
		}
		c.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// children lists the calls whose parent is this one: those in memory, of which the journal may not know yet,
// and those that wait.
func (a *cancelling) children(ctx context.Context, parent call.Key) ([]call.Key, error) {
	var keys []call.Key
	for _, c := range a.e.unfinished(func(c *call.Call) bool { return c.Namespace == parent.Namespace && c.Run.ParentCall == parent.ID }) {
		keys = append(keys, c.Key())
	}
	err := store.EachUnfinished(ctx, a.e.store, call.Query{Namespace: parent.Namespace, ParentCall: parent.ID}, func(calls []*call.Call) error {
		for _, c := range calls {
			if !slices.Contains(keys, c.Key()) {
				keys = append(keys, c.Key())
			}
		}
		return nil
	})
	return keys, err
}

// unfinished returns the unfinished calls in memory for which it holds.
func (e *Engine) unfinished(holds func(*call.Call) bool) (calls []*call.Call) {
	e.mu.Lock()
	active := e.activeCallsLocked()
	e.mu.Unlock()
	for _, l := range active {
		if !l.ready.IsGiven() {
			continue // the journal has it, or it has not begun
		}
		if l.loadErr != nil {
			continue
		}
		if c := l.record(); !c.Status.Terminal() && holds(c) {
			calls = append(calls, c)
		}
	}
	return calls
}

// cancel stores that the call shall end and ends it: at once when it waits for a decision and made no calls, else
// through its pipeline run.
func (a *cancelling) cancel(l *activeCall, r call.CancelRequest) error {
	l.slot.Take()
	c := l.record()
	switch {
	case c.Status == call.Suspended:
		if p := lookupPipeline(l); p.def.stopper() != nil {
			return a.cancelAbove(p, r)
		}
		return cancelResting(l, r, call.NotStarted)
	case c.Status.Terminal() || c.Cancel != nil && !l.heldBack():
		l.unslot()
		return nil
	case l.heldBack():
		if began(c) {
			return cancelResting(l, r, call.ExecutedUnknown)
		}
		return cancelResting(l, r, call.NotStarted)
	}
	if err := wish(l, r); err != nil && !errors.Is(err, errEnded) {
		return err
	}
	l.stop(outcome.Wished(&r))
	if l.record().Operation() != nil {
		l.e.operations.Hurry(l.key)
	}
	return nil
}

// wish stores that the call shall end. A call that waits for a decision accepts none from here on, and continues to its end. The caller has
// the slot, which is given back.
func wish(l *activeCall, r call.CancelRequest) error {
	err := l.commitSlotted(step{
		durability: store.Full, late: true,
		events: []call.Event{{Type: call.EventCancelRequested, Cancel: &r}},
		apply: func(c *call.Call) {
			if c.Cancel = &r; c.Status == call.Suspended {
				c.Status = call.Resuming
				closeRound(c, false)
			}
		},
	})
	l.unslot()
	if err == nil {
		l.e.cfg.FailPoint("after-cancel")
	}
	return err
}

// cancelAbove cancels a call that rests above calls that it made: it gets a pipeline run, which ends it when they have ended. That begins
// before the wish is stored, or the call's batch would begin one, too. The caller has the slot, which is given back.
func (a *cancelling) cancelAbove(p *pipeline, r call.CancelRequest) error {
	l := p.l
	cause := outcome.Wished(&r)
	p.early = outcome.StoppedBy(cause, call.NotStarted)
	base, stop := context.WithCancelCause(l.e.trace.Begin(context.Background(), l.record()))
	stop(cause)
	m := &memberRun{member: member{l}, p: p, ctx: l.start(base)}
	if err := wish(l, r); err != nil {
		m.Release()
		return err
	}
	a.later = append(a.later, func() { p.run(m.ctx) })
	return nil
}

// heldBack reports whether the call is unfinished, of an earlier epoch of a store that was copied or restored, so that
// nothing carries it on.
func (l *activeCall) heldBack() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancel == nil && l.e.held.Holds(l.c)
}

// cancelResting ends a call that nothing carries on: request and end are one change, so it wins or loses against a
// decision as a whole. The caller has the slot, which is given back.
func cancelResting(l *activeCall, r call.CancelRequest, executed call.Executed) error {
	p := lookupPipeline(l)
	out := outcome.StoppedBy(outcome.Wished(&r), executed)
	records := p.after(context.Background(), out)
	s := p.finalStep(out, call.Event{Type: call.EventCancelRequested, Cancel: &r})
	s.records = records
	apply := s.apply
	s.apply = func(c *call.Call) {
		apply(c)
		c.Cancel = &r
	}
	var asked call.Suspension
	if open := l.record().Open(); open != nil {
		asked = *open
	}
	err := l.commitSlotted(s)
	l.unslot()
	if err != nil {
		l.intake.reset()
		return err
	}
	p.abandoned(&asked)
	return err
}

// waitTerminal waits until the call has ended, or for at most d.
func (l *activeCall) waitTerminal(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		l.mu.Lock()
		if l.c.Status.Terminal() || l.lost != nil {
			l.mu.Unlock()
			return
		}
		changed := l.log.Changed()
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		}
	}
}

// CancelAll cancels the unfinished calls of a run or thread that the principal may end and returns their ids. When another
// run takes their place its own calls stay.
func (e *Engine) CancelAll(ctx context.Context, p tool.Principal, run, thread, reason, supersededBy string) ([]string, error) {
	if (run == "") == (thread == "") {
		return nil, call.InvalidField("selector", "name a run or a thread")
	}
	if run != "" && run == supersededBy {
		return nil, errSelfSuperseded
	}
	r := call.CancelRequest{By: p, Reason: reason, Cause: "CLIENT", Time: time.Now()}
	return e.cancelWhere(ctx, p, call.Query{Namespace: p.Namespace, Run: run, Thread: thread}, superseded(r, supersededBy), supersededBy)
}

// CancelBatch cancels the unfinished calls of a batch and returns their ids. Those that have not begun will not, and end
// CANCELLED, with fail_fast too: the wish for all of them comes before the end of the first.
func (e *Engine) CancelBatch(ctx context.Context, p tool.Principal, batch, reason, supersededBy string) ([]string, error) {
	if _, err := e.watches.See(ctx, p, batch); err != nil {
		return nil, err
	}
	r := call.CancelRequest{By: p, Reason: reason, Cause: "CLIENT", Time: time.Now()}
	defer e.batches.Hold(call.Key{Namespace: p.Namespace, ID: batch})()
	return e.cancelWhere(ctx, p, call.Query{Namespace: p.Namespace, Batch: batch}, superseded(r, supersededBy), supersededBy)
}

var errSelfSuperseded = call.InvalidField("superseded_by_run_id", "is the run itself; name the run that takes its place")

// superseded is a wish to end calls because a run takes their place; "" does not change the request.
func superseded(r call.CancelRequest, by string) call.CancelRequest {
	if by != "" {
		r.Cause, r.Reason = call.CauseSuperseded, or(r.Reason, "superseded by run "+by)
	}
	return r
}

// cancelWhere cancels what a query of a run, thread or batch selects, except the calls of one run: those in memory, of which
// the journal may not know yet, and those that it knows. Of a batch the last call is the first, so that none begins because
// one before it ended. All are asked before one ends that rested above others.
func (e *Engine) cancelWhere(ctx context.Context, p tool.Principal, q call.Query, r call.CancelRequest, except string) (ids []string, err error) {
	e.behind.Settle()
	a := cancelling{e: e}
	defer a.end()
	done := map[call.Key]bool{}
	end := func(calls []*call.Call) error {
		slices.SortStableFunc(calls, func(a, b *call.Call) int { return cmp.Compare(b.BatchPosition, a.BatchPosition) })
		for _, c := range calls {
			if done[c.Key()] || !mayEnd(p, c) || except != "" && c.Run.ID == except {
				continue
			}
			l, err := e.acquire(ctx, c.Key())
			if err != nil {
				e.log.Warn("call not cancelled", zap.String("call_id", c.ID), zap.Error(err))
				continue
			}
			err = a.ask(ctx, l, r, 0)
			l.release()
			if err != nil {
				return err
			}
			done[c.Key()], ids = true, append(ids, c.ID)
		}
		return nil
	}
	err = end(e.unfinished(func(c *call.Call) bool {
		return c.Namespace == q.Namespace && (q.Run == "" || c.Run.ID == q.Run) && (q.Thread == "" || c.Run.Thread == q.Thread) && (q.Batch == "" || c.BatchID == q.Batch)
	}))
	if err == nil {
		err = store.EachUnfinished(ctx, e.store, q, end)
	}
	return ids, err
}
