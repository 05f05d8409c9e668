package tool

import (
	"context"
	"time"
)

// An Operation is work that a tool started and that continues elsewhere. A result with an operation ([Continues]) ends Execute, but not the
// call. The call stays RUNNING, even over restarts, and holds no goroutine and no slot. The call ends with the first of these:
//   - an answer of a [Poller]
//   - a completion by a worker
//   - a cancel
//   - the expiry
type Operation struct {
	// ID is the name that the tool gives to the work, at most 1,024 bytes. The engine stores only the ID. A tool stores other data that
	// Poll needs in the checkpoint.
	ID string `json:"id"`
	// PollAfter is the time before each poll. Zero means no polls: a worker completes the work.
	PollAfter time.Duration `json:"poll_after,omitempty"`
	// ExpiresIn is the time after which the call fails with TIMEOUT. Zero means a day. The maximum is 30 days.
	ExpiresIn time.Duration `json:"expires_in,omitempty"`
}

// A Poller reports the state of an operation. Poll gets the call of the attempt that started the operation, with its last checkpoint and
// [Call.Operation]. It may report progress. ctx ends after 30 s, or when the call is cancelled. The result of Poll decides how the call
// continues:
//   - A SUCCESS or ERROR result ends the call.
//   - A suspended result asks a question.
//   - Nil lets the operation continue. So does a result of [Continues], which also replaces the operation.
//   - An error means that the state is unknown. The daemon polls again, but less often.
//
// When an operation is cancelled or has expired, the engine calls [Abandoner] with [Call.Operation], and the tool stops the work.
type Poller interface {
	Poll(ctx context.Context, call *Call) (*Result, error)
}

// Continues returns the result of a tool whose work continues elsewhere. The message is published as progress.
func Continues(o Operation, message string) *Result {
	return &Result{Status: StatusPending, Message: message, Operation: &o}
}
