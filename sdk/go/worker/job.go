package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Cancelled is the cancellation cause of a call's context when the daemon stops the call.
type Cancelled struct {
	Code    tooldv1.ErrorCode // CANCELLED, TIMEOUT or INTERRUPTED
	Message string
}

func (c *Cancelled) Error() string { return c.Message }

// A job is work under a lease. It exists until the daemon has confirmed its outcome.
type job struct {
	w      *Worker
	lease  string
	ctx    context.Context
	cancel context.CancelCauseFunc

	patience *time.Timer // Timer, guarded by the worker's mutex. When it fires, the job is dropped. The worker stops it when the daemon keeps the job after a reconnect.

	mu       sync.Mutex
	sequence int64
	saving   map[int64]*saving
	dropped  error                   // why the job was dropped
	done     *tooldv1.ConnectRequest // the outcome, sent but not confirmed
	typed    bool                    // Input was called
	reading  *reading                // the open request for input, or nil
}

// saving is a checkpoint or artifact that the daemon has not confirmed yet.
type saving struct {
	request *tooldv1.ConnectRequest
	kept    chan error
	name    string // name of the stored artifact
}

func (w *Worker) begin(s *tooldv1.WorkerStart) {
	j := &job{w: w, lease: s.GetLeaseId(), saving: map[int64]*saving{}}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	w.mu.Lock()
	w.jobs[j.lease] = j
	admitted := w.fence.admits(s)
	w.mu.Unlock()
	w.running.Go(func() {
		done := panicked(s.GetKind(), "the function ended its goroutine")
		defer func() { // The deferred function also runs when the tool's function calls runtime.Goexit.
			done.LeaseId = j.lease
			j.finish(done)
		}()
		if !admitted {
			w.cfg.Log(fmt.Sprintf("call %s not started: another daemon now owns the store of the requesting daemon", s.GetCall().GetCallId()))
			done = &tooldv1.WorkerDone{NotRun: true}
			return
		}
		done = w.perform(j.ctx, j, s)
	})
}

// perform runs the tool's function and recovers its panics.
func (w *Worker) perform(ctx context.Context, j *job, s *tooldv1.WorkerStart) (done *tooldv1.WorkerDone) {
	done = &tooldv1.WorkerDone{LeaseId: j.lease}
	defer func() {
		if r := recover(); r != nil {
			text := fmt.Sprintf("panic in %s: %v\n%s", s.GetCall().GetTool(), r, debug.Stack())
			w.cfg.Log(text)
			done = panicked(s.GetKind(), text)
		}
	}()
	e, c := w.tools[s.GetCall().GetTool()], &Call{WorkerCall: s.GetCall(), job: j}
	switch {
	case e == nil:
		done.NotRun = true
	case s.GetKind() == tooldv1.WorkKind_WORK_KIND_EXECUTE:
		result, err := e.run(ctx, c)
		done.Result = resultOf(ctx, result, err)
	case e.ask != nil:
		done.Result, done.NotRun = e.ask(ctx, s.GetKind(), c)
	}
	return done
}

// panicked returns the outcome of work whose function panicked or called runtime.Goexit. text is for the log of the daemon.
func panicked(kind tooldv1.WorkKind, text string) *tooldv1.WorkerDone {
	if kind == tooldv1.WorkKind_WORK_KIND_EXECUTE {
		return &tooldv1.WorkerDone{Panic: readable(text[:min(len(text), maxPanic)])}
	}
	return &tooldv1.WorkerDone{Result: aborted(tooldv1.ErrorCode_ERROR_CODE_INTERNAL, "The tool failed internally")}
}

// maxPanic is the maximum size in bytes of a panic and its stack that the worker sends.
const maxPanic = 16 << 10

// resultOf converts the return values of a function to a result.
func resultOf(ctx context.Context, r *tooldv1.WorkerResult, err error) *tooldv1.WorkerResult {
	var failure *Failure
	var question *Question
	var goesOn *Operation
	cancelled := new(Cancelled)
	switch {
	case err == nil:
		return r
	case errors.As(err, &question):
		return question.result()
	case errors.As(err, &goesOn):
		return goesOn.result()
	case errors.As(err, &failure):
		return failure.result()
	case errors.As(context.Cause(ctx), &cancelled):
		return aborted(cancelled.Code, cancelled.Message)
	}
	return aborted(tooldv1.ErrorCode_ERROR_CODE_EXECUTION_FAILED, err.Error())
}

func aborted(code tooldv1.ErrorCode, message string) *tooldv1.WorkerResult {
	return &tooldv1.WorkerResult{
		Status: tooldv1.ResultStatus_RESULT_STATUS_ERROR, Error: &tooldv1.ToolError{Code: code, Message: readable(message), Aborted: true},
	}
}

// finish reports the outcome and keeps it until the daemon confirms it.
func (j *job) finish(d *tooldv1.WorkerDone) {
	m := &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Done{Done: d}}
	if err := fits(m); err != nil {
		j.w.cfg.Log("result not sent: " + err.Error())
		d.Result = (&Failure{Reason: "RESULT_TOO_LARGE", Message: "The tool ran, but its result cannot be sent: " + err.Error()}).result()
	}
	j.mu.Lock()
	j.done = m
	j.mu.Unlock()
	j.say(context.Background(), m)
}

// maxMessage is the daemon's size limit for one message, in bytes. A larger message would break the connection, and would break it again
// each time the worker repeats the message.
const maxMessage = 4<<20 - 1<<10

// fits returns an error if the message cannot be encoded or is too large.
func fits(m *tooldv1.ConnectRequest) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("it has %d bytes; at most %d are taken", len(b), maxMessage)
	}
	return nil
}

// say queues a message. When the queue is full, it waits until there is space, ctx ends or the worker stops. A message other than the
// outcome is dropped when the job is cancelled.
func (j *job) say(ctx context.Context, m *tooldv1.ConnectRequest) {
	cancelled := j.ctx.Done()
	if m.GetDone() != nil {
		cancelled = nil // A cancelled job must still report its outcome.
		if errors.Is(context.Cause(j.ctx), ErrLost) {
			return
		}
	}
	select {
	case j.w.out <- m:
	case <-cancelled:
	case <-ctx.Done():
	case <-j.w.over:
	}
}

// again repeats the messages that the daemon has not confirmed.
func (j *job) again() {
	j.w.mu.Lock()
	if j.patience != nil {
		j.patience.Stop()
		j.patience = nil
	}
	j.w.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	var repeat []*tooldv1.ConnectRequest
	for _, s := range j.saving {
		repeat = append(repeat, s.request)
	}
	if j.reading != nil {
		repeat = append(repeat, j.reading.request)
	}
	if j.done != nil {
		repeat = append(repeat, j.done)
	}
	j.w.running.Go(func() {
		for _, m := range repeat {
			j.say(context.Background(), m)
		}
	})
}

// drop removes a job and cancels its context. The daemon has confirmed the job's outcome, or no longer expects it.
func (j *job) drop(cause error) {
	j.cancel(cause)
	j.w.mu.Lock()
	if j.patience != nil {
		j.patience.Stop()
	}
	delete(j.w.jobs, j.lease)
	j.w.mu.Unlock()
	select {
	case j.w.stir <- struct{}{}:
	default:
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dropped = cause
	for n, s := range j.saving {
		s.kept <- cause
		delete(j.saving, n)
	}
}

func (j *job) acknowledged(a *tooldv1.WorkerAck) {
	if a.GetSequence() == 0 {
		j.drop(context.Canceled) // the daemon has confirmed the outcome
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.saving[a.GetSequence()]
	if s == nil {
		return
	}
	delete(j.saving, a.GetSequence())
	var err error
	if a.GetError() != "" {
		err = errors.New(a.GetError())
	}
	s.name = a.GetArtifact()
	s.kept <- err
}

// save stores a checkpoint or an artifact and returns the artifact's name.
func (j *job) save(ctx context.Context, r *tooldv1.WorkerReport) (string, error) {
	j.mu.Lock()
	if j.dropped != nil {
		defer j.mu.Unlock()
		return "", j.dropped
	}
	j.sequence++
	r.LeaseId, r.Sequence = j.lease, j.sequence
	s := &saving{kept: make(chan error, 1), request: &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Report{Report: r}}}
	if err := fits(s.request); err != nil {
		defer j.mu.Unlock()
		return "", err
	}
	j.saving[j.sequence] = s
	j.mu.Unlock()
	j.say(ctx, s.request)
	select {
	case err := <-s.kept:
		return s.name, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
