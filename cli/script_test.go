package cli

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hangs is the longest time to wait for an expected event, on a machine with much other load.
const hangs = 3 * time.Minute

// A script is a fake daemon that gives scripted answers over a real connection. Tests use it for answers that a real daemon rarely gives.
// Other tests use a real daemon.
type script struct {
	tooldv1.UnimplementedCallServiceServer
	tooldv1.UnimplementedToolServiceServer
	tooldv1.UnimplementedAdminServiceServer

	execute     func(*tooldv1.ExecuteToolRequest, func(*tooldv1.Frame) error) error
	resume      func(*tooldv1.ResumeToolRequest, func(*tooldv1.Frame) error) error
	watch       func(*tooldv1.WatchCallsRequest, func(*tooldv1.Frame) error) error
	waiting     []*tooldv1.Call
	call        *tooldv1.Call
	artifact    []byte
	fails       error // error of ListTools
	cancel      *tooldv1.CancelCallResponse
	quarantined []*tooldv1.QuarantinedTool

	mu    sync.Mutex
	token string
}

func (s *script) ExecuteTool(r *tooldv1.ExecuteToolRequest, out grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]) error {
	return s.execute(r, func(f *tooldv1.Frame) error { return out.Send(&tooldv1.ExecuteToolResponse{Frame: f}) })
}

func (s *script) ResumeTool(r *tooldv1.ResumeToolRequest, out grpc.ServerStreamingServer[tooldv1.ResumeToolResponse]) error {
	return s.resume(r, func(f *tooldv1.Frame) error { return out.Send(&tooldv1.ResumeToolResponse{Frame: f}) })
}

func (s *script) WatchCalls(r *tooldv1.WatchCallsRequest, out grpc.ServerStreamingServer[tooldv1.WatchCallsResponse]) error {
	return s.watch(r, func(f *tooldv1.Frame) error { return out.Send(&tooldv1.WatchCallsResponse{Frame: f}) })
}

// ListCalls returns one call per page, so that every client has to read further pages.
func (s *script) ListCalls(_ context.Context, r *tooldv1.ListCallsRequest) (*tooldv1.ListCallsResponse, error) {
	i := len(r.GetPageToken())
	if i >= len(s.waiting) {
		return &tooldv1.ListCallsResponse{}, nil
	}
	page := &tooldv1.ListCallsResponse{Calls: s.waiting[i : i+1]}
	if i+1 < len(s.waiting) {
		page.NextPageToken = strings.Repeat("p", i+1)
	}
	return page, nil
}

func (s *script) GetCall(context.Context, *tooldv1.GetCallRequest) (*tooldv1.GetCallResponse, error) {
	return &tooldv1.GetCallResponse{Call: s.call}, nil
}

func (s *script) CancelCall(context.Context, *tooldv1.CancelCallRequest) (*tooldv1.CancelCallResponse, error) {
	return s.cancel, nil
}

func (s *script) ReadArtifact(_ context.Context, r *tooldv1.ReadArtifactRequest) (*tooldv1.ReadArtifactResponse, error) {
	const most = 7 // fewer than requested, as a daemon may do
	from := min(int(r.GetOffset()), len(s.artifact))
	to := min(from+min(int(r.GetLimit()), most), len(s.artifact))
	return &tooldv1.ReadArtifactResponse{Data: s.artifact[from:to], TotalSize: int64(len(s.artifact)), Eof: to == len(s.artifact)}, nil
}

func (s *script) GetTool(_ context.Context, r *tooldv1.GetToolRequest) (*tooldv1.GetToolResponse, error) {
	if r.GetTool() != "count" {
		return nil, status.Error(codes.NotFound, "there is no such tool")
	}
	return &tooldv1.GetToolResponse{Tool: &tooldv1.Descriptor{Id: "count", Parameters: `{"properties":{"to":{"type":"integer"}}}`}}, nil
}

func (s *script) ListTools(ctx context.Context, _ *tooldv1.ListToolsRequest) (*tooldv1.ListToolsResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	s.token = strings.Join(md.Get("authorization"), ",")
	s.mu.Unlock()
	return &tooldv1.ListToolsResponse{}, s.fails
}

// A run is one execution of a command line in a test, with its output.
type run struct {
	code        int
	out, err    string
	in          string
	name        string // os.Args[0]
	environ     []string
	terminal    bool
	errTerminal bool
	clock       func() time.Time // nil means a fixed time
}

// start serves s on a socket in a data directory and returns the directory.
func (s *script) start(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "toold") // the path from t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tooldv1.RegisterCallServiceServer(server, s)
	tooldv1.RegisterToolServiceServer(server, s)
	tooldv1.RegisterAdminServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
		goleak.VerifyNone(t)
	})
	return dir
}

func (r *run) do(t *testing.T, dir string, args ...string) *run {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &App{
		Name: r.name,
		In:   strings.NewReader(r.in), Out: &out, Err: &errOut, Environ: append([]string{"TOOLD_DATA=" + dir, "PATH=" + os.Getenv("PATH")}, r.environ...),
		Now:         func() time.Time { return time.Date(2027, 3, 14, 15, 9, 26, 0, time.UTC) },
		OutTerminal: r.terminal, ErrTerminal: r.terminal || r.errTerminal, InTerminal: r.terminal,
	}
	if r.clock != nil {
		a.Now = r.clock
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	r.code = a.Run(ctx, args)
	r.out, r.err = out.String(), errOut.String()
	return r
}

func (r *run) expect(t *testing.T, code int, out string, inErr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if r.out != out {
		t.Errorf("standard output %q, want %q", r.out, out)
	}
	for _, want := range inErr {
		if !strings.Contains(r.err, want) {
			t.Errorf("standard error has no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("standard error:\n%s", r.err)
	}
}

func events(cursor string, list ...*tooldv1.CallEvent) *tooldv1.Frame {
	for _, e := range list {
		e.CallId = "call-of-the-script"
	}
	return &tooldv1.Frame{Events: list, Cursor: cursor}
}

func output(offset int64, text string) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{Event: &tooldv1.CallEvent_Output{Output: &tooldv1.Output{Stream: "stdout", Offset: offset, Data: []byte(text), Length: int64(len(text))}}}
}

func accepted() *tooldv1.CallEvent {
	return &tooldv1.CallEvent{Event: &tooldv1.CallEvent_Accepted{Accepted: &tooldv1.CallAccepted{Tool: "count"}}}
}

func ended(s tooldv1.CallStatus, r *tooldv1.ToolResult) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{Event: &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{Status: s, Executed: tooldv1.Executed_EXECUTED_FINISHED, Result: r}}}
}

func suspended(id string) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{Event: &tooldv1.CallEvent_Suspended{Suspended: &tooldv1.CallSuspended{Suspension: waitingCall(id).GetSuspension()}}}
}

func waitingCall(id string) *tooldv1.Call {
	return &tooldv1.Call{CallId: "c-" + id, Tool: "count", Status: tooldv1.CallStatus_CALL_STATUS_SUSPENDED, Suspension: &tooldv1.Suspension{
		SuspensionId: "s-" + id, Action: "approval", Digest: "digest-of-" + id, ResumeMode: tooldv1.ResumeMode_RESUME_MODE_REPLAY_TOOL_CALL,
		Pending: &tooldv1.PendingCall{Id: "c-" + id, Name: "count", Arguments: `{"to":3}`},
	}}
}

func refused(c codes.Code, reason string) error {
	st, err := status.New(c, "no: "+reason).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "toold"})
	if err != nil {
		panic(err)
	}
	return st.Err()
}
