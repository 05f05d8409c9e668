package service

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// maxUnread is the maximum number of messages that wait for a worker. It is reached only when the worker reads nothing: it is many times
// the number of calls that a worker can run at once.
const maxUnread = 8192

// maxBulk is the maximum number of bytes of questions and input that wait for a worker. It is needed because the limit on a worker's calls
// does not limit these messages.
const maxBulk = 32 << 20

// bulk returns how many bytes of a message count towards maxBulk.
func bulk(m *tooldv1.ConnectResponse) (n int) {
	n = len(m.GetInput().GetData()) + len(m.GetQuestion().GetCall().GetArguments())
	for _, d := range m.GetQuestion().GetCall().GetDocuments() {
		n += len(d.GetValue())
	}
	return n
}

// A workerLine queues messages for a worker.
type workerLine struct {
	ctx context.Context // context of the connection
	end context.CancelCauseFunc

	mu     sync.Mutex
	unread []*tooldv1.ConnectResponse
	bulk   int           // bytes of the queued messages that count towards maxBulk
	wake   chan struct{} // holds a value when something was queued
}

func newWorkerLine(ctx context.Context, end context.CancelCauseFunc) *workerLine {
	return &workerLine{ctx: ctx, end: end, wake: make(chan struct{}, 1)}
}

func (l *workerLine) queue(m *tooldv1.ConnectResponse) {
	size := bulk(m)
	l.mu.Lock()
	large := l.bulk+size > maxBulk && size > 0
	full := len(l.unread) >= maxUnread || large && m.GetQuestion() == nil
	if !full && !large {
		l.unread, l.bulk = append(l.unread, m), l.bulk+size
	}
	l.mu.Unlock()
	if full {
		l.end(call.Refuse(call.ResourceExhausted, "WORKER_LAGGED", "the worker does not read the messages that it gets"))
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// first queues a message before all messages that are already queued.
func (l *workerLine) first(m *tooldv1.ConnectResponse) {
	l.mu.Lock()
	l.unread = append([]*tooldv1.ConnectResponse{m}, l.unread...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// deliver sends queued messages until the stream ends.
func (l *workerLine) deliver(stream grpc.BidiStreamingServer[tooldv1.ConnectRequest, tooldv1.ConnectResponse]) {
	for {
		select {
		case <-l.wake:
		case <-l.ctx.Done():
			return
		}
		l.mu.Lock()
		all := l.unread
		l.unread = nil
		l.mu.Unlock()
		for _, m := range all {
			if stream.Send(m) != nil {
				return // The goroutine that receives messages gets the same error and handles it.
			}
			if size := bulk(m); size > 0 {
				l.mu.Lock()
				l.bulk -= size
				l.mu.Unlock()
			}
		}
	}
}

// Start implements [link.Line].
func (l *workerLine) Start(lease, kind string, c *tool.Call, documents []tool.Document) {
	l.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Start{Start: &tooldv1.WorkerStart{
		LeaseId: lease, Kind: tooldv1.WorkKind(tooldv1.WorkKind_value["WORK_KIND_"+kind]), Call: translate.FromWorkerCall(c, documents), Epoch: c.Epoch,
	}}})
}

// Cancel implements [link.Line].
func (l *workerLine) Cancel(lease string, cause error) {
	e := tool.AsError(cause)
	l.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Cancel{Cancel: &tooldv1.WorkerCancel{
		LeaseId: lease, Code: translate.FromErrorCode(e.Code), Message: clip(e.Message, shortText),
	}}})
}

// Ack implements [link.Line].
func (l *workerLine) Ack(lease string) {
	l.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Ack{Ack: &tooldv1.WorkerAck{LeaseId: lease}}})
}

// Lost implements [link.Line].
func (l *workerLine) Lost(lease string) {
	l.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Lost{Lost: &tooldv1.WorkerLost{LeaseId: clip(lease, shortText)}}})
}

// Question implements [link.Line]. It drops a question that exceeds the bounds; the question then ends without an answer.
func (l *workerLine) Question(id, kind string, c *tool.Call, documents []tool.Document, within time.Duration) {
	l.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Question{Question: &tooldv1.WorkerQuestion{
		QuestionId: id, Kind: tooldv1.WorkerQuestionKind(tooldv1.WorkerQuestionKind_value["WORKER_QUESTION_KIND_"+kind]),
		Call: translate.FromWorkerCall(c, documents), Within: durationpb.New(within),
	}}})
}

// Input implements [link.Line].
func (l *workerLine) Input(lease string, position int64, data []byte, ended bool, err error) {
	m := &tooldv1.WorkerInput{LeaseId: lease, Position: position, Data: data, EndOfInput: ended}
	if err != nil {
		m.Error = clip(err.Error(), shortText)
	}
	l.queue(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Input{Input: m}})
}

// End implements [link.Line].
func (l *workerLine) End(reason string, why error) {
	l.end(call.Refuse(call.FailedPrecondition, reason, "%v; connect again", why))
}
