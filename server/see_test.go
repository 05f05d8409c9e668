package server_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server"
	"github.com/toold-dev/toold/tool"
)

// seen is what one principal may get, one by one: of calls the records.
type seen struct {
	w     *world
	user  string
	calls map[string]*tooldv1.Call
}

// T130: whatever a list, a feed or a watch shows to a role, the role may get by its name, with the same content.
func TestT130NothingIsListedThatMayNotBeGot(t *testing.T) {
	t.Parallel()
	var tokens []server.Token
	mixed := map[string][]string{"cap": {"caller", "approver"}, "wax": {"worker", "approver"}, "adept": {"admin", "approver"}}
	for name, roles := range mixed {
		tokens = append(tokens, server.Token{Hash: hashOf(tokenOf(name)), Principal: tool.Principal{Namespace: "default", Subject: name, Roles: roles}})
	}
	w := newWorld(t, options{tokens: tokens})
	w.swapRules(rules + "  - {name: grave, action: ask, tools: [launch], approvers: [operator]}\n")
	ids := w.fillForT130()
	users := append(slices.Sorted(maps.Keys(users)), slices.Sorted(maps.Keys(mixed))...)
	for _, user := range users {
		s := &seen{w: w, user: user, calls: map[string]*tooldv1.Call{}}
		for _, id := range ids {
			got, err := w.calls(user).GetCall(within(t), &tooldv1.GetCallRequest{CallId: id})
			if err == nil {
				s.calls[id] = got.GetCall()
			} else if c := status.Code(err); c != codes.NotFound && c != codes.PermissionDenied {
				t.Fatal(err)
			}
		}
		s.lists(t)
		s.feeds(t, ids)
		s.others(t)
	}
}

// fillForT130 starts calls of each kind of question and of each status for some callers, and returns their ids.
func (w *world) fillForT130() (ids []string) {
	w.t.Helper()
	for _, user := range []string{"alice", "bob", "cap", "mallory"} {
		for _, id := range []string{"write", "launch", "transfer", "ask", "echo", "fail", "hold"} {
			s := &tooldv1.CallSpec{Tool: id, CallId: longID(user + "-" + id), Run: &tooldv1.Run{RunId: "run-" + user, ThreadId: "thread-" + user}}
			if slices.Contains([]string{"write", "transfer", "echo"}, id) {
				s.Arguments = `{"text":"of ` + user + `"}`
			}
			if id == "hold" {
				s.Run = nil
			}
			ids = append(ids, s.GetCallId())
			stream, err := w.calls(user).ExecuteTool(within(w.t), &tooldv1.ExecuteToolRequest{Spec: s})
			must(w.t, err)
			if id == "hold" {
				_, err = stream.Recv() // it runs on
			} else {
				_, err = readAll(stream.Recv)
			}
			must(w.t, err)
		}
		batch, err := w.calls(user).ExecuteBatch(within(w.t), &tooldv1.ExecuteBatchRequest{Spec: &tooldv1.BatchSpec{BatchId: longID("batch-" + user), Calls: []*tooldv1.CallSpec{
			{Tool: "launch", CallId: longID(user + "-in-batch")}, {Tool: "echo", Arguments: `{"text":"x"}`, CallId: longID(user + "-in-batch2")},
		}}})
		must(w.t, err)
		_, err = readAll(batch.Recv)
		must(w.t, err)
		ids = append(ids, longID(user+"-in-batch"), longID(user+"-in-batch2"))
		for _, p := range []*tooldv1.PutDocumentRequest{put(ofRun, "run-"+user, "k", `1`), put(ofThread, "thread-"+user, "k", `1`)} {
			_, err := w.documents(user).PutDocument(within(w.t), p)
			must(w.t, err)
		}
	}
	_, err := w.documents("oscar").PutDocument(within(w.t), put(ofNamespace, "", "k", `1`))
	must(w.t, err)
	return ids
}

// lists holds every filter of ListCalls against what GetCall shows.
func (s *seen) lists(t *testing.T) {
	t.Helper()
	queries := []*tooldv1.ListCallsRequest{{}, {Tool: "write"}, {Action: "approval"}, {Action: "input"}, {Order: tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST, PageSize: 2}}
	for i := range tooldv1.CallStatus_name {
		if i != 0 {
			queries = append(queries, &tooldv1.ListCallsRequest{Statuses: []tooldv1.CallStatus{tooldv1.CallStatus(i)}, PageSize: 3})
		}
	}
	for _, user := range []string{"alice", "bob", "cap"} {
		queries = append(queries, &tooldv1.ListCallsRequest{RunId: "run-" + user}, &tooldv1.ListCallsRequest{ThreadId: "thread-" + user},
			&tooldv1.ListCallsRequest{BatchId: longID("batch-" + user)},
			&tooldv1.ListCallsRequest{RunId: "run-" + user, Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}})
	}
	for _, q := range queries {
		for {
			page, err := s.w.calls(s.user).ListCalls(within(t), q)
			if status.Code(err) == codes.PermissionDenied {
				break
			}
			must(t, err)
			for _, c := range page.GetCalls() {
				if got := s.calls[c.GetCallId()]; got == nil || !proto.Equal(got.GetSuspension(), c.GetSuspension()) || got.GetRequestedArguments() != c.GetRequestedArguments() {
					t.Errorf("%s lists with %v the call %v, and gets %v", s.user, q, c, got)
				}
			}
			if q.PageToken = page.GetNextPageToken(); q.PageToken == "" {
				break
			}
		}
	}
}

// feeds holds what every feed shows against what GetCall shows.
func (s *seen) feeds(t *testing.T, ids []string) {
	t.Helper()
	selectors := []*tooldv1.WatchCallsRequest{{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}}}
	for _, user := range []string{"alice", "bob", "cap", "mallory"} {
		selectors = append(selectors, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_RunId{RunId: "run-" + user}},
			&tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_ThreadId{ThreadId: "thread-" + user}},
			&tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_BatchId{BatchId: longID("batch-" + user)}})
	}
	for _, id := range ids {
		selectors = append(selectors, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: id}})
	}
	for _, selector := range selectors {
		stream, err := s.w.calls(s.user).WatchCalls(within(t), selector)
		must(t, err)
		frames, err := readAll(stream.Recv)
		if c := status.Code(err); err != nil && c != codes.PermissionDenied && c != codes.NotFound {
			t.Errorf("%s watches %v: %v", s.user, selector, err)
		}
		for _, f := range frames {
			for _, e := range f.GetEvents() {
				s.mayGet(t, e.GetCallId(), e.GetSuspended().GetSuspension())
			}
			if c := f.GetSnapshot(); c != nil {
				s.mayGet(t, c.GetCallId(), c.GetSuspension())
			}
			for _, c := range f.GetBatchFinished().GetResults() {
				s.mayGet(t, c.GetCallId(), nil)
			}
		}
	}
}

func (s *seen) mayGet(t *testing.T, id string, shown *tooldv1.Suspension) {
	t.Helper()
	if got := s.calls[id]; got == nil || shown != nil && !proto.Equal(got.GetSuspension(), shown) {
		t.Errorf("%s is shown %v of the call %s, and gets %v", s.user, shown, id, got)
	}
}

// others holds lists of documents, tools and runs against what is got of each.
func (s *seen) others(t *testing.T) {
	t.Helper()
	documents := s.w.documents(s.user)
	for _, user := range []string{"alice", "bob", "cap", "mallory"} {
		for scope, id := range map[tooldv1.DocumentScope]string{ofRun: "run-" + user, ofThread: "thread-" + user, ofNamespace: ""} {
			list, err := documents.ListDocuments(within(t), &tooldv1.ListDocumentsRequest{Scope: scope, ScopeId: id})
			if err != nil {
				continue
			}
			for _, d := range list.GetDocuments() {
				got, err := documents.GetDocument(within(t), &tooldv1.GetDocumentRequest{Scope: scope, ScopeId: id, Key: d.GetKey()})
				if err != nil || !proto.Equal(got.GetDocument(), d) {
					t.Errorf("%s lists %v and gets %v, %v", s.user, d, got, err)
				}
			}
		}
		if run, err := s.w.calls(s.user).GetRun(within(t), &tooldv1.GetRunRequest{RunId: "run-" + user}); err == nil {
			for _, id := range []string{"write", "launch", "echo"} {
				if s.calls[longID(user+"-"+id)] == nil {
					t.Errorf("%s gets %v, and not its calls", s.user, run)
				}
			}
		}
	}
	tools := tooldv1.NewToolServiceClient(s.w.as(s.user))
	listed := map[string]bool{}
	if list, err := tools.ListTools(within(t), &tooldv1.ListToolsRequest{}); err == nil {
		for _, d := range list.GetTools() {
			listed[d.GetId()] = true
		}
	}
	if export, err := tools.ExportTools(within(t), &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_MCP}); err == nil {
		for _, d := range export.GetExported() {
			listed[d.GetTool()] = true
		}
	}
	if watch, err := tools.WatchTools(within(t), &tooldv1.WatchToolsRequest{}); err == nil {
		first, err := watch.Recv()
		if err != nil && !errors.Is(err, io.EOF) && status.Code(err) != codes.PermissionDenied {
			t.Error(err)
		}
		for _, c := range first.GetChanges() {
			listed[c.GetPut().GetId()] = true
		}
	}
	for id := range listed {
		if _, err := tools.GetTool(within(t), &tooldv1.GetToolRequest{Tool: id}); err != nil {
			t.Errorf("%s lists the tool %s and gets %v", s.user, id, err)
		}
	}
	if listed["secret"] {
		t.Errorf("%s lists a tool that is denied", s.user)
	}
}
