package cli

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	succeeded = tooldv1.CallStatus_CALL_STATUS_SUCCEEDED
	failed    = tooldv1.CallStatus_CALL_STATUS_FAILED
	cancelled = tooldv1.CallStatus_CALL_STATUS_CANCELLED
)

func TestCallShowsResultAndEnds(t *testing.T) {
	wrong := &tooldv1.ToolResult{Error: &tooldv1.ToolError{Code: tooldv1.ErrorCode_ERROR_CODE_EXECUTION_FAILED, Message: "no luck"}}
	tests := []struct {
		name  string
		last  *tooldv1.CallEvent
		code  int
		out   string
		inErr string
	}{
		{"succeeds", ended(succeeded, &tooldv1.ToolResult{Message: "three"}), 0, "three\n", "succeeded"},
		{"data in place of a message", ended(succeeded, &tooldv1.ToolResult{Data: `{"n":3}`}), 0, "{\"n\":3}\n", "succeeded"},
		{"text as data", ended(succeeded, &tooldv1.ToolResult{Data: `"a\nb"`}), 0, "a\nb\n", "succeeded"},
		{"fails", ended(failed, wrong), 1, "", "EXECUTION_FAILED  no luck"},
		{"is cancelled", ended(cancelled, wrong), 7, "", "cancelled"},
		{"waits", suspended("one"), 3, "", "toold approve s-one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var spec *tooldv1.CallSpec
			s := &script{execute: func(r *tooldv1.ExecuteToolRequest, send func(*tooldv1.Frame) error) error {
				spec = r.GetSpec()
				return send(events("1", accepted(), tt.last))
			}}
			r := new(run).do(t, s.start(t), "call", "count", "to=3", "--run", "r", "--linger", "never")
			r.expect(t, tt.code, tt.out, "accepted   count", tt.inErr)
			if spec.GetArguments() != `{"to":3}` || len(spec.GetCallId()) != 36 || spec.GetRun().GetRunId() != "r" || !spec.GetLingerNever() {
				t.Errorf("spec %v", spec)
			}
		})
	}
}

func TestCallFormsOfArguments(t *testing.T) {
	var got string
	s := &script{execute: func(r *tooldv1.ExecuteToolRequest, send func(*tooldv1.Frame) error) error {
		got = r.GetSpec().GetArguments()
		return send(events("1", ended(succeeded, &tooldv1.ToolResult{})))
	}}
	dir := s.start(t)
	for _, tt := range []struct {
		in, want string
		code     int
		args     []string
	}{
		{"", `{ "to": 1.0 }`, 0, []string{"--json", `{ "to": 1.0 }`}},
		{`{"to":2}`, `{"to":2}`, 0, []string{"-"}},
		{"", "", 0, nil},
		{"", "", 2, []string{"--json", "{}", "to=1"}},
		{"", "", 2, []string{"to=x"}},
		{strings.Repeat("x", maxArguments+1), "", 2, []string{"-"}},
		{"", "", 2, []string{"--cursor", "1"}},
		{"", "", 2, []string{"--linger", "soon"}},
		{"", "", 2, []string{"-o", "xml"}},
		{"", "", 2, []string{"--nonsense"}},
	} {
		got = ""
		r := (&run{in: tt.in}).do(t, dir, append([]string{"call", "count"}, tt.args...)...)
		if r.code != tt.code || got != tt.want {
			t.Errorf("call %q: exit code %d, arguments %q, want %d %q\n%s", tt.args, r.code, got, tt.code, tt.want, r.err)
		}
	}
}

// TestCallShowsTheResultBesideOutput checks that the text of a result is shown unless the output already contained it, and that nothing is
// shown twice.
func TestCallShowsTheResultBesideOutput(t *testing.T) {
	long := strings.Repeat("0123456789ä", 2000)
	for _, tt := range []struct {
		name, output string
		result       *tooldv1.ToolResult
		want         string // "" means that nothing is shown
	}{
		{"a message", "line 0\n", &tooldv1.ToolResult{Message: "1 lines"}, "result     1 lines\n"},
		{"of two lines", "line 0\n", &tooldv1.ToolResult{Message: "1 line\nand no more"}, "result     1 line\n           and no more\n"},
		{"that is not safe", "line 0\n", &tooldv1.ToolResult{Message: "\x1b[2J"}, `result     \x1b[2J`},
		{"with members", "line 0\n", &tooldv1.ToolResult{Message: "1 lines", Data: `{"lines":1}`}, "result     1 lines\n           lines=1\n"},
		{"data alone", "line 0\n", &tooldv1.ToolResult{Data: `"all"`}, "result     all\n"},
		{"the output again", "line 0\n", &tooldv1.ToolResult{Message: "line 0"}, ""},
		{"the output and its end", "line 0\n", &tooldv1.ToolResult{Message: "line 0\nExit code 3"}, ""},
		{"the output, cut", long, &tooldv1.ToolResult{Message: long[:8000] + " […] " + long[9000:], Truncated: true}, ""},
		{"a command", "line 0\n", &tooldv1.ToolResult{Message: "error first\nline 0", Data: `{"stdout":"line 0\n"}`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{execute: func(_ *tooldv1.ExecuteToolRequest, send func(*tooldv1.Frame) error) error {
				return send(events("c1", accepted(), output(0, tt.output), ended(succeeded, tt.result)))
			}}
			r := new(run).do(t, s.start(t), "call", "count")
			if r.out != tt.output || !strings.Contains(r.err, tt.want) || tt.want == "" && strings.Contains(r.err, "result ") {
				t.Errorf("wrote %.100q and said %q, want %q", r.out, r.err, tt.want)
			}
		})
	}
}

// TestCallReattaches checks a call whose connection breaks. The command requests the same call again from its last cursor, and does not
// show output again.
func TestCallReattaches(t *testing.T) {
	var seen []string
	s := &script{execute: func(r *tooldv1.ExecuteToolRequest, send func(*tooldv1.Frame) error) error {
		seen = append(seen, r.GetSpec().GetCallId()+" "+r.GetCursor())
		switch r.GetCursor() {
		case "":
			_ = send(events("c2", accepted(), output(0, "one\n")))
			return status.Error(codes.Unavailable, "the daemon was killed")
		case "c2":
			_ = send(events("c3", output(4, "two\n")))
			return send(&tooldv1.Frame{Cursor: "c3", Control: &tooldv1.Frame_Lagged{Lagged: &tooldv1.Lagged{}}})
		default:
			return send(events("c4", output(8, "three\n"), ended(succeeded, &tooldv1.ToolResult{Data: `{"stdout":"one\ntwo\nthree\n","exit_code":3,"timed_out":false}`})))
		}
	}}
	dir := s.start(t)
	const id = "0123456789abcdef"
	new(run).do(t, dir, "call", "count", "--call-id", id).expect(t, 0, "one\ntwo\nthree\n", "connection lost", "lagged", "exit_code=3")
	if want := id + " |" + id + " c2|" + id + " c3"; strings.Join(seen, "|") != want {
		t.Errorf("asked for %q, want %q", seen, want)
	}
	new(run).do(t, dir, "call", "count", "--no-reconnect").expect(t, ExitUnreachable, "one\n")
	if r := new(run).do(t, dir, "call", "count", "--call-id", id, "--cursor", "c3"); r.out != "three\n" {
		t.Errorf("from a cursor: %q", r.out)
	}
}

func TestCallJSON(t *testing.T) {
	s := &script{call: &tooldv1.Call{CallId: "call-of-the-script", Status: failed}, execute: func(_ *tooldv1.ExecuteToolRequest, send func(*tooldv1.Frame) error) error {
		_ = send(&tooldv1.Frame{Control: &tooldv1.Frame_Heartbeat{Heartbeat: &tooldv1.Heartbeat{}}})
		return send(events("1", accepted(), output(0, "noise\n"), ended(failed, &tooldv1.ToolResult{})))
	}}
	dir := s.start(t)
	new(run).do(t, dir, "call", "count", "-o", "json").expect(t, 1, "{\n  \"call_id\": \"call-of-the-script\",\n  \"status\": \"CALL_STATUS_FAILED\"\n}\n", "noise")
	r := new(run).do(t, dir, "call", "count", "-o", "jsonl")
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if r.code != 1 || r.err != "" || len(lines) != 2 {
		t.Fatalf("exit code %d, %d lines, standard error %q", r.code, len(lines), r.err)
	}
	var f tooldv1.Frame
	if err := protojson.Unmarshal([]byte(lines[1]), &f); err != nil || len(f.GetEvents()) != 3 || f.GetCursor() != "1" {
		t.Errorf("%v, %v", &f, err)
	}
}

// TestWatchFetchesStoredOutput checks that the client fetches the bytes of output for events from the journal, because these events do not
// contain them.
func TestWatchFetchesStoredOutput(t *testing.T) {
	text := "0123456789 all of it\n"
	s := &script{artifact: []byte(text), watch: func(r *tooldv1.WatchCallsRequest, send func(*tooldv1.Frame) error) error {
		if r.GetCallId() == "" || r.AfterSequence == nil || !r.GetFollow() {
			return status.Errorf(codes.InvalidArgument, "%v", r)
		}
		stored := output(0, "")
		stored.GetOutput().Length = int64(len(text))
		return send(events("c9", accepted(), stored, ended(cancelled, &tooldv1.ToolResult{})))
	}}
	new(run).do(t, s.start(t), "watch", "call-of-the-script", "--from-start").expect(t, ExitCancelled, text, "cursor     c9")
}

func TestWatchRunKeepsLinesApart(t *testing.T) {
	s := &script{watch: func(r *tooldv1.WatchCallsRequest, send func(*tooldv1.Frame) error) error {
		one, two, three := output(0, "be"), output(0, "other\n"), output(2, "gin\nrest")
		f := events("c1", one, two, three)
		two.CallId = "another-call-123456"
		_ = send(f)
		return send(&tooldv1.Frame{Cursor: "c2", Control: &tooldv1.Frame_CaughtUp{CaughtUp: &tooldv1.CaughtUp{}}})
	}}
	dir := s.start(t)
	new(run).do(t, dir, "watch", "--run", "r", "--no-follow").expect(t, 0, "…123456 other\n…script begin\n…script rest\n", "cursor     c2")
	for _, args := range [][]string{{}, {"c", "--run", "r"}, {"--all", "--thread", "t"}, {"--run", "r", "--from-start"}, {"a", "b"}} {
		if r := new(run).do(t, dir, append([]string{"watch"}, args...)...); r.code != ExitUsage {
			t.Errorf("watch %q: exit code %d", args, r.code)
		}
	}
}

// TestDecisionCarriesWhatWasShown checks that an answer contains the digest of the ticket that was shown. After a broken connection the
// client sends the same decision again.
func TestDecisionCarriesWhatWasShown(t *testing.T) {
	var asked []*tooldv1.ResumeToolRequest
	question := waitingCall("abd")
	question.Suspension.Action = "input"
	s := &script{waiting: []*tooldv1.Call{waitingCall("abc"), question, waitingCall("xyz")}}
	s.resume = func(r *tooldv1.ResumeToolRequest, send func(*tooldv1.Frame) error) error {
		asked = append(asked, r)
		if len(asked) == 1 {
			_ = send(events("c1", &tooldv1.CallEvent{Event: &tooldv1.CallEvent_Resumed{Resumed: &tooldv1.CallResumed{Decision: r.GetDecision()}}}))
			return status.Error(codes.Unavailable, "gone")
		}
		if r.GetDecision().GetAction() == tooldv1.DecisionAction_DECISION_ACTION_CANCEL {
			return send(events("c2", ended(cancelled, &tooldv1.ToolResult{})))
		}
		return send(events("c2", ended(succeeded, &tooldv1.ToolResult{Message: "done"})))
	}
	dir := s.start(t)
	new(run).do(t, dir, "approve", "c-x", "--reason", "fine").expect(t, 0, "done\n", "s-xyz", "digest-of-xyz", `to: 3`)
	if len(asked) != 2 {
		t.Fatalf("%d requests, want the second after the broken connection", len(asked))
	}
	first, second := asked[0], asked[1]
	if d := first.GetDecision(); d.GetExpectedDigest() != "digest-of-xyz" || first.GetSuspensionId() != "s-xyz" || first.GetCallId() != "c-xyz" ||
		d.GetReason() != "fine" || d.GetAction() != tooldv1.DecisionAction_DECISION_ACTION_RESUME || len(d.GetDecisionId()) != 36 {
		t.Errorf("first request %v", first)
	}
	if second.GetDecision().GetDecisionId() != first.GetDecision().GetDecisionId() || second.GetCursor() != "c1" {
		t.Errorf("second request %v", second)
	}
	new(run).do(t, dir, "approve", "s-ab").expect(t, ExitUsage, "", `2 suspended calls begin with "s-ab"`, "s-abc", "s-abd")
	new(run).do(t, dir, "approve", "nothing").expect(t, ExitNotFound, "", "toold inbox lists")
	s.call = &tooldv1.Call{CallId: "0123456789abcdef", Status: succeeded, Decisions: []*tooldv1.Decision{
		{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, DecidedBy: &tooldv1.Principal{Subject: "ann"}, Time: &timestamppb.Timestamp{}},
	}}
	new(run).do(t, dir, "approve", "0123456789abcdef").expect(t, ExitConflict, "", "decided already: RESUME by ann at 1970-01-01T00:00:00Z")
	s.call.Decisions = nil
	new(run).do(t, dir, "decline", "0123456789abcdef").expect(t, ExitConflict, "", "does not wait for a decision")
	new(run).do(t, dir, "approve", "s-abc", "--digest", "another").expect(t, ExitConflict, "", "toold inbox s-abc")
	if len(asked) != 2 {
		t.Error("a decision was sent for a ticket that was not the one that was seen")
	}
	new(run).do(t, dir, "decline", "s-abc", "--decision-id", "0123456789abcdef").expect(t, 0, "")
	if d := asked[2].GetDecision(); d.GetAction() != tooldv1.DecisionAction_DECISION_ACTION_CANCEL || d.GetDecisionId() != "0123456789abcdef" {
		t.Errorf("declined with %v", d)
	}
	(&run{in: `{"a":1}`}).do(t, dir, "answer", "s-abd", "-").expect(t, 0, "done\n")
	if got := asked[3].GetDecision().GetResult(); got != `{"a":1}` {
		t.Errorf("answered %s", got)
	}
	new(run).do(t, dir, "answer", "s-abc", "--result-instead", `{"a": 1}`, "--message-instead", "one").expect(t, 0, "done\n")
	if d := asked[4].GetDecision(); d.GetResultInstead().GetData() != `{"a": 1}` || d.GetResultInstead().GetMessage() != "one" || d.GetResultInstead().GetError() || d.GetExpectedDigest() == "" {
		t.Errorf("decision %v", d)
	}
	new(run).do(t, dir, "answer", "s-abc", "--error-instead", "closed").expect(t, 0, "done\n")
	if r := asked[5].GetDecision().GetResultInstead(); r.GetMessage() != "closed" || !r.GetError() {
		t.Errorf("result %v", r)
	}
	for _, args := range [][]string{{"--result-instead", "{"}, {"--result-instead", "1", "word"}, {"--message-instead", "a", "--json", "1"}, {"--error-instead", "a", "--message-instead", "b"}} {
		new(run).do(t, dir, append([]string{"answer", "s-abc"}, args...)...).expect(t, ExitUsage, "", "")
	}
	new(run).do(t, dir, "answer", "s-abc", "no, please do not").expect(t, ExitUsage, "", "toold approve s-abc or toold decline s-abc")
	for _, args := range [][]string{{"answer", "s-abd"}, {"answer", "s-abd", "--json", "{"}, {"answer", "s-abd", "x", "--json", "1"}, {"approve"}, {"approve", "a", "b"}} {
		if r := new(run).do(t, dir, args...); r.code != ExitUsage {
			t.Errorf("%q: exit code %d", args, r.code)
		}
	}
	if len(asked) != 6 {
		t.Errorf("%d requests", len(asked))
	}
}

func TestApproveEdited(t *testing.T) {
	var got *tooldv1.Decision
	s := &script{waiting: []*tooldv1.Call{waitingCall("abc")}, resume: func(r *tooldv1.ResumeToolRequest, send func(*tooldv1.Frame) error) error {
		got = r.GetDecision()
		return send(events("1", ended(succeeded, &tooldv1.ToolResult{})))
	}}
	dir := s.start(t)
	edit := func(editor string) *run {
		got = nil
		return (&run{environ: []string{"EDITOR=" + editor}}).do(t, dir, "approve", "s-abc", "--edit")
	}
	edit("sed -i s/3/12345678901234567890/").expect(t, 0, "", "With these arguments instead")
	if want := "{\n  \"to\": 12345678901234567890\n}"; got.GetArguments() != want || got.GetExpectedDigest() != "digest-of-abc" {
		t.Errorf("decision %v, want arguments %s", got, want)
	}
	edit("true").expect(t, ExitFailed, "", "nothing was decided")
	edit("sed -i d").expect(t, ExitFailed, "", "the file is empty")
	edit("sed -i s/3/{/").expect(t, ExitUsage, "", "not JSON")
	edit("false").expect(t, ExitFailed, "", "editor false")
	if got != nil {
		t.Errorf("decided: %v", got)
	}
	new(run).do(t, dir, "approve", "s-abc", "--edit").expect(t, ExitUsage, "", "--edit requires a terminal")
	new(run).do(t, dir, "approve", "s-abc", "--arguments", `{"to":4}`).expect(t, 0, "")
	if got.GetArguments() != `{"to":4}` {
		t.Errorf("decision %v", got)
	}
}

// TestTerminalAsksFirst checks that on a terminal an approval needs a confirmation, whose default answer is no.
func TestTerminalAsksFirst(t *testing.T) {
	decided := 0
	s := &script{waiting: []*tooldv1.Call{waitingCall("abc")}, resume: func(_ *tooldv1.ResumeToolRequest, send func(*tooldv1.Frame) error) error {
		decided++
		return send(events("1", ended(succeeded, &tooldv1.ToolResult{})))
	}}
	dir := s.start(t)
	for _, in := range []string{"", "\n", "no\n", "x\n"} {
		(&run{in: in, terminal: true}).do(t, dir, "approve", "s-abc").expect(t, ExitFailed, "", "Approve? [y/N]", "nothing was decided")
	}
	if decided != 0 {
		t.Fatal("decided without a yes")
	}
	(&run{in: "y\n", terminal: true}).do(t, dir, "approve", "s-abc").expect(t, 0, "")
	(&run{terminal: true}).do(t, dir, "approve", "s-abc", "--yes").expect(t, 0, "")
	if decided != 2 {
		t.Errorf("decided %d times", decided)
	}
}

// TestT66Terminal (T66) checks the output of tools. A pipe gets it unchanged. On a terminal it is escaped, even when a piece ends within a
// character. Colours and the spinner appear only on terminals, and NO_COLOR turns colours off.
func TestT66Terminal(t *testing.T) {
	evil := "\x1b[2Jred\u202e\u009b"
	s := &script{execute: func(_ *tooldv1.ExecuteToolRequest, send func(*tooldv1.Frame) error) error {
		cut := len(evil) - 1
		return send(events("1", accepted(), output(0, evil[:cut]), output(int64(cut), evil[cut:]+"\n"), ended(succeeded, &tooldv1.ToolResult{Data: `{"stdout":"…"}`})))
	}}
	dir := s.start(t)
	const escaped = `\x1b[2Jred\u202e\u009b` + "\n"
	new(run).do(t, dir, "call", "count").expect(t, 0, evil+"\n")
	(&run{terminal: true, environ: []string{"NO_COLOR=1"}}).do(t, dir, "call", "count").expect(t, 0, escaped)
	if r := (&run{terminal: true, environ: []string{"NO_COLOR=1"}}).do(t, dir, "call", "count"); strings.Contains(r.err, "\x1b") {
		t.Errorf("NO_COLOR, and yet: %q", r.err)
	}
	if r := (&run{terminal: true}).do(t, dir, "call", "count"); !strings.Contains(r.err, "\x1b[32m") || r.out != escaped {
		t.Errorf("no colour on a terminal: %q %q", r.err, r.out)
	}
	if r := new(run).do(t, dir, "call", "count"); strings.Contains(r.err, "\x1b") {
		t.Errorf("colour in a pipe: %q", r.err)
	}
	s.execute = func(_ *tooldv1.ExecuteToolRequest, send func(*tooldv1.Frame) error) error {
		return send(events("1", ended(succeeded, &tooldv1.ToolResult{Message: evil})))
	}
	(&run{terminal: true}).do(t, dir, "call", "count").expect(t, 0, escaped)
	s.artifact = []byte(evil)
	(&run{terminal: true}).do(t, dir, "artifact", "c", "stdout").expect(t, 0, strings.TrimSuffix(escaped, "\n"))
	new(run).do(t, dir, "artifact", "c", "stdout").expect(t, 0, evil)
	new(run).do(t, dir, "artifact", "c", "stdout", "--offset", "4", "--limit", "3").expect(t, 0, "red")
	new(run).do(t, dir, "artifact", "c", "stdout", "--limit", "1000").expect(t, 0, evil)
}
