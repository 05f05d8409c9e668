package httpserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
)

// A runMapper turns the frames of a run into the messages of a protocol for frontends.
type runMapper[M any] interface {
	Start() []M
	// Frame returns the messages of a frame. arguments returns the requested arguments of a call.
	Frame(f *tooldv1.Frame, arguments func(callID string) (string, error)) ([]M, error)
	// Seen counts the calls in the frames so far. calls is the number of all calls, open the number of calls that run or will run, and
	// waiting the number of calls that wait for an answer.
	Seen() (calls, open, waiting int)
	// Finish returns the last messages when each call has ended or waits for an answer. Fail returns the last messages of a stream that
	// ends early because of an error.
	Finish() []M
	Fail(why string) []M
}

// A runStream sends a run to a frontend as server-sent events, from its oldest event until every call has ended
// or waits for an answer.
type runStream[M any] struct {
	server *Server
	run    string
	mapper runMapper[M]
	// waits keeps the stream open while calls wait for an answer.
	waits bool
	// trailer is sent after the last message. It may be empty.
	trailer string

	w      http.ResponseWriter
	began  bool // the response has begun
	caught bool // the mapper has got every event that was stored before the watch began
	done   bool // the last message was sent
}

// serve sends the messages of the run. It returns when the stream has ended.
func (s *runStream[M]) serve(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	s.w = w
	req := &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_RunId{RunId: s.run}, Follow: true}
	svc := s.server.cfg.Service
	err := service.Stream(ctx, svc, tooldv1.CallService_WatchCalls_FullMethodName, svc.Calls.WatchCalls, req, service.Out[tooldv1.WatchCallsResponse]{
		Send: func(res *tooldv1.WatchCallsResponse) error {
			err := readable(res.GetFrame(), func(f *tooldv1.Frame) error { return s.frame(ctx, f) })
			if s.done {
				stop() // Stop the watch here, because the watch of a run does not end by itself.
				return context.Canceled
			}
			return err
		},
		Abort: abort(ctx),
	})
	switch {
	case s.done:
	case !s.began && err != nil:
		writeError(w, r, err)
	case err != nil:
		_ = s.end(s.mapper.Fail("the stream broke off: " + status.Convert(err).Message())) // Ignore the error: a write fails only when the client is gone.
	default:
		_ = s.end(s.mapper.Fail("the daemon ended the stream; the calls continue"))
	}
}

// frame sends the messages of a frame, and then the last messages if every call has ended or waits for an answer.
func (s *runStream[M]) frame(ctx context.Context, f *tooldv1.Frame) error {
	if !s.began {
		if err := s.begin(); err != nil {
			return err
		}
	}
	if f.GetHeartbeat() != nil {
		return s.write(": heartbeat\n\n")
	}
	s.caught = s.caught || f.GetCaughtUp() != nil
	messages, err := s.mapper.Frame(f, func(id string) (string, error) { return s.server.arguments(ctx, id) })
	if err != nil {
		return err
	}
	if err := s.send(messages); err != nil {
		return err
	}
	settled, err := s.settled(ctx)
	if err == nil && settled {
		return s.end(s.mapper.Finish())
	}
	return err
}

// settled reports whether the stream may end: the mapper has got all events, and each call of the run has ended or waits for an answer. If
// waits is set, a waiting call keeps the stream open.
func (s *runStream[M]) settled(ctx context.Context) (bool, error) {
	if !s.caught {
		return false, nil // Do not count earlier: otherwise each frame would count all calls.
	}
	calls, open, waiting := s.mapper.Seen()
	if open > 0 || s.waits && waiting > 0 {
		return false, nil
	}
	run, err := s.server.counts(ctx, s.run)
	if err != nil {
		return false, err
	}
	return active(run) == run.GetSuspended() && int(run.GetSuspended()) <= waiting && int(all(run)) <= calls, nil
}

// active counts the calls that have not ended.
func active(c *tooldv1.CallCounts) int64 {
	return c.GetNew() + c.GetRunning() + c.GetSuspended() + c.GetResuming()
}

func all(c *tooldv1.CallCounts) int64 {
	return active(c) + c.GetSucceeded() + c.GetFailed() + c.GetCancelled()
}

func (s *runStream[M]) begin() error {
	s.began = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // Without this header, nginx would hold back the events.
	s.w.WriteHeader(http.StatusOK)
	return s.send(s.mapper.Start())
}

func (s *runStream[M]) send(messages []M) error {
	var text []byte
	for _, m := range messages {
		line, err := json.Marshal(m)
		if err != nil {
			return err
		}
		text = append(append(append(text, "data: "...), line...), "\n\n"...)
	}
	if len(text) == 0 {
		return nil
	}
	return s.write(string(text))
}

func (s *runStream[M]) end(messages []M) error {
	s.done = true
	if err := s.send(messages); err != nil || s.trailer == "" {
		return err
	}
	return s.write(s.trailer)
}

func (s *runStream[M]) write(text string) error {
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// counts returns the number of calls of a run by status. For a run that the principal cannot see, all numbers are zero.
func (s *Server) counts(ctx context.Context, run string) (*tooldv1.CallCounts, error) {
	res, err := s.calls.GetRun(ctx, &tooldv1.GetRunRequest{RunId: run})
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	return res.GetRun().GetCalls(), err
}

// arguments returns the requested arguments of a call.
func (s *Server) arguments(ctx context.Context, call string) (string, error) {
	res, err := s.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: call, ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"requested_arguments"}}})
	if code := status.Code(err); code == codes.NotFound || code == codes.FailedPrecondition {
		return "", nil // The arguments were trimmed or erased after the event.
	}
	return res.GetCall().GetRequestedArguments(), err
}

// newestRun returns the run and the thread of the newest call in a run or a thread. It returns nil if the principal can see no call there.
func (s *Server) newestRun(ctx context.Context, req *tooldv1.ListCallsRequest) (*tooldv1.Run, error) {
	req.PageSize, req.ReadMask = 1, &fieldmaskpb.FieldMask{Paths: []string{"run"}}
	for range maxPages {
		res, err := s.calls.ListCalls(ctx, req)
		if err != nil {
			return nil, err
		}
		if calls := res.GetCalls(); len(calls) > 0 {
			return calls[0].GetRun(), nil
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return nil, nil
		}
	}
	return nil, nil
}

// maxPages bounds the pages without a visible call that newestRun reads.
const maxPages = 20
