package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A state says what the client of a call gets next: a result or a question. A call that still runs has neither.
type state struct {
	id         string
	tool       string
	isUnknown  bool // no tool has this name
	result     *tooldv1.ToolResult
	suspension *tooldv1.Suspension
	problem    string // why the daemon refused the last answer to the question
	cursor     string
	// stop is nil for a request that makes the call. For a request that only waits for an existing call, stop is called while the call is
	// suspended. It reports whether to end the stream, because such a stream does not end by itself.
	stop func() bool
}

// take updates the state with the events of a frame.
func (st *state) take(f *tooldv1.Frame, progress func(*tooldv1.Progress)) {
	st.cursor = cmp.Or(f.GetCursor(), st.cursor)
	if c := f.GetSnapshot(); c != nil {
		st.id, st.tool, st.result, st.suspension = c.GetCallId(), c.GetTool(), c.GetResult(), c.GetSuspension()
		st.isUnknown = isUnknown(c.GetToolDigest(), c.GetResult())
	}
	for _, e := range f.GetEvents() {
		st.id = e.GetCallId()
		switch e := e.GetEvent().(type) {
		case *tooldv1.CallEvent_Accepted:
			st.tool, st.isUnknown = e.Accepted.GetTool(), e.Accepted.GetToolDigest() == ""
		case *tooldv1.CallEvent_Progress:
			progress(e.Progress)
		case *tooldv1.CallEvent_Suspended:
			st.suspension = e.Suspended.GetSuspension()
		case *tooldv1.CallEvent_Resumed, *tooldv1.CallEvent_CancelRequested:
			st.suspension = nil
		case *tooldv1.CallEvent_Finished:
			st.result, st.suspension = e.Finished.GetResult(), nil
		}
	}
}

func isUnknown(digest string, r *tooldv1.ToolResult) bool {
	return digest == "" && r.GetError().GetCode() == tooldv1.ErrorCode_ERROR_CODE_NOT_FOUND
}

// A frames is a stream of the API whose messages contain frames.
type frames interface {
	Recv() (*tooldv1.Frame, error)
}

// framesOf adapts a stream of the API.
func framesOf[R interface{ GetFrame() *tooldv1.Frame }](s interface{ Recv() (R, error) }, err error) (frames, error) {
	if err != nil {
		return nil, err
	}
	return recv[R]{s}, nil
}

type recv[R interface{ GetFrame() *tooldv1.Frame }] struct {
	from interface{ Recv() (R, error) }
}

func (r recv[R]) Recv() (*tooldv1.Frame, error) {
	m, err := r.from.Recv()
	if err != nil {
		return nil, err
	}
	return m.GetFrame(), nil
}

const (
	patience    = 30 * time.Second // while a call runs, how long the server tries to reach the daemon again
	retryPause  = 500 * time.Millisecond
	cancelLimit = 10 * time.Second // bounds the request that cancels a call
)

// follow reads the frames of a call until the call waits or has ended. If the connection to the daemon breaks, follow opens the stream again at the
// last cursor.
func (s *Server) follow(ctx context.Context, st *state, progress func(*tooldv1.Progress), open func(ctx context.Context, cursor string) (frames, error)) error {
	var lost time.Time
	for {
		before := st.cursor
		err := read(ctx, st, progress, open)
		if st.cursor != before {
			lost = time.Time{}
		}
		if err == nil || ctx.Err() != nil || st.cursor == "" || status.Code(err) != codes.Unavailable {
			return err
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		if time.Since(lost) > patience {
			return err
		}
		sleep(ctx, retryPause)
	}
}

func read(ctx context.Context, st *state, progress func(*tooldv1.Progress), open func(ctx context.Context, cursor string) (frames, error)) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream when read returns
	defer cancel()
	stream, err := open(ctx, st.cursor)
	if err != nil {
		return err
	}
	for {
		f, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		st.take(f, progress)
		if st.suspension != nil && st.stop != nil && st.stop() {
			return nil
		}
	}
}

// cancelled cancels the call if the client cancelled the request that made it. When the connection breaks or the server closes, the call is
// not cancelled, and continues for its linger time.
func (s *Server) cancelled(ctx context.Context, st *state) {
	if st.stop != nil || s.closed.Err() != nil || !errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer cancel()
	_, _ = s.calls.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: st.id, Reason: "the MCP client cancelled its request"}) // Ignore the error: the request was cancelled, so its client reads no response.
}
