package httpserver

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/jsonform"
	"github.com/toold-dev/toold/server/http/sse"
	"github.com/toold-dev/toold/server/service"
)

// watchSelectors are the parameters of the query that select what to watch.
var watchSelectors = []string{"call", "turn", "run", "thread", "batch", "inbox"}

// A watchQuery is the request of a watch.
type watchQuery struct {
	selector, id string
	cursor       string // empty for a new watch
	after        *int64 // only for a call without a cursor: the events after this sequence number are sent; nil means that the stream begins with a snapshot
	form         jsonform.Form
}

// watch streams a watch as server-sent events.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	q, err := readWatch(r)
	switch {
	case err != nil:
		writeError(w, r, err)
		return
	case q.cursor == sse.EndID:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // Without this header, nginx would hold back the events.
	out := newEventWriter(r, q.form)
	serve := func(ctx context.Context, to responder) {
		out.to = to
		out.end(ctx, s.follow(ctx, q, out))
	}
	if !s.detach(w, r, serve) {
		serve(r.Context(), &attached{w, r})
	}
}

// follow sends the frames of a watch.
func (s *Server) follow(ctx context.Context, q watchQuery, out *eventWriter) error {
	switch q.selector {
	case "inbox":
		return s.watchInbox(ctx, out)
	case "turn":
		return s.watchTurn(ctx, q, out)
	}
	return s.watchCalls(ctx, q.request(), out)
}

func readWatch(r *http.Request) (q watchQuery, err error) {
	q.cursor = r.Header.Get("Last-Event-ID") // When an EventSource connects again, it sends its newest position in this header. The query still has the first position.
	for name, values := range r.URL.Query() {
		switch {
		case len(values) != 1 || values[0] == "":
			return q, invalid(name, "want one value")
		case slices.Contains(watchSelectors, name) && q.selector == "":
			q.selector, q.id = name, values[0]
		case slices.Contains(watchSelectors, name):
			return q, invalid(name, "want only one of "+strings.Join(watchSelectors, ", "))
		case name == "cursor" && q.cursor == "":
			q.cursor = values[0]
		case name == "after":
			sequence, err := strconv.ParseInt(values[0], 10, 64)
			if err != nil {
				return q, invalid(name, "want the sequence of an event, or 0 for all events")
			}
			q.after = &sequence
		case name != "cursor" && name != jsonform.Parameter:
			return q, invalid(name, "unknown; the parameters are "+strings.Join(watchSelectors, ", ")+", after, cursor and "+jsonform.Parameter)
		}
	}
	if q.after != nil && q.selector != "call" {
		return q, invalid("after", "want it with call= only; other watches have every event")
	}
	if q.selector == "" || q.selector == "inbox" && q.id != "1" {
		return q, invalid("query", "want one of call=, turn=, run=, thread=, batch= with an id, or inbox=1")
	}
	q.form, err = formOf(r.URL.Query().Get(jsonform.Parameter))
	return q, err
}

// request returns the watch of a call, a run, a thread or a batch.
func (q *watchQuery) request() *tooldv1.WatchCallsRequest {
	req := &tooldv1.WatchCallsRequest{Cursor: q.cursor, Follow: true}
	switch q.selector {
	case "call":
		req.Selector = &tooldv1.WatchCallsRequest_CallId{CallId: q.id}
		if q.cursor == "" {
			req.AfterSequence = q.after
		}
	case "run":
		req.Selector = &tooldv1.WatchCallsRequest_RunId{RunId: q.id}
	case "thread":
		req.Selector = &tooldv1.WatchCallsRequest_ThreadId{ThreadId: q.id}
	case "batch":
		req.Selector = &tooldv1.WatchCallsRequest_BatchId{BatchId: q.id}
	}
	return req
}

func (s *Server) watchCalls(ctx context.Context, req *tooldv1.WatchCallsRequest, out *eventWriter) error {
	return s.streamCalls(ctx, req, out.frame)
}

func (s *Server) streamCalls(ctx context.Context, req *tooldv1.WatchCallsRequest, send func(*tooldv1.Frame) error) error {
	return service.Stream(ctx, s.cfg.Service, tooldv1.CallService_WatchCalls_FullMethodName, s.cfg.Service.Calls.WatchCalls, req,
		service.Out[tooldv1.WatchCallsResponse]{Send: func(res *tooldv1.WatchCallsResponse) error { return readable(res.GetFrame(), send) }, Abort: abort(ctx), Apart: true})
}

// readable invokes send with a copy of the frame whose fields can be read.
func readable(f *tooldv1.Frame, send func(*tooldv1.Frame) error) error {
	f, err := service.Readable(f)
	if err != nil {
		return err
	}
	return send(f)
}

// watchTurn streams the events of a turn's calls, and then its messages. Only the events have cursors. When a client connects again during
// the messages, it gets a new turn_started and all messages again.
func (s *Server) watchTurn(ctx context.Context, q watchQuery, out *eventWriter) error {
	var started *tooldv1.Frame
	err := s.getTurn(ctx, q.id, func(f *tooldv1.Frame) error {
		if f.GetTurnStarted() != nil {
			started = f
		}
		return nil
	})
	if err != nil {
		return err
	}
	if q.cursor == "" {
		if err := out.frame(started); err != nil {
			return err
		}
	}
	if batch := started.GetTurnStarted().GetBatchId(); batch != "" {
		calls := watchQuery{selector: "batch", id: batch, cursor: q.cursor}
		if err := s.watchCalls(ctx, calls.request(), out); err != nil || out.closing {
			return err
		}
	}
	return s.getTurn(ctx, q.id, out.frame)
}

func (s *Server) getTurn(ctx context.Context, id string, send func(*tooldv1.Frame) error) error {
	return service.Stream(ctx, s.cfg.Service, tooldv1.CallService_GetTurn_FullMethodName, s.cfg.Service.Calls.GetTurn, &tooldv1.GetTurnRequest{TurnId: id},
		service.Out[tooldv1.GetTurnResponse]{Send: func(res *tooldv1.GetTurnResponse) error { return readable(res.GetFrame(), send) }, Abort: abort(ctx)})
}
