package daemon

import (
	"context"
	"encoding/hex"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// receiver is a fake OTLP receiver.
type receiver struct {
	collectorv1.UnimplementedTraceServiceServer
	address     string
	connections atomic.Int64

	mu      sync.Mutex
	spans   []*tracev1.Span
	about   map[string]string // attributes of the resource
	headers string
	raw     string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &receiver{address: lis.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, r)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(counted{lis, &r.connections})
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return r
}

type counted struct {
	net.Listener
	n *atomic.Int64
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

// Export implements the service of OTLP.
func (r *receiver) Export(ctx context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers = strings.Join(md.Get("x-key"), ",")
	r.raw += protojson.Format(request)
	r.about = map[string]string{}
	for _, of := range request.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			r.about[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// of waits for n spans of a call and returns them in the order of their start.
func (r *receiver) of(t *testing.T, id string, n int) (spans []*tracev1.Span) {
	t.Helper()
	eventually(t, "the spans of "+id, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		spans = nil
		for _, s := range r.spans {
			if attributesOf(s)["toold.call.id"] == id {
				spans = append(spans, s)
			}
		}
		return len(spans) >= n
	})
	return spans
}

func attributesOf(s *tracev1.Span) map[string]string {
	found := map[string]string{}
	for _, a := range s.GetAttributes() {
		found[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return found
}

const (
	aTrace  = "0af7651916cd43dd8448eb211c80319c"
	aParent = "b7ad6b7169203331"
)

func followed(ctx context.Context, flags string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "traceparent", "00-"+aTrace+"-"+aParent+"-"+flags)
}

func TestTraces(t *testing.T) {
	r := newReceiver(t)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.address, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=for-the-receiver",
		"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_SERVICE_NAME": "tools",
	} {
		t.Setenv(name, value)
	}
	s := newSite(t, "")
	must(t, os.WriteFile(filepath.Join(s.workspace, "a.txt"), []byte("secret-of-the-file\n"), 0o600))
	p := s.start("--tracing-ratio", "1")
	call := func(ctx context.Context, spec *tooldv1.CallSpec) *tooldv1.Call {
		got, err := p.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec})
		must(t, err)
		return got.GetCall()
	}
	read := call(followed(within(t), "01"), &tooldv1.CallSpec{
		Tool: "read", Arguments: `{"path":"a.txt"}`, ModelCallId: "toolu_1", Run: &tooldv1.Run{RunId: "run-7", ThreadId: "thread-9"},
	})
	span := r.of(t, read.GetCallId(), 1)[0]
	if span.GetName() != "execute_tool read" || hex.EncodeToString(span.GetTraceId()) != aTrace || hex.EncodeToString(span.GetParentSpanId()) != aParent {
		t.Errorf("span %v", span)
	}
	want := map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "gen_ai.tool.call.id": "toolu_1", "gen_ai.tool.type": "function",
		"gen_ai.conversation.id": "thread-9", "toold.run.id": "run-7", "toold.status": "SUCCEEDED", "toold.executed": "FINISHED",
		"toold.call.id": read.GetCallId(), "toold.namespace": "default", "toold.attempts": "", "toold.questions": "",
	}
	if got := attributesOf(span); !maps.Equal(got, want) {
		t.Errorf("attributes %v, want %v", got, want)
	}
	if r.about["service.name"] != "tools" || r.headers != "for-the-receiver" {
		t.Errorf("resource %v, headers %q", r.about, r.headers)
	}

	unasked := call(followed(within(t), "00"), &tooldv1.CallSpec{Tool: "read", Arguments: `{"path":"a.txt"}`}) // The caller of this call requests that it is not traced.
	broken := call(within(t), &tooldv1.CallSpec{Tool: "read", Arguments: `{"path":"secret-argument-that-is-no-file"}`})
	if got := r.of(t, broken.GetCallId(), 1)[0]; attributesOf(got)["error.type"] != "EXECUTION_FAILED" || got.GetStatus().GetCode() != tracev1.Status_STATUS_CODE_ERROR || hex.EncodeToString(got.GetTraceId()) == aTrace {
		t.Errorf("span %v", got)
	}
	unknown := call(within(t), &tooldv1.CallSpec{Tool: "made_up_name", Arguments: `{}`})
	if got := r.of(t, unknown.GetCallId(), 1)[0]; got.GetName() != "execute_tool" || attributesOf(got)["error.type"] != "NOT_FOUND" {
		t.Errorf("span %v", got)
	}

	asked := call(followed(within(t), "01"), &tooldv1.CallSpec{Tool: "write", Arguments: `{"path":"b.txt","content":"secret-content"}`})
	if first := r.of(t, asked.GetCallId(), 1)[0]; attributesOf(first)["toold.status"] != "SUSPENDED" || !hasEvents(first, "question") || hasEvents(first, "decision") {
		t.Errorf("until the question: %v", first)
	}
	p.kill() // The next daemon continues the call. In practice that may be weeks later.
	p = s.start("--tracing-ratio", "1")
	resume(t, p, asked)
	last := r.of(t, asked.GetCallId(), 2)[1]
	if a := attributesOf(last); a["toold.status"] != "SUCCEEDED" || hex.EncodeToString(last.GetTraceId()) != aTrace || !hasEvents(last, "question", "decision", "attempt") {
		t.Errorf("after the decision: %v", last)
	}
	for _, secret := range []string{"secret-", "a.txt", "made_up_name"} {
		if strings.Contains(r.raw, secret) {
			t.Errorf("the spans tell %q", secret)
		}
	}
	if strings.Contains(r.raw, unasked.GetCallId()) {
		t.Error("a call is followed whose caller says no")
	}
}

func hasEvents(s *tracev1.Span, names ...string) bool {
	found := map[string]bool{}
	for _, e := range s.GetEvents() {
		found[e.GetName()] = true
	}
	for _, n := range names {
		if !found[n] {
			return false
		}
	}
	return true
}

// resume approves a call and waits for its end.
func resume(t *testing.T, p *proc, c *tooldv1.Call) {
	t.Helper()
	stream, err := p.calls.ResumeTool(within(t), &tooldv1.ResumeToolRequest{SuspensionId: c.GetSuspension().GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: "decision-0123456789", Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: c.GetSuspension().GetDigest(),
	}})
	follow(t, stream, err).last(t)
}

// With a ratio of zero, the daemon sends no spans, whatever the environment and the callers ask for.
func TestNoTraces(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+r.address)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	s := newSite(t, "")
	p := s.start()
	_, err := p.calls.CallTool(followed(within(t), "01"), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "glob", Arguments: `{"pattern":"*"}`}})
	must(t, err)
	must(t, p.cmd.Process.Signal(os.Interrupt))
	<-p.ended
	if r.connections.Load() != 0 || len(r.spans) != 0 {
		t.Errorf("%d connections, spans %v", r.connections.Load(), r.spans)
	}
}

// The daemon traces only a share of the calls whose request says nothing about tracing. An unreachable receiver does not affect calls.
func TestTracesSampled(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	s := newSite(t, "")
	p := s.start("--tracing-ratio", "0.000001", "--tracing-endpoint", "http://"+r.address)
	for range 20 {
		p.callTool("glob", `{"pattern":"*"}`)
	}
	got, err := p.calls.CallTool(followed(within(t), "01"), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "glob", Arguments: `{"pattern":"*"}`}})
	must(t, err)
	r.of(t, got.GetCall().GetCallId(), 1)
	if len(r.spans) != 1 {
		t.Errorf("%d spans", len(r.spans))
	}
	p.kill()
	p = s.start("--tracing-ratio", "1", "--tracing-endpoint", "http://127.0.0.1:1")
	p.callTool("glob", `{"pattern":"*"}`)
	must(t, p.cmd.Process.Signal(os.Interrupt))
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.log)
	}
}
