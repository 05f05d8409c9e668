package daemon

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestDocuments checks the commands that show and change documents of tools. They report a conflict when the document was changed by
// another writer before.
func TestDocuments(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	_, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "todo_write", Run: &tooldv1.Run{RunId: "r-1", ThreadId: "t-1"},
		Arguments: `{"todos":[{"content":"see the harbour","status":"pending"}]}`}})
	must(t, err)
	for _, tt := range []struct {
		args string
		in   string
		code int
		want string // part of the output
	}{
		{"list --thread t-1", "", 0, "see the harbour"},
		{"get todo --thread t-1", "", 0, `{"todos":[{"content":"see the harbour","status":"pending"}]}` + "\n"},
		{"get todo --thread t-1 -o json", "", 0, `"revision": "1"`},
		{"put todo - --thread t-1 --expect 1", `{"todos":[]}`, 0, "revision 2\n"},
		{"put todo - --thread t-1 --expect 1", `{"todos":[]}`, cli.ExitConflict, "has the revision 2, not 1"},
		{"put todo {} --thread t-2", "", cli.ExitNotFound, `no thread "t-2" here`},
		{"put limits 1.0 --namespace", "", 0, "revision 1\n"},
		{"put limits {] --namespace", "", cli.ExitUsage, "is not JSON"},
		{"get limits --namespace", "", 0, "1.0\n"},
		{"list --namespace --prefix lim -o jsonl", "", 0, `"key":"limits"`},
		{"delete todo --thread t-1 --expect 9", "", cli.ExitConflict, "has the revision 2"},
		{"delete todo --thread t-1", "", 0, "deleted\n"},
		{"delete todo --thread t-1", "", 0, "there was no such document\n"},
		{"get todo --thread t-1", "", cli.ExitNotFound, `no document "todo" here`},
		{"list", "", cli.ExitUsage, "one of --run, --thread and --namespace"},
		{"list --run r-1 --namespace", "", cli.ExitUsage, "one of --run, --thread and --namespace"},
		{"dead-letters", "", 0, "no dead letters"},
		{"dead-letters list -o json", "", 0, "[]\n"},
		{"dead-letters retry a-unknown", "", cli.ExitNotFound, "there is no dead letter"},
	} {
		r := &run{in: tt.in}
		r.do(t, s.data, append([]string{"documents"}, strings.Fields(tt.args)...)...)
		if r.code != tt.code || !strings.Contains(r.out+r.err, tt.want) {
			t.Errorf("documents %s: exit code %d, want %d with %q\n%s%s", tt.args, r.code, tt.code, tt.want, r.out, r.err)
		}
	}
}

// TestDeadLettersAreShown checks that dead letters are printed without the control characters that texts of handlers and payloads may
// contain.
func TestDeadLettersAreShown(t *testing.T) {
	now := time.Date(2027, 3, 14, 15, 9, 26, 0, time.UTC)
	text := show.View{Now: now}.DeadLetters([]*tooldv1.DeadLetter{
		{ActionId: "a-1", CallId: "c-1", Caller: "ann", Handler: "mail", Phase: "AFTER_COMMIT", Payload: "{\"to\":\"\x1b[31m\"}", Attempts: 5, Error: "no\nroute", CreatedAt: timestamppb.New(now.Add(-time.Hour))},
		{ActionId: "a-2", Handler: strings.Repeat("h", 100), Error: strings.Repeat("e", 100), Payload: strings.Repeat("p", 100)},
	})
	want := "a-1  mail\n  no\\nroute\n  {\"to\":\"\\x1b[31m\"}\n  after_commit, of the call c-1 by ann 1h ago, 5 attempts\n"
	if !strings.HasPrefix(text, want) {
		t.Errorf("shown:\n%s\nwant\n%s", text, want)
	}
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 81 {
			t.Errorf("a line is too long: %s", line)
		}
	}
}
