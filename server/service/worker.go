package service

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
	"github.com/toold-dev/toold/translate"
)

// Workers accepts programs that connect to run tools.
type Workers interface {
	// Connect accepts a worker, or returns a [*call.Refusal] for an offer that it does not accept. The worker gets no work before the
	// server invokes ready, so that the server can send the response to the offer first.
	Connect(p tool.Principal, o link.Offer, line link.Line) (s WorkerSession, response link.Accepted, ready func(), err error)
}

// A WorkerSession is a connected worker. Each method with a parameter lease returns an error when the worker does not hold that lease.
type WorkerSession interface {
	// Receive invokes take, which handles a message of the worker. The worker does not count as silent while take runs.
	Receive(take func() error) error
	Reporter(lease string) (tool.Reporter, error)
	// ReadInput requests the input of a call from a position. most is the maximum number of bytes. done means that the worker reads no more
	// input.
	ReadInput(lease string, position int64, most int, done bool) error
	// Answer passes on the worker's answer to the question with this id.
	Answer(id string, a link.Answer)
	// Finish ends the work of a lease. The daemon calls [link.Line.Ack] after the journal has stored the outcome.
	Finish(lease string, r *tool.Result, err error) error
	// Complete ends an operation that a worker of this pool started, and returns after the end is stored. It may first have to wait for the
	// worker's answer to a question about the operation.
	Complete(id, operation string, r *tool.Result, err error) error
	Drain()
	// Close ends the session. left means that the worker ended it.
	Close(left bool)
}

type workerService struct {
	tooldv1.UnimplementedWorkerServiceServer
	workers Workers // nil accepts no workers
}

// A workerConn is the connection of one worker.
type workerConn struct {
	*workerLine
	stream  grpc.BidiStreamingServer[tooldv1.ConnectRequest, tooldv1.ConnectResponse]
	session WorkerSession

	completing chan struct{} // limits how many Complete calls run at once
}

// maxCompleting is how many operations of one worker the server completes at the same time.
const maxCompleting = 64

// registerWithin bounds how long a worker may take to register its tools.
const registerWithin = 30 * time.Second

// Connect serves the connection of one worker.
func (s *workerService) Connect(stream grpc.BidiStreamingServer[tooldv1.ConnectRequest, tooldv1.ConnectResponse]) error {
	if s.workers == nil {
		return call.Refuse(call.FailedPrecondition, "NO_WORKERS", "this daemon accepts no workers")
	}
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	c := &workerConn{workerLine: newWorkerLine(ctx, end), stream: stream, completing: make(chan struct{}, maxCompleting)}
	timeout := time.AfterFunc(registerWithin, func() {
		end(call.Refuse(call.FailedPrecondition, "WORKER_SILENT", "the worker registered no tools within %v", registerWithin))
	})
	defer timeout.Stop()
	received := make(chan error, 1)
	go func() { // The goroutine returns at the latest when the stream ends.
		err := c.register(s.workers, access.From(ctx).Principal)
		timeout.Stop()
		if err == nil {
			err = c.serve()
		}
		received <- err
	}()
	select {
	case err := <-received:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// register handles the first message of the worker and queues the response before all other messages.
func (c *workerConn) register(workers Workers, p tool.Principal) error {
	req, err := c.stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r := req.GetRegister()
	if r == nil {
		return call.InvalidField("register", "is required as the first message")
	}
	offer, refused, err := toOffer(r)
	if err != nil {
		return err
	}
	session, answer, ready, err := workers.Connect(p, *offer, c.workerLine)
	if err != nil {
		return err
	}
	answer.Refused = append(refused, answer.Refused...)
	c.session = session
	c.first(fromWorkerAccepted(&answer))
	go c.deliver(c.stream) // This goroutine ends when the stream ends.
	ready()
	return nil
}

// serve handles the messages of the worker until it disconnects.
func (c *workerConn) serve() error {
	for {
		req, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			c.session.Close(true)
			return nil
		}
		if err == nil {
			err = c.session.Receive(func() error { return c.take(req) })
		}
		if err != nil {
			c.session.Close(false)
			return err
		}
	}
}

func (c *workerConn) take(req *tooldv1.ConnectRequest) error {
	switch m := req.GetMessage().(type) {
	case *tooldv1.ConnectRequest_Report:
		c.report(m.Report)
	case *tooldv1.ConnectRequest_Done:
		result, failed := translate.ToWorkerResult(m.Done)
		if foreign := c.session.Finish(m.Done.GetLeaseId(), result, failed); foreign != nil {
			c.Lost(m.Done.GetLeaseId())
		}
	case *tooldv1.ConnectRequest_Heartbeat:
		c.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Heartbeat{Heartbeat: &tooldv1.WorkerHeartbeat{}}})
	case *tooldv1.ConnectRequest_Drain:
		c.session.Drain()
	case *tooldv1.ConnectRequest_Complete:
		c.completing <- struct{}{}
		go func() { // This goroutine ends when the operation is stored.
			defer func() { <-c.completing }()
			c.complete(m.Complete)
		}()
	case *tooldv1.ConnectRequest_Answer:
		c.session.Answer(m.Answer.GetQuestionId(), toWorkerAnswer(m.Answer))
	case *tooldv1.ConnectRequest_Register:
		return call.InvalidField("register", "may be sent only once")
	default:
		return call.InvalidField("message", "is required: report, done, complete, answer, heartbeat or drain")
	}
	return nil
}

// report passes the report of a running tool to its call. The worker gets an acknowledgement only for checkpoints and artifacts. Other
// reports are dropped when the call refuses them.
func (c *workerConn) report(r *tooldv1.WorkerReport) {
	if m := r.GetReadInput(); m != nil {
		if c.session.ReadInput(r.GetLeaseId(), m.GetPosition(), int(m.GetMaxBytes()), m.GetClose()) != nil {
			c.Lost(r.GetLeaseId())
		}
		return
	}
	to, err := c.session.Reporter(r.GetLeaseId())
	if err != nil {
		c.Lost(r.GetLeaseId())
		return
	}
	switch m := r.GetReport().(type) {
	case *tooldv1.WorkerReport_Progress:
		if p := translate.ToProgress(m.Progress); p.Check() == nil {
			_ = to.Progress(p)
		}
	case *tooldv1.WorkerReport_ActivitySnapshot:
		a := m.ActivitySnapshot
		if validJSON(a.GetContent()) {
			_ = to.Activity(a.GetActivityId(), a.GetActivityType(), a.GetContent())
		}
	case *tooldv1.WorkerReport_ActivityDelta:
		if validJSON(m.ActivityDelta.GetPatch()) {
			_ = to.ActivityDelta(m.ActivityDelta.GetActivityId(), m.ActivityDelta.GetPatch())
		}
	case *tooldv1.WorkerReport_Output:
		_ = to.Output(m.Output.GetStream(), m.Output.GetData())
	case *tooldv1.WorkerReport_Checkpoint:
		ack := &tooldv1.WorkerAck{LeaseId: r.GetLeaseId(), Sequence: r.GetSequence()}
		if err := to.SaveCheckpoint(m.Checkpoint); err != nil {
			ack.Error = "not stored: " + clip(err.Error(), shortText)
		}
		c.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Ack{Ack: ack}})
	case *tooldv1.WorkerReport_Artifact:
		a, ack := m.Artifact, &tooldv1.WorkerAck{LeaseId: r.GetLeaseId(), Sequence: r.GetSequence()}
		kept, err := to.SaveArtifact(a.GetName(), a.GetMimeType(), a.GetData())
		if ack.Artifact = kept.Name; err != nil {
			ack.Error = "not stored: " + clip(err.Error(), shortText)
		}
		c.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Ack{Ack: ack}})
	}
}

// complete ends an operation and sends the result to the worker.
func (c *workerConn) complete(m *tooldv1.WorkerComplete) {
	result, failed := translate.ToWorkerResult(&tooldv1.WorkerDone{Result: m.GetResult()})
	if result == nil && failed == nil {
		failed = translate.WorkerProtocol("an operation was completed without a result")
	}
	answer := &tooldv1.WorkerCompleted{CallId: clip(m.GetCallId(), shortText), OperationId: clip(m.GetOperationId(), maxStatus)}
	if err := c.session.Complete(m.GetCallId(), m.GetOperationId(), result, failed); err != nil {
		refusal, ok := errors.AsType[*call.Refusal](err)
		answer.Retryable = !ok || refusal.Kind == call.Unavailable || refusal.Kind == call.ResourceExhausted
		answer.Error = clip(err.Error(), shortText)
	}
	c.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Completed{Completed: answer}})
}

func validJSON(text string) bool {
	_, err := call.ParseJSON(text, 0)
	return err == nil
}
