package conformance_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/conformance"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// hostile is a daemon whose answers break the contract.
type hostile struct {
	tooldv1.UnimplementedToolServiceServer
	tooldv1.UnimplementedCallServiceServer
	answer func(stream grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]) error
}

func (h *hostile) ExecuteTool(_ *tooldv1.ExecuteToolRequest, stream grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]) error {
	return h.answer(stream)
}

func serveHostile(t *testing.T, h *hostile) conformance.Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := grpc.NewServer()
	tooldv1.RegisterToolServiceServer(srv, h)
	tooldv1.RegisterCallServiceServer(srv, h)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		srv.Stop()
		must(t, <-served)
	})
	return conformance.Config{Conn: conn, Tokens: map[string]string{"free": "x"}, Patience: 20 * time.Second}
}

// TestHostileDaemon checks daemons that break the contract in ways that the expected lines do not cover. The transcript must still fail.
// Such a daemon must neither block the player nor fill its memory.
func TestHostileDaemon(t *testing.T) {
	t.Parallel()
	type out = grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]
	progress := func(sequence int64, text string) *tooldv1.CallEvent {
		return &tooldv1.CallEvent{CallId: "c", Sequence: sequence, Event: &tooldv1.CallEvent_Progress{Progress: &tooldv1.Progress{Message: text}}}
	}
	finished := func(sequence int64) *tooldv1.CallEvent {
		return &tooldv1.CallEvent{CallId: "c", Sequence: sequence, Event: &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{}}}
	}
	events := func(events ...*tooldv1.CallEvent) func(out) error {
		return func(s out) error { return s.Send(&tooldv1.ExecuteToolResponse{Frame: &tooldv1.Frame{Events: events}}) }
	}
	noAnswer := func(s out) error {
		<-s.Context().Done()
		return s.Context().Err()
	}
	endless := func(s out) error {
		text := strings.Repeat("x", 1<<20)
		for n := int64(1); ; n++ {
			if err := events(progress(n, text))(s); err != nil {
				return err
			}
		}
	}
	// execute is a transcript that skips progress events, even those after the end of the call.
	const execute = "x\n-- free ExecuteTool skip=progress --\n{}\n-- answer --\nevent {\"finished\":{},\"callId\":\"c\"}\n"
	const open = "x\n-- free ExecuteTool open=s --\n{}\n-- answer --\n-- read s skip=progress --\n-- answer --\nevent {\"finished\":{},\"callId\":\"c\"}\nend\n"
	tests := []struct {
		name, transcript string
		answer           func(out) error
		patience         time.Duration
		want             string // empty means that the transcript passes
	}{
		{"in order", execute, events(progress(1, ""), finished(2)), 0, ""},
		{"silent", execute, noAnswer, 200 * time.Millisecond, "no answer within 200ms"},
		{"silent where a cancellation is wanted", "x\n-- free ExecuteTool --\n{}\n-- answer --\nstatus CANCELLED\n", noAnswer, 200 * time.Millisecond, "no answer within 200ms"},
		{"silent when read on", open, noAnswer, 200 * time.Millisecond, "no answer within 200ms"},
		{"endless", execute, endless, 0, "exceeds 16 MiB"},
		{"behind the end", execute, events(finished(1), progress(2, "")), 0, "2 follows the terminal event"},
		{"from zero", execute, events(finished(0)), 0, "0 is less than 1"},
		{"a hole", open, events(progress(1, ""), finished(3)), 0, "3 follows 1"},
		{"an error behind the end", execute, func(s out) error {
			return append([]error{events(finished(1))(s)}, status.Error(codes.Internal, "broken"))[1]
		}, 0, "want end, got status INTERNAL: broken"},
		{"no tools", "x\nneeds: tool glob\n" + execute[2:], noAnswer, 0, "an answer of GetTool to free, not UNIMPLEMENTED"},
		{"no descriptions", "x\nneeds: free glob {} ALLOW\n" + execute[2:], noAnswer, 0, "an answer of DescribeCall to free, not UNIMPLEMENTED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			config := serveHostile(t, &hostile{answer: tt.answer})
			if tt.patience > 0 {
				config.Patience = tt.patience
			}
			tr, err := conformance.Parse("hostile", tt.transcript)
			must(t, err)
			got, err := conformance.Run(t.Context(), config, tr)
			must(t, err)
			reported := strings.Join(append(got.Unmet, got.Differs...), "\n")
			if got.Passed() != (tt.want == "") || !strings.Contains(reported, tt.want) {
				t.Errorf("reported %q, want %q", reported, tt.want)
			}
		})
	}
}
