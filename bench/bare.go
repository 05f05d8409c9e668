package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/timestamppb"

	"context"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// bare answers the frames of a read-only no-op and does nothing for them.
type bare struct {
	tooldv1.UnimplementedCallServiceServer
}

// frames are what an allowed call that ends looks like: accepted and started, then finished.
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

func (bare) ExecuteTool(r *tooldv1.ExecuteToolRequest, stream grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]) error {
	first, second := frames(r.GetSpec().GetCallId())
	if err := stream.Send(first); err != nil {
		return err
	}
	return stream.Send(second)
}

func (bare) CallTool(_ context.Context, r *tooldv1.CallToolRequest) (*tooldv1.CallToolResponse, error) {
	return &tooldv1.CallToolResponse{Cursor: "c1.1.3", Call: &tooldv1.Call{
		CallId: r.GetSpec().GetCallId(), Tool: "bench_noop", Status: tooldv1.CallStatus_CALL_STATUS_SUCCEEDED,
		Result: &tooldv1.ToolResult{ToolName: "bench_noop", Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `{"ok":true}`},
	}}, nil
}

// serveBare runs the reference with the options of the daemon's server.
func serveBare() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer(
		grpc.NumStreamWorkers(64), grpc.MaxConcurrentStreams(2048), grpc.MaxHeaderListSize(16<<10), grpc.MaxRecvMsgSize(4<<20),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	tooldv1.RegisterCallServiceServer(s, bare{})
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	go func() {
		<-end
		s.Stop()
	}()
	fmt.Printf("{\"ready\":true,\"tcp\":%q}\n", lis.Addr())
	return s.Serve(lis)
}
