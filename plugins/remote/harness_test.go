package remote_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/remote"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// service is a HookService built from functions.
type service struct {
	tooldv1.UnimplementedHookServiceServer
	rewrite func(*tooldv1.RewriteRequest) (*tooldv1.RewriteResponse, error)
	gate    func(context.Context, *tooldv1.GateRequest) (*tooldv1.GateResponse, error)
	admit   func(*tooldv1.AdmitRequest) (*tooldv1.AdmitResponse, error)
	before  func(*tooldv1.BeforeRequest) (*tooldv1.BeforeResponse, error)
	after   func(*tooldv1.AfterRequest) (*tooldv1.AfterResponse, error)
	filter  func(grpc.BidiStreamingServer[tooldv1.FilterRequest, tooldv1.FilterResponse]) error

	mu       sync.Mutex
	released []string
}

func (s *service) Rewrite(_ context.Context, q *tooldv1.RewriteRequest) (*tooldv1.RewriteResponse, error) {
	return s.rewrite(q)
}
func (s *service) Gate(ctx context.Context, q *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
	if s.gate == nil {
		return s.UnimplementedHookServiceServer.Gate(ctx, q)
	}
	return s.gate(ctx, q)
}
func (s *service) Admit(_ context.Context, q *tooldv1.AdmitRequest) (*tooldv1.AdmitResponse, error) {
	return s.admit(q)
}
func (s *service) Release(_ context.Context, q *tooldv1.ReleaseRequest) (*tooldv1.ReleaseResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = append(s.released, q.GetAdmissionId())
	return &tooldv1.ReleaseResponse{}, nil
}
func (s *service) Before(_ context.Context, q *tooldv1.BeforeRequest) (*tooldv1.BeforeResponse, error) {
	return s.before(q)
}
func (s *service) After(_ context.Context, q *tooldv1.AfterRequest) (*tooldv1.AfterResponse, error) {
	return s.after(q)
}
func (s *service) Filter(stream grpc.BidiStreamingServer[tooldv1.FilterRequest, tooldv1.FilterResponse]) error {
	return s.filter(stream)
}

// serve serves s on a socket and returns its address.
func serve(t testing.TB, s *service, options ...grpc.ServerOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	serveAt(t, path, s, options...)
	return "unix:" + path
}

func serveAt(t testing.TB, path string, s *service, options ...grpc.ServerOption) *grpc.Server {
	t.Helper()
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	tooldv1.RegisterHookServiceServer(server, s)
	go server.Serve(lis)
	t.Cleanup(server.Stop)
	return server
}

func newHook(t testing.TB, address string, change ...func(*remote.Config)) *remote.Hook {
	t.Helper()
	cfg := remote.Config{Name: "h", Address: address}
	for _, c := range change {
		c(&cfg)
	}
	h, err := remote.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// soon returns a context with a short deadline, for services that hang.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func input(t testing.TB, arguments string) *hook.Input {
	t.Helper()
	args, err := call.Parse(arguments).Arguments(0)
	if err != nil {
		t.Fatal(err)
	}
	return &hook.Input{
		Namespace: "ns", CallID: "call-000000000001", Descriptor: &tool.Descriptor{ID: "bash", Source: "builtin"}, ToolDigest: "d",
		Requested: arguments, Arguments: args, Run: tool.Run{ID: "r", Thread: "t", Agent: tool.Agent{ID: "a"}}, OnBehalfOf: "carol",
		Caller:     tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"caller", "delegate"}},
		Assessment: tool.Effects{}.Normal(), Description: tool.Description{Kind: tool.KindExecute, Title: "Run ls", Preview: []tool.Content{{Type: tool.ContentText, Text: "ls"}}}, Attempt: 1,
	}
}

func responds(r *tooldv1.GateResponse) *service {
	return &service{gate: func(context.Context, *tooldv1.GateRequest) (*tooldv1.GateResponse, error) { return r, nil }}
}

func allowed() *tooldv1.GateResponse {
	return &tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Allow{Allow: &tooldv1.GateAllow{}}}
}
