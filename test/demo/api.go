package main

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// An api is a client of the daemon's gRPC API over one TCP connection. It uses the token that the first start created.
type api struct {
	calls tooldv1.CallServiceClient
	tools tooldv1.ToolServiceClient
	admin tooldv1.AdminServiceClient

	conn *grpc.ClientConn
	mu   sync.Mutex
	raw  []net.Conn
}

func dial(address, token string) (*api, error) {
	a := &api{}
	with := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
			if err == nil {
				a.mu.Lock()
				a.raw = append(a.raw, c)
				a.mu.Unlock()
			}
			return c, err
		}),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(with(ctx), method, req, reply, cc, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return stream(with(ctx), desc, cc, method, opts...)
		}))
	if err != nil {
		return nil, err
	}
	a.conn = conn
	a.calls, a.tools, a.admin = tooldv1.NewCallServiceClient(conn), tooldv1.NewToolServiceClient(conn), tooldv1.NewAdminServiceClient(conn)
	return a, nil
}

// cut breaks the connection with a reset, in the middle of a transfer, as a broken network would.
func (a *api) cut() {
	a.mu.Lock()
	for _, c := range a.raw {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // makes Close send a reset
		}
		_ = c.Close()
	}
	a.mu.Unlock()
	a.close()
}

func (a *api) close() { _ = a.conn.Close() }

func (a *api) call(ctx context.Context, id string) (*tooldv1.Call, error) {
	answer, err := a.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: id})
	return answer.GetCall(), err
}

// begin starts a call and returns when it has ended or is suspended.
func (a *api) begin(ctx context.Context, spec *tooldv1.CallSpec) (*tooldv1.Call, error) {
	answer, err := a.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec, Wait: durationpb.New(callWait)})
	return answer.GetCall(), err
}

func (a *api) inbox(ctx context.Context) ([]*tooldv1.Call, error) {
	answer, err := a.calls.ListCalls(ctx, &tooldv1.ListCallsRequest{Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}})
	return answer.GetCalls(), err
}

// watch opens a stream of a call's events, after the cursor or, without one, from the first event.
func (a *api) watch(ctx context.Context, id, cursor string, follow bool) (grpc.ServerStreamingClient[tooldv1.WatchCallsResponse], error) {
	req := &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: id}, Cursor: cursor, Follow: follow}
	if cursor == "" {
		req.AfterSequence = new(int64(0))
	}
	return a.calls.WatchCalls(ctx, req)
}

// reader returns the function with which a tape reads the output bytes of events that contain only a position.
func (a *api) reader(ctx context.Context, id string) func(string, int64, int64) ([]byte, error) {
	return func(stream string, offset, length int64) ([]byte, error) {
		var data []byte
		for int64(len(data)) < length {
			r, err := a.calls.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{
				CallId: id, Name: stream, Offset: offset + int64(len(data)), Limit: length - int64(len(data)),
			})
			if err != nil {
				return nil, err
			}
			if len(r.GetData()) == 0 {
				return data, nil // The caller detects that the data is too short.
			}
			data = append(data, r.GetData()...)
		}
		return data, nil
	}
}
