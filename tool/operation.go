package tool

import (
	"context"
	"time"
)

// An Operation is work that a tool started and that continues elsewhere. A result with one ([Continues]) ends Execute and not the call: that
// stays RUNNING, and holds no goroutine and no place meanwhile, also over restarts. It ends once, by the first of: a [Poller]'s answer,
// what a worker completes, its cancellation, its end.
type Operation struct {
	// ID is the tool's name for the work, at most 1,024 bytes. It is all that is kept: what Poll needs beside it belongs into the checkpoint.
	ID string
	// PollAfter is how long the engine waits before it asks, each time. Zero means that the tool is not asked: the work is completed.
	PollAfter time.Duration
	// ExpiresIn is when the call fails with TIMEOUT. Zero means a day; at most 30 days.
	ExpiresIn time.Duration
}

// A Poller says how far an operation is. The call is as the attempt had it, with its last checkpoint and [Call.Operation]; it may
// report. A SUCCESS or ERROR result ends the call, a question suspends it; nil lets it continue, as a result of [Continues] does, from then on
// with that operation. An error is no end: the daemon could not find out, and asks again, less often. ctx ends after 30 s, or when the
// call is cancelled.
//
// When an operation is cancelled or out of time, [Abandoner] is called, with [Call.Operation]: it stops the work.
type Poller interface {
	Poll(ctx context.Context, call *Call) (*Result, error)
}

// Continues returns the result of a tool whose work continues elsewhere. The message is published as progress.
func Continues(o Operation, message string) *Result {
	return &Result{Status: StatusPending, Message: message, Operation: &o}
}
