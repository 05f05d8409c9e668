// Package outcome defines how the pipeline run of a call ends. It has one constructor for each row of the table of outcomes in
// docs/reference/states.md.
//
// A [Conclusion] says how a pipeline run ends. A [Terminal] conclusion ends the call. With any other conclusion the call continues later:
// after a decision, through work outside the daemon, or after recovery. A [Stop] is the reason why a client or the daemon stopped a call.
// The package decides the status, the error code, the reason, how far the tool got, and the text for the model. It stores and logs nothing:
// the engine does.
package outcome

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A Conclusion says how a pipeline run ends. It has one of the types below. A stage that returns a nil Conclusion lets the pipeline run
// continue.
type Conclusion interface{ conclusion() }

// A Terminal conclusion ends the call.
type Terminal struct {
	Status   call.Status
	Executed call.Executed
	Result   *tool.Result
	After    bool   // whether the After hooks are called
	Block    string // why a gate blocks the agent's run; empty when no gate blocks it
	Writes
	Hooked []tool.Command // document commands of After hooks
	Events []call.Event   // events of After hooks
}

// A Question suspends the call.
type Question struct {
	Ticket   *tool.Ticket
	Origin   string
	Policy   string // version of the policy that asks the question
	Rule     string // name of the gate's rule that asks; Reason is the reason that this rule gives
	Reason   string
	Executed call.Executed
	Writes
}

// Continued leaves the call running: its work continues outside the daemon.
type Continued struct {
	Operation *call.Operation
	Note      string // note of the tool
	Writes
}

// Unaccepted means that the journal did not accept the first step of the call, so nothing of the call is stored. It is also used when the
// daemon has lost its journal. It is then unknown what is stored, and the next daemon recovers the call.
type Unaccepted struct{ Err error }

// Lost leaves the attempt open, because the tool could not observe how the attempt ended. The engine then recovers the call as after a
// crash.
type Lost struct{}

// Postponed leaves the call unchanged: a gate intercepted it, but earlier calls must run first.
type Postponed struct{}

func (*Terminal) conclusion()  {}
func (*Question) conclusion()  {}
func (*Continued) conclusion() {}
func (Unaccepted) conclusion() {}
func (Lost) conclusion()       {}
func (Postponed) conclusion()  {}

// Writes holds the document commands and the actions that are stored with a result of the tool.
type Writes struct {
	Commands []tool.Command
	Actions  []tool.Action
}

// WritesOf returns the document commands and the actions of a result.
func WritesOf(r *tool.Result) Writes { return Writes{r.Documents, r.Actions} }

func failure(e *tool.Error) *tool.Result {
	return &tool.Result{Status: tool.StatusError, Error: e}
}

// failed returns the outcome of a call that failed. The outcome is passed to the After hooks.
func failed(executed call.Executed, e tool.Error) *Terminal {
	return &Terminal{Status: call.Failed, Executed: executed, After: true, Result: failure(&e)}
}

// refused returns the outcome of a call that the daemon did not run. The caller may correct the call or send it again, so After hooks are
// not called.
func refused(e tool.Error) *Terminal {
	e.Aborted = true
	return &Terminal{Status: call.Failed, Executed: call.NotStarted, Result: failure(&e)}
}

// notRun returns the outcome of a call that was not run. After hooks are called, unlike for refused.
func notRun(e tool.Error) *Terminal {
	e.Aborted = true
	return failed(call.NotStarted, e)
}

// The outcomes below are in the order of the table in docs/reference/states.md.

// Succeeded returns the outcome of a call whose tool returned SUCCESS. It returns a value and not a pointer, because the engine has
// preallocated memory for it.
func Succeeded(r *tool.Result) Terminal {
	return Terminal{Status: call.Succeeded, Executed: call.Finished, After: true, Result: r, Writes: WritesOf(r)}
}

// ReturnedError returns the outcome of a call whose tool returned an ERROR result. shown converts the developer message into the text that
// the caller may read.
func ReturnedError(r *tool.Result, shown func(string) string) *Terminal {
	e := tool.Error{Code: tool.ExecutionFailed, Message: cmp.Or(r.Message, "The tool failed without saying why")}
	if r.Error != nil {
		e = *r.Error
		if e.Code != tool.ExecutionFailed && e.Reason == "" {
			e.Reason = string(e.Code)
		}
		if !ownCode(e.Code) {
			e.Code = tool.ExecutionFailed
		}
	}
	e.DeveloperMessage = shown(e.DeveloperMessage)
	result := *r
	result.Error = &e
	return &Terminal{Status: call.Failed, Executed: call.Finished, After: true, Result: &result, Writes: WritesOf(r)}
}

// ownCode reports whether an ERROR result may keep its error code. Only for these two codes does the tool know the cause: a limit that it
// met, or a failure of its upstream.
func ownCode(c tool.Code) bool { return c == tool.ResourceExhausted || c == tool.Upstream }

// WrongData is the outcome of a call whose tool returned a result that violates the result schema.
func WrongData(r *tool.Result, err error) *Terminal {
	out := failed(call.Finished, tool.Error{
		Code: tool.ExecutionFailed, Reason: "RESULT_SCHEMA", DeveloperMessage: err.Error(),
		Message: "The tool ran, but its result does not match its result schema",
	})
	out.Writes = WritesOf(r)
	return out
}

// NoResult is the outcome of a call whose tool returned neither a result nor an error.
func NoResult() *Terminal {
	return failed(call.Finished, tool.Error{Code: tool.Internal, Aborted: true, Message: "The tool ended without a result"})
}

// ReturnedErr is the outcome of a call whose tool returned an error. The documents and actions of the call are dropped.
func ReturnedErr(err error, shown func(string) string) *Terminal {
	e := *tool.AsError(err)
	e.Aborted, e.DeveloperMessage = true, shown(e.DeveloperMessage)
	out := failed(call.Finished, e)
	switch {
	case errors.Is(err, tool.ErrNotRun):
		out.Executed = call.NotStarted // The tool did not start in this attempt. The engine adds what it knows about earlier attempts.
	case e.Code == tool.Cancelled || errors.Is(err, context.Canceled):
		out.Result.Error.Code, out.Status = tool.Cancelled, call.Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		out.Result.Error.Code = tool.Timeout
	case e.Code == tool.Sandbox:
		out.Executed = call.NotStarted
	}
	return out
}

// Panicked is the outcome of a call when toold, a tool or a hook panicked. The log contains the details under the id.
func Panicked(id string, executed call.Executed) *Terminal {
	return failed(executed, tool.Error{Code: tool.Internal, Aborted: true, Message: "The tool failed internally (" + id + ")."})
}

// Unaskable is the outcome of a call whose tool asked a question that no person can answer.
func Unaskable(why string) *Terminal {
	return failed(call.Finished, tool.Error{
		Code: tool.Internal, Aborted: true, Message: "The tool asked a question that cannot be answered", DeveloperMessage: why,
	})
}

// Unfollowable is the outcome of a call whose tool started an operation that it described in a form that toold cannot follow.
func Unfollowable(why string) *Terminal {
	return failed(call.ExecutedUnknown, tool.Error{
		Code: tool.Internal, Aborted: true, Message: "The tool started an operation that toold cannot follow", DeveloperMessage: why,
	})
}

// SetResult is the outcome of a call whose result a gate set.
func SetResult(r *tool.Result) *Terminal {
	c := *r
	out := &Terminal{Status: call.Succeeded, Executed: call.NotStarted, After: true, Result: &c}
	if r.IsError() {
		out.Status = call.Failed
	}
	return out
}

// Answered is the outcome of a call whose decision contains its result.
func Answered(executed call.Executed, r *tool.Result) *Terminal {
	return &Terminal{Status: call.Succeeded, Executed: executed, After: true, Result: r}
}

// AnsweredInstead is the outcome of a call for which the decision d contains a result in the tool's place. The metadata of the result names
// the people who gave it.
func AnsweredInstead(d *tool.Decision) *Terminal {
	var by []string
	for _, p := range d.Voters() {
		by = append(by, p.Subject)
	}
	r := d.ResultInstead
	out := Answered(call.NotStarted, &tool.Result{
		Status: tool.StatusSuccess, Data: r.Data, Message: r.Message, Metadata: map[string]string{"result_instead": strings.Join(by, ", ")},
	})
	if r.Error {
		out.Status, out.Result.Status, out.Result.Message = call.Failed, tool.StatusError, ""
		out.Result.Error = &tool.Error{Code: tool.ExecutionFailed, Reason: "RESULT_INSTEAD", Message: r.Message}
	}
	return out
}

// ToolChanged is the outcome of a call whose tool changed after a person had answered in its place.
func ToolChanged() *Terminal {
	return refused(tool.Error{
		Code: tool.Interrupted, Reason: "TOOL_CHANGED", Message: "Not run: the tool has changed since a person answered in its place", Retryable: true,
	})
}

// BeforeFailed is the outcome of a call when a required Before hook failed.
func BeforeFailed(name, why string) *Terminal {
	return notRun(tool.Error{
		Code: tool.ExecutionFailed, Reason: name, DeveloperMessage: why,
		Message: fmt.Sprintf("Not run: the hook %q failed", name),
	})
}

// NotAdmitted is the outcome of a call that an Admit hook refused.
func NotAdmitted(name string, refusal *tool.Error, shown func(string) string) *Terminal {
	e := *refusal
	e.DeveloperMessage = shown(e.DeveloperMessage)
	e.Code, e.Retryable, e.Reason = tool.ResourceExhausted, true, cmp.Or(e.Reason, name)
	return notRun(e)
}

// CircuitOpen is the outcome of a call whose source failed several times in a row.
func CircuitOpen(id string, failures int, wait time.Duration) *Terminal {
	return notRun(tool.Error{
		Code: tool.Upstream, Reason: "CIRCUIT_OPEN", Retryable: true, RetryAfter: wait,
		Message: fmt.Sprintf("Not run: the service behind %s failed %d times in a row. Use another tool, or try again in %v.",
			id, failures, wait.Round(100*time.Millisecond)),
	})
}

// ThreadFull is the outcome of a call when too many calls already wait in its thread.
func ThreadFull() *Terminal {
	return notRun(tool.Error{
		Code: tool.ResourceExhausted, Reason: "QUEUE_FULL", Retryable: true,
		Message: "Not run: too many calls of this thread are waiting",
	})
}

// TooManyQuestions is the outcome of a call that asks a question when too many questions are open.
func TooManyQuestions(full string, executed call.Executed) *Terminal {
	return failed(executed, tool.Error{
		Code: tool.ResourceExhausted, Reason: "TOO_MANY_QUESTIONS", Aborted: true, Retryable: true,
		Message: "Not asked: " + full + " already wait for an answer, which is the limit. Try again when some are answered.",
	})
}

// TooManyRounds is the outcome of a call that wants to ask another question when its record is full.
func TooManyRounds(why string, executed call.Executed) *Terminal {
	return failed(executed, tool.Error{
		Code: tool.ResourceExhausted, Reason: "TOO_MANY_ROUNDS", Aborted: true, Message: "Not asked: the call has asked " + why,
	})
}

// Unattended is the outcome of a call that asks a question in an UNATTENDED run.
func Unattended(message string, executed call.Executed) *Terminal {
	text := "Refused: the call asks a question, and its run is unattended"
	if message != "" {
		text += ": " + message
	}
	return failed(executed, tool.Error{Code: tool.Denied, Reason: "UNATTENDED", Aborted: true, Message: text})
}

// NoApprover is the outcome of a call whose question too few principals can answer.
func NoApprover(who, missing string, executed call.Executed) *Terminal {
	return failed(executed, tool.Error{
		Code: tool.Denied, Reason: "NO_ELIGIBLE_APPROVER", Aborted: true, Message: "Refused: it needs the approval of " + who + ", and " + missing,
	})
}

// Blocked is the outcome of a call that a gate blocks.
func Blocked(reason string) *Terminal {
	reason = cmp.Or(reason, "no reason given")
	out := notRun(tool.Error{Code: tool.Denied, Reason: "BLOCKED", TerminateRun: true, Message: "Blocked: " + reason})
	out.Block = reason
	return out
}

// HookFailed is the outcome of a call that is refused because a hook failed. The model reads the name of the hook. why is the detail; only
// the operator can read it.
func HookFailed(name, why string) *Terminal {
	return notRun(tool.Error{
		Code: tool.Denied, Reason: "HOOK_FAILED", DeveloperMessage: why,
		Message: fmt.Sprintf("Refused: the hook %q failed", name),
	})
}

// Declined is the outcome of a call whose question a person declined.
func Declined(reason string) *Terminal {
	message := "Declined"
	if reason != "" {
		message += ": " + reason
	}
	return cancelledBy(tool.Error{Code: tool.Cancelled, Reason: "DECLINED", Message: message})
}

// Expired is the outcome of a call whose question expired.
func Expired(after time.Duration) *Terminal {
	return cancelledBy(tool.Error{Code: tool.Expired, Message: "No answer within " + after.Round(time.Second).String()})
}

func cancelledBy(e tool.Error) *Terminal {
	return &Terminal{Status: call.Cancelled, Executed: call.NotStarted, After: true, Result: failure(&e)}
}

// QueueTimeout is the outcome of a call that waited too long for its turn.
func QueueTimeout(limit time.Duration) *Terminal {
	return notRun(tool.Error{
		Code: tool.Timeout, Reason: "QUEUE", Retryable: true, Message: fmt.Sprintf("Timed out after %v in the queue; it was not run", limit),
	})
}

// OperationTimeout is the outcome of a call whose operation did not end in time.
func OperationTimeout() *Terminal {
	return failed(call.ExecutedUnknown, tool.Error{
		Code: tool.Timeout, Reason: "OPERATION", Aborted: true, Message: "Timed out: the operation that the tool started did not end in time",
	})
}

// Invalid is the outcome of a call with invalid arguments. hook names the hook that made them invalid, if any.
func Invalid(err error, hook string) *Terminal {
	e := *tool.AsError(err)
	if hook != "" {
		e.Code, e.Reason = tool.InvalidArguments, "REWRITE"
		e.Message = fmt.Sprintf("The hook %q changed the arguments to something invalid: %s", hook, e.Message)
	}
	return refused(e)
}

// Truncated is the outcome of the last call in a model's response that was cut off.
func Truncated() *Terminal {
	return refused(tool.Error{
		Code: tool.InvalidArguments, Reason: "TRUNCATED",
		Message: "The response was cut off before the end of these arguments. Call the tool again, with shorter arguments or in several calls.",
	})
}

// NoTool is the outcome of a call whose tool does not exist for its caller. why is the reason; only the operator can read it.
func NoTool(id, why string) *Terminal {
	return refused(tool.Error{
		Code: tool.NotFound, DeveloperMessage: why, Message: fmt.Sprintf("There is no tool %q. Use one of the tools that you were given.", id),
	})
}

// Interrupted is the outcome of a call that was not run because of another call of its batch.
func Interrupted(why string) *Terminal {
	return refused(tool.Error{Code: tool.Interrupted, Reason: call.ReasonBatch, Message: why})
}

// NotStored is the outcome of a call that did not run because the journal did not store its intent.
func NotStored(why string) *Terminal {
	return refused(tool.Error{
		Code: tool.Interrupted, Reason: "JOURNAL", Message: "Not run", Retryable: true, DeveloperMessage: why,
	})
}

// Restarted is the outcome of a call that was interrupted by a restart of the daemon and that no client waits for.
func Restarted(executed call.Executed) *Terminal {
	out := refused(tool.Error{Code: tool.Interrupted, Reason: "RESTART", Message: "Not run", Retryable: true})
	if out.Executed = executed; executed != call.NotStarted {
		out.Result.Error.Message = "It is not known whether this ran"
	}
	return out
}

// CutOff is the outcome of a call whose tool asked a question that the journal did not store. The tool has run.
func CutOff(why string) *Terminal {
	return failed(call.Started, tool.Error{
		Code: tool.Interrupted, Reason: "JOURNAL", Aborted: true, Message: "Stopped before it finished", DeveloperMessage: why,
	})
}

// InDoubt is the outcome of a call when it is unknown whether the last attempt of its tool took effect.
func InDoubt() *Terminal {
	out := refused(tool.Error{Code: tool.InDoubt, Message: "It is not known whether this ran"})
	out.Executed = call.ExecutedUnknown
	return out
}

// ResultNotStored replaces the outcome of a call when the journal refused the content of that outcome. The parameter of is the refused
// outcome.
func ResultNotStored(of *Terminal) *Terminal {
	out := refused(tool.Error{Code: tool.Internal, Reason: "RESULT_NOT_STORED", Message: "The tool ended, but its result could not be stored"})
	if out.Executed = of.Executed; of.Status == call.Cancelled {
		out.Status = of.Status
	}
	return out
}

// NotIsolated is the outcome of a call whose tool requires isolation that is not available. fact names the missing property.
func NotIsolated(fact string) *Terminal {
	return notRun(tool.Error{
		Code: tool.Sandbox, Reason: fact,
		Message: fmt.Sprintf("Not run: the tool requires isolation and this machine does not give %s", fact),
	})
}

// NoSecret is the outcome of a call whose tool requires a secret that is not available to it.
func NoSecret(name string) *Terminal {
	return notRun(tool.Error{
		Code: tool.ExecutionFailed, Reason: "SECRET_UNAVAILABLE", Message: fmt.Sprintf("Not run: secret %s is not available to this tool", name),
	})
}

// A Stop is the reason why a call was stopped by a client, the daemon or a limit. The tool reads it with [context.Cause].
type Stop struct {
	Status call.Status
	Err    tool.Error
}

func (c *Stop) Error() string { return c.Err.Message }

// Unwrap lets tools inspect the [tool.Error].
func (c *Stop) Unwrap() error { return &c.Err }

func cancelled(reason string) *Stop {
	message := "Cancelled by user"
	if reason != "" {
		message += ": " + reason
	}
	return &Stop{call.Cancelled, tool.Error{Code: tool.Cancelled, Message: message}}
}

// CancelRequested returns the Stop for a stored cancel request.
func CancelRequested(r *call.CancelRequest) *Stop {
	if r.Cause == call.CauseSuperseded {
		return &Stop{call.Cancelled, tool.Error{Code: tool.Cancelled, Reason: call.CauseSuperseded, Message: "Superseded by a new turn"}}
	}
	return cancelled(r.Reason)
}

var (
	// CallerGone ends a call after its last watcher has disconnected.
	CallerGone = &Stop{call.Cancelled, tool.Error{Code: tool.Cancelled, Reason: "CALLER_GONE", Message: "Cancelled: the last watcher disconnected"}}
	// Drained stops a call that still runs when the drain period is over. For a call that has not started, [StoppedBy] returns a refusal
	// instead.
	Drained = &Stop{call.Cancelled, tool.Error{Code: tool.Interrupted, Reason: "DRAIN", Message: "Stopped before it finished"}}
)

// AttemptTimeout stops an attempt that exceeded its timeout of d.
func AttemptTimeout(d time.Duration) *Stop {
	return &Stop{call.Failed, tool.Error{Code: tool.Timeout, Reason: "ATTEMPT", Aborted: true, Message: "Timed out after " + d.String()}}
}

// AttemptTimedOut reports whether cause is an [AttemptTimeout].
func AttemptTimedOut(cause error) bool {
	stop, ok := errors.AsType[*Stop](cause)
	return ok && stop.Err.Code == tool.Timeout
}

// OverLimit stops a running call that exceeded a limit.
func OverLimit(reason, message string) *Stop {
	return &Stop{call.Failed, tool.Error{Code: tool.ResourceExhausted, Reason: reason, Message: message, Aborted: true}}
}

// StoppedBy returns the outcome of a call that was stopped: cancelled, superseded, out of time, over a limit, or by a drain. cause is the
// [Stop], and executed says how far the tool got.
func StoppedBy(cause error, executed call.Executed) *Terminal {
	var stop *Stop
	if !errors.As(cause, &stop) {
		stop = cancelled("")
	}
	if executed == call.NotStarted && (stop == Drained || stop == CallerGone) {
		return refused(tool.Error{Code: tool.Interrupted, Reason: stop.Err.Reason, Message: "Not run", Retryable: true})
	}
	e := stop.Err
	if executed == call.ExecutedUnknown {
		e.Message += unseenEnd
	}
	return &Terminal{Status: stop.Status, Executed: executed, After: true, Result: failure(&e)}
}

// unseenEnd is appended to the message of a stopped call when the tool may still run, because the daemon did not observe its end.
const unseenEnd = "; its end is unknown: it may have taken effect, and may still run"
