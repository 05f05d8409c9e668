package grpcserver_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/toold-dev/toold/hook"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker"
)

// seen checks what one principal can see. calls has the records that GetCall returns to the principal, by id.
type seen struct {
	w     *world
	user  string
	p     tool.Principal
	calls map[string]*tooldv1.Call
}

// TestT130NothingIsListedThatMayNotBeGot (T130) checks that everything that a list, a feed or a watch shows to a role can also be read by
// that role with a get method, with the same content.
func TestT130NothingIsListedThatMayNotBeGot(t *testing.T) {
	t.Parallel()
	var tokens []access.Token
	mixed := map[string][]string{"cap": {"caller", "approver"}, "wax": {"worker", "approver"}, "adept": {"admin", "approver"}}
	for name, roles := range mixed {
		tokens = append(tokens, access.Token{Hash: hashOf(tokenOf(name)), Principal: tool.Principal{Namespace: "default", Subject: name, Roles: roles}})
	}
	w := newWorld(t, options{tokens: tokens})
	w.swapRules(rules + "  - {name: grave, action: ask, tools: [launch, fail], approvers: [operator]}\n")
	w.admin.calls = w.store
	w.admin.hooks = []service.HookState{{Name: "gate", Address: "/run/gate.sock", Health: hook.Health{LastError: "it said so"}}}
	w.admin.workers = []service.WorkerState{
		{ID: "w1", Source: "worker:default/p", Namespace: "default", Calls: []string{longID("alice-write")}},
		{ID: "w2", Source: "worker:other/p", Namespace: "other", Calls: []string{longID("mallory-write")}},
	}
	for source, id := range map[string]string{worker.SourceOf("default", "p"): "drifted", worker.SourceOf("other", "p"): "theirs"} {
		for _, text := range []string{"before", "after"} {
			must(t, w.tools.Replace(source, tool.Func(tool.Descriptor{ID: id, Description: text}, nil)))
		}
	}
	ids := w.fillForT130()
	w.rememberForT130()
	for _, user := range append(slices.Sorted(maps.Keys(users)), slices.Sorted(maps.Keys(mixed))...) {
		p, ok := users[user]
		if !ok {
			p = tool.Principal{Namespace: "default", Roles: mixed[user]}
		}
		s := &seen{w: w, user: user, p: p, calls: map[string]*tooldv1.Call{}}
		for _, id := range ids {
			got, err := w.calls(user).GetCall(within(t), &tooldv1.GetCallRequest{CallId: id})
			if err == nil {
				s.calls[id] = got.GetCall()
			} else if c := status.Code(err); c != codes.NotFound && c != codes.PermissionDenied {
				t.Fatal(err)
			}
		}
		rows := map[string]func(*testing.T){
			"ListCalls": s.lists, "GetCall": nil, // s.lists compares the calls of lists with GetCall.
			"WatchCalls":   func(t *testing.T) { t.Helper(); s.feeds(t, ids) },
			"ReadArtifact": func(t *testing.T) { t.Helper(); s.artifacts(t, ids) },
			"WatchInbox":   s.inbox,
			"GetTurn":      s.turns,
			"GetRun":       s.others, "ListRuns": nil, "ListThreads": nil, "GetThread": nil, "ListDocuments": nil, "GetDocument": nil, "ListTools": nil, "GetTool": nil, "ExportTools": nil, "WatchTools": nil, "ListDefinitions": nil, // s.others checks these methods.
			"ListRules": s.rules, "ReadAudit": s.audit, "GetInfo": s.info,
			"ListAuditCheckpoints": nil, "GetLoad": nil, "ListProblems": nil, // These methods return no calls. TestAdministeredState checks who sees what.
			"GetPolicy":   nil, // This method returns no calls. TestPolicy checks who sees what.
			"ListWorkers": s.workers,
			"ListSources": s.adminLists, "ListSecrets": nil, "ListQuarantinedTools": nil, "ListDeadLetters": nil, "ListTokens": nil,
		}
		for _, row := range rows {
			if row != nil {
				row(t)
			}
		}
		for _, method := range showing() {
			if _, ok := rows[method]; !ok {
				t.Errorf("%s shows something, and has no row here", method)
			}
		}
	}
}

// turns checks that a principal that may read a turn may also get the call of the turn. The message of the turn must contain the same
// result as the call.
func (s *seen) turns(t *testing.T) {
	t.Helper()
	for _, caller := range []string{"alice", "bob", "cap", "mallory"} {
		stream, err := s.w.calls(s.user).GetTurn(within(t), &tooldv1.GetTurnRequest{TurnId: longID("turn-" + caller)})
		must(t, err)
		frames, err := readAll(stream.Recv)
		if c := status.Code(err); c == codes.NotFound || c == codes.PermissionDenied {
			continue
		}
		must(t, err)
		if len(frames) != 3 {
			t.Fatalf("%s gets %d frames of a turn, want 3", s.user, len(frames))
		}
		got := s.calls[frames[0].GetTurnStarted().GetCalls()[0].GetCallId()]
		if text := frames[1].GetTurnMessage().GetPart(); got == nil || !strings.Contains(text, got.GetResult().GetMessage()) {
			t.Errorf("%s gets the turn of %s, %s, and the call %v", s.user, caller, text, got)
		}
	}
	if s.user == "alice" {
		stream, err := s.w.calls("alice").GetTurn(within(t), &tooldv1.GetTurnRequest{TurnId: longID("turn-alice")})
		must(t, err)
		_, err = stream.Recv()
		must(t, err)
	}
}

// showing returns the methods whose names say that they return data to clients.
func showing() (methods []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage("toold.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			list := f.Services().Get(i).Methods()
			for j := range list.Len() {
				name := string(list.Get(j).Name())
				if slices.ContainsFunc([]string{"List", "Watch", "Get", "Read", "Export", "Search", "Find"}, func(verb string) bool { return strings.HasPrefix(name, verb) }) {
					methods = append(methods, name)
				}
			}
		}
		return true
	})
	return methods
}

// fillForT130 starts calls for several callers, so that each kind of question and each status occurs. It returns their ids.
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
				_, err = stream.Recv() // Do not wait for the end: the call must keep running.
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
		turn, err := w.calls(user).ExecuteTurn(within(w.t), &tooldv1.ExecuteTurnRequest{Spec: &tooldv1.TurnSpec{
			TurnId: longID("turn-" + user), Provider: tooldv1.TurnProvider_TURN_PROVIDER_ANTHROPIC, Run: &tooldv1.Run{RunId: "run-" + user},
			Message: `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"echo","input":{"text":"of ` + user + `"}}]}`,
		}})
		must(w.t, err)
		started, err := turn.Recv()
		must(w.t, err)
		ids = append(ids, started.GetFrame().GetTurnStarted().GetCalls()[0].GetCallId())
		_, err = readAll(turn.Recv)
		must(w.t, err)
		for _, p := range []*tooldv1.PutDocumentRequest{put(ofRun, "run-"+user, "k", `1`), put(ofThread, "thread-"+user, "k", `1`)} {
			_, err := w.documents(user).PutDocument(within(w.t), p)
			must(w.t, err)
		}
	}
	_, err := w.documents("oscar").PutDocument(within(w.t), put(ofNamespace, "", "k", `1`))
	must(w.t, err)
	return ids
}

// rememberForT130 makes two remembered answers: one to a question for approvers, and one to a question for operators.
func (w *world) rememberForT130() {
	w.t.Helper()
	for user, id := range map[string]string{"ann": longID("alice-write"), "oscar": longID("alice-fail")} {
		got, err := w.calls(user).GetCall(within(w.t), &tooldv1.GetCallRequest{CallId: id})
		must(w.t, err)
		open := got.GetCall().GetSuspension()
		stream, err := w.calls(user).ResumeTool(within(w.t), &tooldv1.ResumeToolRequest{SuspensionId: open.GetSuspensionId(), Decision: &tooldv1.Decision{
			DecisionId: longID("decision-" + user), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: open.GetDigest(),
			Remember: &tooldv1.Remember{Option: open.GetRememberOptions()[0].GetOption(), Scope: tooldv1.RememberScope_REMEMBER_SCOPE_RUN},
		}})
		must(w.t, err)
		_, err = readAll(stream.Recv)
		must(w.t, err)
	}
}

// lists compares the results of every filter of ListCalls with those of GetCall.
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

// feeds compares the events of every feed with the results of GetCall.
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

// inbox compares the questions in the inbox with the results of GetCall. The inbox must contain every question whose call the principal may
// get.
func (s *seen) inbox(t *testing.T) {
	t.Helper()
	stream, err := s.w.calls(s.user).WatchInbox(within(t), &tooldv1.WatchInboxRequest{})
	must(t, err)
	shown := map[string]bool{}
	for {
		res, err := stream.Recv()
		if status.Code(err) == codes.PermissionDenied {
			return
		}
		must(t, err)
		if res.GetCaughtUp() != nil {
			break
		}
		c := res.GetWaiting().GetCall()
		s.mayGet(t, c.GetCallId(), c.GetSuspension())
		shown[c.GetCallId()] = true
	}
	for id, c := range s.calls {
		if c.GetSuspension() != nil && !shown[id] {
			t.Errorf("%s may get the question of %s, and its inbox does not show it", s.user, id)
		}
	}
}

func (s *seen) mayGet(t *testing.T, id string, shown *tooldv1.Suspension) {
	t.Helper()
	got := s.calls[id]
	if got != nil && got.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
		shown = nil // After its answer, the question is no longer in the record of its call.
	}
	if got == nil || shown != nil && !proto.Equal(got.GetSuspension(), shown) {
		t.Errorf("%s is shown %v of the call %s, and gets %v", s.user, shown, id, got)
	}
}

func (s *seen) admin() tooldv1.AdminServiceClient {
	return tooldv1.NewAdminServiceClient(s.w.as(s.user))
}

// adminLists checks the lists that only operators and admins may read.
func (s *seen) adminLists(t *testing.T) {
	t.Helper()
	operates, admin := slices.Contains(s.p.Roles, "operator"), slices.Contains(s.p.Roles, "admin")
	_, sources := s.admin().ListSources(within(t), &tooldv1.ListSourcesRequest{})
	_, secrets := s.admin().ListSecrets(within(t), &tooldv1.ListSecretsRequest{})
	_, quarantined := s.admin().ListQuarantinedTools(within(t), &tooldv1.ListQuarantinedToolsRequest{})
	_, letters := s.admin().ListDeadLetters(within(t), &tooldv1.ListDeadLettersRequest{})
	_, tokens := s.admin().ListTokens(within(t), &tooldv1.ListTokensRequest{})
	_, foreign := s.admin().ListTokens(within(t), &tooldv1.ListTokensRequest{Namespace: "elsewhere"})
	for name, list := range map[string]struct {
		err  error
		sees bool
	}{"tokens": {tokens, operates || admin}, "tokens of another namespace": {foreign, admin}, "sources": {sources, operates || admin || slices.Contains(s.p.Roles, "viewer")}, "secrets": {secrets, operates || admin}, "quarantined tools": {quarantined, operates || admin}, "dead letters": {letters, operates}} {
		if !list.sees && status.Code(list.err) != codes.PermissionDenied || list.sees && list.err != nil {
			t.Errorf("%s lists %s: %v", s.user, name, list.err)
		}
	}
}

// artifacts checks that the principal can read artifacts only of calls that it may get.
func (s *seen) artifacts(t *testing.T, ids []string) {
	t.Helper()
	for _, id := range ids {
		_, err := s.w.calls(s.user).ReadArtifact(within(t), &tooldv1.ReadArtifactRequest{CallId: id, Name: "stdout"})
		var detail string
		for _, d := range status.Convert(err).Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				detail = info.GetReason()
			}
		}
		if found := err == nil || detail == "ARTIFACT_NOT_FOUND"; found && s.calls[id] == nil {
			t.Errorf("%s reads of the call %s: %v", s.user, id, err)
		}
	}
}

// rules checks that the principal may get the call of each remembered answer in its list.
func (s *seen) rules(t *testing.T) {
	t.Helper()
	list, err := s.w.calls(s.user).ListRules(within(t), &tooldv1.ListRulesRequest{})
	if status.Code(err) == codes.PermissionDenied {
		return
	}
	must(t, err)
	for _, r := range list.GetRules() {
		s.mayGet(t, r.GetCallId(), nil)
	}
	if sees := len(list.GetRules()); slices.Contains([]string{"alice", "oscar", "vera"}, s.user) != (sees == 2) {
		t.Errorf("%s lists %d rules", s.user, sees)
	}
}

// audit checks that the principal may get each call that its audit records name.
func (s *seen) audit(t *testing.T) {
	t.Helper()
	page, err := s.admin().ReadAudit(within(t), &tooldv1.ReadAuditRequest{})
	if reads := s.user == "oscar" || s.user == "mallory"; reads != (err == nil) || reads != (len(page.GetRecords()) > 0) {
		t.Errorf("%s reads %d records, %v", s.user, len(page.GetRecords()), err)
	}
	for _, r := range page.GetRecords() {
		s.mayGet(t, r.GetCallId(), nil)
	}
}

// workers checks that the principal may get each call that its workers run.
func (s *seen) workers(t *testing.T) {
	t.Helper()
	list, err := s.admin().ListWorkers(within(t), &tooldv1.ListWorkersRequest{})
	looks := slices.Contains(s.p.Roles, "operator") || slices.Contains(s.p.Roles, "viewer")
	if looks != (len(list.GetWorkers()) == 1 && len(list.GetWorkers()[0].GetCallIds()) == 1) && !slices.Contains(s.p.Roles, "admin") {
		t.Errorf("%s lists the workers %v, %v", s.user, list.GetWorkers(), err)
	}
	for _, w := range list.GetWorkers() {
		for _, id := range w.GetCallIds() {
			s.mayGet(t, id, nil)
		}
	}
}

// info checks that GetInfo returns to each role only what that role may know.
func (s *seen) info(t *testing.T) {
	t.Helper()
	info, err := s.admin().GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
	if info.GetNamespace() != s.p.Namespace {
		t.Errorf("%s gets the namespace %q", s.user, info.GetNamespace())
	}
	admin := slices.Contains(s.p.Roles, "admin")
	looks := admin || slices.Contains(s.p.Roles, "operator") || slices.Contains(s.p.Roles, "viewer")
	if got := len(info.GetHooks()); looks != (got == 1) {
		t.Errorf("%s gets %d hooks", s.user, got)
	}
	for _, h := range info.GetHooks() {
		if shown := h.GetPlace() != "" || h.GetLastError() != ""; shown != admin {
			t.Errorf("%s gets the hook %v", s.user, h)
		}
	}
}

// others compares the lists of documents, tools and runs with the results of their get methods.
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
	s.activity(t)
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
	for _, id := range []string{"echo", "secret", "drifted", "theirs"} {
		list, err := s.admin().ListDefinitions(within(t), &tooldv1.ListDefinitionsRequest{Tool: id})
		if c := status.Code(err); err != nil && c != codes.NotFound && c != codes.PermissionDenied {
			t.Error(err)
		}
		if len(list.GetDefinitions()) > 0 && !s.judges(t, id) {
			listed[id] = true
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

// judges reports whether the principal sees the tool in the list of quarantined tools. It uses this list because GetTool does not find a
// quarantined tool.
func (s *seen) judges(t *testing.T, id string) bool {
	t.Helper()
	list, err := s.admin().ListQuarantinedTools(within(t), &tooldv1.ListQuarantinedToolsRequest{Tool: id})
	return err == nil && len(list.GetTools()) == 1
}

// activity checks the lists of runs and threads. Each entry must equal what the principal gets by the entry's id, and must name only calls
// that the principal may get.
func (s *seen) activity(t *testing.T) {
	t.Helper()
	client := s.w.calls(s.user)
	runs, err := client.ListRuns(within(t), &tooldv1.ListRunsRequest{})
	if err != nil {
		return // the principal has none of the roles
	}
	threads, err := client.ListThreads(within(t), &tooldv1.ListThreadsRequest{})
	must(t, err)
	var waits []*tooldv1.WaitingCall
	for _, r := range runs.GetRuns() {
		got, err := client.GetRun(within(t), &tooldv1.GetRunRequest{RunId: r.GetRunId()})
		if err != nil || !proto.Equal(got.GetRun(), r) {
			t.Errorf("%s lists the run %v and gets %v, %v", s.user, r, got, err)
		}
		waits = append(waits, r.GetWaits()...)
	}
	for _, r := range threads.GetThreads() {
		got, err := client.GetThread(within(t), &tooldv1.GetThreadRequest{ThreadId: r.GetThreadId()})
		if err != nil || !proto.Equal(got.GetThread(), r) {
			t.Errorf("%s lists the thread %v and gets %v, %v", s.user, r, got, err)
		}
		waits = append(waits, r.GetWaits()...)
	}
	for _, w := range waits {
		if s.calls[w.GetCallId()] == nil {
			t.Errorf("%s sees the question %v, and not its call", s.user, w)
		}
	}
}
