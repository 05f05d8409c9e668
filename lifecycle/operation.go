package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

const (
	// pollDeadline is the time limit for a tool to report the state of an operation.
	pollDeadline = 30 * time.Second
	// pollLeast is the shortest interval between two polls.
	pollLeast = 100 * time.Millisecond
	// operationExpiry is the time after which an operation expires if its tool sets no time. maxOperation is the maximum length of an
	// operation's id, in bytes.
	operationExpiry = 24 * time.Hour
	maxOperation    = 1 << 10
)

// continues returns the conclusion of the pipeline run when the tool has started work outside the daemon.
func (r returned) continues(result *tool.Result) outcome.Conclusion {
	p := r.p
	o := *result.Operation
	_, polls := p.def.Tool.(tool.Poller)
	broken := ""
	switch {
	case o.ID == "" || len(o.ID) > maxOperation || calllog.Readable(o.ID) != o.ID:
		broken = "its operation needs a name of at most 1,024 bytes"
	case o.PollAfter < 0 || o.ExpiresIn < 0 || o.ExpiresIn > gating.MaxExpiry:
		broken = "its operation has invalid times"
	case o.PollAfter > 0 && !polls:
		broken = "its operation sets poll_after, but the tool implements no Poll"
	case result.Suspension != nil:
		broken = "its result has both a question and an operation"
	}
	if broken != "" {
		return outcome.Unfollowable(broken)
	}
	if o.PollAfter > 0 {
		o.PollAfter = max(o.PollAfter, pollLeast)
	}
	return &outcome.Continued{
		Writes: outcome.WritesOf(result), Note: result.Message,
		Operation: &call.Operation{ID: o.ID, Every: o.PollAfter, Expires: p.l.e.store.Now().Add(or(o.ExpiresIn, operationExpiry)).Truncate(time.Microsecond)},
	}
}

// park stores that the work of a call continues outside the daemon. From then on the call uses no goroutine and no slot.
func (p *pipeline) park(ctx context.Context, out *outcome.Continued) settlement {
	l := p.l
	documents, events := p.documentChanges(out.Commands, nil)
	if out.Note != "" {
		events = append(events, call.Event{Type: call.EventProgress, Progress: &tool.Progress{Status: tool.ProgressRunning, Message: calllog.Readable(out.Note)}})
	}
	l.slot.Take()
	if cause := p.mustEnd(ctx); cause != nil {
		l.unslot()
		stopOperation(p, out.Operation) // Stop the operation here: it is not stored, so no later turn would stop it.
		return p.finish(ctx, outcome.StoppedBy(cause, call.ExecutedUnknown))
	}
	err := l.commitSlotted(step{
		durability: store.Full, documents: documents, group: p.group, events: events, actions: p.storedActions(out.Actions),
		apply: func(c *call.Call) {
			p.found.write(c)
			c.Attempts = slices.Clone(c.Attempts)
			c.Attempts[len(c.Attempts)-1].Operation = out.Operation
			c.Detached = true
		},
	})
	l.unslot()
	if err != nil {
		stopOperation(p, out.Operation)
		return p.unasked(ctx, call.OriginTool, err)
	}
	l.e.cfg.FailPoint("after-operation")
	l.e.operations.Arm(l.key, out.Operation, 0)
	return settlement{}
}

// stopOperation asks a tool to stop an operation. The caller stores the end of the call after that. A crash in between makes the next
// daemon stop the operation again; in the opposite order, the operation might never be stopped.
func stopOperation(p *pipeline, o *call.Operation) {
	if p.def == nil {
		return
	}
	a, ok := p.def.Tool.(tool.Abandoner)
	if !ok {
		return
	}
	_, err := hook.Bounded(context.Background(), p.l.e.cfg.Grace, func(ctx context.Context) (struct{}, error) {
		c := p.call(nil)
		c.Operation = toOperation(o)
		a.Abandon(ctx, c)
		return struct{}{}, nil
	})
	if err != nil {
		p.l.e.log.Warn("operation not stopped", zap.String("call_id", p.l.key.ID), zap.String("tool", p.def.Descriptor.ID), zap.Error(err))
	}
}

func toOperation(o *call.Operation) *tool.Operation {
	return &tool.Operation{ID: o.ID, PollAfter: o.Every}
}

// turn polls or ends an operation. given returns the answer of a completion. If given is nil, turn polls the tool. Turns of a call run one
// after the other. An error means that there was no turn.
func (e *Engine) turn(key call.Key, failures int, given func(c *call.Call, p *pipeline) *answer) (settlement, error) {
	var none settlement
	if !e.drain.Admit() {
		return none, refusal.Draining() // The daemon stops; the next daemon takes this turn.
	}
	defer e.drain.Leave()
	defer e.operations.Take(key)()
	l, err := e.acquire(context.Background(), key)
	if err != nil {
		return none, err
	}
	defer l.release()
	if s := l.settled(); s.is != committed {
		return s, nil
	}
	o := l.record().Operation()
	switch {
	case e.held.Holds(l.record()):
		return none, errNoOperation
	case o == nil && given != nil && began(l.record()) && l.record().Status == call.Running:
		return none, errNotYet // The tool is still running. It may be about to return the operation.
	case o == nil:
		return none, errNoOperation
	}
	p := lookupPipeline(l)
	p.attempt, p.resume = len(l.record().Attempts), l.record().LastInput()
	var a *answer
	if given != nil {
		if a = given(l.record(), p); a == nil {
			return none, errNoOperation
		}
	}
	rounds := l.e.trace.Rounds(l.record)
	ctx := l.started(l.e.trace.Begin(context.Background(), l.record()))
	defer l.release()
	next := p.turn(ctx, o, a)
	l.endPipeline(ctx)
	l.e.trace.End(ctx, l.record, rounds)
	l.e.output.Spool.Release(l.key)
	if next.operation != nil {
		if next.failed {
			failures++
		} else {
			failures = 0
		}
		e.operations.Arm(key, next.operation, failures)
	}
	return next.settlement, nil
}

// pollOperation invokes turn for the schedule of operations. It returns an error only when the turn must be repeated. When the journal did
// not store the end of a call, the call leaves the schedule. It then has no owner, so [Engine.CheckOwners] recovers it.
func (e *Engine) pollOperation(key call.Key, failures int) error {
	_, err := e.turn(key, failures, nil)
	if errors.Is(err, errNoOperation) || e.drain.Refusing() {
		return nil
	}
	return err
}

var (
	errNoOperation = call.Refuse(call.FailedPrecondition, "NO_OPERATION", "there is no such operation, or it has ended")
	errNotYet      = call.Refuse(call.Unavailable, "NO_OPERATION_YET", "the call runs and has no operation yet")
)

// coming is what [pipeline.turn] returns after it polled or ended an operation. The field operation has the operation's next state; it is nil
// when the operation is over.
type coming struct {
	settlement
	operation *call.Operation
	failed    bool // the tool could not report the state
}

// turn polls or ends an operation within a pipeline run. If the tool reports a result before the operation is stopped, the result counts.
func (p *pipeline) turn(ctx context.Context, o *call.Operation, a *answer) coming {
	l := p.l
	next := coming{operation: o}
	expired := l.e.store.Now() >= o.Expires
	if a == nil && ctx.Err() == nil && !expired && o.Every > 0 {
		a = poll(ctx, p, o)
		next.failed = a.err != nil
		if a.err != nil {
			a = nil
		}
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errJournal):
		return coming{settlement: settle(store.ErrFatal, l.key.ID)} // The next daemon finds the call unchanged.
	case a != nil && a.result != nil || a != nil && a.err != nil:
		next.operation, next.settlement = answered(ctx, p, *a, o)
	case errors.Is(cause, outcome.Drained):
		next = coming{}
	case cause != nil:
		stopOperation(p, o)
		next = coming{settlement: p.finish(ctx, outcome.StoppedBy(cause, call.ExecutedUnknown))}
	case expired:
		stopOperation(p, o)
		next = coming{settlement: p.finish(ctx, outcome.OperationTimeout())}
	}
	return next
}

// poll asks the tool for the state of an operation. It returns an error in the answer when the definition of the tool has changed.
func poll(ctx context.Context, p *pipeline, o *call.Operation) *answer {
	poller, ok := tool.Poller(nil), false
	if p.same() {
		poller, ok = p.def.Tool.(tool.Poller)
	}
	if !ok {
		return &answer{err: errors.New("the tool has changed since it started the operation")}
	}
	r := &reporter{p: p}
	defer r.close()
	result, err := hook.Bounded(ctx, pollDeadline, func(ctx context.Context) (*tool.Result, error) {
		c := p.call(r)
		c.Operation, c.Deadline = toOperation(o), time.Now().Add(o.Expires.Sub(p.l.e.store.Now()))
		return poller.Poll(ctx, c)
	})
	if err != nil && ctx.Err() == nil {
		p.l.e.log.Warn("poll of an operation failed; will try again", zap.String("call_id", p.l.key.ID), zap.String("tool", p.def.Descriptor.ID), zap.Error(err))
	}
	return &answer{result: result, err: err}
}

// answered applies an answer about an operation. It returns the operation in its new state, or nil when it is over.
func answered(ctx context.Context, p *pipeline, a answer, o *call.Operation) (*call.Operation, settlement) {
	out := returned{p}.conclusion(ctx, a)
	switch out := out.(type) {
	case *outcome.Continued:
		if a.result.Operation.ExpiresIn == 0 {
			out.Operation.Expires = o.Expires
		}
		if *out.Operation != *o {
			break // The next turn is scheduled by park below.
		}
		if out.Note != "" {
			_ = p.l.emit(call.Event{Type: call.EventProgress, Progress: &tool.Progress{Status: tool.ProgressRunning, Message: calllog.Readable(out.Note)}})
		}
		return o, settlement{}
	case outcome.Lost:
		return o, settlement{} // Keep the operation: it may have ended, and the next poll shows that.
	case *outcome.Terminal:
		if a.err == nil && a.result.IsPending() { // The operation continues, but in a form that toold cannot follow.
			stopOperation(p, o)
		}
	}
	return nil, p.storeConclusion(ctx, out)
}

// Complete ends an operation of a source with a result or an error, and returns when that is stored. It returns [errNoOperation] when the
// source has no such operation.
func (e *Engine) Complete(namespace, source, id, operation string, r *tool.Result, failed error) error {
	s, err := e.turn(call.Key{Namespace: namespace, ID: id}, 0, func(c *call.Call, p *pipeline) *answer {
		if o := c.Operation(); o.ID != operation || !p.same() || p.def.Descriptor.Source != source || r == nil && failed == nil {
			return nil
		}
		return &answer{result: r, err: failed}
	})
	return or(err, s.err)
}
