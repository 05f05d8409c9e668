package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// bare is the reference server. It answers a call with the same frames as the daemon for a read-only tool that does nothing, and does no
// other work.
type bare struct {
	tooldv1.UnimplementedCallServiceServer
	latest atomic.Pointer[frameNode]
}

// frames returns the two frames of an allowed call that ends: accepted and started, then finished.
func frames(id string) (first, second *tooldv1.ExecuteToolResponse) {
	now := timestamppb.Now()
	first = &tooldv1.ExecuteToolResponse{Frame: &tooldv1.Frame{Cursor: "c1.1.2", Events: []*tooldv1.CallEvent{
		{CallId: id, Sequence: 1, Time: now, Event: &tooldv1.CallEvent_Accepted{Accepted: &tooldv1.CallAccepted{Tool: "bench_noop", ToolDigest: digest, RunId: "bench-run", ThreadId: "bench-thread"}}},
		{CallId: id, Sequence: 2, Time: now, Event: &tooldv1.CallEvent_AttemptStarted{AttemptStarted: &tooldv1.AttemptStarted{Attempt: 1}}},
	}}}
	second = &tooldv1.ExecuteToolResponse{Frame: &tooldv1.Frame{Cursor: "c1.1.3", Events: []*tooldv1.CallEvent{
		{CallId: id, Sequence: 3, Time: now, Event: &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{
			Status: tooldv1.CallStatus_CALL_STATUS_SUCCEEDED, Executed: tooldv1.Executed_EXECUTED_FINISHED,
			Result: &tooldv1.ToolResult{ToolName: "bench_noop", Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `{"ok":true}`},
		}}},
	}}}
	return first, second
}

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func (b *bare) ExecuteTool(r *tooldv1.ExecuteToolRequest, stream grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]) error {
	if r.GetSpec().GetTool() == "bench_beat" {
		return b.publishProgress(r.GetSpec().GetCallId(), stream)
	}
	first, second := frames(r.GetSpec().GetCallId())
	if err := stream.Send(first); err != nil {
		return err
	}
	return stream.Send(second)
}

// CallTool returns a record of 777 bytes, as large as the daemon's, so that encoding costs the same on both sides.
func (*bare) CallTool(_ context.Context, r *tooldv1.CallToolRequest) (*tooldv1.CallToolResponse, error) {
	spec, now := r.GetSpec(), timestamppb.Now()
	return &tooldv1.CallToolResponse{Cursor: "c1.1.3", Call: &tooldv1.Call{
		CallId: spec.GetCallId(), Tool: spec.GetTool(), Status: tooldv1.CallStatus_CALL_STATUS_SUCCEEDED, Executed: tooldv1.Executed_EXECUTED_FINISHED,
		Result: &tooldv1.ToolResult{
			ToolName: spec.GetTool(), Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `{"ok":true}`, Duration: durationpb.New(50 * time.Microsecond),
		},
		Run: spec.GetRun(), RequestedArguments: spec.GetArguments(), EffectiveArguments: spec.GetArguments(),
		Assessment:   &tooldv1.Assessment{Mutability: tooldv1.Mutability_MUTABILITY_READ_ONLY, Safety: tooldv1.Safety_SAFETY_READ_ONLY, Tier: tooldv1.Tier_TIER_OBSERVE, ConcurrencySafe: true},
		Description:  &tooldv1.Description{Kind: tooldv1.Kind_KIND_READ, Title: spec.GetTool()},
		LastSequence: 3, CreatedAt: now, EndedAt: now, StartedAt: now, Namespace: "default", ToolDigest: digest,
		Caller: &tooldv1.Principal{Subject: "local", Method: "token", Namespace: "default", Roles: []tooldv1.Role{
			tooldv1.Role_ROLE_CALLER, tooldv1.Role_ROLE_APPROVER, tooldv1.Role_ROLE_OPERATOR, tooldv1.Role_ROLE_VIEWER,
		}},
		Verdicts:   []*tooldv1.Verdict{{Gate: "permission", Action: tooldv1.VerdictAction_VERDICT_ACTION_ALLOW}},
		Attempts:   []*tooldv1.Attempt{{Attempt: 1, Epoch: 1, StartedAt: now, EndedAt: now}},
		Isolation:  &tooldv1.Isolation{Required: tooldv1.IsolationLevel_ISOLATION_LEVEL_NONE, Network: tooldv1.NetworkMode_NETWORK_MODE_NONE},
		Durability: tooldv1.Durability_DURABILITY_BEHIND, Epoch: 1, Detached: true,
	}}, nil
}

// progressInterval is the interval of progress reports, the same as that of the tool bench_beat.
const progressInterval = 40 * time.Millisecond

// frameNode is a node in a linked list of frames that all watchers read. next is valid once done is closed.
type frameNode struct {
	frame *tooldv1.WatchCallsResponse
	done  chan struct{}
	next  *frameNode
}

func newFrameNode(frame *tooldv1.WatchCallsResponse) *frameNode {
	return &frameNode{frame: frame, done: make(chan struct{})}
}

// publishProgress publishes progress as bench_beat does, until its caller disconnects.
func (b *bare) publishProgress(id string, stream grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]) error {
	first, _ := frames(id)
	if err := stream.Send(first); err != nil {
		return err
	}
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for n := int64(3); ; n++ {
		select {
		case <-stream.Context().Done():
			return nil
		case <-tick.C:
		}
		next := newFrameNode(&tooldv1.WatchCallsResponse{Frame: &tooldv1.Frame{Cursor: fmt.Sprintf("c1.1.%d", n), Events: []*tooldv1.CallEvent{
			{CallId: id, Sequence: n, Time: timestamppb.Now(), Event: &tooldv1.CallEvent_Progress{Progress: &tooldv1.Progress{
				Status: tooldv1.ProgressStatus_PROGRESS_STATUS_RUNNING, Fraction: 0.5, Message: fmt.Sprintf("step %d", n),
			}}},
		}}})
		before := b.latest.Swap(next)
		before.next = next
		close(before.done)
	}
}

// WatchCalls sends the frames of publishProgress.
func (b *bare) WatchCalls(_ *tooldv1.WatchCallsRequest, stream grpc.ServerStreamingServer[tooldv1.WatchCallsResponse]) error {
	at := b.latest.Load()
	if err := stream.Send(&tooldv1.WatchCallsResponse{Frame: &tooldv1.Frame{Cursor: "c1.1.2"}}); err != nil {
		return err
	}
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-at.done:
		}
		at = at.next
		if err := stream.Send(at.frame); err != nil {
			return err
		}
	}
}

// CancelCall does nothing, because publishProgress ends when its caller disconnects.
func (*bare) CancelCall(context.Context, *tooldv1.CancelCallRequest) (*tooldv1.CancelCallResponse, error) {
	return &tooldv1.CancelCallResponse{}, nil
}

// serveBare runs the reference with the same server options as the daemon.
func serveBare() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b := new(bare)
	b.latest.Store(newFrameNode(nil))
	s := grpc.NewServer(
		grpc.NumStreamWorkers(64), grpc.MaxConcurrentStreams(2048), grpc.MaxHeaderListSize(16<<10), grpc.MaxRecvMsgSize(4<<20),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	tooldv1.RegisterCallServiceServer(s, b)
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	go func() {
		<-end
		s.Stop()
	}()
	fmt.Printf("{\"ready\":true,\"tcp\":%q}\n", lis.Addr())
	return s.Serve(lis)
}
