package lifecycle

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// Recovered counts what a start found.
type Recovered struct {
	Resumed, Rerun, Interrupted, InDoubt, Cancelled, Waiting, Operations, Corrupt, Held int
	Left                                                                                int // calls that another daemon may still run, until the hold is over
	Expected                                                                            int // to run still in another program
}

// Recover takes up what the last daemon left, each call in a separate transaction, so that it can be interrupted and
// done again. It looks at the attempt, not at the status: what may have run is not run again unless that is safe.
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
	keys = append(running, keys...) // what may run is in its lane before others
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

// A recovery takes up calls that nothing carries on: after a start, a hold, a release, or a bug.
type recovery struct {
	e     *Engine
	found Recovered
	later parents
}

// end begins what had to wait until all calls were taken up.
func (r *recovery) end() { r.later.end() }

// parents are pipeline runs of calls that end and made other calls. Those are taken up before these can end.
type parents []func()

// end carries them out. Nobody waits for that.
func (s parents) end() {
	for _, run := range s {
		go run()
	}
}

// take takes one call up. What ends a call whose tool makes calls is left to the caller, for when all were taken up; so
// are all ends on a full disk, which wait for space.
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
	return r.takeUp(ctx, l)
}

// takeUp takes up a call whose newest event is known.
func (r *recovery) takeUp(ctx context.Context, l *activeCall) error {
	c := l.record()
	p := lookupPipeline(l)
	switch {
	case c.Operation() != nil:
		r.found.Operations++
		r.e.operations.ArmNow(l.key, c.Operation(), c.Cancel != nil)
	case c.Cancel != nil:
		r.found.Cancelled++
		out := outcome.StoppedBy(outcome.Wished(c.Cancel), call.NotStarted)
		if begun(l.record()) != call.NotStarted {
			out.Executed, out.After = call.ExecutedUnknown, false
		}
		if p.def.stopper() == nil && !r.e.cfg.Full() {
			p.finishFound(ctx, out)
			break
		}
		if p.def.stopper() != nil {
			r.warnBelow(ctx, l, *c.Cancel)
		}
		r.settleLater(context.Background(), l, func(ctx context.Context) { p.finishFound(context.WithoutCancel(ctx), out) })
	case c.BatchID != "" && (c.Status == call.New || c.Status == call.Resuming):
		r.found.Resumed++ // with its batch
	case c.Status == call.Resuming:
		r.found.Resumed++
		l.resumeRun(ctx, *c.LastRound().Decision)
	case c.Status == call.New:
		r.takeUpNew(l, p)
	case mayRunAgain(c, p.def) && !lostTooOften(c):
		r.found.Rerun++
		p.again()
		l.unwatched()
	default:
		r.found.InDoubt++
		r.doubt(ctx, p)
	}
	return nil
}

// warnBelow stores that the calls that a call made shall end, because it does: a start takes them up after it, and none begins.
func (r *recovery) warnBelow(ctx context.Context, l *activeCall, request call.CancelRequest) {
	a := cancelling{e: r.e, start: true}
	err := a.askBelow(ctx, l, request, 0)
	r.later = append(r.later, a.later...)
	if err != nil {
		r.e.log.Warn("calls of a call that ends are not cancelled before others begin", zap.String("call_id", l.key.ID), zap.Error(err))
	}
}

// settleLater makes a pipeline run of what a recovery found. It is carried out when all calls were taken up.
func (r *recovery) settleLater(base context.Context, l *activeCall, settle func(ctx context.Context)) {
	r.later = append(r.later, counted(base, l, settle))
}

// counted makes a pipeline run of what a recovery found. The function that it returns carries it out.
func counted(base context.Context, l *activeCall, settle func(ctx context.Context)) (run func()) {
	ctx := l.start(base)
	return func() {
		defer l.release()
		defer l.e.drain.Leave()
		settle(ctx)
		l.endPipeline(ctx)
	}
}

// findTail learns the newest event of the log: events that came after the last stored record are not in it.
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

// noteUnseen marks a call whose attempts are written behind: it may have run although the journal has none of them. The next
// step of the call stores the mark.
func noteUnseen(l *activeCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c.Class == call.Behind {
		next := *l.c
		next.Executed = call.ExecutedUnknown
		l.c = &next
	}
}

// begun is how far the tool came of a call without a running attempt.
func begun(c *call.Call) call.Executed {
	if began(c) || c.Executed == call.ExecutedUnknown {
		return call.ExecutedUnknown
	}
	return call.NotStarted
}

// began reports whether an attempt started whose end is not known.
func began(c *call.Call) bool {
	n := len(c.Attempts)
	return n > 0 && c.Attempts[n-1].Ended.IsZero()
}

// mayRunAgain reports whether a started attempt may be followed by another: read-only and idempotent tools, while they
// have not changed.
func mayRunAgain(c *call.Call, def *Definition) bool {
	return def != nil && def.Digest == c.ToolDigest && (c.Assessment.Mutability == tool.ReadOnly || def.Descriptor.Idempotent)
}

// again runs a call from the start of its path. What was decided stays decided: answers are found by their digest.
func (p *pipeline) again() {
	l := p.l
	p.fromStart()
	ctx := l.start(l.e.trace.Begin(context.Background(), l.record()))
	go p.run(ctx)
}

// fromStart makes the pipeline run of a stored call one from the start of its path.
func (p *pipeline) fromStart() {
	if c := p.l.record(); c.Effective == "" {
		p.arguments = call.Parse(c.Requested)
	} else {
		p.rewritten, p.resume = true, lastInput(c)
	}
}

// lastInput returns what the last decision gave the tool; nil for a call without one. An answer about an
// attempt in doubt is not for the tool.
func lastInput(c *call.Call) *tool.ResumeInput {
	for _, r := range slices.Backward(c.Rounds) {
		if r.Suspension.Origin == call.OriginDoubt {
			continue
		}
		if r.Decision == nil {
			return nil
		}
		s := &r.Suspension
		return &tool.ResumeInput{SuspensionID: s.ID, Reason: s.Action, Round: s.Round, Result: r.Decision.Result, Decision: *r.Decision, Basis: s.Description.Basis}
	}
	return nil
}

// takeUpNew takes up a call that had no attempt: it resumes when it needs no watcher, or when its caller attaches in time.
func (r *recovery) takeUpNew(l *activeCall, p *pipeline) {
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

// awaitCaller runs the call when a watcher comes within its linger time, else ends it.
func awaitCaller(p *pipeline, linger time.Duration) {
	l := p.l
	for deadline := time.Now().Add(linger); time.Now().Before(deadline); {
		l.mu.Lock()
		back, wish := l.watchers > 0, l.c.Cancel
		l.mu.Unlock()
		if wish != nil {
			p.finishFound(context.Background(), outcome.StoppedBy(outcome.Wished(wish), begun(l.record())))
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

// finishFound ends a call that a start found.
func (p *pipeline) finishFound(ctx context.Context, out *outcome.Terminal) {
	l := p.l
	if c := l.record(); began(c) {
		p.attempt = len(c.Attempts)
	}
	p.finish(ctx, out)
}
