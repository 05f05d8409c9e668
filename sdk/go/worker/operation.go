package worker

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// An Operation is work that the function has started and that continues elsewhere. While the call waits for the operation, it uses no
// resources of the worker or the daemon, and both may restart. The operation ends through [Tool.Poll] or [Worker.Complete].
type Operation struct {
	ID        string        // required; at most 1,024 bytes
	PollAfter time.Duration // interval of polls; 0 means no polls, so the worker must complete the operation
	ExpiresIn time.Duration // time until the call fails; 0 means a day
	Message   string        // published as progress
}

func (o *Operation) Error() string { return "continues elsewhere: " + o.ID }

// Continue returns an error. A function that returns it tells toold that the operation o continues the work.
func Continue(o Operation) error { return &o }

func (o *Operation) result() *tooldv1.WorkerResult {
	out := &tooldv1.WorkerOperation{OperationId: o.ID}
	if o.PollAfter > 0 {
		out.PollAfter = durationpb.New(o.PollAfter)
	}
	if o.ExpiresIn > 0 {
		out.ExpiresIn = durationpb.New(o.ExpiresIn)
	}
	return &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_PENDING, Message: readable(o.Message), Operation: out}
}

// ErrNoOperation means that the pool has no such operation or that it has ended.
var ErrNoOperation = errors.New("there is no such operation, or it has ended")

// A completion waits for the daemon's confirmation.
type completion struct {
	request *tooldv1.ConnectRequest
	taken   chan *tooldv1.WorkerCompleted
}

// Complete ends an operation. data is the data of its result, like the return value of a function. If failed is not nil, it replaces the
// result; use [Fail] to create it. When Complete returns nil, the outcome is stored. Complete waits for a connection and until the daemon
// knows the operation. Any worker of the pool may call it.
func (w *Worker) Complete(ctx context.Context, callID, operation string, data any, failed error) error {
	r := resultOf(ctx, Success(data), failed)
	done := &completion{taken: make(chan *tooldv1.WorkerCompleted, 1), request: &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Complete{
		Complete: &tooldv1.WorkerComplete{CallId: callID, OperationId: operation, Result: r},
	}}}
	if err := fits(done.request); err != nil {
		return err
	}
	key := [2]string{callID, operation}
	w.mu.Lock()
	w.completing[key] = done
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.completing[key] == done {
			delete(w.completing, key)
		}
	}()
	for {
		if err := w.queue(ctx, done.request); err != nil {
			return err
		}
		select {
		case answer := <-done.taken:
			switch {
			case answer.GetError() == "":
				return nil
			case !answer.GetRetryable():
				return ErrNoOperation
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.over:
			return ErrStopped
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (w *Worker) queue(ctx context.Context, m *tooldv1.ConnectRequest) error {
	select {
	case w.out <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.over:
		return ErrStopped
	}
}

// completed passes the daemon's answer to the goroutine that waits for it.
func (w *Worker) completed(m *tooldv1.WorkerCompleted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.completing[[2]string{m.GetCallId(), m.GetOperationId()}]; c != nil {
		select {
		case c.taken <- m:
		default: // a repeated answer
		}
	}
}

// completeAgain repeats the completions that the daemon has not confirmed.
func (w *Worker) completeAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.completing {
		w.running.Go(func() { _ = w.queue(context.Background(), c.request) })
	}
}
