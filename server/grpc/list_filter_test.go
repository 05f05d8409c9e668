package grpcserver_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
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
