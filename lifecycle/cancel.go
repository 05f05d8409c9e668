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

// Cancel ends a call. It stores the cancel request first and then executes it, children before parents. It returns the record of the call.
// If wait is positive, it waits at most that long for the end of the call before it returns. Cancelling an ended call changes nothing.
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

// maxDepth bounds the nesting of calls.
const maxDepth = 32

// cancelTree cancels the children of a call, then the call.
func (e *Engine) cancelTree(ctx context.Context, l *activeCall, r call.CancelRequest) error {
	a := cancelling{e: e}
	defer a.end()
	return a.ask(ctx, l, r, 0)
}

// cancelling is a cancellation of several calls.
type cancelling struct {
	e     *Engine
	later parents // Pipeline runs of suspended calls with nested calls. They begin after the end of all calls was requested.
	start bool    // The recovery at the start of the daemon makes this cancellation. It then skips calls that only wait for people: they run nothing, and to notify their tools would take time.
}

func (a *cancelling) end() { a.later.end() }

// ask cancels the children of a call, then the call. It does not wait for their end.
func (a *cancelling) ask(ctx context.Context, l *activeCall, r call.CancelRequest, depth int) error {
	if err := a.cancelNested(ctx, l, r, depth); err != nil {
		return err
	}
	return a.cancel(l, r)
}

// cancelNested cancels the children of a call.
func (a *cancelling) cancelNested(ctx context.Context, l *activeCall, r call.CancelRequest, depth int) error {
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
		mine := c.record().Caller.Subject == l.record().Caller.Subject // Compare the callers, because any caller may name any call as its parent.
		if mine && !(a.start && c.record().Status == call.Suspended && lookupPipeline(c).def.Stopper() == nil) {
			err = a.ask(ctx, c, r, depth+1)
		}
		c.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// children lists the unfinished calls with this parent: those in memory, which may not be in the journal yet, and those in the journal.
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

// unfinished returns the unfinished calls in memory for which holds returns true.
func (e *Engine) unfinished(holds func(*call.Call) bool) (calls []*call.Call) {
	e.mu.Lock()
	active := e.activeCallsLocked()
	e.mu.Unlock()
	for _, l := range active {
		if !l.ready.IsGiven() {
			continue // The call is in the journal, or has not begun.
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

// cancel stores a cancel request and ends the call. A suspended call without nested calls and a held call end at once. Other calls end
// through their pipeline run.
func (a *cancelling) cancel(l *activeCall, r call.CancelRequest) error {
	l.slot.Take()
	c := l.record()
	switch {
	case c.Status == call.Suspended:
		if p := lookupPipeline(l); p.def.Stopper() != nil {
			return a.cancelAbove(p, r)
		}
		return cancelWaiting(l, r, call.NotStarted)
	case c.Status.Terminal() || c.Cancel != nil && !l.heldBack():
		l.unslot()
		return nil
	case l.heldBack():
		if began(c) {
			return cancelWaiting(l, r, call.ExecutedUnknown)
		}
		return cancelWaiting(l, r, call.NotStarted)
	}
	if err := storeCancel(l, r); err != nil && !errors.Is(err, errEnded) {
		return err
	}
	l.stop(outcome.CancelRequested(&r))
	if l.record().Operation() != nil {
		l.e.operations.Hurry(l.key)
	}
	return nil
}

// storeCancel stores a cancel request. After that, a suspended call accepts no decision and can only end. The caller holds the slot;
// storeCancel releases it.
func storeCancel(l *activeCall, r call.CancelRequest) error {
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

// cancelAbove cancels a suspended call with nested calls. It starts a pipeline run that ends the nested calls and then the call. It starts
// the pipeline run before it stores the request, so that the batch cannot begin a pipeline run of the same call. The caller holds the slot;
// cancelAbove releases it.
func (a *cancelling) cancelAbove(p *pipeline, r call.CancelRequest) error {
	l := p.l
	cause := outcome.CancelRequested(&r)
	p.early = outcome.StoppedBy(cause, call.NotStarted)
	base, stop := context.WithCancelCause(l.e.trace.Begin(context.Background(), l.record()))
	stop(cause)
	m := &memberRun{member: member{l}, p: p, ctx: l.start(base)}
	if err := storeCancel(l, r); err != nil {
		m.Release()
		return err
	}
	a.later = append(a.later, func() { p.run(m.ctx) })
	return nil
}

// heldBack reports whether the call waits for an operator's release, because it is an unfinished call of a copied or restored store.
func (l *activeCall) heldBack() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancel == nil && l.e.held.Holds(l.c)
}

// cancelWaiting ends a call that has no pipeline run. It stores the request and the end as one change, so either the cancellation or a
// concurrent decision takes effect, never parts of both. The caller holds the slot; cancelWaiting releases it.
func cancelWaiting(l *activeCall, r call.CancelRequest, executed call.Executed) error {
	p := lookupPipeline(l)
	out := outcome.StoppedBy(outcome.CancelRequested(&r), executed)
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

// waitTerminal waits until the call has ended, but at most for d.
func (l *activeCall) waitTerminal(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		l.mu.Lock()
		if l.c.Status.Terminal() || l.settlement.is != committed {
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

// CancelAll cancels the unfinished calls of a run or thread that the principal may cancel, and returns their ids. supersededBy names the
// run that replaces these calls; the calls of that run are not cancelled.
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

// CancelBatch cancels the unfinished calls of a batch and returns their ids. Calls that have not begun never begin. The batch is held until
// all requests are stored, so the calls end CANCELLED even with fail_fast.
func (e *Engine) CancelBatch(ctx context.Context, p tool.Principal, batch, reason, supersededBy string) ([]string, error) {
	if _, err := e.watches.See(ctx, p, batch); err != nil {
		return nil, err
	}
	r := call.CancelRequest{By: p, Reason: reason, Cause: "CLIENT", Time: time.Now()}
	defer e.batches.Hold(call.Key{Namespace: p.Namespace, ID: batch})()
	return e.cancelWhere(ctx, p, call.Query{Namespace: p.Namespace, Batch: batch}, superseded(r, supersededBy), supersededBy)
}

var errSelfSuperseded = call.InvalidField("superseded_by_run_id", "is the same run; name the run that replaces it")

// superseded returns the request with the cause SUPERSEDED. by is the id of the run that replaces the calls. If by is empty, superseded
// returns r unchanged.
func superseded(r call.CancelRequest, by string) call.CancelRequest {
	if by != "" {
		r.Cause, r.Reason = call.CauseSuperseded, or(r.Reason, "superseded by run "+by)
	}
	return r
}

// cancelWhere cancels the calls that the query selects, but not the calls of the run whose id is in except. It finds calls in memory, which
// may not be in the journal yet, and calls in the journal. In a batch it starts with the last call. Otherwise the end of an earlier call
// could make a later call begin. Suspended calls with nested calls end last, after the end of all calls was requested.
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
