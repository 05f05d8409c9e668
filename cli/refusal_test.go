package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestExitCodesOfRefusals(t *testing.T) {
	s := &script{}
	dir := s.start(t)
	for _, tt := range []struct {
		err  error
		code int
		say  string
	}{
		{nil, 0, ""},
		{refused(codes.InvalidArgument, "BAD"), 2, "no: BAD"},
		{refused(codes.OutOfRange, "CURSOR"), 2, ""},
		{refused(codes.Unauthenticated, "TOKEN_INVALID"), 5, "no token was sent"},
		{refused(codes.PermissionDenied, "ROLE"), 5, ""},
		{refused(codes.NotFound, "TOOL_NOT_FOUND"), 6, "toold tools lists them"},
		{refused(codes.AlreadyExists, "CALL_ID_REUSED"), 8, ""},
		{refused(codes.FailedPrecondition, "RUN_BLOCKED"), 8, ""},
		{refused(codes.ResourceExhausted, "QUEUE_FULL"), 9, ""},
		{refused(codes.Unavailable, "DRAINING"), 9, "try again"},
		{status.Error(codes.Unavailable, "\x1b[2Jgone"), 4, `\x1b[2Jgone`},
		{refused(codes.Internal, "X"), 1, ""},
		{refused(codes.DataLoss, "X"), 1, ""},
	} {
		s.fails = tt.err
		r := new(run).do(t, dir, "tools")
		if r.code != tt.code || !strings.Contains(r.err, tt.say) || strings.Contains(r.err, "\x1b") {
			t.Errorf("%v: exit code %d, want %d; %q", tt.err, r.code, tt.code, r.err)
		}
	}
	nobody := t.TempDir()
	none := new(run).do(t, nobody, "tools", "--address", filepath.Join(nobody, "no.sock"))
	if none.expect(t, ExitUnreachable, "", "toold: dial unix ", "no such file or directory\n  no daemon answers", "toold serve"); strings.Contains(none.err, "desc =") {
		t.Errorf("the words of the transport: %s", none.err)
	}
	new(run).do(t, nobody, "nonsense").expect(t, ExitUsage, "", `unknown command "nonsense"`)
}

// TestExitCodesAreDocumented checks that the help text lists all exit codes, and that the documentation page describes each one in the same
// words.
func TestExitCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, line := range regexp.MustCompile(`(?m)^ +(\d+)  (.*)$`).FindAllStringSubmatch(exitCodesHelp, -1) {
		found++
		if row := "| " + line[1] + " | " + line[2] + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/reference/command-line.md has no row %q", row)
		}
	}
	if found != 11 {
		t.Errorf("the help names %d exit codes", found)
	}
}

func TestTokens(t *testing.T) {
	s := &script{}
	dir := s.start(t)
	file := filepath.Join(t.TempDir(), "t")
	for path, text := range map[string]string{file: "from-file\n", filepath.Join(dir, "token"): "from-data\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		environ []string
		args    []string
		want    string
	}{
		{nil, nil, "Bearer from-data"},
		{[]string{"TOOLD_TOKEN_FILE=" + file}, nil, "Bearer from-file"},
		{[]string{"TOOLD_TOKEN=from-env", "TOOLD_TOKEN_FILE=" + file}, nil, "Bearer from-env"},
		{[]string{"TOOLD_TOKEN=from-env"}, []string{"--token-file", file}, "Bearer from-file"},
	} {
		(&run{environ: tt.environ}).do(t, dir, append([]string{"tools"}, tt.args...)...)
		if s.token != tt.want {
			t.Errorf("%q %q sends %q, want %q", tt.environ, tt.args, s.token, tt.want)
		}
	}
	new(run).do(t, dir, "tools", "--token-file", "/nonexistent").expect(t, ExitUsage, "", "/nonexistent")
	// An unencrypted connection may carry a token only on this machine.
	new(run).do(t, dir, "tools", "--address", "example.org:7130").expect(t, ExitUsage, "", "unencrypted")
	new(run).do(t, dir, "token").expect(t, 0, filepath.Join(dir, "token")+"\n")
	empty := t.TempDir()
	new(run).do(t, empty, "token").expect(t, ExitNotFound, filepath.Join(empty, "token")+"\n", "first start")
}

func TestCancelTellsWhatWasKilled(t *testing.T) {
	at := timestamppb.Now()
	request := &tooldv1.CancelRequest{}
	tests := []struct {
		name   string
		answer *tooldv1.CancelCallResponse
		code   int
		say    string
	}{
		{"killed", &tooldv1.CancelCallResponse{Call: &tooldv1.Call{Status: cancelled, CancelRequest: request},
			Processes: &tooldv1.ProcessReport{Killed: []*tooldv1.KilledProcess{{ProcessId: 42, ConfirmedAt: at}}}}, 0, "killed, end confirmed: process 42 at"},
		{"not seen to die", &tooldv1.CancelCallResponse{Call: &tooldv1.Call{Status: cancelled, CancelRequest: request},
			Processes: &tooldv1.ProcessReport{Killed: []*tooldv1.KilledProcess{{ProcessId: 42}}, KillUnverified: true}}, 1, "may still run"},
		{"nothing to kill", &tooldv1.CancelCallResponse{Call: &tooldv1.Call{Status: cancelled, CancelRequest: request}}, 0, "no process had to be killed"},
		{"end not seen", &tooldv1.CancelCallResponse{Call: &tooldv1.Call{
			Status: cancelled, CancelRequest: request, Executed: tooldv1.Executed_EXECUTED_UNKNOWN,
		}}, 0, "may still run"},
		{"too late", &tooldv1.CancelCallResponse{Call: &tooldv1.Call{Status: succeeded, CancelRequest: request}}, 0, "complete before it could be stopped"},
		{"ended before", &tooldv1.CancelCallResponse{Call: &tooldv1.Call{Status: succeeded}}, 0, "had already ended"},
		{"still ending", &tooldv1.CancelCallResponse{Call: &tooldv1.Call{Status: tooldv1.CallStatus_CALL_STATUS_RUNNING, CancelRequest: request}}, 1, "toold watch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{cancel: tt.answer}
			r := new(run).do(t, s.start(t), "cancel", "c", "--wait", "1s")
			if r.code != tt.code || !strings.Contains(r.out, tt.say) {
				t.Errorf("exit code %d, want %d; %q, want %q in it", r.code, tt.code, r.out, tt.say)
			}
		})
	}
}
