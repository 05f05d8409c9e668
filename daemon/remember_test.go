package daemon

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestRememberedAnswers keeps an answer, is asked no more, ends it, and is asked again, on a real daemon.
func TestRememberedAnswers(t *testing.T) {
	s := newSite(t, "rules: []\n")
	first := s.start()
	do := func(args ...string) *run { return (&run{clock: time.Now}).do(t, s.data, args...) }
	write := func(path, run string) *run { return do("call", "write", "path="+path, "content=x", "--run", run) }
	want := func(r *run, code int, texts ...string) {
		t.Helper()
		if r.code != code {
			t.Errorf("exit code %d, want %d: %s", r.code, code, r.err)
		}
		for _, text := range texts {
			if !strings.Contains(r.out+r.err, text) {
				t.Errorf("no %q in\n%s%s", text, r.out, r.err)
			}
		}
	}
	want(do("rules"), 0, "no answers are kept")
	want(write("src/a.txt", "r"), exitSuspended)
	want(do("inbox", "s-"), 0, "A yes can be kept for", "1  calls with exactly these arguments", "2  calls for anything in src")
	want(do("approve", "s-", "--remember", "3"), exitUsage, "offers 1 to 2")
	want(do("approve", "s-", "--remember", "2", "--for", "721h"), exitUsage, "more than 30 days")
	want(do("approve", "s-", "--remember", "2", "--for", "8h"), 0, "succeeded")
	want(write("src/b.txt", "r"), 0)
	want(write("other/b.txt", "r"), exitSuspended)
	want(write("src/c.txt", "r2"), exitSuspended)
	want(do("rules"), 0, "r-", "write", "calls for anything in src", "of local, in the run r", "by local", "ends in ")
	want(do("rules", "--tool", "bash", "-o", "json"), 0, "[]")
	want(do("rules", "-o", "jsonl"), 0, `"option":"path \"src\""`, `"scope":"REMEMBER_SCOPE_RUN"`)
	first.kill()
	s.start()
	want(write("src/d.txt", "r"), 0)
	want(do("rules", "revoke", "r-nobody"), exitNotFound, "toold rules lists")
	want(do("rules", "revoke", "r-"), 0, "calls for anything in src")
	want(write("src/e.txt", "r"), exitSuspended)
	want(do("mode", "plan", "--run", "r"), 0, "plan, was default")
	want(do("runs", "show", "r"), 0, "plan")
	want(write("src/f.txt", "r"), exitFailed, "plan")
	want(do("mode", "nonsense", "--run", "r"), exitUsage, "no permission mode")
	want(do("mode", "plan"), exitUsage, "--run RUN or --thread THREAD")
}

// TestRememberFlags: what is sent, and what is not.
func TestRememberFlags(t *testing.T) {
	call := waitingCall("abc")
	call.Suspension.RememberOptions = []*tooldv1.RememberOption{{Option: "exact", Title: "this"}, {Option: "any"}}
	call.Run = &tooldv1.Run{RunId: "r", ThreadId: "t"}
	alone := waitingCall("xyz")
	var got *tooldv1.Decision
	s := &script{waiting: []*tooldv1.Call{call, alone}, resume: func(r *tooldv1.ResumeToolRequest, send func(*tooldv1.Frame) error) error {
		got = r.GetDecision()
		return send(events("1", ended(succeeded, &tooldv1.ToolResult{})))
	}}
	dir := s.start(t)
	now := time.Date(2027, 3, 14, 15, 9, 26, 0, time.UTC)
	tests := []struct {
		args []string
		want *tooldv1.Remember // nil: refused
	}{
		{[]string{"--remember", "1"}, &tooldv1.Remember{Option: "exact", Scope: tooldv1.RememberScope_REMEMBER_SCOPE_RUN}},
		{[]string{"--remember", "any", "--scope", "thread"}, &tooldv1.Remember{Option: "any", Scope: tooldv1.RememberScope_REMEMBER_SCOPE_THREAD}},
		{[]string{"--remember", "2", "--scope", "namespace", "--for", "90m"},
			&tooldv1.Remember{Option: "any", Scope: tooldv1.RememberScope_REMEMBER_SCOPE_NAMESPACE, Until: timestamppb.New(now.Add(90 * time.Minute))}},
		{[]string{"--remember", "0"}, nil},
		{[]string{"--remember", "1", "--scope", "world"}, nil},
		{[]string{"--remember", "1", "--for", "-1h"}, nil},
		{[]string{"--remember", "1", "--arguments", "{}"}, nil},
		{[]string{"--remember", "1", "--edit"}, nil},
		{[]string{"--for", "1h"}, nil},
		{[]string{"--scope", "run"}, nil},
	}
	for _, tt := range tests {
		got = nil
		r := new(run).do(t, dir, append([]string{"approve", "s-abc"}, tt.args...)...)
		switch {
		case tt.want == nil && (r.code != exitUsage || got != nil):
			t.Errorf("%q: exit code %d, decision %v", tt.args, r.code, got)
		case tt.want != nil && (r.code != 0 || got.GetRemember().String() != tt.want.String()):
			t.Errorf("%q: exit code %d, decision %v, want %v\n%s", tt.args, r.code, got, tt.want, r.err)
		}
	}
	new(run).do(t, dir, "approve", "s-xyz", "--remember", "1").expect(t, exitUsage, "", "offers nothing to keep")
}
