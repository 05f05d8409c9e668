package lifecycle

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// Recovered counts the calls that a start found.
type Recovered struct {
	Resumed, Rerun, Interrupted, InDoubt, Cancelled, Waiting, Operations, Corrupt, Held int
	Left                                                                                int // calls that another daemon may still run; they are recovered after the hold
	Expected                                                                            int // calls that may still run in another program
}

// Recover recovers the calls of the last daemon. Each call has a separate transaction, so an interrupted recovery can be repeated. An
// attempt that may have run is repeated only if that is safe.
func (e *Engine) Recover(ctx context.Context) (Recovered, error) {
	var found Recovered
	if err := e.policies.Load(ctx); err != nil {
		return found, err
	}
	if err := e.limits.Questions.Load(ctx, e.store); err != nil {
		return found, err
	}
	if err := e.owners.LoadBlocked(ctx); err != nil {
		return found, err
	}
	var keys, running []call.Key
	err := e.store.Unfinished(ctx, func(key call.Key, c *call.Call, err error) error {
		if err != nil {
			found.Corrupt++
			e.log.Error("call not recovered: its row is damaged", zap.String("call_id", key.ID), zap.Error(err))
			return nil
		}
		if c.Status == call.Running {
			running = append(running, key)
		} else {
			keys = append(keys, key)
		}
		return nil
	})
	if err != nil {
		return found, err
	}
	keys = append(running, keys...) // A call that may have run enters the queue of its thread before the others.
	if e.held.Any() {
		found.Held = len(keys)
		return found, nil
	}
	defer e.batches.BeginRecovery()()
	r := recovery{e: e, found: found}
	defer r.end()
	for _, key := range keys {
		if err := r.take(ctx, key); err != nil {
			return r.found, err
		}
	}
	e.hold.await(e)
	return r.found, e.batches.Recover(ctx)
}

// A recovery recovers calls that have no owner: after a start, a hold, a release, or because of a bug.
type recovery struct {
	e     *Engine
	found Recovered
	later parents
}

// end starts the work that had to wait until all calls were recovered.
func (r *recovery) end() { r.later.end() }

// parents holds pipeline runs that end calls with nested calls. They start after the nested calls were recovered.
type parents []func()

// end starts the pipeline runs without waiting for them.
func (s parents) end() {
	for _, run := range s {
		go run()
	}
}

// take recovers one call. A call with nested calls ends only after all calls are recovered. On a full disk no call ends before that,
// because the end of a call would wait for space.
func (r *recovery) take(ctx context.Context, key call.Key) error {
	l, err := r.e.acquire(ctx, key)
	if err != nil {
		return err
	}
	defer l.release()
	if err := findTail(ctx, l); err != nil {
		return err
	}
	noteUnseen(l)
	if expect(lookupPipeline(l)) {
		r.e.hold.Keep(l.record())
		r.found.Expected++
		return nil
	}
	if r.e.hold.keep(l) {
		r.found.Left++
		l.retain()
		return nil
	}
	return r.recoverCall(ctx, l)
}

// recoverCall recovers a call. The caller must have called findTail before. recoverCall returns an error when the journal has failed or is
// closed. The caller must then stop the recovery.
func (r *recovery) recoverCall(ctx context.Context, l *activeCall) error {
	c := l.record()
	p := lookupPipeline(l)
	switch {
	case c.Operation() != nil:
		r.found.Operations++
		r.e.operations.ArmNow(l.key, c.Operation(), c.Cancel != nil)
	case c.Cancel != nil:
		r.found.Cancelled++
		out := outcome.StoppedBy(outcome.CancelRequested(c.Cancel), call.NotStarted)
		if begun(l.record()) != call.NotStarted {
			out.Executed, out.After = call.ExecutedUnknown, false
		}
		if p.def.Stopper() == nil && !r.e.cfg.Full() {
			return p.finishFound(ctx, out).stops()
		}
		if p.def.Stopper() != nil {
			r.requestNestedCancel(ctx, l, *c.Cancel)
		}
		r.settleLater(context.Background(), l, func(ctx context.Context) settlement { return p.finishFound(context.WithoutCancel(ctx), out) })
	case c.BatchID != "" && (c.Status == call.New || c.Status == call.Resuming):
		r.found.Resumed++ // Do not resume the call here: its batch resumes it.
	case c.Status == call.Resuming:
		r.found.Resumed++
		l.resumeRun(ctx, *c.LastRound().Decision)
	case c.Status == call.New:
		r.recoverNew(l, p)
	case mayRunAgain(c, p.def) && !outcome.LostTooOften(c):
		r.found.Rerun++
		p.again()
		l.unwatched()
	default:
		r.found.InDoubt++
		return r.doubt(ctx, p).stops()
	}
	return nil
}

// requestNestedCancel stores cancel requests for the nested calls of a call that will end. The recovery handles nested calls later. Without
// the requests, the recovery would begin the nested calls.
func (r *recovery) requestNestedCancel(ctx context.Context, l *activeCall, request call.CancelRequest) {
	a := cancelling{e: r.e, start: true}
	err := a.cancelNested(ctx, l, request, 0)
	r.later = append(r.later, a.later...)
	if err != nil {
		r.e.log.Warn("cancel requests for nested calls not stored; they may start", zap.String("call_id", l.key.ID), zap.Error(err))
	}
}

// settleLater makes settle run after all calls are recovered, as a pipeline run of the call.
func (r *recovery) settleLater(base context.Context, l *activeCall, settle func(ctx context.Context) settlement) {
	r.later = append(r.later, counted(base, l, settle))
}

// counted counts a pipeline run of the call that will execute settle. The returned function executes it.
func counted(base context.Context, l *activeCall, settle func(ctx context.Context) settlement) (run func()) {
	ctx := l.start(base)
	return func() {
		defer l.release()
		defer l.e.drain.Leave()
		settle(ctx)
		l.endPipeline(ctx)
	}
}

// findTail finds the newest event of a call's log. It may be newer than the stored record.
func findTail(ctx context.Context, l *activeCall) error {
	for {
		l.mu.Lock()
		last := l.log.Last()
		l.mu.Unlock()
		events, _, err := l.e.store.Events(ctx, l.key, last, 1000)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		newest := events[len(events)-1].Sequence
		l.mu.Lock()
		l.log.Reset(newest)
		next := *l.c
		next.LastSequence = newest
		l.c = &next
		l.mu.Unlock()
	}
}

// noteUnseen marks a call as possibly executed if its attempts are not stored before they start: an attempt may then be missing in the
// journal. The next step of the call stores the mark.
func noteUnseen(l *activeCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c.Class == call.Behind {
		next := *l.c
		next.Executed = call.ExecutedUnknown
		l.c = &next
	}
}

// begun returns how far the tool got, for a call without a running attempt.
func begun(c *call.Call) call.Executed {
	if began(c) || c.Executed == call.ExecutedUnknown {
		return call.ExecutedUnknown
	}
	return call.NotStarted
}

// began reports whether the newest attempt started and has no known end.
func began(c *call.Call) bool {
	n := len(c.Attempts)
	return n > 0 && c.Attempts[n-1].Ended.IsZero()
}

// mayRunAgain reports whether an interrupted attempt may be repeated. It may be repeated when the tool is read-only or idempotent and its
// definition has not changed.
func mayRunAgain(c *call.Call, def *Definition) bool {
	return def != nil && def.Digest == c.ToolDigest && (c.Assessment.Mutability == tool.ReadOnly || def.Descriptor.Idempotent)
}

// again runs a call from the first stage. Earlier decisions still apply, because they are found by the digest of the basis.
func (p *pipeline) again() {
	l := p.l
	p.fromStart()
	ctx := l.start(l.e.trace.Begin(context.Background(), l.record()))
	go p.run(ctx)
}

// fromStart makes the pipeline run of a stored call begin at the first stage.
func (p *pipeline) fromStart() {
	if c := p.l.record(); c.Effective == "" {
		p.arguments = call.Parse(c.Requested)
	} else {
		p.rewritten, p.resume = true, c.LastInput()
	}
}

// recoverNew recovers a call that has no attempt. The call runs at once if it needs no watcher. Otherwise it runs when a watcher attaches in
// time.
func (r *recovery) recoverNew(l *activeCall, p *pipeline) {
	linger := lingerOf(l.record(), r.e.cfg.Linger)
	if l.record().Detached || linger < 0 {
		r.found.Resumed++
		p.again()
		return
	}
	r.found.Waiting++
	l.retain()
	r.e.drain.Enter()
	go func() {
		defer l.release()
		defer r.e.drain.Leave()
		awaitCaller(p, linger)
	}()
}

// awaitCaller runs the call when a watcher attaches within the linger time; otherwise it ends the call.
func awaitCaller(p *pipeline, linger time.Duration) {
	l := p.l
	for deadline := time.Now().Add(linger); time.Now().Before(deadline); {
		l.mu.Lock()
		back, wish := l.watchers > 0, l.c.Cancel
		l.mu.Unlock()
		if wish != nil {
			p.finishFound(context.Background(), outcome.StoppedBy(outcome.CancelRequested(wish), begun(l.record())))
			return
		}
		if back {
			p.again()
			return
		}
		select {
		case <-l.e.drain.Closed():
			return
		case <-time.After(50 * time.Millisecond):
		}
		if l.e.drain.Refusing() {
			return
		}
	}
	p.finishFound(context.Background(), outcome.Restarted(begun(l.record())))
}

// finishFound ends a stored call that has no pipeline run.
func (p *pipeline) finishFound(ctx context.Context, out *outcome.Terminal) settlement {
	l := p.l
	if c := l.record(); began(c) {
		p.attempt = len(c.Attempts)
	}
	return p.finish(ctx, out)
}
