package cli

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

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
		want *tooldv1.Remember // nil means that the flags are refused
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
		case tt.want == nil && (r.code != ExitUsage || got != nil):
			t.Errorf("%q: exit code %d, decision %v", tt.args, r.code, got)
		case tt.want != nil && (r.code != 0 || got.GetRemember().String() != tt.want.String()):
			t.Errorf("%q: exit code %d, decision %v, want %v\n%s", tt.args, r.code, got, tt.want, r.err)
		}
	}
	new(run).do(t, dir, "approve", "s-xyz", "--remember", "1").expect(t, ExitUsage, "", "cannot be remembered")
}
