package grpcserver_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

func (w *world) ended(method string, c codes.Code) int64 {
	return w.service.Stats()[method].Ended[c]
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := within(t)
	for tick := time.NewTicker(5 * time.Millisecond); !holds(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// registerFlood adds a tool that prints far more than the transport buffers for a client that does not read.
func (w *world) registerFlood() {
	w.t.Helper()
	must(w.t, w.tools.Register("more", tool.Func(tool.Descriptor{ID: "flood", Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}},
		func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			for range 128 {
				if err := c.Output("stdout", make([]byte, 64<<10)); err != nil {
					return nil, err
				}
			}
			return tool.Text("done"), nil
		})))
}

// TestP11StalledWatchersAreEnded (P11, T73) checks that the server ends the stream of a client that reads nothing. The client gets the
// cursor from which it can watch again, and misses nothing. The output is 8 MiB instead of the 1 GB of T73, because the quota of a call is
// smaller.
func TestP11StalledWatchersAreEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{config: func(c *service.Config) { c.Stall = 2 * time.Second }})
	w.registerFlood()
	ctx := within(t)
	executed, err := w.calls("alice").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec("flood", "flood")})
	must(t, err)
	watched, err := w.calls("alice").WatchCalls(ctx, &tooldv1.WatchCallsRequest{
		Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID("flood")}, AfterSequence: new(int64), Follow: true,
	})
	must(t, err)
	eventually(t, "both are ended", func() bool {
		return w.ended(tooldv1.CallService_ExecuteTool_FullMethodName, codes.ResourceExhausted) == 1 &&
			w.ended(tooldv1.CallService_WatchCalls_FullMethodName, codes.ResourceExhausted)+w.ended(tooldv1.CallService_WatchCalls_FullMethodName, codes.NotFound) == 1
	})
	all, err := readAll(executed.Recv)
	wantRefusal(t, err, codes.ResourceExhausted, "WATCHER_LAGGED")
	_, watchErr := readAll(watched.Recv)
	if status.Code(watchErr) != codes.NotFound { // NotFound is possible, because the watch may start before the call.
		wantRefusal(t, watchErr, codes.ResourceExhausted, "WATCHER_LAGGED")
	}
	seen := events(all)
	last := seen[len(seen)-1].GetSequence()
	rest, err := w.calls("alice").WatchCalls(ctx, &tooldv1.WatchCallsRequest{
		Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID("flood")}, Cursor: metadataOf(err)["cursor"], Follow: true,
	})
	must(t, err)
	more, err := readAll(rest.Recv)
	must(t, err)
	following := events(more)
	if first := following[0].GetSequence(); first > last+1 || following[len(following)-1].GetFinished() == nil {
		t.Errorf("saw events up to %d; the cursor resumes with %d of %d", last, first, len(following))
	}
}

// TestP11WatchersThatNeverReadLeaveOthersServed (P11) checks watchers that never read, on streams and in sessions. For each of them the
// server keeps about one frame in memory, however much output the call has. Meanwhile it serves other clients.
func TestP11WatchersThatNeverReadLeaveOthersServed(t *testing.T) {
	w := newWorld(t, options{})
	w.registerFlood()
	ctx := within(t)
	_, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec("flood", "unread")})
	must(t, err)
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	c, err := grpc.NewClient(w.tcp, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(tokenOf("alice"))),
		grpc.WithInitialWindowSize(64<<10)) // A fixed window disables the bandwidth estimation of the client.
	must(t, err)
	w.conns["alice"].Close()
	w.conns["alice"] = c
	before := inUse()
	const streams, items = 48, 208
	all := &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID("unread")}, AfterSequence: new(int64), Follow: true}
	s := w.session(t, "alice")
	for n := range streams + items {
		if n < items {
			s.send(fmt.Sprint(n), all)
			continue
		}
		_, err := w.calls("alice").WatchCalls(ctx, all)
		must(t, err)
	}
	eventually(t, "all watch", func() bool { return w.engine.Stats().Watchers == streams+items })
	for n := range 100 {
		resp, err := w.calls("bob").CallTool(ctx, &tooldv1.CallToolRequest{Spec: echo(fmt.Sprintf("served-meanwhile-%d", n), "x").Spec})
		must(t, err)
		if got := resp.GetCall().GetStatus(); got != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
			t.Fatalf("somebody else's call is %v", got)
		}
	}
	each := (inUse() - before) / (streams + items)
	if each > 2<<20 { // The limit includes the buffers of the client, which runs in the same process. The output of the call has 8 MiB.
		t.Errorf("a watcher that never reads takes %d bytes", each)
	}
	t.Logf("a watcher that never reads takes %d bytes", each)
}

func metadataOf(err error) map[string]string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetMetadata()
		}
	}
	return nil
}

// TestP11WatchersAreBounded (P11) checks the limits on the watchers of a principal and of all principals. When a watcher leaves, another
// one is accepted.
func TestP11WatchersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{config: func(c *service.Config) { c.WatchersEach, c.Watchers = 2, 3 }})
	watch := func(user string) (stop func(), err error) {
		ctx, cancel := context.WithCancel(within(t))
		stream, err := w.calls(user).WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_RunId{RunId: "run-of-" + user}, Follow: true})
		must(t, err)
		_, err = stream.Recv() // receives caught_up
		return func() {
			cancel()
			_, _ = readAll(stream.Recv)
		}, err
	}
	first, err := watch("alice")
	must(t, err)
	_, err = watch("alice")
	must(t, err)
	_, err = watch("alice")
	wantRefusal(t, err, codes.ResourceExhausted, "TOO_MANY_WATCHERS")
	_, err = watch("bob")
	must(t, err)
	_, err = watch("dora")
	wantRefusal(t, err, codes.ResourceExhausted, "TOO_MANY_WATCHERS")
	first()
	eventually(t, "there is room again", func() bool {
		_, err := watch("dora")
		return err == nil
	})
}

// TestP11RefusedWatchersKeepTheirCursor (P11) checks a watch that ends before the server has sent an event. The client gets the cursor of
// its request back, also when the server has sent heartbeats.
func TestP11RefusedWatchersKeepTheirCursor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{heartbeat: 20 * time.Millisecond, config: func(c *service.Config) { c.WatchersEach = 1 }})
	w.registerFlood()
	held := make(chan struct{})
	must(t, w.tools.Register("late", tool.Func(tool.Descriptor{ID: "late", Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}},
		func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			<-held
			return tool.Text("done"), c.Output("stdout", make([]byte, 64<<10))
		})))
	ctx := within(t)
	called, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec("flood", "flood")})
	must(t, err)
	other, err := w.calls("alice").WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_RunId{RunId: "another"}, Follow: true})
	must(t, err)
	_, err = other.Recv() // receives caught_up: this watcher has the only slot
	must(t, err)

	cursor := strings.Replace(called.GetCursor(), strconv.FormatInt(called.GetCall().GetLastSequence(), 10), "2", 1)
	again, err := w.calls("alice").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec("flood", "flood"), Cursor: cursor})
	must(t, err)
	_, err = readAll(again.Recv)
	wantRefusal(t, err, codes.ResourceExhausted, "TOO_MANY_WATCHERS")
	if got := metadataOf(err)["cursor"]; got != cursor {
		t.Errorf("requested the events after %q; the refusal has the cursor %q", cursor, got)
	}

	late, err := w.calls("alice").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec("late", "late")})
	must(t, err)
	seen := ""
	for heartbeats := 0; heartbeats < 2; {
		resp, err := late.Recv()
		must(t, err)
		if f := resp.GetFrame(); f.GetHeartbeat() != nil {
			heartbeats++
		} else if f.GetCursor() != "" {
			seen = f.GetCursor()
		}
	}
	close(held)
	_, err = readAll(late.Recv)
	wantRefusal(t, err, codes.ResourceExhausted, "TOO_MANY_WATCHERS")
	if got := metadataOf(err)["cursor"]; got != seen {
		t.Errorf("the last cursor was %q; the refusal has the cursor %q", seen, got)
	}
}
