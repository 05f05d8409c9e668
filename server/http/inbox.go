package httpserver

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
)

const (
	// maxInbox is the number of questions that a client sees at once. The oldest come first.
	maxInbox = 1000
	// pollInbox is how often the server looks for a principal that may not watch the namespace.
	pollInbox = 2 * time.Second
	// heartbeatPolls is the number of polls between two heartbeats.
	heartbeatPolls = 7
)

// An inbox streams the questions that wait for a principal: "waiting" for each, "settled" when it no longer waits, and "caught_up" after the
// first complete list. Its events have no ids: a client that connects again gets the complete list again.
type inbox struct {
	server *Server
	out    *eventWriter
	shown  map[string]string // the suspension of each call that the client knows, by call id
	ready  bool              // caught_up is sent
}

// watchInbox streams the inbox of the principal.
func (s *Server) watchInbox(ctx context.Context, out *eventWriter) error {
	in := &inbox{server: s, out: out, shown: map[string]string{}}
	serve := func(_ *struct{}, stream grpc.ServerStreamingServer[struct{}]) error {
		return in.serve(stream.Context())
	}
	return service.Stream(ctx, s.cfg.Service, access.InboxMethod, serve, &struct{}{}, service.Out[struct{}]{Abort: abort(ctx)})
}

// serve watches the namespace. A principal that may not watch it polls.
func (in *inbox) serve(ctx context.Context) error {
	req := &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true}
	err := in.server.streamCalls(ctx, req, func(f *tooldv1.Frame) error { return in.frame(ctx, f) })
	if status.Code(err) == codes.PermissionDenied && !in.ready {
		return in.poll(ctx)
	}
	return err
}

// frame lists the questions again if a frame of the namespace says that they may have changed.
func (in *inbox) frame(ctx context.Context, f *tooldv1.Frame) error {
	switch {
	case f.GetHeartbeat() != nil || f.GetClosing() != nil:
		f.Cursor = "" // events of the inbox have no ids
		return in.out.frame(f)
	case f.GetCaughtUp() != nil || f.GetGap() != nil:
		return in.list(ctx)
	}
	for _, e := range f.GetEvents() {
		_, known := in.shown[e.GetCallId()]
		if e.GetSuspended() != nil || known && (e.GetResumed() != nil || e.GetVoteRecorded() != nil || e.GetFinished() != nil) {
			return in.list(ctx)
		}
	}
	return nil
}

// poll lists the questions until ctx ends.
func (in *inbox) poll(ctx context.Context) error {
	leave, err := in.server.cfg.Service.AcquireStream(ctx)
	if err != nil {
		return err
	}
	defer leave()
	tick := time.NewTicker(pollInbox)
	defer tick.Stop()
	for n := 1; ; n++ {
		if err := in.list(ctx); err != nil {
			return err
		}
		if n%heartbeatPolls == 0 {
			if err := in.out.frame(&tooldv1.Frame{Control: &tooldv1.Frame_Heartbeat{Heartbeat: &tooldv1.Heartbeat{Time: timestamppb.Now()}}}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// list reads the questions and sends what changed.
func (in *inbox) list(ctx context.Context) error {
	open := map[string]bool{}
	req := &tooldv1.ListCallsRequest{Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}, Order: tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST, PageSize: 100}
	for {
		page, err := in.server.calls.ListCalls(ctx, req)
		if err != nil {
			return err
		}
		for _, c := range page.GetCalls() {
			open[c.GetCallId()] = true
			if err := in.show(c); err != nil {
				return err
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" || len(open) >= maxInbox {
			break
		}
	}
	for id := range in.shown {
		if !open[id] {
			if err := in.settle(id); err != nil {
				return err
			}
		}
	}
	if in.ready {
		return nil
	}
	in.ready = true
	return in.out.event("caught_up", &tooldv1.CaughtUp{})
}

// show sends the question of a call, unless the client knows it.
func (in *inbox) show(c *tooldv1.Call) error {
	id, question := c.GetCallId(), c.GetSuspension().GetSuspensionId()
	if in.shown[id] == question {
		return nil
	}
	if in.shown[id] != "" {
		if err := in.settle(id); err != nil {
			return err
		}
	}
	in.shown[id] = question
	return in.out.event("waiting", c)
}

// settle reports that the question of a call no longer waits.
func (in *inbox) settle(id string) error {
	gone := &tooldv1.Call{CallId: id, Suspension: &tooldv1.Suspension{SuspensionId: in.shown[id]}}
	delete(in.shown, id)
	return in.out.event("settled", gone)
}
