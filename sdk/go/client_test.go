package toold_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

func TestTokensStayOnThisMachine(t *testing.T) {
	far := []string{
		"toold.example:7130", "10.0.0.5:7130", "localhost.example:7130", "127.0.0.1.example:7130", "[2001:db8::1]:7130", "dns:///toold.example:7130",
		"dns://10.0.0.53/localhost:7130", "0.0.0.0:7130", "xds:///localhost:7130", "toold.example",
	}
	for _, address := range []string{"127.0.0.1:7130", "localhost:7130", "[::1]:7130", "127.9.9.9:1", "unix:/run/toold.sock", "unix:///run/toold.sock", "dns:///localhost:7130", "dns:127.0.0.1:1"} {
		c, err := toold.Dial(address, toold.WithToken("secret"))
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		_ = c.Close()
	}
	for _, address := range far {
		if _, err := toold.Dial(address, toold.WithToken("secret")); err == nil {
			t.Errorf("a client sends its token to %s", address)
		}
	}
	if _, err := toold.Dial("127.0.0.1", toold.WithToken("secret")); err == nil || !strings.Contains(err.Error(), "no port") {
		t.Errorf("an address without a port gives %v", err)
	}
	for _, with := range [][]toold.Option{nil, {toold.WithToken("secret"), toold.WithTLS(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}))}} {
		c, err := toold.Dial("toold.example:7130", with...)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
}

// refusing is a daemon that knows one call and refuses all other requests with a reason.
type refusing struct {
	tooldv1.UnimplementedCallServiceServer
	cancelled *tooldv1.CancelCallRequest
}

func (*refusing) GetCall(_ context.Context, r *tooldv1.GetCallRequest) (*tooldv1.GetCallResponse, error) {
	return &tooldv1.GetCallResponse{Call: &tooldv1.Call{CallId: r.GetCallId()}}, nil
}

func (s *refusing) CancelCall(_ context.Context, r *tooldv1.CancelCallRequest) (*tooldv1.CancelCallResponse, error) {
	s.cancelled = r
	return &tooldv1.CancelCallResponse{Call: &tooldv1.Call{CallId: r.GetCallId()}}, nil
}

func refusal() error {
	s, err := status.New(codes.FailedPrecondition, "the run is blocked").WithDetails(
		&errdetails.ErrorInfo{Reason: "RUN_BLOCKED", Domain: "toold.dev", Metadata: map[string]string{"run_id": "r1"}},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "spec.run.run_id", Description: "is blocked"}}})
	if err != nil {
		return err
	}
	return s.Err()
}

func (*refusing) CallTool(context.Context, *tooldv1.CallToolRequest) (*tooldv1.CallToolResponse, error) {
	return nil, refusal()
}

func (*refusing) ExecuteTool(*tooldv1.ExecuteToolRequest, grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]) error {
	return refusal()
}

func dialed(t *testing.T) (*toold.Client, *refusing) {
	t.Helper()
	s := &refusing{}
	return serve(t, admin(&versioned{}), calls(s)), s
}

func TestGetAndCancel(t *testing.T) {
	c, s := dialed(t)
	got, err := c.Get(t.Context(), "a")
	if err != nil || got.GetCallId() != "a" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err = c.Cancel(t.Context(), "b", "enough", time.Minute); err != nil || got.GetCallId() != "b" {
		t.Errorf("cancelled %v, %v", got, err)
	}
	if r := s.cancelled; r.GetReason() != "enough" || r.GetWait().AsDuration() != time.Minute {
		t.Errorf("the daemon was asked %v", r)
	}
}

// TestErrorsHaveReasons checks that methods, streams and generated clients return the daemon's errors with their reason and fields.
func TestErrorsHaveReasons(t *testing.T) {
	c, _ := dialed(t)
	_, single := c.Call(t.Context(), toold.NewSpec("t", nil))
	_, generated := c.Calls.CallTool(t.Context(), &tooldv1.CallToolRequest{})
	var streamed error
	for _, err := range c.Execute(t.Context(), &tooldv1.ExecuteToolRequest{Spec: toold.NewSpec("t", nil)}) {
		streamed = err
	}
	for name, err := range map[string]error{"call": single, "generated": generated, "stream": streamed} {
		var e *toold.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v is no Error", name, err)
			continue
		}
		if e.Code != codes.FailedPrecondition || e.Reason != "RUN_BLOCKED" || e.Metadata["run_id"] != "r1" || e.Message != "the run is blocked" || e.Fields["spec.run.run_id"] != "is blocked" {
			t.Errorf("%s: %+v", name, e)
		}
		if !errors.Is(err, toold.ReasonRunBlocked) || errors.Is(err, toold.ReasonRunEnded) || errors.Is(err, toold.Reason("")) || !strings.Contains(e.Hint(), "EndRun") {
			t.Errorf("%s: %v has the hint %q", name, err, e.Hint())
		}
		if status.Code(err) != codes.FailedPrecondition || err.Error() != "FailedPrecondition: RUN_BLOCKED: the run is blocked" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// full is a daemon that refuses the first request for lack of capacity.
type full struct {
	tooldv1.UnimplementedCallServiceServer
	requests []string
}

func (s *full) CallTool(_ context.Context, r *tooldv1.CallToolRequest) (*tooldv1.CallToolResponse, error) {
	if s.requests = append(s.requests, r.GetSpec().GetCallId()); len(s.requests) > 1 {
		return &tooldv1.CallToolResponse{Call: &tooldv1.Call{EndedAt: timestamppb.Now()}}, nil
	}
	st, err := status.New(codes.ResourceExhausted, "the queue is full").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

// TestRetryInfo checks that a client repeats a request with the same id after the delay that the daemon names.
func TestRetryInfo(t *testing.T) {
	s := &full{}
	c := serve(t, admin(&versioned{}), calls(s))
	if _, err := c.Call(t.Context(), toold.NewSpec("t", nil)); err != nil || len(s.requests) != 2 || s.requests[0] != s.requests[1] {
		t.Errorf("Call = %v with requests %q, want two with the same id", err, s.requests)
	}
}
