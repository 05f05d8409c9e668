package outcome_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// row is one row of the table of outcomes.
type row struct {
	name     string
	got      *outcome.Terminal
	status   call.Status
	code     tool.Code // "" when the call succeeded
	reason   string
	executed call.Executed
	after    bool
	flags    string // first letters of the flags that are set: aborted, retryable, terminate
	text     string // text for the model; a final * matches any text
}

func TestOutcomes(t *testing.T) {
	hide := func(text string) string { return strings.Repeat("x", len(text)) }
	succeeded := outcome.Succeeded(tool.Text("done"))
	failing := &tool.Result{Status: tool.StatusError, Message: "no", Error: &tool.Error{Code: "OWN", Message: "no", DeveloperMessage: "why"}}
	superseded := outcome.CancelRequested(&call.CancelRequest{Cause: call.CauseSuperseded})
	const none, started, finished, unknown = call.NotStarted, call.Started, call.Finished, call.ExecutedUnknown
	const ok, bad, cancelled = call.Succeeded, call.Failed, call.Cancelled
	rows := []row{
		{"tool returns SUCCESS", &succeeded, ok, "", "", finished, true, "", "done"},
		{"tool returns an ERROR result", outcome.ReturnedError(failing, hide), bad, tool.ExecutionFailed, "OWN", finished, true, "", "no"},
		{"tool returns an error", outcome.ReturnedErr(tool.Errorf(tool.Upstream, "down"), hide), bad, tool.Upstream, "", finished, true, "a", "down"},
		{"tool returns that it was cancelled", outcome.ReturnedErr(context.Canceled, hide), cancelled, tool.Cancelled, "", finished, true, "a", "*"},
		{"tool returns that its time is over", outcome.ReturnedErr(context.DeadlineExceeded, hide), bad, tool.Timeout, "", finished, true, "a", "*"},
		{"tool returns that it did not run", outcome.ReturnedErr(tool.ErrNotRun, hide), bad, tool.ExecutionFailed, "", none, true, "a", "*"},
		{"result against its schema", outcome.WrongData(tool.Text("x"), errors.New("why")), bad, tool.ExecutionFailed, "RESULT_SCHEMA", finished, true, "", "The tool ran, but*"},
		{"no result", outcome.NoResult(), bad, tool.Internal, "", finished, true, "a", "The tool ended without a result"},
		{"panic", outcome.Panicked("id", started), bad, tool.Internal, "", started, true, "a", "The tool failed internally (id)."},
		{"question that cannot be answered", outcome.Unaskable("why"), bad, tool.Internal, "", finished, true, "a", "The tool asked a question*"},
		{"operation that cannot be followed", outcome.Unfollowable("why"), bad, tool.Internal, "", unknown, true, "a", "The tool started an operation*"},
		{"SetResult", outcome.SetResult(tool.Text("set")), ok, "", "", none, true, "", "set"},
		{"SetResult with an error", outcome.SetResult(failing), bad, "OWN", "", none, true, "", "no"},
		{"the decision becomes the result", outcome.Answered(started, tool.Text("yes")), ok, "", "", started, true, "", "yes"},
		{"required Before hook fails", outcome.BeforeFailed("h", "why"), bad, tool.ExecutionFailed, "h", none, true, "a", `Not run: the hook "h" failed`},
		{"Admit refuses", outcome.NotAdmitted("h", tool.Errorf(tool.Denied, "full"), hide), bad, tool.ResourceExhausted, "h", none, true, "ar", "full"},
		{"circuit open", outcome.CircuitOpen("t", 3, time.Second), bad, tool.Upstream, "CIRCUIT_OPEN", none, true, "ar", "Not run: the service behind t failed 3 times in a row*"},
		{"thread full", outcome.ThreadFull(), bad, tool.ResourceExhausted, "QUEUE_FULL", none, true, "ar", "Not run: too many calls*"},
		{"too many questions", outcome.TooManyQuestions("9 questions", started), bad, tool.ResourceExhausted, "TOO_MANY_QUESTIONS", started, true, "ar", "Not asked: 9 questions*"},
		{"too many rounds", outcome.TooManyRounds("9 times", started), bad, tool.ResourceExhausted, "TOO_MANY_ROUNDS", started, true, "a", "Not asked: the call has asked 9 times"},
		{"UNATTENDED run", outcome.Unattended("Sure?", none), bad, tool.Denied, "UNATTENDED", none, true, "a", "Refused: the call asks a question*: Sure?"},
		{"no other principal can approve", outcome.NoApprover("somebody", "there is nobody", none), bad, tool.Denied, "NO_ELIGIBLE_APPROVER", none, true, "a", "Refused: it needs the approval of somebody*"},
		{"Block", outcome.Blocked("secrets"), bad, tool.Denied, "BLOCKED", none, true, "at", "Blocked: secrets"},
		{"gate fails", outcome.HookFailed("g", "why"), bad, tool.Denied, "HOOK_FAILED", none, true, "a", `Refused: the hook "g" failed`},
		{"declined", outcome.Declined("not now"), cancelled, tool.Cancelled, "DECLINED", none, true, "", "Declined: not now"},
		{"suspension expired", outcome.Expired(time.Minute), cancelled, tool.Expired, "", none, true, "", "No answer within 1m0s"},
		{"cancelled", outcome.StoppedBy(outcome.CancelRequested(&call.CancelRequest{}), started), cancelled, tool.Cancelled, "", started, true, "", "Cancelled by user"},
		{"stopped without a cause", outcome.StoppedBy(context.Canceled, started), cancelled, tool.Cancelled, "", started, true, "", "Cancelled by user"},
		{"superseded", outcome.StoppedBy(superseded, none), cancelled, tool.Cancelled, "SUPERSEDED", none, true, "", "Superseded by a new turn"},
		{"attempt timeout", outcome.StoppedBy(outcome.AttemptTimeout(time.Second), started), bad, tool.Timeout, "ATTEMPT", started, true, "a", "Timed out after 1s"},
		{"end not observed", outcome.StoppedBy(outcome.AttemptTimeout(time.Second), unknown), bad, tool.Timeout, "ATTEMPT", unknown, true, "a", "Timed out after 1s; its end is unknown*"},
		{"queue deadline", outcome.QueueTimeout(time.Second), bad, tool.Timeout, "QUEUE", none, true, "ar", "Timed out after 1s in the queue*"},
		{"operation deadline", outcome.OperationTimeout(), bad, tool.Timeout, "OPERATION", unknown, true, "a", "Timed out: *"},
		{"bad arguments", outcome.Invalid(tool.Errorf(tool.InvalidArguments, "x is missing"), ""), bad, tool.InvalidArguments, "", none, false, "a", "x is missing"},
		{"a Rewrite hook's bad arguments", outcome.Invalid(tool.Errorf(tool.Internal, "x"), "h"), bad, tool.InvalidArguments, "REWRITE", none, false, "a", `The hook "h" changed the arguments*`},
		{"unknown tool", outcome.NoTool("t", "why"), bad, tool.NotFound, "", none, false, "a", `There is no tool "t"*`},
		{"after a Block in its batch", outcome.Interrupted("Not run: an earlier call was blocked"), bad, tool.Interrupted, call.ReasonBatch, none, false, "a", "Not run: an earlier call was blocked"},
		{"drained before the start", outcome.StoppedBy(outcome.Drained, none), bad, tool.Interrupted, "DRAIN", none, false, "ar", "Not run"},
		{"caller disconnected before the start", outcome.StoppedBy(outcome.CallerGone, none), bad, tool.Interrupted, "CALLER_GONE", none, false, "ar", "Not run"},
		{"intent not written", outcome.NotStored("why"), bad, tool.Interrupted, "JOURNAL", none, false, "ar", "Not run"},
		{"found by a start", outcome.Restarted(none), bad, tool.Interrupted, "RESTART", none, false, "ar", "Not run"},
		{"found by a start after it began", outcome.Restarted(started), bad, tool.Interrupted, "RESTART", started, false, "ar", "It is not known whether this ran"},
		{"drained while running", outcome.StoppedBy(outcome.Drained, started), cancelled, tool.Interrupted, "DRAIN", started, true, "", "Stopped before it finished"},
		{"question not written", outcome.CutOff("why"), bad, tool.Interrupted, "JOURNAL", started, true, "a", "Stopped before it finished"},
		{"crash after the start", outcome.InDoubt(), bad, tool.InDoubt, "", unknown, false, "a", "It is not known whether this ran"},
		{"result not stored", outcome.ResultNotStored(&succeeded), bad, tool.Internal, "RESULT_NOT_STORED", finished, false, "a", "The tool ended, but*"},
		{"isolation not available", outcome.NotIsolated("NETNS"), bad, tool.Sandbox, "NETNS", none, true, "a", "Not run: the tool requires isolation*"},
		{"secret not available", outcome.NoSecret("key"), bad, tool.ExecutionFailed, "SECRET_UNAVAILABLE", none, true, "a", "Not run: secret key*"},
		{"quota reached while running", outcome.StoppedBy(outcome.OverLimit("OUTPUT", "too much"), started), bad, tool.ResourceExhausted, "OUTPUT", started, true, "a", "too much"},
	}
	for _, want := range rows {
		t.Run(want.name, func(t *testing.T) {
			got := want
			got.status, got.executed, got.after, got.text = want.got.Status, want.got.Executed, want.got.After, want.got.Result.ModelText()
			if e := want.got.Result.Error; e != nil {
				got.code, got.reason, got.flags = e.Code, e.Reason, flags(e)
			} else {
				got.code, got.reason, got.flags = "", "", ""
			}
			if head, tail, wild := strings.Cut(want.text, "*"); wild && strings.HasPrefix(got.text, head) && strings.HasSuffix(got.text, tail) {
				got.text = want.text
			}
			if got != want {
				t.Errorf("is\n%+v, want\n%+v", got, want)
			}
		})
	}
}

func flags(e *tool.Error) (s string) {
	if e.Aborted {
		s += "a"
	}
	if e.Retryable {
		s += "r"
	}
	if e.TerminateRun {
		s += "t"
	}
	return s
}

// TestTextForDevelopers checks that the developer message of an error is replaced when the caller may not read it. The result of the tool
// itself stays unchanged.
func TestTextForDevelopers(t *testing.T) {
	own := &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.Upstream, DeveloperMessage: "secret"}}
	out := outcome.ReturnedError(own, func(string) string { return "id" })
	if got := out.Result.Error; got.DeveloperMessage != "id" || got.Code != tool.Upstream {
		t.Errorf("shown: %+v", got)
	}
	if own.Error.DeveloperMessage != "secret" {
		t.Errorf("the tool's own result was changed: %+v", own.Error)
	}
}
