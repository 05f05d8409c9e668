package crash_test

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// answerWithin limits every request. A daemon that needs longer is stuck.
const answerWithin = 20 * time.Second

// A client is a connection to one daemon. Each request names its own principal.
type client struct {
	conn  *grpc.ClientConn
	calls tooldv1.CallServiceClient
	admin tooldv1.AdminServiceClient
}

func dial(address string) (*client, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &client{conn, tooldv1.NewCallServiceClient(conn), tooldv1.NewAdminServiceClient(conn)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// as returns a context with the principal and the deadline of a request.
func as(ctx context.Context, who string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	return identified(ctx, who), cancel
}

// identified returns a context with the principal of a request.
func identified(ctx context.Context, who string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token(who))
}

// frames is a stream of any method that sends frames.
type frames interface {
	next() (*tooldv1.Frame, error)
}

// framed adapts the stream of one method to frames.
type framed[M interface{ GetFrame() *tooldv1.Frame }] struct {
	stream interface{ Recv() (M, error) }
}

func (f framed[M]) next() (*tooldv1.Frame, error) {
	m, err := f.stream.Recv()
	if err != nil {
		return nil, err
	}
	return m.GetFrame(), nil
}

func (c *client) execute(ctx context.Context, spec *tooldv1.CallSpec, cursor string) (frames, error) {
	stream, err := c.calls.ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec, Cursor: cursor})
	return framed[*tooldv1.ExecuteToolResponse]{stream}, err
}

func (c *client) resume(ctx context.Context, suspension string, d *tooldv1.Decision) (frames, error) {
	stream, err := c.calls.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: suspension, Decision: d})
	return framed[*tooldv1.ResumeToolResponse]{stream}, err
}

// watch follows a call from a cursor. Without a cursor it starts at the first event.
func (c *client) watch(ctx context.Context, id, cursor string, follow bool) (frames, error) {
	req := &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: id}, Cursor: cursor, Follow: follow}
	if cursor == "" {
		req.AfterSequence = new(int64(0))
	}
	stream, err := c.calls.WatchCalls(ctx, req)
	return framed[*tooldv1.WatchCallsResponse]{stream}, err
}

// feed follows all calls.
func (c *client) feed(ctx context.Context, cursor string, follow bool) (frames, error) {
	stream, err := c.calls.WatchCalls(ctx, &tooldv1.WatchCallsRequest{
		Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Cursor: cursor, Follow: follow,
	})
	return framed[*tooldv1.WatchCallsResponse]{stream}, err
}

func (c *client) get(ctx context.Context, id string) (*tooldv1.GetCallResponse, error) {
	return c.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: id})
}

// inbox reads all pages of the suspended calls.
func (c *client) inbox(ctx context.Context) ([]*tooldv1.Call, error) {
	var all []*tooldv1.Call
	for page := ""; ; {
		answer, err := c.calls.ListCalls(ctx, &tooldv1.ListCallsRequest{
			Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}, PageSize: 100, PageToken: page,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, answer.GetCalls()...)
		if page = answer.GetNextPageToken(); page == "" {
			return all, nil
		}
	}
}

// refusal returns the code of a status, its reason and its metadata.
func refusal(err error) (code codes.Code, reason string, more map[string]string) {
	s := status.Convert(err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return s.Code(), info.GetReason(), info.GetMetadata()
		}
	}
	return s.Code(), "", nil
}

// read passes each frame to take until the stream ends or take returns true. It returns nil at a regular end of the stream, and errEnough
// after take returned true.
func read(s frames, take func(*tooldv1.Frame) (enough bool)) error {
	for {
		f, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if take(f) {
			return errEnough
		}
	}
}

// errEnough says that a reader stopped early.
var errEnough = errors.New("read enough")
