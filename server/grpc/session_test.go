package grpcserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

// overSession sends a request as the only item of a new session. If sessions do not support the method, it uses invoke.
func overSession(ctx context.Context, c *grpc.ClientConn, m protoreflect.MethodDescriptor, req proto.Message, answer func() proto.Message) ([]proto.Message, error) {
	item := itemOf(req)
	if item == nil {
		return invoke(ctx, c, m, req, answer)
	}
	stream, err := tooldv1.NewCallServiceClient(c).Session(ctx)
	if err != nil {
		return nil, err
	}
	item.CorrelationId = "it"
	if err := errors.Join(stream.Send(&tooldv1.SessionRequest{Items: []*tooldv1.SessionItem{item}}), stream.CloseSend()); err != nil {
		return nil, err
	}
	answers := conversation{stream: stream}
	var all []proto.Message
	for {
		answer, err := answers.recv()
		if errors.Is(err, io.EOF) {
			return all, errors.New("the session ended before its item")
		}
		if err != nil {
			return all, err
		}
		if f := answer.GetFrame(); f != nil {
			all = append(all, &tooldv1.ExecuteToolResponse{Frame: f})
		}
		if c := answer.GetCancelled(); c != nil {
			all = append(all, c)
		}
		if answer.GetEnd() {
			_, end := answers.recv()
			if !errors.Is(end, io.EOF) {
				return all, fmt.Errorf("the session ended with %v", end)
			}
			return all, status.FromProto(answer.GetError()).Err()
		}
	}
}

func itemOf(req proto.Message) *tooldv1.SessionItem {
	switch req := req.(type) {
	case *tooldv1.ExecuteToolRequest:
		return &tooldv1.SessionItem{Item: &tooldv1.SessionItem_Execute{Execute: req}}
	case *tooldv1.ExecuteBatchRequest:
		return &tooldv1.SessionItem{Item: &tooldv1.SessionItem_Batch{Batch: req}}
	case *tooldv1.ResumeToolRequest:
		return &tooldv1.SessionItem{Item: &tooldv1.SessionItem_Resume{Resume: req}}
	case *tooldv1.WatchCallsRequest:
		return &tooldv1.SessionItem{Item: &tooldv1.SessionItem_Watch{Watch: req}}
	case *tooldv1.CancelCallRequest:
		return &tooldv1.SessionItem{Item: &tooldv1.SessionItem_Cancel{Cancel: req}}
	}
	return nil
}

// A conversation is the client's side of a session.
type conversation struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[tooldv1.SessionRequest, tooldv1.SessionResponse]
	stop   context.CancelFunc
	rest   []*tooldv1.SessionAnswer // answers of the newest message that recv has not returned yet
}

func (w *world) session(t *testing.T, user string) *conversation {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	stream, err := w.calls(user).Session(ctx)
	must(t, err)
	return &conversation{t: t, stream: stream, stop: cancel}
}

func (s *conversation) send(id string, req proto.Message) {
	s.t.Helper()
	item := itemOf(req)
	if item == nil {
		item = req.(*tooldv1.SessionItem)
	}
	item.CorrelationId = id
	must(s.t, s.stream.Send(&tooldv1.SessionRequest{Items: []*tooldv1.SessionItem{item}}))
}

func (s *conversation) recv() (*tooldv1.SessionAnswer, error) {
	for len(s.rest) == 0 {
		resp, err := s.stream.Recv()
		if err != nil {
			return nil, err
		}
		s.rest = resp.GetAnswers()
		if len(s.rest) > 1 && proto.Size(resp) > 48<<10 {
			return nil, fmt.Errorf("%d answers are in a message of %d bytes", len(s.rest), proto.Size(resp))
		}
	}
	next := s.rest[0]
	s.rest = s.rest[1:]
	return next, nil
}

func (s *conversation) leave(id string) {
	s.t.Helper()
	s.send(id, &tooldv1.SessionItem{Item: &tooldv1.SessionItem_Leave{Leave: &tooldv1.LeaveItem{}}})
}

// next returns the next answer that is not a heartbeat.
func (s *conversation) next() *tooldv1.SessionAnswer {
	s.t.Helper()
	for {
		answer, err := s.recv()
		must(s.t, err)
		if answer.GetFrame().GetHeartbeat() == nil {
			return answer
		}
	}
}

// until reads answers until the item with this id ends, and returns the answers of this item. If the map others is not nil, until adds the
// answers of all other items to it.
func (s *conversation) until(id string, others map[string][]*tooldv1.SessionAnswer) (all []*tooldv1.SessionAnswer) {
	s.t.Helper()
	for {
		resp := s.next()
		if resp.GetCorrelationId() != id {
			if others != nil {
				others[resp.GetCorrelationId()] = append(others[resp.GetCorrelationId()], resp)
			}
			continue
		}
		all = append(all, resp)
		if resp.GetEnd() {
			return all
		}
	}
}

func execute(tool, id string) *tooldv1.ExecuteToolRequest {
	return &tooldv1.ExecuteToolRequest{Spec: spec(tool, id)}
}

func echo(id, text string) *tooldv1.ExecuteToolRequest {
	req := execute("echo", id)
	req.Spec.Arguments = fmt.Sprintf(`{"text":%q}`, text)
	return req
}

func eventsOf(all []*tooldv1.SessionAnswer) (events []*tooldv1.CallEvent) {
	for _, resp := range all {
		events = append(events, resp.GetFrame().GetEvents()...)
	}
	return events
}

// TestSessionCarriesManyCalls checks that one session carries many calls in parallel. Each item gets all events of its call in order, and
// ends once.
func TestSessionCarriesManyCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	const items = 300
	together := &tooldv1.SessionRequest{}
	for i := range items {
		req := echo(fmt.Sprint("many-", i), fmt.Sprint("text ", i))
		if i%3 == 0 {
			s.send(fmt.Sprint(i), req)
			continue
		}
		item := itemOf(req)
		item.CorrelationId = fmt.Sprint(i)
		together.Items = append(together.Items, item)
	}
	must(t, s.stream.Send(together))
	must(t, s.stream.CloseSend())
	got := map[string][]*tooldv1.SessionAnswer{}
	for range items * 3 {
		resp, err := s.recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		got[resp.GetCorrelationId()] = append(got[resp.GetCorrelationId()], resp)
	}
	for i := range items {
		all := got[fmt.Sprint(i)]
		for at, ev := range eventsOf(all) {
			if ev.GetSequence() != int64(at+1) {
				t.Fatalf("item %d: event %d has sequence %d", i, at, ev.GetSequence())
			}
		}
		last := all[len(all)-1]
		finished := last.GetFrame().GetEvents()
		if !last.GetEnd() || finished[len(finished)-1].GetFinished().GetResult().GetMessage() != fmt.Sprint("text ", i) {
			t.Fatalf("item %d ends with %v", i, last)
		}
	}
	if n := w.ended(tooldv1.CallService_ExecuteTool_FullMethodName, codes.OK); n != items {
		t.Errorf("%d calls are counted as ExecuteTool, want %d", n, items)
	}
}

// TestSessionItemErrors checks that an item that fails ends with the same status as a separate request for its method. All other items
// continue.
func TestSessionItemErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	s.send("runs", execute("hold", "runs"))
	for name, c := range map[string]struct {
		req    proto.Message
		code   codes.Code
		reason string
	}{
		"no spec":       {&tooldv1.ExecuteToolRequest{}, codes.InvalidArgument, "INVALID_REQUEST"},
		"unknown call":  {&tooldv1.CancelCallRequest{CallId: longID("nobody")}, codes.NotFound, "CALL_NOT_FOUND"},
		"unknown round": {&tooldv1.ResumeToolRequest{SuspensionId: "s-none", Decision: &tooldv1.Decision{DecisionId: longID("d"), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME}}, codes.NotFound, "SUSPENSION_NOT_FOUND"},
		"no item":       {&tooldv1.SessionItem{}, codes.InvalidArgument, "INVALID_REQUEST"},
		"not a viewer":  {&tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}}, codes.PermissionDenied, ""},
	} {
		s.send(name, c.req)
		all := s.until(name, nil)
		err := status.FromProto(all[len(all)-1].GetError()).Err()
		if status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		} else if c.reason != "" && c.reason != "INVALID_REQUEST" {
			wantRefusal(t, err, c.code, c.reason)
		}
	}
	close(w.release)
	all := s.until("runs", nil)
	if last := all[len(all)-1]; last.GetError() != nil || len(eventsOf(all)) == 0 {
		t.Errorf("the other item ended with %v", last)
	}
}

// TestSessionItemNeedsItsRole checks that an item needs the same role as a separate request for its method.
func TestSessionItemNeedsItsRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "vera")
	s.send("a", echo("viewer-executes", "x"))
	wantRefusal(t, status.FromProto(s.until("a", nil)[0].GetError()).Err(), codes.PermissionDenied, "ROLE_REQUIRED")
	s.send("b", &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}})
	if all := s.until("b", nil); all[len(all)-1].GetError() != nil {
		t.Errorf("a viewer watches: %v", all)
	}
}

// TestSessionCorrelation checks that no two open items can have the same correlation id. After the end of an item, its id can be used
// again. An error that belongs to no item ends the session.
func TestSessionCorrelation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	for i := range 3 {
		s.send("again", echo(fmt.Sprint("again-", i), "x"))
		s.until("again", nil)
	}
	for name, then := range map[string]string{"twice": "twice", "empty": "", "long": strings.Repeat("x", 65)} {
		s := w.session(t, "alice")
		s.send("twice", execute("hold", "twice-"+name))
		s.send(then, echo("never-"+name, "x"))
		var err error
		for err == nil {
			_, err = s.recv()
		}
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "correlation") && !strings.Contains(fmt.Sprint(status.Convert(err).Details()), "correlation_id") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSessionLeave checks that a client that leaves an item ends the watch but not the call.
func TestSessionLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	s.send("it", execute("hold", "left"))
	cursor := s.next().GetFrame().GetCursor()
	s.leave("it")
	s.leave("nothing of this name")
	all := s.until("it", nil)
	if code := all[len(all)-1].GetError().GetCode(); codes.Code(code) != codes.Canceled {
		t.Errorf("ended with %v", all)
	}
	s.send("it", &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID("left")}, Cursor: cursor, Follow: true})
	close(w.release)
	events := eventsOf(s.until("it", nil))
	if last := events[len(events)-1]; last.GetFinished().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("the call ended with %v", last)
	}
}

// TestSessionHalfClose checks a client that half-closes the stream. Open items finish, and then the session ends.
func TestSessionHalfClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	s.send("it", execute("hold", "half-closed"))
	s.next()
	must(t, s.stream.CloseSend())
	close(w.release)
	s.until("it", nil)
	if _, err := s.recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the session ended with %v", err)
	}
}

// TestSessionBrokenStream checks a stream that breaks: the daemon treats the calls of the session as those of a disconnected client.
func TestSessionBrokenStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	cancelled, stays := execute("hold", "gone"), execute("hold", "stays")
	cancelled.Spec.Linger = durationpb.New(0)
	s.send("gone", cancelled)
	s.send("stays", stays)
	seen := map[string]bool{}
	for len(seen) < 2 {
		seen[s.next().GetCorrelationId()] = true
	}
	s.stop()
	ended := func(id string) tooldv1.CallStatus {
		got, err := w.calls("alice").GetCall(within(t), &tooldv1.GetCallRequest{CallId: longID(id)})
		must(t, err)
		return got.GetCall().GetStatus()
	}
	eventually(t, "the call that does not linger ends", func() bool { return ended("gone") == tooldv1.CallStatus_CALL_STATUS_CANCELLED })
	if got := ended("stays"); got != tooldv1.CallStatus_CALL_STATUS_RUNNING {
		t.Errorf("the call that lingers is %v", got)
	}
}

// TestSessionLagged checks an item that the client does not read. It ends as lagged, with the cursor from which the client can resume.
// Other items stay open.
func TestSessionLagged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{config: func(c *service.Config) { c.Stall = 3 * time.Second }})
	w.registerFlood()
	s := w.session(t, "alice")
	s.send("idle", execute("hold", "idle"))
	s.next()
	s.send("one", execute("flood", "one"))
	s.send("two", execute("flood", "two"))
	eventually(t, "all three are watched", func() bool { return w.engine.Stats().Watchers == 3 })
	eventually(t, "one of the two is left", func() bool { return w.engine.Stats().Watchers == 2 })
	got := map[string][]*tooldv1.SessionAnswer{}
	lagged := s.next()
	for ; lagged.GetFrame().GetLagged() == nil; lagged = s.next() {
		got[lagged.GetCorrelationId()] = append(got[lagged.GetCorrelationId()], lagged)
	}
	if !lagged.GetEnd() || lagged.GetError() != nil {
		t.Errorf("lagged: %v", lagged)
	}
	name := lagged.GetCorrelationId()
	s.send("rest", &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID(name)}, Cursor: lagged.GetFrame().GetCursor(), Follow: true})
	all := eventsOf(append(got[name], s.until("rest", got)...))
	for i, ev := range all {
		if ev.GetSequence() != int64(i+1) {
			t.Fatalf("event %d of the lagged item has sequence %d", i, ev.GetSequence())
		}
	}
	if all[len(all)-1].GetFinished() == nil {
		t.Error("the lagged item does not come to its end from its cursor on")
	}
	close(w.release)
	if idle := s.until("idle", got); idle[len(idle)-1].GetError() != nil {
		t.Errorf("the idle item ended with %v", idle)
	}
}

// TestP11StalledSessionIsEnded (P11) checks that the server ends the session of a client that reads nothing.
func TestP11StalledSessionIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{config: func(c *service.Config) { c.Stall = 300 * time.Millisecond }})
	w.registerFlood()
	s := w.session(t, "alice")
	s.send("it", execute("flood", "stalled"))
	eventually(t, "the session is ended", func() bool { return w.ended(tooldv1.CallService_Session_FullMethodName, codes.ResourceExhausted) == 1 })
	var err error
	for err == nil {
		_, err = s.recv()
	}
	wantRefusal(t, err, codes.ResourceExhausted, "WATCHER_LAGGED")
}

// TestSessionDrain checks that a drain ends each item with its cursor and refuses new items. The session ends when the server stops.
func TestSessionDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	s.send("call", execute("ask", "drained"))
	s.until("call", nil)
	s.send("watch", &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID("drained")}, Follow: true})
	s.next()
	s.send("feed", &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_RunId{RunId: "some-run"}, Follow: true})
	for s.next().GetCorrelationId() != "feed" {
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	w.engine.Drain(now)
	closed := map[string]bool{}
	for len(closed) < 2 {
		resp := s.next()
		if resp.GetFrame().GetClosing().GetReason() == tooldv1.ClosingReason_CLOSING_REASON_DRAIN && resp.GetEnd() && resp.GetFrame().GetCursor() != "" {
			closed[resp.GetCorrelationId()] = true
		}
	}
	s.send("late", echo("too-late-now", "x"))
	wantRefusal(t, status.FromProto(s.until("late", nil)[0].GetError()).Err(), codes.Unavailable, "DRAINING")
	go func() { w.service.Stop(); w.server.Shutdown(within(t)) }()
	_, err := s.recv()
	wantRefusal(t, err, codes.Unavailable, "DRAINING")
}

// TestT59TokenExpiresDuringSession (T59) checks that a session ends when its token expires, whether the session has open items or not.
func TestT59TokenExpiresDuringSession(t *testing.T) {
	for _, moves := range []bool{true, false} {
		t.Run(fmt.Sprintf("with items %v", moves), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options{tokens: []access.Token{{
				Hash: hashOf(tokenOf("brief")), Expires: time.Now().Add(10 * time.Second), // enough time to open all items
				Principal: tool.Principal{Namespace: "default", Subject: "brief", Roles: []string{"viewer", "caller"}},
			}}})
			s := w.session(t, "brief")
			if moves {
				s.send("hold", execute("hold", "brief-session"))
				s.send("feed", &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
			}
			var err error
			for err == nil {
				_, err = s.stream.Recv()
			}
			wantRefusal(t, err, codes.Unauthenticated, "TOKEN_EXPIRED")
		})
	}
}

// TestSessionBound checks that a session accepts 1,024 open items and refuses the next item.
func TestSessionBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	s.send("call", execute("ask", "bound-call"))
	s.until("call", nil)
	for i := range 1025 {
		s.send(fmt.Sprint(i), &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID("bound-call")}, Follow: true})
		if i%64 == 1 {
			for s.next().GetCorrelationId() != fmt.Sprint(i) {
			}
		}
	}
	all := s.until("1024", nil)
	wantRefusal(t, status.FromProto(all[0].GetError()).Err(), codes.ResourceExhausted, "TOO_MANY_ITEMS")
}

// TestP11UnreadEndsAreBounded (P11) checks items that end quickly while the client does not read. An item counts as open until its final
// answer was sent, so that the number of unread answers is bounded.
func TestP11UnreadEndsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	const items, together = 8192, 256
	refused := func() int64 { return w.ended(tooldv1.CallService_CancelCall_FullMethodName, codes.NotFound) }
	var reading atomic.Bool
	defer reading.Store(true)
	go func() { // The goroutine returns at the latest when the stream ends.
		for sent := 0; sent < items; {
			req := &tooldv1.SessionRequest{}
			for range together {
				item := itemOf(&tooldv1.CancelCallRequest{CallId: longID("nobody")})
				item.CorrelationId = fmt.Sprint(sent)
				req.Items = append(req.Items, item)
				sent++
			}
			if s.stream.Send(req) != nil {
				return
			}
			for tick := time.NewTicker(time.Millisecond); refused() < int64(sent) && !reading.Load(); { // Wait until all sent items have ended, or until the client reads again.
				<-tick.C
			}
		}
	}()
	before, still := int64(-1), 0
	eventually(t, "nothing moves", func() bool {
		n := refused()
		if still++; n < 1024 || n != before {
			before, still = n, 0
		}
		return still == 20
	})
	if before > items/2 {
		t.Errorf("%d items have ended of which the client has read nothing", before)
	}
	reading.Store(true)
	ended := map[string]bool{}
	for len(ended) < items {
		answer := s.next()
		if code := codes.Code(answer.GetError().GetCode()); code != codes.NotFound && code != codes.ResourceExhausted || ended[answer.GetCorrelationId()] {
			t.Fatalf("received %v", answer)
		}
		if answer.GetEnd() {
			ended[answer.GetCorrelationId()] = true
		}
	}
}

// TestP11LargeUnreadEndsAreCounted (P11) checks items with large results while the client does not read. An item with much data counts as a
// watcher until its last answer was sent, so that the number of such items is bounded.
func TestP11LargeUnreadEndsAreCounted(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		method string
		req    func(n int) proto.Message
	}{
		"execute": {tooldv1.CallService_ExecuteTool_FullMethodName, func(n int) proto.Message { return execute("large", fmt.Sprint("large-", n)) }},
		"cancel":  {tooldv1.CallService_CancelCall_FullMethodName, func(int) proto.Message { return &tooldv1.CancelCallRequest{CallId: longID("large-done")} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options{config: func(c *service.Config) { c.WatchersEach = 4 }})
			begun := make(chan struct{}) // closed when the client stops reading
			must(t, w.tools.Register("large", tool.Func(tool.Descriptor{ID: "large", Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true}},
				func(_ context.Context, c *tool.Call) (*tool.Result, error) {
					if name == "execute" {
						<-begun
					}
					return tool.Text(strings.Repeat("x", 40<<10)), nil
				})))
			s := w.session(t, "alice")
			const items, held = 64, 16 // held is the largest number of unread final answers, including those in the transport
			req := &tooldv1.SessionRequest{}
			for n := range items {
				item := itemOf(of.req(n))
				item.CorrelationId = fmt.Sprint(n)
				req.Items = append(req.Items, item)
			}
			if name == "cancel" {
				_, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: spec("large", "large-done")})
				must(t, err)
			}
			must(t, s.stream.Send(req))
			for running := map[string]bool{}; name == "execute" && len(running) < items; { // After this loop, the next answer of each item is its final one.
				answer := s.next()
				if slices.ContainsFunc(answer.GetFrame().GetEvents(), func(e *tooldv1.CallEvent) bool { return e.GetAttemptStarted() != nil }) {
					running[answer.GetCorrelationId()] = true
				}
			}
			close(begun)
			eventually(t, "all have come to their ends", func() bool {
				return w.ended(of.method, codes.OK)+w.ended(of.method, codes.ResourceExhausted) == items
			})
			if sent := w.ended(of.method, codes.OK); sent > held {
				t.Errorf("%d large ends are held for a client that reads nothing", sent)
			}
			for ended := 0; ended < items; {
				if answer := s.next(); answer.GetEnd() {
					ended++
				}
			}
			s.send("then", of.req(items))
			if all := s.until("then", nil); all[len(all)-1].GetError() != nil {
				t.Errorf("published events still take capacity: %v", all)
			}
		})
	}
}

// TestSessionItemPanics checks that a panic in an item fails only that item. The session and the other items of the same message continue.
func TestSessionItemPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{config: func(c *service.Config) { c.Engine = panics{c.Engine} }})
	s := w.session(t, "alice")
	req := &tooldv1.SessionRequest{}
	for n, tool := range []string{"panics", "fail", "panics", "fail"} {
		item := itemOf(execute(tool, fmt.Sprint("panics-", n)))
		item.CorrelationId = fmt.Sprint(n)
		req.Items = append(req.Items, item)
	}
	must(t, s.stream.Send(req))
	must(t, s.stream.CloseSend())
	ends := map[string]codes.Code{}
	for len(ends) < len(req.GetItems()) {
		if answer := s.next(); answer.GetEnd() {
			ends[answer.GetCorrelationId()] = codes.Code(answer.GetError().GetCode())
		}
	}
	if want := (map[string]codes.Code{"0": codes.Internal, "1": codes.OK, "2": codes.Internal, "3": codes.OK}); !maps.Equal(ends, want) {
		t.Errorf("ended with %v, want %v", ends, want)
	}
	if _, err := s.recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the session ended with %v", err)
	}
}

// panics is an engine that panics.
type panics struct{ service.Engine }

func (e panics) Execute(ctx context.Context, p tool.Principal, spec call.Spec, o call.ExecuteOptions) (call.Watcher, error) {
	if spec.Tool == "panics" {
		panic("a fault")
	}
	return e.Engine.Execute(ctx, p, spec, o)
}

// TestSessionMessagesAreBounded checks that the server does not combine many short answers into a message that is larger than the transport
// accepts at once. The method recv checks the size of each message.
func TestSessionMessagesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := w.session(t, "alice")
	begin, leave := &tooldv1.SessionRequest{}, &tooldv1.SessionRequest{}
	const items = 1000
	for n := range items {
		id := fmt.Sprintf("%064d", n)
		item := itemOf(&tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_RunId{RunId: "some-run"}, Follow: true})
		item.CorrelationId = id
		begin.Items = append(begin.Items, item)
		leave.Items = append(leave.Items, &tooldv1.SessionItem{CorrelationId: id, Item: &tooldv1.SessionItem_Leave{Leave: &tooldv1.LeaveItem{}}})
	}
	must(t, s.stream.Send(begin))
	for range items {
		s.next()
	}
	must(t, s.stream.Send(leave))
	eventually(t, "all are left", func() bool { return w.ended(tooldv1.CallService_WatchCalls_FullMethodName, codes.Canceled) == items })
	for range items {
		if answer := s.next(); !answer.GetEnd() {
			t.Fatalf("received %v", answer)
		}
	}
}

// TestEndpointsStoreTheSameRecords checks that ExecuteTool, CallTool and an item of a session store the same records for the same call.
func TestEndpointsStoreTheSameRecords(t *testing.T) {
	t.Parallel()
	endpoints := map[string]func(w *world, spec *tooldv1.CallSpec){
		"ExecuteTool": func(w *world, spec *tooldv1.CallSpec) {
			stream, err := w.calls("alice").ExecuteTool(within(t), &tooldv1.ExecuteToolRequest{Spec: spec})
			must(t, err)
			_, err = readAll(stream.Recv)
			must(t, err)
		},
		"CallTool": func(w *world, spec *tooldv1.CallSpec) {
			_, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: spec})
			must(t, err)
		},
		"Session": func(w *world, spec *tooldv1.CallSpec) {
			s := w.session(t, "alice")
			s.send("it", &tooldv1.ExecuteToolRequest{Spec: spec})
			s.until("it", nil)
		},
	}
	records := map[string]string{}
	for name, ask := range endpoints {
		p := &player{w: newWorld(t, options{}), names: map[string]string{}, newest: map[string]string{}, counts: map[string]int{}}
		var out strings.Builder
		for _, tool := range []string{"echo", "write", "talk", "ask", "fail", "secret", "forbidden", "launch", "no-such-tool"} {
			s := spec(tool, "door-"+tool)
			s.Run = &tooldv1.Run{RunId: "run-" + tool}
			if slices.Contains([]string{"echo", "write"}, tool) {
				s.Arguments = `{"text":"x"}`
			}
			ask(p.w, s)
			got, err := p.w.calls("alice").GetCall(within(t), &tooldv1.GetCallRequest{CallId: s.GetCallId()})
			must(t, err)
			got.GetCall().Detached = false // Ignore this field. It is false only for a call that a stream started, because such a call ends when its client disconnects.
			p.line(&out, tool+" ", got.GetCall())
		}
		records[name] = out.String()
	}
	for name, got := range records {
		if want := records["ExecuteTool"]; got != want {
			t.Errorf("%s left\n%s\nwant\n%s", name, got, want)
		}
	}
}
