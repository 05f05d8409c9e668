package worker

import (
	"context"
	"errors"
	"io"
	"sync"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// ErrNoInput means that the call accepts no input.
var ErrNoInput = errors.New("the call takes no input")

// Input lets clients send input to the call from now on (SendInput, toold input). The reader returns each byte once and in order, also
// after a broken connection, and io.EOF at the end of the input. Read waits for input until ctx ends or the call is cancelled. Close tells
// the daemon that the tool needs no more input. Input may be called once per attempt. The daemon buffers up to 64 KiB of unread input.
func (c *Call) Input(ctx context.Context) (io.ReadCloser, error) {
	if c.job == nil {
		return nil, ErrNoInput // A unit test calls the function without a job.
	}
	if err := c.job.takeInput(); err != nil {
		return nil, err
	}
	r := &typed{ctx: ctx, job: c.job, closed: make(chan struct{})}
	if _, err := r.ask(ctx, 0, false); err != nil {
		return nil, err
	}
	return r, nil
}

func (j *job) takeInput() error {
	j.w.mu.Lock()
	can := j.w.input
	j.w.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case !can:
		return errors.Join(ErrNoInput, errors.New("the daemon gives workers none"))
	case j.typed:
		return errors.Join(ErrNoInput, errors.New("it was asked for already"))
	}
	j.typed = true
	return nil
}

// typed is the reader of a call's input.
type typed struct {
	ctx context.Context
	job *job

	mu       sync.Mutex // held during Read, so that only one Read runs at a time
	position int64
	rest     []byte // received but not yet read
	ended    bool

	closed  chan struct{}
	closing sync.Once
}

// reading is a request for input that is not answered yet.
type reading struct {
	request *tooldv1.ConnectRequest
	answer  chan *tooldv1.WorkerInput
}

func (r *typed) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.rest) == 0 && len(p) > 0 {
		if r.ended {
			return 0, io.EOF
		}
		select {
		case <-r.closed:
			return 0, io.ErrClosedPipe
		default:
		}
		a, err := r.ask(r.ctx, int32(min(len(p), 64<<10)), false)
		if err != nil {
			return 0, err
		}
		r.rest, r.ended = a.GetData(), a.GetEndOfInput()
		r.position += int64(len(r.rest))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close ends a waiting Read. It does not wait for the daemon.
func (r *typed) Close() error {
	r.closing.Do(func() {
		close(r.closed)
		r.job.w.running.Go(func() { // The goroutine ends at the latest with the job.
			r.mu.Lock()
			defer r.mu.Unlock()
			r.rest = nil
			_, _ = r.ask(context.Background(), 0, true)
		})
	})
	return nil
}

// ask requests input and waits for it. If the connection breaks meanwhile, [job.again] repeats the request.
func (r *typed) ask(ctx context.Context, most int32, done bool) (*tooldv1.WorkerInput, error) {
	j := r.job
	q := &reading{answer: make(chan *tooldv1.WorkerInput, 1), request: &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Report{Report: &tooldv1.WorkerReport{
		LeaseId: j.lease, Report: &tooldv1.WorkerReport_ReadInput{ReadInput: &tooldv1.WorkerReadInput{Position: r.position, MaxBytes: most, Close: done}},
	}}}}
	j.mu.Lock()
	j.reading = q
	j.mu.Unlock()
	j.say(ctx, q.request)
	closed := r.closed
	if done {
		closed = nil
	}
	select {
	case a := <-q.answer:
		if a.GetError() != "" {
			return nil, errors.Join(ErrNoInput, errors.New(a.GetError()))
		}
		return a, nil
	case <-closed:
		return nil, io.ErrClosedPipe
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-j.ctx.Done():
		return nil, context.Cause(j.ctx)
	}
}

// given passes input to the reader. It drops input that was not requested or was already received.
func (j *job) given(in *tooldv1.WorkerInput) {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := j.reading
	if q == nil || q.request.GetReport().GetReadInput().GetPosition() != in.GetPosition() {
		return
	}
	j.reading = nil
	q.answer <- in
}
