package toold

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sdk/go/internal/address"
)

// A Client is a connection to a daemon. Use the generated clients in its fields for RPCs that have no method here.
type Client struct {
	Calls     tooldv1.CallServiceClient
	Tools     tooldv1.ToolServiceClient
	Documents tooldv1.DocumentServiceClient

	conn     *grpc.ClientConn
	patience patience
}

// An Option changes how a client connects.
type Option func(*options)

type options struct {
	token    bearer
	secure   credentials.TransportCredentials
	patience patience
}

// WithToken sends a bearer token with each request.
func WithToken(token string) Option {
	return func(o *options) {
		o.token, o.patience.renews = nil, false
		if token != "" {
			o.token = func(context.Context) (string, error) { return token, nil }
		}
	}
}

// WithTokenSource sends with each request the token that f returns. Use it for tokens that expire: f returns the same token until it has a
// new one. Many goroutines may call f at the same time. A request or stream that ends with [ReasonTokenExpired] is sent again with the next
// token.
func WithTokenSource(f func(context.Context) (string, error)) Option {
	return func(o *options) { o.token, o.patience.renews = f, true }
}

// WithTLS connects with these credentials.
func WithTLS(c credentials.TransportCredentials) Option { return func(o *options) { o.secure = c } }

// WithPatience sets how long requests and streams try to reach the daemon before they return an error. The default is a minute.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience.time = d } }

// Dial returns a client of the daemon at host:port or unix:/path. The first request opens the connection. Without TLS, Dial returns an
// error when a token would be sent to another machine.
func Dial(target string, with ...Option) (*Client, error) {
	o := options{patience: patience{time: time.Minute}}
	for _, f := range with {
		f(&o)
	}
	if o.secure == nil {
		if err := address.CheckToken(target); err != nil && o.token != nil {
			return nil, err
		}
		o.secure = insecure.NewCredentials()
	}
	check := &versionCheck{turn: make(chan struct{}, 1)}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(o.secure), grpc.WithPerRPCCredentials(o.token),
		grpc.WithUnaryInterceptor(check.unary), grpc.WithStreamInterceptor(check.stream),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute}), // With keepalive, a stream notices that the daemon's machine is gone.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(8<<20)), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}, MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		return nil, err
	}
	return &Client{
		Calls: tooldv1.NewCallServiceClient(conn), Tools: tooldv1.NewToolServiceClient(conn), Documents: tooldv1.NewDocumentServiceClient(conn),
		conn: conn, patience: o.patience,
	}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// bearer returns the token of a request. A nil bearer sends no token.
type bearer func(context.Context) (string, error)

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if b == nil {
		return nil, nil
	}
	token, err := b(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "no token: %v", err)
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(token)}, nil
}

// RequireTransportSecurity returns false, because [Dial] has already checked where a token may go without TLS.
func (bearer) RequireTransportSecurity() bool { return false }

// NewSpec returns the spec of a tool call with a new id. A string as arguments is JSON text; any other value is marshalled. NewSpec panics
// when that fails.
func NewSpec(tool string, arguments any) *tooldv1.CallSpec {
	text, ok := arguments.(string)
	if !ok {
		text = mustJSON(arguments)
	}
	return &tooldv1.CallSpec{CallId: uuid.NewString(), Tool: tool, Arguments: text}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("toold: no JSON form: " + err.Error())
	}
	return string(b)
}

// Call runs a tool and returns the call when it has ended or is suspended.
func (c *Client) Call(ctx context.Context, spec *tooldv1.CallSpec) (*tooldv1.Call, error) {
	named(spec)
	for {
		r, err := again(ctx, c.patience, func() (*tooldv1.CallToolResponse, error) {
			return c.Calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec, Wait: durationpb.New(5 * time.Minute)})
		})
		call := r.GetCall()
		if err != nil || call.GetEndedAt() != nil || call.GetStatus() == tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
			return call, err
		}
	}
}

// named gives a spec an id if it has none. The client can then send the call again, and it still runs only once.
func named(spec *tooldv1.CallSpec) {
	if spec.CallId == "" {
		spec.CallId = uuid.NewString()
	}
}

// Execute runs a tool and returns its events, up to the terminal event. Unless the request waits for decisions, the events also end when
// the call is suspended.
func (c *Client) Execute(ctx context.Context, r *tooldv1.ExecuteToolRequest) iter.Seq2[*tooldv1.CallEvent, error] {
	named(r.Spec)
	return events(frames(ctx, c.patience, r.Cursor, func(ctx context.Context, cursor string) (stream[*tooldv1.ExecuteToolResponse], error) {
		r.Cursor = cursor
		return c.Calls.ExecuteTool(ctx, r)
	}))
}

// Batch runs the calls of a model turn and returns the frames. The last frame, batch_finished, has a result for each call.
func (c *Client) Batch(ctx context.Context, r *tooldv1.ExecuteBatchRequest) iter.Seq2[*tooldv1.Frame, error] {
	if r.Spec.BatchId == "" {
		r.Spec.BatchId = uuid.NewString()
	}
	for _, spec := range r.Spec.Calls {
		named(spec)
	}
	return frames(ctx, c.patience, r.Cursor, func(ctx context.Context, cursor string) (stream[*tooldv1.ExecuteBatchResponse], error) {
		r.Cursor = cursor
		return c.Calls.ExecuteBatch(ctx, r)
	})
}

// Watch returns the frames of the calls that the request selects.
func (c *Client) Watch(ctx context.Context, r *tooldv1.WatchCallsRequest) iter.Seq2[*tooldv1.Frame, error] {
	return frames(ctx, c.patience, r.Cursor, func(ctx context.Context, cursor string) (stream[*tooldv1.WatchCallsResponse], error) {
		if r.Cursor = cursor; cursor != "" {
			r.AfterSequence = nil
		}
		return c.Calls.WatchCalls(ctx, r)
	})
}

// Get returns the current record of a call.
func (c *Client) Get(ctx context.Context, callID string) (*tooldv1.Call, error) {
	r, err := again(ctx, c.patience, func() (*tooldv1.GetCallResponse, error) {
		return c.Calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: callID})
	})
	return r.GetCall(), err
}

// Cancel requests the cancellation of a call, waits at most wait for its end, and returns its current record.
func (c *Client) Cancel(ctx context.Context, callID, reason string, wait time.Duration) (*tooldv1.Call, error) {
	r, err := again(ctx, c.patience, func() (*tooldv1.CancelCallResponse, error) {
		return c.Calls.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: callID, Reason: reason, Wait: durationpb.New(wait)})
	})
	return r.GetCall(), err
}

// Resume approves exactly what the call shows, or answers its question. With d.ResultInstead it gives a result in the tool's place, if the
// ticket allows it. It returns [ErrDigest] when the ticket's digest does not match what the call shows. The decision is
// stored when Resume returns; the iterator returns the events that follow. Resume fills in the action, the digest and, if empty, the id of d.
func (c *Client) Resume(ctx context.Context, call *tooldv1.Call, d *tooldv1.Decision) (iter.Seq2[*tooldv1.CallEvent, error], error) {
	if err := Verify(call); err != nil {
		return nil, err
	}
	d.Action = tooldv1.DecisionAction_DECISION_ACTION_RESUME
	return c.decide(ctx, call, d)
}

// Decline declines the open question of a call. The iterator returns the events that follow.
func (c *Client) Decline(ctx context.Context, call *tooldv1.Call, reason string) (iter.Seq2[*tooldv1.CallEvent, error], error) {
	return c.decide(ctx, call, &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_CANCEL, Reason: reason})
}

func (c *Client) decide(ctx context.Context, call *tooldv1.Call, d *tooldv1.Decision) (iter.Seq2[*tooldv1.CallEvent, error], error) {
	if d.DecisionId == "" {
		d.DecisionId = uuid.NewString()
	}
	d.ExpectedDigest = call.GetSuspension().GetDigest()
	r := &tooldv1.ResumeToolRequest{SuspensionId: call.GetSuspension().GetSuspensionId(), CallId: call.GetCallId(), Decision: d}
	open := func(ctx context.Context, cursor string) (stream[*tooldv1.ResumeToolResponse], error) {
		r.Cursor = cursor
		return c.Calls.ResumeTool(ctx, r)
	}
	var first *tooldv1.Frame // the first frame with events, which confirms the decision
	for f, err := range frames(ctx, c.patience, "", open) {
		if err != nil {
			return nil, err
		}
		if first = f; len(f.GetEvents()) > 0 {
			break // This closes the stream, so no stream stays open when the caller does not read the events.
		}
	}
	return func(yield func(*tooldv1.CallEvent, error) bool) {
		for _, e := range first.GetEvents() {
			if !yield(e, nil) {
				return
			}
		}
		if cursor := first.GetCursor(); cursor != "" {
			events(frames(ctx, c.patience, cursor, open))(yield)
		}
	}, nil
}
