package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/limit"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// pass is one way of a call along the path: from its start, or from a decision, to an end or a suspension.
type pass struct {
	l           *live
	hooks       *hookSet
	def         *Definition
	arguments   call.Parsed    // as requested; on resume as stored or as the decision brought
	effective   tool.Arguments // from here on only these count
	fresh       bool           // of a call that begins
	checked     bool           // resolved and parsed
	early       *end           // how it ended before it had a goroutine of its own
	resume      *tool.ResumeInput
	rewritten   bool // the arguments are effective ones: Rewrite hooks have seen them
	in          *hook.Input
	unread      *hook.Input // the same before the arguments were read, when nobody holds it
	documents   *snapshot
	seen        snapshot       // what documents is in the beginning: a call that reads none pays nothing
	commands    []tool.Command // of Before hooks, which commit with the call
	releases    []func()       // of Admit hooks
	attempt     int
	outlived    bool         // the attempt began before the daemon started
	letGo       []call.Event // what filters let go for a question that was not stored
	process     *tool.ProcessReport
	found       findings
	walked      int  // how many of the steps are behind it
	ahead       bool // it goes on in the goroutine of its caller
	slot        limit.Slot
	visit       limit.Visit   // of its source
	queued      time.Time     // since when it waits; zero: it did not have to
	leaveThread func()        // ends its turn in its thread; nil: it has none
	group       string        // of calls that run together: the Before hooks of all come before its tool
	tentative   bool          // calls before it run first if a gate intercepts it
	owner       atomic.Int32  // of the attempt: its own goroutine until it returned, or whoever abandoned it
	one         [1]call.Event // room for the event of a step, which nobody keeps
}

// end is how a pass ended: with an outcome, or with a question.
type end struct {
	status   call.Status
	executed call.Executed
	result   *tool.Result
	after    bool // After hooks see it
	block    string
	commands []tool.Command // of the tool
	hooked   []tool.Command // of After hooks
	actions  []tool.Action

	ticket *tool.Ticket
	origin string // of the ticket
	policy string // by which it is asked

	operation *call.Operation // the work goes on elsewhere
	note      string          // about that

	// refused is set when nothing of the call may be stored: it never came to be.
	refused  error
	unstored error // what the journal said

	lost bool // the tool did not see how its attempt ended
	gone bool // the attempt was abandoned while the tool ran: whoever did that ends the pass
	back bool // a gate intercepted a call that is tentative: nothing of the pass is told
}

// start counts a pass and makes the call's context from what [Engine.follow] returned. The caller runs the pass.
func (l *live) start(base context.Context) context.Context {
	l.e.enter()
	return l.started(base)
}

// started is start for a pass that counts already.
func (l *live) started(base context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(base)
	l.mu.Lock()
	l.cancel, l.ctx = cancel, ctx
	wish := l.c.Cancel
	l.mu.Unlock()
	l.retain()
	if wish != nil { // it came between the decision and this start
		cancel(wished(wish))
	}
	if l.e.isOver() {
		cancel(causeDrained)
	}
	return ctx
}

// passed ends the context of a pass. The next one may have begun: a call can be decided as soon as its question is told.
func (l *live) passed(ctx context.Context) {
	l.mu.Lock()
	if l.ctx == ctx {
		l.cancel(nil)
		l.cancel, l.attempt = nil, nil
	}
	c := l.c
	l.mu.Unlock()
	if c.BatchID != "" {
		l.e.wakeBatch(c.Namespace, c.BatchID)
	}
}

// run carries a call along the path and stores how that ended.
func (l *live) run(ctx context.Context, p *pass) {
	returned := false
	defer func() {
		if returned {
			l.release()
			return
		}
		go func() { // with runtime.Goexit: this goroutine cannot go on
			defer l.release()
			if out := p.deserted(); !out.gone {
				l.conclude(ctx, p, out)
			}
		}()
	}()
	out := p.guarded(ctx)
	returned = true
	if !out.gone {
		l.conclude(ctx, p, out)
	}
}

// deserted is the end of a pass whose goroutine was ended by a tool or a hook. That is no better than a panic.
func (p *pass) deserted() end {
	if !p.owner.CompareAndSwap(attemptRuns, attemptReturned) && p.owner.Load() == attemptAbandoned {
		return end{gone: true}
	}
	executed := call.NotStarted
	if began(p.l.record()) {
		executed = call.Started
	}
	return p.panicked(errors.New("the goroutine of the call was ended"), executed)
}

// conclude stores how a pass ended.
func (l *live) conclude(ctx context.Context, p *pass, out end) {
	defer l.e.leave()
	rounds := l.rounds()
	p.slot.Return()
	p.leaveSource(&out)
	for _, release := range p.releases {
		p.giveBack(release)
	}
	switch {
	case errors.Is(context.Cause(ctx), errJournal):
		l.lose(storeRefusal(store.ErrFatal, l.key.ID)) // nobody knows what the journal holds: recovery decides
	case out.refused != nil:
		l.refuse(ctx, p, out.unstored, false)
	case out.lost: // taken up when its thread is free
	case out.ticket != nil:
		l.suspend(ctx, p, out)
	case out.operation != nil:
		l.park(ctx, p, out)
	default:
		l.finish(ctx, p, out)
	}
	p.settled(ctx)
	if p.leaveThread != nil { // whoever comes next finds what this one left
		p.leaveThread()
	}
	if out.lost {
		l.takeUp(ctx)
	}
	l.passed(ctx)
	l.followed(ctx, rounds)
	l.e.spool.Release(l.key)
}

// The steps from the arguments to the start of the tool.
const (
	stepRewrite = iota
	stepAssess
	stepIsolate
	stepGate // behind it a call may have to wait for a slot
	stepQueue
	stepAdmit
	stepBefore
	stepIntent
	allSteps
)

// groupOrder is the order of the steps for calls that run together: they wait for slots after the Before hooks of all,
// or the calls that have a slot would wait for the calls that have none.
var groupOrder = [allSteps]int{stepRewrite, stepAssess, stepIsolate, stepGate, stepAdmit, stepBefore, stepQueue, stepIntent}

// groupMeets is how many steps the calls of a group have behind them when the first goes on to its tool.
const groupMeets = 6

func (p *pass) step(ctx context.Context) *end {
	n := p.walked
	if p.group != "" {
		n = groupOrder[n]
	}
	switch n {
	case stepRewrite:
		return p.rewrite(ctx)
	case stepAssess:
		return p.assess(ctx)
	case stepIsolate:
		if out := p.isolate(ctx); out != nil {
			return out
		}
		return p.secrets(ctx)
	case stepGate:
		return p.gate(ctx)
	case stepQueue:
		return p.queue(ctx)
	case stepAdmit:
		return p.admit(ctx)
	case stepBefore:
		return p.before(ctx)
	}
	return p.intent(ctx)
}

// guarded is the path with the last recover: a bug of the engine or of a hook ends the call, not the daemon.
func (p *pass) guarded(ctx context.Context) (out end) {
	defer func() {
		if r := recover(); r != nil {
			out = p.panicked(r, call.NotStarted)
		}
	}()
	if p.outlived {
		return p.execute(ctx)
	}
	if !p.checked {
		p.early = p.check(ctx, 0)
	}
	if p.early != nil {
		if out := p.stopped(ctx); out != nil {
			return *out
		}
		return *p.early
	}
	if out := p.walk(ctx, allSteps); out != nil {
		return *out
	}
	return p.execute(ctx)
}

// walk takes the steps before the tool, as many as there are to be behind the pass.
func (p *pass) walk(ctx context.Context, to int) *end {
	for ; p.walked < to; p.walked++ {
		if out := p.stopped(ctx); out != nil {
			return out
		}
		if out := p.step(ctx); out != nil {
			if stopped := p.stopped(ctx); stopped != nil {
				return stopped
			}
			return out
		}
		if p.ahead && p.walked == stepGate && (p.ownTurn() || !p.startsUnwritten() || p.l.e.hold.holds(p.l.record()) || !p.takeSlot()) {
			p.walked++
			return nil
		}
	}
	return nil
}

// check is the part of the path that waits for nothing: to the validation of the arguments, and some steps beyond, to the
// start of the tool when no hook may take its time. A new call makes it in the goroutine of its caller, whose stack has
// grown already: validation on a fresh one costs twice as much, and what was told meanwhile goes out in one frame.
func (p *pass) check(ctx context.Context, to int) (out *end) {
	returned := false
	defer func() {
		p.ahead = false
		if returned {
			return
		}
		var caught end
		if r := recover(); r != nil {
			caught = p.panicked(r, call.NotStarted)
		} else {
			caught = p.deserted() // nobody hears what is returned
		}
		out, p.early = &caught, &caught
	}()
	if !p.checked {
		p.checked = true
		if out = p.resolve(); out == nil {
			out = p.parse(ctx)
		}
	}
	if out == nil {
		out = p.walk(ctx, to)
	}
	returned = true
	return out
}

// resolve ends calls of tools that are not there.
func (p *pass) resolve() *end {
	if p.def != nil {
		return nil
	}
	c := p.l.record()
	missing := &tool.Error{
		Code: tool.NotFound, Aborted: true,
		Message: fmt.Sprintf("There is no tool %q. Use one of the tools that you were given.", c.Tool),
	}
	if absent := p.l.e.cfg.Absent; absent != nil {
		if missing.DeveloperMessage = absent(c.Caller, c.Tool); missing.DeveloperMessage != "" {
			p.l.e.log.Warn("a tool was called that is not there", zap.String("call_id", c.ID), zap.String("why", missing.DeveloperMessage))
		}
	}
	return &end{status: call.Failed, executed: call.NotStarted, result: failure(missing)}
}

// stopped returns the end of a call that was cancelled before its tool started.
func (p *pass) stopped(ctx context.Context) *end {
	if ctx.Err() == nil {
		return nil
	}
	out := endOf(context.Cause(ctx), p.l.begun())
	return &out
}

// findings is what a pass found out for the record; each of its steps writes it. Writing the record for each thing that
// is found out would copy it as often.
type findings struct {
	rewritten, assessed, gated bool

	effective string
	rewriters []string

	assessment  tool.Effects
	description tool.Description
	digest      string
	isolation   call.Isolation

	verdicts []call.GateVerdict
}

func (f *findings) write(c *call.Call) {
	if f.rewritten {
		c.Effective, c.Rewriters = f.effective, f.rewriters
	}
	if f.assessed {
		c.Assessment, c.Description = f.assessment, f.description
		c.ToolDigest, c.Isolation = f.digest, f.isolation
	}
	if f.gated {
		c.Verdicts = f.verdicts
	}
}

// event is a step's only one.
func (p *pass) event(e call.Event) []call.Event {
	p.one[0] = e
	return p.one[:]
}

// panicked is the end of a pass in which our code or a hook panicked.
func (p *pass) panicked(r any, executed call.Executed) end {
	id := newID()
	p.l.e.log.Error("panic", zap.String("id", id), zap.String("call_id", p.l.key.ID),
		zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
	return end{status: call.Failed, executed: executed, after: true, result: failure(&tool.Error{
		Code: tool.Internal, Aborted: true, Message: "The tool failed internally (" + id + ").",
	})}
}

// failure returns the result that carries an error.
func failure(e *tool.Error) *tool.Result {
	return &tool.Result{Status: tool.StatusError, Error: e}
}

// A stopCause is why a call was stopped from outside. It is what [context.Cause] tells the tool.
type stopCause struct {
	status call.Status
	err    tool.Error
}

func (c *stopCause) Error() string { return c.err.Message }

// Unwrap lets tools see the kind.
func (c *stopCause) Unwrap() error { return &c.err }

func cancelled(reason string) *stopCause {
	message := "Cancelled by user"
	if reason != "" {
		message += ": " + reason
	}
	return &stopCause{call.Cancelled, tool.Error{Code: tool.Cancelled, Message: message}}
}

// wished is the cause of a stored wish to end a call.
func wished(r *call.CancelRequest) *stopCause {
	if r.Cause == call.CauseSuperseded {
		return &stopCause{call.Cancelled, tool.Error{Code: tool.Cancelled, Reason: call.CauseSuperseded, Message: "Superseded by a new turn"}}
	}
	return cancelled(r.Reason)
}

var (
	causeGone = &stopCause{call.Cancelled, tool.Error{Code: tool.Cancelled, Reason: "CALLER_GONE", Message: "Cancelled: nobody was watching any more"}}
	// causeDrained ends what runs when the drain period is over; what has not started was not run.
	causeDrained = &stopCause{call.Cancelled, tool.Error{Code: tool.Interrupted, Reason: "DRAIN", Message: "Stopped before it finished"}}
)

func attemptTimeout(d time.Duration) *stopCause {
	return &stopCause{call.Failed, tool.Error{Code: tool.Timeout, Reason: "ATTEMPT", Aborted: true, Message: "Timed out after " + d.String()}}
}

func attemptTimedOut(cause error) bool {
	stop, ok := errors.AsType[*stopCause](cause)
	return ok && stop.err.Code == tool.Timeout
}

// endOf returns how a call ends that was stopped.
func endOf(cause error, executed call.Executed) end {
	var stop *stopCause
	if !errors.As(cause, &stop) {
		stop = cancelled("")
	}
	e := stop.err
	out := end{status: stop.status, executed: executed, after: true}
	if executed == call.NotStarted && (stop == causeDrained || stop == causeGone) {
		e = tool.Error{Code: tool.Interrupted, Reason: e.Reason, Message: "Not run", Retryable: true, Aborted: true}
		out.status, out.after = call.Failed, false
	}
	if executed == call.ExecutedUnknown {
		e.Message += unseenEnd
	}
	out.result = failure(&e)
	return out
}

// unseenEnd ends the message of a stopped call whose end nobody observed.
const unseenEnd = "; nobody saw its end: it may have taken effect, and may still run"
