package grpcserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// TestListFilters checks each filter of ListCalls that is not a status, an id or a time.
func TestListFilters(t *testing.T) {
	w := newWorld(t, options{})
	ctx := within(t)
	for _, c := range []struct{ user, tool, arguments, id, env string }{
		{"alice", "talk", `{}`, "talk", "prod"}, {"alice", "write", `{"text":"x"}`, "write", "test"}, {"bob", "no_such", `{}`, "gone", "prod"},
	} {
		_, err := w.calls(c.user).CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
			Tool: c.tool, CallId: longID(c.id), Arguments: c.arguments, Run: &tooldv1.Run{RunId: "run-" + c.user, Labels: map[string]string{"env": c.env}},
		}})
		must(t, err)
	}
	notFound, notStarted := tooldv1.ErrorCode_ERROR_CODE_NOT_FOUND, tooldv1.Executed_EXECUTED_NOT_STARTED
	tests := []struct {
		user string
		req  *tooldv1.ListCallsRequest
		want string
	}{
		{"vera", &tooldv1.ListCallsRequest{Tools: []string{"talk", "no_such"}}, "talk gone"},
		{"vera", &tooldv1.ListCallsRequest{Tool: "write", Tools: []string{"talk"}}, "talk write"},
		{"vera", &tooldv1.ListCallsRequest{Source: "test"}, "talk write"},
		{"vera", &tooldv1.ListCallsRequest{Source: "test", Tools: []string{"talk", "no_such"}}, "talk"},
		{"vera", &tooldv1.ListCallsRequest{Source: "nowhere"}, ""},
		{"vera", &tooldv1.ListCallsRequest{Caller: "bob"}, "gone"},
		{"alice", &tooldv1.ListCallsRequest{Caller: "alice"}, "talk write"},
		{"alice", &tooldv1.ListCallsRequest{Caller: "bob"}, ""}, // another caller's calls stay hidden, and are not replaced by her own
		{"ann", &tooldv1.ListCallsRequest{Caller: "alice", Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}}, "write"},
		{"vera", &tooldv1.ListCallsRequest{Labels: map[string]string{"env": "prod"}}, "talk gone"},
		{"vera", &tooldv1.ListCallsRequest{ErrorCodes: []tooldv1.ErrorCode{notFound}}, "gone"},
		{"vera", &tooldv1.ListCallsRequest{Executed: []tooldv1.Executed{notStarted}}, "write gone"},
		{"vera", &tooldv1.ListCallsRequest{Text: "TALK"}, "talk"},
	}
	for _, tt := range tests {
		tt.req.PageSize = 1
		var got []string
		for {
			page, err := w.calls(tt.user).ListCalls(ctx, tt.req)
			must(t, err)
			for _, c := range page.GetCalls() {
				got = append(got, c.GetCallId())
			}
			if tt.req.PageToken = page.GetNextPageToken(); tt.req.PageToken == "" {
				break
			}
		}
		var want []string
		for _, id := range strings.Fields(tt.want) {
			want = append(want, longID(id))
		}
		slices.Sort(got) // The daemon stores the read-only call later.
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s, %v: %v, want %s", tt.user, tt.req, got, tt.want)
		}
	}
}

// TestListFiltersRefused checks that filters which can match no call are refused, because the client made a mistake.
func TestListFiltersRefused(t *testing.T) {
	w := newWorld(t, options{})
	for _, req := range []*tooldv1.ListCallsRequest{
		{ErrorCodes: []tooldv1.ErrorCode{0}}, {ErrorCodes: []tooldv1.ErrorCode{99}}, {Executed: []tooldv1.Executed{0}}, {Executed: []tooldv1.Executed{9}},
		{Tools: make([]string, 65)}, {Text: string(make([]byte, 257))}, {Source: string(make([]byte, 257))}, {Caller: string(make([]byte, 257))},
	} {
		_, err := w.calls("vera").ListCalls(within(t), req)
		wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	}
}

// TestListReadsABoundedNumberOfCalls checks that a page with rare calls ends early, although the daemon reads it in portions.
func TestListReadsABoundedNumberOfCalls(t *testing.T) {
	w := newWorld(t, options{})
	for i := range 6000 {
		c := &call.Call{
			Namespace: "default", ID: fmt.Sprintf("call-%04d", i), Tool: "echo", Caller: tool.Principal{Subject: "alice"}, Status: call.New, Executed: call.NotStarted,
			Created: time.Unix(1_700_000_000, 0), Revision: 1, LastSequence: 1,
		}
		if i%200 == 0 {
			c.Run.Labels = map[string]string{"env": "prod"}
		}
		must(t, w.store.Commit(within(t), &store.Change{Call: c, Create: true, Events: []call.Event{{Sequence: 1, Type: call.EventProgress}}}))
	}
	var sizes []int
	req := &tooldv1.ListCallsRequest{Labels: map[string]string{"env": "prod"}, PageSize: 200}
	for {
		page, err := w.calls("vera").ListCalls(within(t), req)
		must(t, err)
		sizes = append(sizes, len(page.GetCalls()))
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if len(sizes) < 2 || sizes[0] == 0 || sizes[0] > 16 {
		t.Errorf("pages of %v calls; want several, because one reads at most 4,000 calls", sizes)
	}
	all := 0
	for _, n := range sizes {
		all += n
	}
	if all != 30 {
		t.Errorf("%d calls in all pages, want 30", all)
	}
}
