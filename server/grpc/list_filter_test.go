package grpcserver_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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
		{"alice", &tooldv1.ListCallsRequest{Caller: "bob"}, ""}, // The filter hides alice's own calls, and the calls of other callers stay hidden, too.
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
		slices.Sort(got) // The daemon stores the read-only call later than the others, so sort the result.
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s, %v: %v, want %s", tt.user, tt.req, got, tt.want)
		}
	}
}

// TestListFiltersRefused checks that the lists of the console refuse filters that cannot match anything, pages that do not exist, and input
// that would cost the daemon too much. Each message must name the field and the accepted values.
func TestListFiltersRefused(t *testing.T) {
	w := newWorld(t, options{})
	ctx := within(t)
	calls, admin := w.calls("vera"), tooldv1.NewAdminServiceClient(w.as("oscar"))
	long, many := string(make([]byte, 257)), map[string]string{}
	for i := range 65 {
		many[fmt.Sprint(i)] = ""
	}
	early, late, never := timestamppb.New(time.Unix(1, 0)), timestamppb.New(time.Unix(2, 0)), &timestamppb.Timestamp{Nanos: -1}
	type (
		listCalls   = tooldv1.ListCallsRequest
		listRuns    = tooldv1.ListRunsRequest
		listThreads = tooldv1.ListThreadsRequest
		readAudit   = tooldv1.ReadAuditRequest
	)
	tests := []struct {
		req        proto.Message
		field, say string
	}{
		{&listCalls{ErrorCodes: []tooldv1.ErrorCode{0}}, "error_codes[0]", "0"},
		{&listCalls{ErrorCodes: []tooldv1.ErrorCode{99}}, "error_codes[0]", "99"},
		{&listCalls{ErrorCodes: make([]tooldv1.ErrorCode, 65)}, "error_codes", "at most 64"},
		{&listCalls{Executed: []tooldv1.Executed{0}}, "executed[0]", "0"},
		{&listCalls{Executed: []tooldv1.Executed{9}}, "executed[0]", "9"},
		{&listCalls{Statuses: make([]tooldv1.CallStatus, 65)}, "statuses", "at most 64"},
		{&listCalls{Tools: make([]string, 65)}, "tools", "at most 64"},
		{&listCalls{Tools: []string{long}}, "tools[0]", "at most 256"},
		{&listCalls{Text: long}, "text", "at most 256"},
		{&listCalls{Source: long}, "source", "at most 256"},
		{&listCalls{Caller: long}, "caller", "at most 256"},
		{&listCalls{Labels: many}, "labels", "at most 64"},
		{&listCalls{Labels: map[string]string{long: ""}}, "labels", "at most 256"},
		{&listCalls{Labels: map[string]string{"env": long}}, "labels[env]", "at most 256"},
		{&listCalls{CreatedAfter: late, CreatedBefore: early}, "created_before", "later than created_after"},
		{&listCalls{CreatedAfter: late, CreatedBefore: late}, "created_before", "later than created_after"},
		{&listCalls{CreatedAfter: never}, "created_after", "between the years"},
		{&listCalls{PageSize: -1}, "page_size", "0 is 50"},
		{&listCalls{PageToken: "x"}, "page_token", "token"},
		{&listCalls{PageToken: strings.Repeat("A", 1<<20)}, "page_token", "token"},
		{&listRuns{Labels: many}, "labels", "at most 64"},
		{&listRuns{Labels: map[string]string{"env": long}}, "labels[env]", "at most 256"},
		{&listRuns{AgentId: long}, "agent_id", "at most 256"},
		{&listRuns{Caller: long}, "caller", "at most 256"},
		{&listRuns{ThreadId: long}, "thread_id", "at most 128"},
		{&listRuns{ParentRunId: long}, "parent_run_id", "at most 128"},
		{&listRuns{States: make([]tooldv1.RunState, 65)}, "states", "at most 64"},
		{&listRuns{States: []tooldv1.RunState{0}}, "states", "0"},
		{&listRuns{PageSize: -1}, "page_size", "0 is 50"},
		{&listRuns{PageToken: "x"}, "page_token", "token"},
		{&listThreads{Labels: map[string]string{long: ""}}, "labels", "at most 256"},
		{&listThreads{PageSize: -1}, "page_size", "0 is 50"},
		{&listThreads{PageToken: "x"}, "page_token", "token"},
		{&readAudit{Kinds: make([]string, 65)}, "kinds", "at most 64"},
		{&readAudit{Kinds: []string{long}}, "kinds", "want one of"},
		{&readAudit{Principal: long}, "principal", "at most 256"},
		{&readAudit{CallId: long}, "call_id", "at most 256"},
		{&readAudit{StoredAfter: late, StoredBefore: early}, "stored_before", "later than stored_after"},
		{&readAudit{PageSize: -1}, "page_size", "0 or more"},
		{&readAudit{After: -1}, "after", "0 is the beginning"},
		{&readAudit{Before: 1}, "before", "newest_first"},
		{&tooldv1.ListDefinitionsRequest{}, "tool", "required"},
		{&tooldv1.ListDefinitionsRequest{Tool: long}, "tool", "at most 256"},
		{&tooldv1.ListDefinitionsRequest{Tool: "echo", PageSize: -1}, "page_size", "0 is 50"},
		{&tooldv1.ListDefinitionsRequest{Tool: "echo", PageToken: "x"}, "page_token", "token"},
	}
	for _, tt := range tests {
		var err error
		switch req := tt.req.(type) {
		case *listCalls:
			_, err = calls.ListCalls(ctx, req)
		case *listRuns:
			_, err = calls.ListRuns(ctx, req)
		case *listThreads:
			_, err = calls.ListThreads(ctx, req)
		case *readAudit:
			_, err = admin.ReadAudit(ctx, req)
		case *tooldv1.ListDefinitionsRequest:
			_, err = admin.ListDefinitions(ctx, req)
		}
		if text := status.Convert(err).Message(); status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(text, tt.field+":") || !strings.Contains(text, tt.say) {
			t.Errorf("%s, %T: %.300v; want INVALID_ARGUMENT with %q", tt.field, tt.req, err, tt.say)
		}
	}
	for _, size := range []int32{0, 1, math.MaxInt32} {
		_, err := calls.ListCalls(ctx, &listCalls{PageSize: size, Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_FAILED}})
		must(t, err)
		_, err = calls.ListRuns(ctx, &listRuns{PageSize: size})
		must(t, err)
		_, err = admin.ReadAudit(ctx, &readAudit{PageSize: size})
		must(t, err)
	}
}

// TestListReadsABoundedNumberOfCalls filters for calls that are rare. A page must end early, although the daemon reads it in portions.
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
