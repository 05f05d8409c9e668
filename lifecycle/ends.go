package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
	"go.uber.org/zap"
)

// A conclusion is how a pipeline run ends: one of the types below. A step that returns nil lets the call continue.
type conclusion interface {
	// conclude stores the conclusion.
	conclude(ctx context.Context, p *pipeline)
}

// An outcome ends the call.
type outcome struct {
	status   call.Status
	executed call.Executed
	result   *tool.Result
	after    bool   // After hooks see it
	block    string // why a gate blocks the call's run; "": none does
	writes
	hooked []tool.Command // of After hooks
}

// suspended leaves the call with a question.
type suspended struct {
	ticket   *tool.Ticket
	origin   string
	policy   string // version of the policy that asks
	executed call.Executed
	writes
}

// continued leaves the call running: its work continues outside of the daemon.
type continued struct {
	operation *call.Operation
	note      string // of the tool
	writes
}

// unaccepted leaves no trace of the call: the journal did not take its first step. Or the daemon lost the journal, and recovery decides.
type unaccepted struct{ err error }

// lost leaves the attempt open: the tool did not see how it ended.
type lost struct{}

// postponed leaves the call as it was: a gate intercepted it, and calls before it run first.
type postponed struct{}

// writes is what a result of the tool stores beside itself.
type writes struct {
	commands []tool.Command
	actions  []tool.Action
}

func writesOf(r *tool.Result) writes { return writes{r.Documents, r.Actions} }

func (o *outcome) conclude(ctx context.Context, p *pipeline)   { p.l.finish(ctx, p, o) }
func (s *suspended) conclude(ctx context.Context, p *pipeline) { p.l.suspend(ctx, p, s) }
func (c *continued) conclude(ctx context.Context, p *pipeline) { p.l.park(ctx, p, c) }
func (u unaccepted) conclude(ctx context.Context, p *pipeline) { p.l.refuse(ctx, p, u.err, false) }
func (lost) conclude(context.Context, *pipeline)               {} // the call is taken up when its thread is free
func (postponed) conclude(context.Context, *pipeline)          {}

// failure returns the result that carries an error.
func failure(e *tool.Error) *tool.Result {
	return &tool.Result{Status: tool.StatusError, Error: e}
}

// failed returns the outcome of a call that failed.
func failed(executed call.Executed, e tool.Error) *outcome {
	return &outcome{status: call.Failed, executed: executed, after: true, result: failure(&e)}
}

// refused returns the outcome of a call that the daemon did not run. The caller did not send what it takes, or may send it again: After hooks
// do not see it.
func refused(e tool.Error) *outcome {
	e.Aborted = true
	return &outcome{status: call.Failed, executed: call.NotStarted, result: failure(&e)}
}

// notRun returns the outcome of a call that may not run.
func notRun(e tool.Error) *outcome {
	e.Aborted = true
	return failed(call.NotStarted, e)
}

// Below are the outcomes in the order of the table in docs/reference/states.md.

// succeeded is the outcome of a tool that returned SUCCESS. An attempt returns once, and the pipeline run has room for that.
func (p *pipeline) succeeded(r *tool.Result) *outcome {
	p.success = outcome{status: call.Succeeded, executed: call.Finished, after: true, result: r, writes: writesOf(r)}
	return &p.success
}

// returnedError is the outcome of a tool that returned an ERROR result.
func (p *pipeline) returnedError(r *tool.Result) *outcome {
	e := tool.Error{Code: tool.ExecutionFailed, Message: or(r.Message, "The tool failed without saying why")}
	if r.Error != nil {
		e = *r.Error
		if e.Code != tool.ExecutionFailed && e.Reason == "" {
			e.Reason = string(e.Code)
		}
		if !ownCode(e.Code) {
			e.Code = tool.ExecutionFailed
		}
	}
	e.DeveloperMessage = p.forOperators(e.DeveloperMessage)
	result := *r
	result.Error = &e
	return &outcome{status: call.Failed, executed: call.Finished, after: true, result: &result, writes: writesOf(r)}
}

// ownCode reports whether an ERROR result keeps its code: limits and upstream failures are met by tools alone.
func ownCode(c tool.Code) bool { return c == tool.ResourceExhausted || c == tool.Upstream }

// wrongData is the outcome of a tool whose result does not meet its schema.
func wrongData(r *tool.Result, err error) *outcome {
	out := failed(call.Finished, tool.Error{
		Code: tool.ExecutionFailed, Reason: "RESULT_SCHEMA", DeveloperMessage: err.Error(),
		Message: "The tool ran, but its result is not what it promises",
	})
	out.writes = writesOf(r)
	return out
}

// noResult is the outcome of a tool that returned nothing.
func noResult() *outcome {
	return failed(call.Finished, tool.Error{Code: tool.Internal, Aborted: true, Message: "The tool ended without a result"})
}

// returnedErr is the outcome of a tool that returned an error: what it wanted to store is dropped.
func (p *pipeline) returnedErr(err error) *outcome {
	e := *tool.AsError(err)
	e.Aborted, e.DeveloperMessage = true, p.forOperators(e.DeveloperMessage)
	out := failed(call.Finished, e)
	switch {
	case errors.Is(err, tool.ErrNotRun):
		out.executed = p.beforeAttempt()
	case e.Code == tool.Cancelled || errors.Is(err, context.Canceled):
		out.result.Error.Code, out.status = tool.Cancelled, call.Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		out.result.Error.Code = tool.Timeout
	case e.Code == tool.Sandbox:
		out.executed = call.NotStarted
	}
	return out
}

// panicked is the outcome of a call when our code, a tool or a hook panicked.
func (p *pipeline) panicked(r any, executed call.Executed) *outcome {
	id := newID()
	p.l.e.log.Error("panic", zap.String("id", id), zap.String("call_id", p.l.key.ID),
		zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
	return failed(executed, tool.Error{Code: tool.Internal, Aborted: true, Message: "The tool failed internally (" + id + ")."})
}

// unaskable is the outcome of a call whose question nobody could answer as it is.
func (p *pipeline) unaskable(origin string, err error) *outcome {
	if origin != call.OriginTool {
		return p.hookFailed(origin, err)
	}
	return failed(call.Finished, tool.Error{
		Code: tool.Internal, Aborted: true, Message: "The tool asked a question that cannot be answered", DeveloperMessage: p.forOperators(err.Error()),
	})
}

// unfollowable is the outcome of a call whose tool started an operation that toold cannot follow.
func unfollowable(why string) *outcome {
	return failed(call.ExecutedUnknown, tool.Error{
		Code: tool.Internal, Aborted: true, Message: "The tool started something that nobody can follow", DeveloperMessage: why,
	})
}

// setResult is the outcome of a call whose result a gate set.
func setResult(r *tool.Result) *outcome {
	c := *r
	out := &outcome{status: call.Succeeded, executed: call.NotStarted, after: true, result: &c}
	if r.IsError() {
		out.status = call.Failed
	}
	return out
}

// answered is the outcome of a call whose decision is its result.
func answered(executed call.Executed, r *tool.Result) *outcome {
	return &outcome{status: call.Succeeded, executed: executed, after: true, result: r}
}

// beforeFailed is the outcome of a call when a required Before hook failed.
func (p *pipeline) beforeFailed(name string, err error) *outcome {
	return notRun(tool.Error{
		Code: tool.ExecutionFailed, Reason: name, DeveloperMessage: p.forOperators(err.Error()),
		Message: fmt.Sprintf("Not run: the hook %q failed", name),
	})
}

// notAdmitted is the outcome of a call that an Admit hook refused.
func (p *pipeline) notAdmitted(name string, refusal *tool.Error) *outcome {
	e := *refusal
	e.DeveloperMessage = p.forOperators(e.DeveloperMessage)
	e.Code, e.Retryable, e.Reason = tool.ResourceExhausted, true, or(e.Reason, name)
	return notRun(e)
}

// circuitOpen is the outcome of a call whose source failed several times in a row.
func circuitOpen(id string, failures int, wait time.Duration) *outcome {
	return notRun(tool.Error{
		Code: tool.Upstream, Reason: "CIRCUIT_OPEN", Retryable: true, RetryAfter: wait,
		Message: fmt.Sprintf("Not run: what %s reaches has failed %d times in a row. It is tried again in %v; use another tool, or come back then.",
			id, failures, wait.Round(100*time.Millisecond)),
	})
}

// threadFull is the outcome of a call that would have to wait in a thread where too many wait.
func threadFull() *outcome {
	return notRun(tool.Error{
		Code: tool.ResourceExhausted, Reason: "QUEUE_FULL", Retryable: true,
		Message: "Not run: too many calls of this thread are waiting",
	})
}

// tooManyQuestions is the outcome of a call that has a question where too many are open.
func tooManyQuestions(full string, executed call.Executed) *outcome {
	return failed(executed, tool.Error{
		Code: tool.ResourceExhausted, Reason: "TOO_MANY_QUESTIONS", Aborted: true, Retryable: true,
		Message: "Not asked: " + full + " wait for an answer already, as many as may. Try again when some of them are answered.",
	})
}

// tooManyRounds is the outcome of a call that has asked as much as its record may hold.
func tooManyRounds(why string, executed call.Executed) *outcome {
	return failed(executed, tool.Error{
		Code: tool.ResourceExhausted, Reason: "TOO_MANY_ROUNDS", Aborted: true, Message: "Not asked: the call has asked " + why,
	})
}

// nobodyThere is the outcome of a call that has a question in an UNATTENDED run.
func nobodyThere(message string, executed call.Executed) *outcome {
	text := "Refused: it has a question, and nobody is there to answer"
	if message != "" {
		text += ": " + message
	}
	return failed(executed, tool.Error{Code: tool.Denied, Reason: "UNATTENDED", Aborted: true, Message: text})
}

// noApprover is the outcome of a call that nobody else can approve.
func noApprover(who, missing string, executed call.Executed) *outcome {
	return failed(executed, tool.Error{
		Code: tool.Denied, Reason: "NO_ELIGIBLE_APPROVER", Aborted: true, Message: "Refused: it needs the approval of " + who + ", and " + missing,
	})
}

// blocked is the outcome of a call that a gate blocks.
func blocked(reason string) *outcome {
	reason = or(reason, "no reason given")
	out := notRun(tool.Error{Code: tool.Denied, Reason: "BLOCKED", TerminateRun: true, Message: "Blocked: " + reason})
	out.block = reason
	return out
}

// hookFailed is the outcome of a call that a failing hook refuses. The model reads the hook's name, the operator the rest.
func (p *pipeline) hookFailed(name string, err error) *outcome {
	return notRun(tool.Error{
		Code: tool.Denied, Reason: "HOOK_FAILED", DeveloperMessage: p.forOperators(err.Error()),
		Message: fmt.Sprintf("Refused: the hook %q failed", name),
	})
}

// declined is the outcome of a call whose question was declined.
func declined(reason string) *outcome {
	message := "Declined"
	if reason != "" {
		message += ": " + reason
	}
	return cancelledBy(tool.Error{Code: tool.Cancelled, Reason: "DECLINED", Message: message})
}

// expired is the outcome of a call whose question expired.
func expired(after time.Duration) *outcome {
	return cancelledBy(tool.Error{Code: tool.Expired, Message: "No answer within " + after.Round(time.Second).String()})
}

func cancelledBy(e tool.Error) *outcome {
	return &outcome{status: call.Cancelled, executed: call.NotStarted, after: true, result: failure(&e)}
}

// queueTimeout is the outcome of a call that waited too long for its turn.
func queueTimeout(limit time.Duration) *outcome {
	return notRun(tool.Error{
		Code: tool.Timeout, Reason: "QUEUE", Retryable: true, Message: fmt.Sprintf("Timed out after %v in the queue; it was not run", limit),
	})
}

// operationTimeout is the outcome of a call whose operation did not end in time.
func operationTimeout() *outcome {
	return failed(call.ExecutedUnknown, tool.Error{
		Code: tool.Timeout, Reason: "OPERATION", Aborted: true, Message: "Timed out: what the tool started did not end in time",
	})
}

// invalid is the outcome of a call with wrong arguments; hook names the hook that made them so.
func invalid(err error, hook string) *outcome {
	e := *tool.AsError(err)
	if hook != "" {
		e.Code, e.Reason = tool.InvalidArguments, "REWRITE"
		e.Message = fmt.Sprintf("The hook %q changed the arguments to something invalid: %s", hook, e.Message)
	}
	return refused(e)
}

// noTool is the outcome of a call of a tool that does not exist for its caller. why is for the operator.
func noTool(id, why string) *outcome {
	return refused(tool.Error{
		Code: tool.NotFound, DeveloperMessage: why, Message: fmt.Sprintf("There is no tool %q. Use one of the tools that you were given.", id),
	})
}

// interrupted is the outcome of a call that was not run because of another call of its batch.
func interrupted(why string) *outcome {
	return refused(tool.Error{Code: tool.Interrupted, Reason: call.ReasonBatch, Message: why})
}

// notStored is the outcome of a call that did not run because the journal did not take its intent.
func (p *pipeline) notStored(err error) *outcome {
	return refused(tool.Error{
		Code: tool.Interrupted, Reason: "JOURNAL", Message: "Not run", Retryable: true, DeveloperMessage: p.forOperators(err.Error()),
	})
}

// restarted is the outcome of a call that a start found and nobody waits for.
func restarted(executed call.Executed) *outcome {
	out := refused(tool.Error{Code: tool.Interrupted, Reason: "RESTART", Message: "Not run", Retryable: true})
	if out.executed = executed; executed != call.NotStarted {
		out.result.Error.Message = "It is not known whether this ran"
	}
	return out
}

// cutOff is the outcome of a call whose tool ran up to a question that the journal did not take: the call did run.
func (p *pipeline) cutOff(err error) *outcome {
	return failed(call.Started, tool.Error{
		Code: tool.Interrupted, Reason: "JOURNAL", Aborted: true, Message: "Stopped before it finished", DeveloperMessage: p.forOperators(err.Error()),
	})
}

// inDoubt is the outcome of a call of which nobody knows whether it ran.
func inDoubt() *outcome {
	out := refused(tool.Error{Code: tool.InDoubt, Message: "It is not known whether this ran"})
	out.executed = call.ExecutedUnknown
	return out
}

// resultNotStored is the outcome of a call whose own outcome the journal refused for its content.
func resultNotStored(of *outcome) *outcome {
	out := refused(tool.Error{Code: tool.Internal, Reason: "RESULT_NOT_STORED", Message: "The tool ended, but its result could not be stored"})
	if out.executed = of.executed; of.status == call.Cancelled {
		out.status = of.status
	}
	return out
}

// notIsolated is the outcome of a call whose tool requires a fact of isolation that does not hold.
func notIsolated(fact string) *outcome {
	return notRun(tool.Error{
		Code: tool.Sandbox, Reason: fact,
		Message: fmt.Sprintf("Not run: the tool requires isolation and this machine does not give %s", fact),
	})
}

// noSecret is the outcome of a call whose tool cannot have a secret that it requires.
func noSecret(name string) *outcome {
	return notRun(tool.Error{
		Code: tool.ExecutionFailed, Reason: "SECRET_UNAVAILABLE", Message: fmt.Sprintf("Not run: secret %s is not available to this tool", name),
	})
}

// A stopCause is why a call was stopped from outside. [context.Cause] returns it to the tool.
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

// wished is the cause of a stored request to end a call.
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

// stoppedBy is the outcome of a call that was stopped: cancelled, superseded, out of time, over a limit, or by a drain.
func stoppedBy(cause error, executed call.Executed) *outcome {
	var stop *stopCause
	if !errors.As(cause, &stop) {
		stop = cancelled("")
	}
	if executed == call.NotStarted && (stop == causeDrained || stop == causeGone) {
		return refused(tool.Error{Code: tool.Interrupted, Reason: stop.err.Reason, Message: "Not run", Retryable: true})
	}
	e := stop.err
	if executed == call.ExecutedUnknown {
		e.Message += unseenEnd
	}
	return &outcome{status: stop.status, executed: executed, after: true, result: failure(&e)}
}

// unseenEnd ends the message of a stopped call whose end nobody observed.
const unseenEnd = "; nobody saw its end: it may have taken effect, and may still run"
