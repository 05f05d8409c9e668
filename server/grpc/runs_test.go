package grpcserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func inRun(w *world, user, tool string, run *tooldv1.Run) *tooldv1.Call {
	w.t.Helper()
	got, err := w.calls(user).CallTool(within(w.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: tool, Arguments: `{"text":"x"}`, Run: run}})
	must(w.t, err)
	return got.GetCall()
}

// runsWorld starts these runs, oldest first: the run "one"; the run "two" of thread t with a question; the run "below", which a call of
// "two" started; and bob's run.
func runsWorld(t *testing.T) (w *world, parent, question *tooldv1.Call) {
	w = newWorld(t, options{})
	inRun(w, "alice", "echo", &tooldv1.Run{RunId: "one", ThreadId: "t"})
	two := &tooldv1.Run{RunId: "two", ThreadId: "t", Agent: &tooldv1.Agent{AgentId: "deployer"}, Labels: map[string]string{"env": "prod"}}
	parent = inRun(w, "alice", "echo", two)
	_, err := w.calls("alice").ListCalls(within(t), &tooldv1.ListCallsRequest{}) // The journal stores read-only calls late; a list waits for that.
	must(t, err)
	question = inRun(w, "alice", "write", two)
	inRun(w, "alice", "echo", &tooldv1.Run{RunId: "below", ThreadId: "t-below", ParentRunId: "two", ParentThreadId: "t", ParentCallId: parent.GetCallId(), Agent: &tooldv1.Agent{AgentId: "reader"}})
	inRun(w, "bob", "echo", &tooldv1.Run{RunId: "bobs", ThreadId: "tb"})
	return w, parent, question
}

// list returns the ids of all pages of a list, and the number of pages.
func list(t *testing.T, page func(token string) (ids []string, next string, err error)) (all []string, pages int) {
	t.Helper()
	for token := ""; ; pages++ {
		ids, next, err := page(token)
		must(t, err)
		if all = append(all, ids...); next == "" {
			return all, pages + 1
		}
		token = next
	}
}

func TestListRuns(t *testing.T) {
	w, _, _ := runsWorld(t)
	prod := map[string]string{"env": "prod"}
	waiting, open := []tooldv1.RunState{tooldv1.RunState_RUN_STATE_WAITING}, []tooldv1.RunState{tooldv1.RunState_RUN_STATE_OPEN}
	tests := []struct {
		name, user string
		filter     *tooldv1.ListRunsRequest
		want       string
	}{
		{"newest call first", "vera", &tooldv1.ListRunsRequest{}, "bobs below two one"},
		{"only her own", "alice", &tooldv1.ListRunsRequest{}, "below two one"},
		{"of another caller", "alice", &tooldv1.ListRunsRequest{Caller: "bob"}, ""},
		{"an approver has no runs", "ann", &tooldv1.ListRunsRequest{}, ""},
		{"a thread", "vera", &tooldv1.ListRunsRequest{ThreadId: "t"}, "two one"},
		{"an agent", "vera", &tooldv1.ListRunsRequest{AgentId: "deployer"}, "two"},
		{"a label", "vera", &tooldv1.ListRunsRequest{Labels: prod}, "two"},
		{"a parent", "vera", &tooldv1.ListRunsRequest{ParentRunId: "two"}, "below"},
		{"a parent and an agent", "vera", &tooldv1.ListRunsRequest{ParentRunId: "two", AgentId: "deployer"}, ""},
		{"waiting", "vera", &tooldv1.ListRunsRequest{States: waiting}, "two"},
		{"open", "vera", &tooldv1.ListRunsRequest{States: open}, "bobs below one"},
	}
	for _, tt := range tests {
		for _, size := range []int32{0, 1} {
			tt.filter.PageSize = size
			got, _ := list(t, func(token string) (ids []string, next string, err error) {
				tt.filter.PageToken = token
				page, err := w.calls(tt.user).ListRuns(within(t), tt.filter)
				for _, r := range page.GetRuns() {
					ids = append(ids, r.GetRunId())
				}
				return ids, page.GetNextPageToken(), err
			})
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%s, pages of %d: %q, want %q", tt.name, size, s, tt.want)
			}
		}
	}
	_, err := w.calls("alice").ListRuns(within(t), &tooldv1.ListRunsRequest{ParentRunId: "bobs"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("the children of another caller's run: %v", err)
	}
	_, err = w.calls("alice").ListRuns(within(t), &tooldv1.ListRunsRequest{States: []tooldv1.RunState{9}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("an unknown state: %v", err)
	}
}

// TestListRunsManyCalls reads a list whose first page has fewer runs than the page size, because one run has more calls than the daemon
// reads for a page.
func TestListRunsManyCalls(t *testing.T) {
	w := newWorld(t, options{})
	inRun(w, "alice", "echo", &tooldv1.Run{RunId: "old"})
	for range 2001 {
		inRun(w, "alice", "echo", &tooldv1.Run{RunId: "busy"})
	}
	got, pages := list(t, func(token string) (ids []string, next string, err error) {
		page, err := w.calls("alice").ListRuns(within(t), &tooldv1.ListRunsRequest{PageToken: token})
		for _, r := range page.GetRuns() {
			ids = append(ids, fmt.Sprint(r.GetRunId(), r.GetCalls().GetSucceeded()))
		}
		return ids, page.GetNextPageToken(), err
	})
	if !slices.Equal(got, []string{"busy2001", "old1"}) || pages != 2 {
		t.Errorf("%d pages with %v", pages, got)
	}
}

func TestGetRunDetails(t *testing.T) {
	w, parent, question := runsWorld(t)
	got, err := w.calls("alice").GetRun(within(t), &tooldv1.GetRunRequest{RunId: "two"})
	must(t, err)
	r := got.GetRun()
	if r.GetThreadId() != "t" || r.GetAgentId() != "deployer" || r.GetLabels()["env"] != "prod" || r.GetCaller() != "alice" ||
		!r.GetCreatedAt().AsTime().Equal(parent.GetCreatedAt().AsTime()) || !r.GetLastCallAt().AsTime().Equal(question.GetCreatedAt().AsTime()) {
		t.Errorf("%v", r)
	}
	if c := r.GetChildren(); len(c) != 1 || c[0].GetRunId() != "below" || c[0].GetParentCallId() != parent.GetCallId() || c[0].GetAgentId() != "reader" {
		t.Errorf("the children are %v", c)
	}
	s := question.GetSuspension()
	if q := r.GetWaits(); len(q) != 1 || q[0].GetSuspensionId() != s.GetSuspensionId() || q[0].GetCallId() != question.GetCallId() || q[0].GetTool() != "write" || q[0].GetAction() != "approval" ||
		q[0].GetTitle() == "" || !q[0].GetExpiresAt().AsTime().Equal(s.GetExpiresAt().AsTime()) {
		t.Errorf("it waits for %v", q)
	}
	below, err := w.calls("vera").GetRun(within(t), &tooldv1.GetRunRequest{RunId: "below"})
	must(t, err)
	if b := below.GetRun(); b.GetParentRunId() != "two" || b.GetParentCallId() != parent.GetCallId() || len(b.GetChildren())+len(b.GetWaits()) > 0 {
		t.Errorf("%v", b)
	}
}

// TestPermissionModeChoices checks which modes a principal may choose. A caller may choose modes that restrict, an approver may choose more
// modes, and a viewer may choose none. A principal that may not leave the current mode may not choose another one.
func TestPermissionModeChoices(t *testing.T) {
	w, _, _ := runsWorld(t)
	modes := func(user string) string {
		t.Helper()
		run, err := w.calls(user).GetRun(within(t), &tooldv1.GetRunRequest{RunId: "two"})
		must(t, err)
		thread, err := w.calls(user).GetThread(within(t), &tooldv1.GetThreadRequest{ThreadId: "t"})
		must(t, err)
		return strings.Join(run.GetPermissionModes(), " ") + "; " + strings.Join(thread.GetPermissionModes(), " ")
	}
	for user, want := range map[string]string{
		"alice": "default plan; default plan", "vera": "; ", "oscar": "default plan accept_edits bypass; default plan accept_edits bypass",
	} {
		if got := modes(user); got != want {
			t.Errorf("%s may choose %q, want %q", user, got, want)
		}
	}
	_, err := w.calls("oscar").SetPermissionMode(within(t), &tooldv1.SetPermissionModeRequest{Selector: &tooldv1.SetPermissionModeRequest_RunId{RunId: "two"}, Mode: "bypass"})
	must(t, err)
	if got := modes("alice"); got != "; default plan" {
		t.Errorf("beside the mode bypass, alice may choose %q", got)
	}
}

func TestThreads(t *testing.T) {
	w, _, question := runsWorld(t)
	for _, tt := range []struct {
		user   string
		filter *tooldv1.ListThreadsRequest
		want   string
	}{
		{"vera", &tooldv1.ListThreadsRequest{}, "tb t-below t"}, {"alice", &tooldv1.ListThreadsRequest{}, "t-below t"}, {"ann", &tooldv1.ListThreadsRequest{}, ""},
		{"vera", &tooldv1.ListThreadsRequest{Waiting: true}, "t"}, {"vera", &tooldv1.ListThreadsRequest{AgentId: "reader"}, "t-below"},
	} {
		for _, size := range []int32{0, 1} {
			tt.filter.PageSize = size
			got, _ := list(t, func(token string) (ids []string, next string, err error) {
				tt.filter.PageToken = token
				page, err := w.calls(tt.user).ListThreads(within(t), tt.filter)
				for _, r := range page.GetThreads() {
					ids = append(ids, r.GetThreadId())
				}
				return ids, page.GetNextPageToken(), err
			})
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%s, %v: %q, want %q", tt.user, tt.filter, s, tt.want)
			}
		}
	}
	got, err := w.calls("alice").GetThread(within(t), &tooldv1.GetThreadRequest{ThreadId: "t"})
	must(t, err)
	if r := got.GetThread(); r.GetLastRunId() != "two" || r.GetAgentId() != "deployer" || r.GetCaller() != "alice" || len(r.GetWaits()) != 1 || r.GetWaits()[0].GetCallId() != question.GetCallId() ||
		!r.GetCreatedAt().AsTime().Before(r.GetLastCallAt().AsTime()) {
		t.Errorf("%v", r)
	}
	for _, user := range []string{"bob", "mallory"} {
		_, err := w.calls(user).GetThread(within(t), &tooldv1.GetThreadRequest{ThreadId: "t"})
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s gets %v", user, err)
		}
	}
}
