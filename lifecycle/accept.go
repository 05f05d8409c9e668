package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Execute starts a call, or attaches to an existing call with the same id. The caller must close the watcher. If the error is a
// [*call.Refusal], nothing was stored. Any other failure becomes the result of the call.
func (e *Engine) Execute(ctx context.Context, p tool.Principal, spec call.Spec, o call.ExecuteOptions) (call.Watcher, error) {
	if err := e.requests.CheckCall(&spec); err != nil {
		return nil, err
	}
	r := request{admission: admission{e, p}, spec: spec, options: o, arguments: call.Parse(spec.Arguments)}
	r.digest = call.RequestDigest(&r.spec, r.arguments, p.Subject)
	if r.generated = spec.ID == ""; r.generated {
		r.spec.ID = newID()
	}
	l, fill := e.unfilled(call.Key{Namespace: p.Namespace, ID: r.spec.ID})
	if fill {
		fresh, err := r.admit(ctx, l)
		if err != nil {
			l.release()
			return nil, err
		}
		if fresh {
			return r.begin(ctx, l), nil
		}
	}
	return r.attach(l)
}

// A request is a client's request for one call.
type request struct {
	admission
	spec      call.Spec // A value and not a pointer: a pointer would force a heap allocation.
	options   call.ExecuteOptions
	arguments call.Parsed
	digest    string
	generated bool // The engine generated the id, so no other call has it.
}

// unfilled returns the entry of a call, and creates it if necessary, like reference. When the entry belongs to another goroutine that
// looked for the call and did not find it, unfilled removes that entry and tries again.
func (e *Engine) unfilled(key call.Key) (*activeCall, bool) {
	for {
		l, fill := e.reference(key)
		if fill {
			return l, true
		}
		l.ready.Wait()
		if !errors.Is(l.loadErr, store.ErrNotFound) {
			return l, false
		}
		e.forget(l)
		l.release()
	}
}

// admit looks for a call that is not in memory, and reports whether the call is new and may begin. It fills the entry of any other call.
func (r *request) admit(ctx context.Context, l *activeCall) (bool, error) {
	e, spec := r.e, &r.spec
	ctx = context.WithoutCancel(ctx)
	if !r.generated {
		c, err := e.store.Call(ctx, l.key)
		if !errors.Is(err, store.ErrNotFound) {
			l.fill(c, err)
			return false, nil // The caller invokes attach next, which returns a watcher of the call, or its load error.
		}
	}
	_, err := r.gap()
	if err == nil {
		err = r.refuseLender(spec)
	}
	if err == nil {
		err = r.checkCapacity(l, &spec.Run, r.demand(spec), 1)
	}
	if err != nil {
		l.fill(nil, err)
		return false, err
	}
	if spec.RetryOf != "" {
		err = r.retries(ctx, spec)
	}
	if err == nil {
		err = e.owners.Claim(ctx, r.as, &spec.Run, r.as.Subject)
	}
	if err != nil {
		e.drain.Leave()
		l.fill(nil, err)
	}
	return err == nil, err
}

// gap returns the gap to report when the client sends a cursor of a call that a crash removed from the journal. It returns nil when the
// client misses no event.
func (r *request) gap() (*call.Gap, error) {
	e, cursor := r.e, r.options.Cursor
	if cursor == "" {
		return nil, nil //nolint:nilnil // most callers miss nothing
	}
	cur, err := watch.ParseCursor(cursor)
	if err != nil {
		return nil, err
	}
	p, err := watch.PositionOf(&call.Call{Epochs: []call.EpochStart{{Epoch: e.epoch, First: 1}}}, 0, e.epoch, cur)
	return p.Gap, err
}

// attach returns a watcher of an existing call. It refuses a different request with the same id.
func (r *request) attach(l *activeCall) (call.Watcher, error) {
	l.ready.Wait()
	if l.loadErr != nil {
		defer l.release()
		var refused *call.Refusal
		if errors.As(l.loadErr, &refused) {
			return nil, refused
		}
		return nil, refusal.OfCall(l.loadErr, l.key.ID)
	}
	c := l.record()
	if c.RequestDigest != r.digest {
		l.release()
		return nil, call.Refuse(call.AlreadyExists, "CALL_ID_REUSED", "call_id %q belongs to another call; ids are never used twice", l.key.ID)
	}
	if c.Purge != nil { // The content was purged. From a snapshot without a result, the client would conclude that the call ended without one.
		l.release()
		return nil, call.Refuse(call.FailedPrecondition, "CALL_PURGED", "the content of call %q was erased, with its result; GetCall shows what is left; use a new call_id", l.key.ID)
	}
	if c.Status != call.Suspended && l.heldBack() {
		l.release()
		return nil, refusal.Held
	}
	w, err := newWatcher(l, nil, r.options, true)
	if err != nil {
		l.release()
		return nil, err
	}
	return w, nil
}

// begin creates the record of a new call, starts its pipeline run, and returns a watcher that sees all events.
func (r *request) begin(ctx context.Context, l *activeCall) *watch.CallWatcher {
	e := r.e
	c := r.newCall(&r.spec, r.digest)
	c.Detached = !r.options.Attended
	gap, _ := r.gap() // The error is nil: admit has already checked the cursor.
	if gap != nil {
		c.Executed = call.ExecutedUnknown
	}
	pipe := newPipeline(l)
	pipe.fresh, pipe.arguments = true, r.arguments
	pipe.def = r.pin(l, c)
	if pipe.def != nil && pipe.def.Descriptor.Effects.Mutability == tool.ReadOnly {
		c.Class = call.Behind
	}
	l.reopen = e.owners.Reopen(c)
	base := e.trace.Begin(ctx, c)
	in := newInput(c, pipe.def)
	l.c, l.intake.filters = c, calllog.NewFilters(pipe.hooks.Filter, in, failures{e})
	if !l.intake.filters.Changes() {
		pipe.unread = in
	}
	l.intake.accepted = acceptedAs(c)
	w := freshWatcher(l, r.options, gap)
	ctx = l.started(base)
	l.ready.Give()
	pipe.ahead = c.Class == call.Behind && pipe.hooks.Quick && !(pipe.def != nil && pipe.def.Describes())
	returned := false
	defer func() {
		if !returned { // A hook or the tool ended this goroutine, so no caller will receive the watcher and close it.
			w.Close()
		}
		e.workers.Run(func() { pipe.run(ctx) })
	}()
	to := stageRewrite
	if pipe.ahead {
		to = stageQueue
	}
	pipe.early = pipe.check(ctx, to)
	returned = true
	return w
}

// newCall returns the record of a new call.
func (a *admission) newCall(spec *call.Spec, digest string) *call.Call {
	return &call.Call{
		Namespace: a.as.Namespace, ID: spec.ID, ModelCallID: spec.ModelCallID, Tool: spec.Tool, RetryOf: spec.RetryOf, ModelReason: spec.ModelReason,
		Run: spec.Run, Caller: a.as, OnBehalfOf: spec.OnBehalfOf, RequestDigest: digest,
		Timeouts: spec.Timeouts, Linger: spec.Linger,
		Requested: spec.Arguments, Class: call.Sync, Status: call.New, Executed: call.NotStarted, Created: time.Now(),
		Epochs: []call.EpochStart{{Epoch: a.e.epoch, First: 1}}, Frontend: spec.Declared(), Turn: spec.Turn,
	}
}

// pin finds the tool of a new call. It stores the id and the digest of the tool and its isolation facts in c. It returns nil when there is
// no such tool.
func (a *admission) pin(l *activeCall, c *call.Call) *Definition {
	def, ok := a.e.catalog.Lookup(c)
	if !ok {
		return nil
	}
	l.meter = a.e.meters.Of(def.Descriptor)
	c.Tool, c.ToolDigest = def.Descriptor.ID, def.Digest
	c.Isolation = a.e.catalog.IsolationOf(def.Descriptor)
	return def
}

func acceptedAs(c *call.Call) *call.Accepted {
	accepted := call.AcceptedAs(c)
	return &accepted
}

// accept begins the log of a call after its tool has described it. A BEHIND call publishes the accepted event now. A SYNC call publishes it
// with its first step, possibly in a later pipeline run. A call of a batch can therefore be described several times before its first event
// is published.
func (p *pipeline) accept() {
	l := p.l
	l.intake.order.Lock()
	begins := l.intake.accepted != nil
	if begins {
		l.intake.accepted.Describe(&p.in.Description, p.in.Assessment)
		if begins = l.peek().Class == call.Behind; begins {
			l.intake.open()
		}
	}
	l.intake.order.Unlock()
	if begins && !p.ahead {
		l.e.behind.add(l) // Write the event soon, because the next stages may take long.
	}
}

// newID returns a UUIDv7. The random source does not fail on the systems that Go supports.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
