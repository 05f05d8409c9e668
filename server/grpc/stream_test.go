package grpcserver_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

func spec(tool, id string) *tooldv1.CallSpec {
	return &tooldv1.CallSpec{Tool: tool, CallId: longID(id)}
}

// TestDeadlineEndsTheWatchingOnly checks that a gRPC deadline limits the watch and not the call. The stream ends without an error shortly
// before the deadline, and the client resumes from its cursor.
func TestDeadlineEndsTheWatchingOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	deadline := 2 * time.Second
	var call *tooldv1.CallSpec
	all, took, err := beforeDeadline(deadline, func(ctx context.Context) ([]*tooldv1.Frame, error) {
		call = &tooldv1.CallSpec{Tool: "hold", CallId: longID(rand.Text())}
		stream, err := w.calls("alice").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: call})
		must(t, err)
		return readAll(stream.Recv)
	})
	must(t, err)
	if took < deadline*8/10 {
		t.Errorf("ended after %v, want shortly before %v", took, deadline)
	}
	if got := kinds(all); !slices.Equal(got, []string{"accepted", "attempt_started", "closing"}) {
		t.Fatalf("got %v", got)
	}
	last := all[len(all)-1]
	if last.GetClosing().GetReason() != tooldv1.ClosingReason_CLOSING_REASON_DEADLINE || last.GetCursor() == "" {
		t.Errorf("last frame %v", last)
	}
	close(w.release)
	stream, err := w.calls("alice").ExecuteTool(within(t), &tooldv1.ExecuteToolRequest{Spec: call, Cursor: last.GetCursor()})
	must(t, err)
	rest, err := readAll(stream.Recv)
	must(t, err)
	if e := events(rest); len(e) != 1 || e[0].GetSequence() != 3 || e[0].GetFinished().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("from the cursor on: %v", rest)
	}
}

// beforeDeadline invokes ask with a deadline, and repeats this until an answer arrives in time. It returns the duration of the last call.
// It repeats the call because the server ends a stream only 250 ms before the deadline. On a busy machine the last message may then arrive
// too late, which the API allows.
func beforeDeadline[T any](deadline time.Duration, ask func(ctx context.Context) (T, error)) (T, time.Duration, error) {
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		began := time.Now()
		answer, err := ask(ctx)
		took := time.Since(began)
		cancel()
		if status.Code(err) != codes.DeadlineExceeded || tries == 30 {
			return answer, took, err
		}
	}
}

// TestReattachAfterEachFrame checks that a client that reattaches after any event gets each later event exactly once (T92 without
// restarts).
func TestReattachAfterEachFrame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	ctx := within(t)
	stream, err := w.calls("alice").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec("talk", "reattach")})
	must(t, err)
	all, err := readAll(stream.Recv)
	must(t, err)
	total := len(events(all))
	for _, f := range all {
		es := f.GetEvents()
		stream, err := w.calls("alice").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec("talk", "reattach"), Cursor: f.GetCursor()})
		must(t, err)
		rest, err := readAll(stream.Recv)
		must(t, err)
		next := es[len(es)-1].GetSequence() + 1
		for _, e := range events(rest) {
			if e.GetSequence() != next {
				t.Fatalf("after %q came %d, want %d", f.GetCursor(), e.GetSequence(), next)
			}
			next++
		}
		if int(next) != total+1 {
			t.Errorf("after %q the last one was %d of %d", f.GetCursor(), next-1, total)
		}
	}
}

// TestEveryCursorIsGood checks that a client can resume from the cursor of each kind of frame.
func TestEveryCursorIsGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	first, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: spec("hold", "cursors"), Wait: durationpb.New(0)})
	must(t, err)
	if s := first.GetCall().GetStatus(); s.String() != "CALL_STATUS_NEW" && s.String() != "CALL_STATUS_RUNNING" {
		t.Errorf("accepted as %v", s)
	}
	cursor := first.GetCursor()
	for range 3 { // the frames caught_up and closing have cursors too
		all, _, err := beforeDeadline(time.Second, func(ctx context.Context) ([]*tooldv1.Frame, error) {
			stream, err := w.calls("alice").WatchCalls(ctx, &tooldv1.WatchCallsRequest{
				Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID("cursors")}, Cursor: cursor, Follow: true,
			})
			must(t, err)
			return readAll(stream.Recv)
		})
		must(t, err)
		for _, f := range all {
			if f.GetGap() != nil {
				t.Fatalf("cursor %q leads to %v", cursor, f)
			}
			if f.GetHeartbeat() == nil {
				cursor = f.GetCursor()
			}
		}
	}
}

// TestLeaving checks that a call runs for its linger time after its client has disconnected. A call that CallTool started is not affected
// when its client disconnects.
func TestLeaving(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	ctx := within(t)
	short := spec("slow", "left")
	short.Linger = durationpb.New(100 * time.Millisecond)
	leave, cancel := context.WithCancel(ctx)
	stream, err := w.calls("alice").ExecuteTool(leave, &tooldv1.ExecuteToolRequest{Spec: short})
	must(t, err)
	_, err = stream.Recv()
	must(t, err)
	kept, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec("slow", "kept"), Wait: durationpb.New(0)})
	must(t, err)
	if !kept.GetCall().GetDetached() {
		t.Error("the call of CallTool is not detached")
	}
	cancel()
	eventually(t, "the call that was left ends", func() bool {
		got, err := w.calls("vera").GetCall(ctx, &tooldv1.GetCallRequest{CallId: longID("left")}) // Poll instead of watching, because a watcher would keep the call running.
		must(t, err)
		switch s := got.GetCall().GetStatus(); s {
		case tooldv1.CallStatus_CALL_STATUS_NEW, tooldv1.CallStatus_CALL_STATUS_RUNNING:
			return false
		case tooldv1.CallStatus_CALL_STATUS_CANCELLED, tooldv1.CallStatus_CALL_STATUS_FAILED:
		default:
			t.Errorf("it ended %v", got.GetCall())
		}
		return true
	})
	got, err := w.calls("alice").GetCall(ctx, &tooldv1.GetCallRequest{CallId: longID("kept")})
	must(t, err)
	if got.GetCall().GetStatus() != tooldv1.CallStatus_CALL_STATUS_RUNNING {
		t.Errorf("the other is %v", got.GetCall().GetStatus())
	}
}

// TestCallToolWaits checks that CallTool waits for the time in its request, or until its deadline, and then returns the current record of
// the call.
func TestCallToolWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	tests := []struct {
		name     string
		wait     *durationpb.Duration
		deadline time.Duration
		least    time.Duration
	}{
		{"not at all", durationpb.New(0), 20 * time.Second, 0},
		{"for a while", durationpb.New(200 * time.Millisecond), 20 * time.Second, 200 * time.Millisecond},
		{"until the deadline", nil, 2 * time.Second, 1700 * time.Millisecond},
		{"longer than the deadline", durationpb.New(time.Hour), 2 * time.Second, 1700 * time.Millisecond},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := &tooldv1.CallToolRequest{Spec: spec("hold", fmt.Sprintf("waits-%d", i)), Wait: tt.wait}
			resp, took, err := beforeDeadline(tt.deadline, func(ctx context.Context) (*tooldv1.CallToolResponse, error) {
				return w.calls("alice").CallTool(ctx, req)
			})
			must(t, err)
			if took < tt.least {
				t.Errorf("took %v, want %v", took, tt.least)
			}
			if c := resp.GetCall(); c.GetCallId() == "" || c.GetLastSequence() < 1 || c.GetResult() != nil {
				t.Errorf("got %v", c)
			}
		})
	}
	close(w.release)
	resp, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: spec("hold", "waits-0")})
	must(t, err)
	if resp.GetCall().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("at last %v", resp.GetCall())
	}
}

// lasting is a tool that suspends its calls. Its method Stop, which must end nested calls, returns only when its context ends.
type lasting struct{ tool.Tool }

func (lasting) Stop(ctx context.Context, _ *tool.Call) []string { <-ctx.Done(); return nil }

// TestCancelIsAnsweredWhenStored checks that the server responds to a cancellation as soon as it is stored, even if the call takes longer
// to end.
func TestCancelIsAnsweredWhenStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	must(t, w.tools.Register("test", lasting{tool.Func(tool.Descriptor{ID: "rests", Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}},
		func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Suspended("May I?"), nil })}))
	for i, cancel := range []func(ctx context.Context, id, run string) ([]string, error){
		func(ctx context.Context, id, _ string) ([]string, error) {
			resp, err := w.calls("alice").CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: id})
			return []string{resp.GetCall().GetCallId()}, err
		},
		func(ctx context.Context, _, run string) ([]string, error) {
			resp, err := w.calls("alice").CancelCalls(ctx, &tooldv1.CancelCallsRequest{Selector: &tooldv1.CancelCallsRequest_RunId{RunId: run}})
			return resp.GetCallIds(), err
		},
	} {
		s := spec("rests", fmt.Sprintf("rests-%d", i))
		s.Run = &tooldv1.Run{RunId: fmt.Sprintf("run-of-rests-%d", i)}
		resp, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: s})
		must(t, err)
		if resp.GetCall().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
			t.Fatalf("it is %v", resp.GetCall())
		}
		ids, err := cancel(within(t), s.GetCallId(), s.GetRun().GetRunId())
		must(t, err)
		if len(ids) != 1 || ids[0] != s.GetCallId() {
			t.Errorf("%q are cancelled", ids)
		}
		got, err := w.calls("alice").GetCall(within(t), &tooldv1.GetCallRequest{CallId: s.GetCallId()})
		must(t, err)
		if c := got.GetCall(); c.GetCancelRequest() == nil || c.GetSuspension() != nil {
			t.Errorf("it is %v", c)
		}
	}
}

// TestGeneratedID checks a request without a call id. The first frame contains the id that the server generated.
func TestGeneratedID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	stream, err := w.calls("alice").ExecuteTool(within(t), &tooldv1.ExecuteToolRequest{Spec: &tooldv1.CallSpec{Tool: "talk"}})
	must(t, err)
	first, err := stream.Recv()
	must(t, err)
	id := first.GetFrame().GetEvents()[0].GetCallId()
	if len(id) != 36 {
		t.Errorf("call_id %q", id)
	}
	_, err = readAll(stream.Recv)
	must(t, err)
	_, err = w.calls("alice").GetCall(within(t), &tooldv1.GetCallRequest{CallId: id})
	must(t, err)
}

// TestOnBehalfOf checks that a principal needs the role delegate to act for another principal. The record names both principals.
func TestOnBehalfOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	s := spec("talk", "behalf")
	s.Run = &tooldv1.Run{OnBehalfOf: "bob"}
	_, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: s})
	wantRefusal(t, err, codes.PermissionDenied, "DELEGATE_REQUIRED")
	resp, err := w.calls("dora").CallTool(within(t), &tooldv1.CallToolRequest{Spec: s})
	must(t, err)
	if c := resp.GetCall(); c.GetRun().GetOnBehalfOf() != "bob" || c.GetCaller().GetSubject() != "dora" {
		t.Errorf("caller %v for %q", c.GetCaller(), c.GetRun().GetOnBehalfOf())
	}
}

// TestT62FourEyes (T62, T98) checks over gRPC that a four-eyes approval needs two different people, whatever credentials they use.
func TestT62FourEyes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	ctx := within(t)
	resp, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec("launch", "eyes")})
	must(t, err)
	s := resp.GetCall().GetSuspension()
	if !s.GetApprovers().GetDistinctFromCaller() {
		t.Fatalf("ticket %v", s)
	}
	decide := func(user string) error {
		stream, err := w.calls(user).ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: s.GetSuspensionId(), Decision: &tooldv1.Decision{
			DecisionId: longID("by-" + user), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: s.GetDigest(),
		}})
		must(t, err)
		_, err = readAll(stream.Recv)
		return err
	}
	wantRefusal(t, decide("alice"), codes.PermissionDenied, "NOT_AN_APPROVER")
	must(t, decide("ann"))
}

// TestHeartbeat checks that a stream without events sends heartbeats.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{heartbeat: 50 * time.Millisecond})
	stream, err := w.calls("alice").ExecuteTool(within(t), &tooldv1.ExecuteToolRequest{Spec: spec("hold", "heartbeat")})
	must(t, err)
	for n := 0; n < 3; {
		resp, err := stream.Recv()
		must(t, err)
		if h := resp.GetFrame().GetHeartbeat(); h != nil {
			n++
			if resp.GetFrame().GetCursor() != "" || h.GetTime() == nil {
				t.Errorf("heartbeat %v", resp.GetFrame())
			}
		}
	}
	close(w.release)
	all, err := readAll(stream.Recv)
	must(t, err)
	if got := kinds(all); len(got) != 1 || got[0] != "finished" {
		t.Errorf("then %v", got)
	}
}

// TestDrain checks that a drain ends the stream of a suspended call with a cursor, and refuses new calls as UNAVAILABLE. When the server
// stops, WatchTools ends too.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	ctx := within(t)
	waiting, err := w.calls("alice").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec("ask", "drain"), WaitForDecision: true})
	must(t, err)
	for {
		resp, err := waiting.Recv()
		must(t, err)
		if slices.Contains(kinds([]*tooldv1.Frame{resp.GetFrame()}), "suspended") {
			break
		}
	}
	watching, err := tooldv1.NewToolServiceClient(w.as("alice")).WatchTools(ctx, &tooldv1.WatchToolsRequest{})
	must(t, err)
	_, err = watching.Recv()
	must(t, err)
	draining, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	w.engine.Drain(draining)
	_, err = w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec("talk", "late")})
	wantRefusal(t, err, codes.Unavailable, "DRAINING")
	all, err := readAll(waiting.Recv)
	must(t, err)
	if n := len(all); n == 0 || all[n-1].GetClosing().GetReason() != tooldv1.ClosingReason_CLOSING_REASON_DRAIN || all[n-1].GetCursor() == "" {
		t.Errorf("the stream of the suspended call ended with %v", all)
	}
	done := make(chan error, 1)
	go func() {
		_, err := watching.Recv()
		done <- err
	}()
	w.stop()
	if err := <-done; status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("WatchTools ended with %v", err)
	}
}

// TestWatchTools checks that WatchTools reports changes of visible tools, but never changes of hidden tools.
func TestWatchTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	ctx := within(t)
	client := tooldv1.NewToolServiceClient(w.as("alice"))
	stream, err := client.WatchTools(ctx, &tooldv1.WatchToolsRequest{})
	must(t, err)
	first, err := stream.Recv()
	must(t, err)
	list, err := client.ListTools(ctx, &tooldv1.ListToolsRequest{})
	must(t, err)
	if !first.GetReset_() || len(first.GetChanges()) != len(list.GetTools()) || first.GetRevision() != list.GetRevision() {
		t.Errorf("first: reset %t, %d changes, revision %q; list: %d, %q", first.GetReset_(), len(first.GetChanges()), first.GetRevision(), len(list.GetTools()), list.GetRevision())
	}
	must(t, w.tools.Register("more", tool.Func(tool.Descriptor{ID: "added"}, nil)))
	must(t, w.gate.Reload("rules", []byte("rules: [{action: deny, tools: [secret, talk]}]")))
	w.tools.Refresh()
	seen := map[string]bool{}
	for !seen["added"] || !seen["-talk"] {
		resp, err := stream.Recv()
		must(t, err)
		if resp.GetReset_() {
			t.Error("a second reset")
		}
		for _, c := range resp.GetChanges() {
			if c.GetPut() != nil {
				seen[c.GetPut().GetId()] = true
			} else {
				seen["-"+c.GetRemoved()] = true
			}
		}
	}
	if want := map[string]bool{"added": true, "-talk": true}; !maps.Equal(seen, want) { // The tool "secret" is hidden before and after the change, and the tool "forbidden" does not change.
		t.Errorf("changes: %v, want %v", seen, want)
	}
	list, err = client.ListTools(ctx, &tooldv1.ListToolsRequest{})
	must(t, err)
	again, err := client.WatchTools(ctx, &tooldv1.WatchToolsRequest{Revision: list.GetRevision()})
	must(t, err)
	resp, err := again.Recv()
	must(t, err)
	if resp.GetReset_() || len(resp.GetChanges()) != 0 || resp.GetRevision() != list.GetRevision() {
		t.Errorf("with the revision that holds: %v", resp)
	}
}

// TestListPages checks that the pages of a list contain each call once, newest or oldest first, within the requested time range.
func TestListPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	ctx := within(t)
	var want []string
	for i := range 7 {
		id := longID(fmt.Sprintf("page-%d", i))
		_, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "talk", CallId: id}})
		must(t, err)
		want = append(want, id)
	}
	list := func(req *tooldv1.ListCallsRequest) (ids []string) {
		t.Helper()
		for {
			resp, err := w.calls("alice").ListCalls(ctx, req)
			must(t, err)
			for _, c := range resp.GetCalls() {
				ids = append(ids, c.GetCallId())
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				return ids
			}
		}
	}
	if got := list(&tooldv1.ListCallsRequest{PageSize: 2, Order: tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST}); !slices.Equal(got, want) {
		t.Errorf("oldest first: %v", got)
	}
	got := list(&tooldv1.ListCallsRequest{PageSize: 3})
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("newest first, turned round: %v", got)
	}
	if got := list(&tooldv1.ListCallsRequest{CreatedBefore: timestamppb.New(time.Now().Add(-time.Hour))}); len(got) != 0 {
		t.Errorf("an hour ago: %v", got)
	}
	if got := list(&tooldv1.ListCallsRequest{CreatedAfter: timestamppb.New(time.Now().Add(-time.Hour))}); len(got) != 7 {
		t.Errorf("within the hour: %v", got)
	}
	if got := list(&tooldv1.ListCallsRequest{Action: "input", Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUCCEEDED}}); len(got) != 0 {
		t.Errorf("ended calls with an open question: %v", got)
	}
}

// TestT110LostTail (T110) kills the daemon while a read-only call streams. With its old cursor, the client gets a gap, or the events of a
// new execution of the call. It must never get different events under sequence numbers that it has already received.
func TestT110LostTail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	stream, err := w.calls("alice").ExecuteTool(within(t), &tooldv1.ExecuteToolRequest{Spec: spec("hold", "lost")})
	must(t, err)
	first, err := stream.Recv()
	must(t, err)
	cursor := first.GetFrame().GetCursor()
	crashed := w.store.Crash() // At this time, the call may or may not be in the journal.
	w.stop()
	next := newWorld(t, options{store: crashed})
	close(next.release)
	again, err := next.calls("alice").ExecuteTool(within(t), &tooldv1.ExecuteToolRequest{Spec: spec("hold", "lost"), Cursor: cursor})
	must(t, err)
	all, err := readAll(again.Recv)
	must(t, err)
	if len(all) == 0 {
		t.Fatal("nothing came")
	}
	if gap := all[0].GetGap(); gap != nil {
		if gap.GetReason() != tooldv1.GapReason_GAP_REASON_LOST_TAIL || gap.GetEpoch() < 2 {
			t.Errorf("gap %v", gap)
		}
		return
	}
	if e := events(all); len(e) == 0 || e[0].GetSequence() != 1 && e[0].GetSequence() <= first.GetFrame().GetEvents()[0].GetSequence() {
		t.Errorf("got %v", all)
	}
}
