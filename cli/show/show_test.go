package show_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

var update = flag.Bool("update", false, "write testdata")

var now = time.Date(2027, 3, 14, 15, 9, 26, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }

func view() show.View { return show.View{Now: now} }

// golden compares got with a file in testdata. Colours are written as <code>.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.NewReplacer("\x1b[0m", "<>", "\x1b[", "<", "m", "m").Replace(got)
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; with -update it is accepted\n--- want\n%s--- got\n%s", file, want, got)
	}
}

const diff = "--- a/src/main.go\n+++ b/src/main.go\n@@ -1,2 +1,2 @@\n package main\n-var x = 1\n+var x = 2\n"

func ticket() *tooldv1.Call {
	s := &tooldv1.Suspension{
		SuspensionId: "s-PBJC6LE4CTGU2IYQMN4ASMLTS6", Round: 1, Action: "approval", Message: "Allow edit of src/main.go?",
		Pending: &tooldv1.PendingCall{
			Id: "0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e", Name: "edit",
			Arguments: `{"new_text":"var x = 2\nvar y = 3\n","old_text":"var x = 1","path":"src/main.go","replace_all":false}`,
		},
		ResumeMode: tooldv1.ResumeMode_RESUME_MODE_REPLAY_TOOL_CALL, Digest: strings.Repeat("ab", 32),
		CreatedAt: ago(90 * time.Minute), ExpiresAt: timestamppb.New(now.Add(71*time.Hour + 30*time.Minute)), OnExpiry: tooldv1.ExpiryAction_EXPIRY_ACTION_CANCEL,
		Approvers: &tooldv1.Approvers{Roles: []tooldv1.Role{tooldv1.Role_ROLE_APPROVER, tooldv1.Role_ROLE_OPERATOR}, DistinctFromCaller: true},
		Description: &tooldv1.Description{
			Kind: tooldv1.Kind_KIND_EDIT, Title: "Edit src/main.go", Locations: []*tooldv1.Location{{Path: "src/main.go", Line: 2}},
			Preview: []*tooldv1.Content{{Type: tooldv1.ContentType_CONTENT_TYPE_DIFF, Text: diff}},
			Notes:   []string{"The file changed since it was read."},
		},
		Origin: "permission",
	}
	return &tooldv1.Call{
		CallId: s.GetPending().GetId(), Status: tooldv1.CallStatus_CALL_STATUS_SUSPENDED, Tool: "edit", Suspension: s,
		Run:    &tooldv1.Run{RunId: "run-17", ThreadId: "thread-4", Agent: &tooldv1.Agent{AgentId: "coder"}, OnBehalfOf: "ada"},
		Caller: &tooldv1.Principal{Subject: "orchestrator", Method: "token"},
		Assessment: &tooldv1.Assessment{Mutability: tooldv1.Mutability_MUTABILITY_MUTATING, Safety: tooldv1.Safety_SAFETY_DESTRUCTIVE, Tier: tooldv1.Tier_TIER_CONFIRM,
			Resources: []*tooldv1.Resource{{Kind: "file", Id: "src/main.go"}, {Kind: "table", Shared: true}}},
		Isolation: &tooldv1.Isolation{Required: tooldv1.IsolationLevel_ISOLATION_LEVEL_FULL, Network: tooldv1.NetworkMode_NETWORK_MODE_NONE,
			Facts: []*tooldv1.IsolationFact{{Name: "fs_read", Held: true}, {Name: "net", Held: true}, {Name: "pids_limit"}}},
		RequestedArguments: `{"path": "src/main.go", "old_text": "var x = 1", "new_text": "var x = 2\nvar y = 3\n", "replace_all": false}`,
		EffectiveArguments: s.GetPending().GetArguments(), CreatedAt: ago(91 * time.Minute), LastSequence: 4, Epoch: 2, Revision: 2,
		Durability: tooldv1.Durability_DURABILITY_SYNC, Detached: true, Executed: tooldv1.Executed_EXECUTED_NOT_STARTED,
		Verdicts: []*tooldv1.Verdict{{Gate: "permission", Action: tooldv1.VerdictAction_VERDICT_ACTION_SUSPEND, Reason: "tier CONFIRM"}},
	}
}

func finished() *tooldv1.Call {
	c := ticket()
	c.Status, c.Suspension, c.Executed = tooldv1.CallStatus_CALL_STATUS_CANCELLED, nil, tooldv1.Executed_EXECUTED_STARTED
	c.EffectiveArguments = `{"command":"make test"}`
	c.RequestedArguments = `{"command":"make tset"}`
	c.RewrittenBy = []string{"spelling"}
	c.StartedAt, c.EndedAt = ago(2*time.Minute), ago(time.Minute)
	c.Decisions = []*tooldv1.Decision{{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, DecidedBy: &tooldv1.Principal{Subject: "eve", Method: "peer"},
		Time: ago(3 * time.Minute), Reason: "looks fine", Arguments: `{"command":"make test"}`}}
	c.Attempts = []*tooldv1.Attempt{{Attempt: 1, Epoch: 2, StartedAt: ago(2 * time.Minute), EndedAt: ago(time.Minute)}}
	c.CancelRequest = &tooldv1.CancelRequest{Cause: "CLIENT", Reason: "too slow", RequestedBy: &tooldv1.Principal{Subject: "eve"}, Time: ago(time.Minute)}
	c.Result = &tooldv1.ToolResult{
		Status: tooldv1.ResultStatus_RESULT_STATUS_ERROR, ModelText: "Cancelled by user", Data: `{"stdout":"ok\n","exit_code":-1}`,
		Error:     &tooldv1.ToolError{Code: tooldv1.ErrorCode_ERROR_CODE_CANCELLED, Message: "Cancelled by user", Retryable: true, RetryAfter: durationpb.New(3 * time.Second)},
		Artifacts: []*tooldv1.Artifact{{Name: "stdout", MimeType: "text/plain", Size: 1234567}}, Truncated: true,
		Processes: &tooldv1.ProcessReport{Killed: []*tooldv1.KilledProcess{{ProcessId: 4711, ConfirmedAt: ago(time.Minute)}, {ProcessId: 4712}}, KillUnverified: true},
	}
	return c
}

// activeRun returns the summary of a run that waits and has started another run, and the summary of its thread. Their texts are hostile.
func activeRun() (*tooldv1.RunSummary, *tooldv1.ThreadSummary) {
	labels := map[string]string{"env": "prod", "a": "\x1b[31mred"}
	waits := []*tooldv1.WaitingCall{{CallId: "c-1", SuspensionId: "s-1", Tool: "edit", Action: "approval", Title: "Edit a\nb", CreatedAt: ago(time.Minute)}}
	return &tooldv1.RunSummary{
			RunId: "run-17", State: tooldv1.RunState_RUN_STATE_WAITING, ThreadId: "thread-4", AgentId: "coder", Caller: "app", OnBehalfOf: "ilse", Labels: labels,
			ParentRunId: "run-1", ParentCallId: "c-0", CreatedAt: ago(time.Hour), LastCallAt: ago(time.Minute), Calls: &tooldv1.CallCounts{Suspended: 1}, Waits: waits,
			Children: []*tooldv1.ChildRun{{RunId: "run-17-a", ParentCallId: "c-2", AgentId: "reader"}},
		}, &tooldv1.ThreadSummary{
			ThreadId: "thread-4", LastRunId: "run-17", AgentId: "coder", Caller: "app", Labels: labels, CreatedAt: ago(time.Hour), LastCallAt: ago(time.Minute), Waits: waits,
		}
}

func TestRendering(t *testing.T) {
	v, colored := view(), show.View{Now: now, Color: true}
	question := ticket()
	question.Suspension.Action, question.Suspension.Approvers = "input", nil
	question.Suspension.ResumeMode = tooldv1.ResumeMode_RESUME_MODE_USE_DECISION_AS_TOOL_RESULT
	question.Suspension.ResponseSchema = `{"type":"string","enum":["red","green"]}`
	question.Suspension.Description = &tooldv1.Description{Title: "Ask: which colour?", Degraded: true}
	question.Suspension.Pending.Arguments = `{}`
	question.Suspension.OnExpiry, question.Suspension.DefaultResult = tooldv1.ExpiryAction_EXPIRY_ACTION_DEFAULT_RESULT, `"red"`
	run, thread := activeRun()
	for name, got := range map[string]string{
		"ticket":       v.Ticket(ticket(), ticket().GetSuspension()),
		"ticket_color": colored.Ticket(ticket(), ticket().GetSuspension()),
		"question":     v.Ticket(question, question.GetSuspension()),
		"inbox":        v.Waiting(ticket()) + "\n" + v.Waiting(question),
		"call_open":    v.Call(ticket()),
		"call_ended":   v.Call(finished()),
		"described": v.Described(&tooldv1.DescribeCallResponse{Valid: true, Tool: "edit", EffectiveArguments: ticket().GetEffectiveArguments(),
			Assessment: ticket().GetAssessment(), Description: ticket().GetSuspension().GetDescription(), Verdicts: ticket().GetVerdicts(),
			Outcome: tooldv1.VerdictAction_VERDICT_ACTION_SUSPEND, Isolation: ticket().GetIsolation()}),
		"described_invalid": v.Described(&tooldv1.DescribeCallResponse{Tool: "edit", Error: &tooldv1.ToolError{
			Code: tooldv1.ErrorCode_ERROR_CODE_INVALID_ARGUMENTS, Reason: "SCHEMA", Message: "The arguments do not fit.",
			FieldViolations: []*tooldv1.FieldViolation{{Field: "path", Description: "is required"}, {Description: "is no object"}}}}),
		"runs":      v.Runs([]*tooldv1.RunSummary{run, {RunId: "run-18", State: tooldv1.RunState_RUN_STATE_OPEN}}),
		"run_waits": v.Run(run), "threads": v.Threads([]*tooldv1.ThreadSummary{thread}), "thread": v.Thread(thread),
		"policy": v.Policy(&tooldv1.GetPolicyResponse{File: "rules.yaml", Version: "3f9a1c0412345678", Since: ago(time.Hour),
			Rules: []*tooldv1.PolicyRule{
				{Layer: "operator", Name: "pushes\x1b[2J", Action: tooldv1.RuleAction_RULE_ACTION_ASK_ALWAYS, Line: 7, Tools: []string{"bash(git push*)"}, Callers: []string{"ci-*"}, Hits: &tooldv1.RuleHits{Count: new(int64), LastAt: nil}},
				{Layer: "namespace x", Name: "few", Action: tooldv1.RuleAction_RULE_ACTION_DENY, Line: 9, When: "arguments.n > 1", Hits: &tooldv1.RuleHits{}},
			},
			Defaults: []*tooldv1.PolicyDefault{{Layer: "operator", Tier: tooldv1.Tier_TIER_CONFIRM, Action: tooldv1.RuleAction_RULE_ACTION_ASK, Hits: &tooldv1.RuleHits{Count: new(int64), LastAt: ago(time.Minute)}}}}),
		"rule_trial": v.RuleTrial("next.yaml", &tooldv1.TryRulesResponse{Warnings: []*tooldv1.RuleProblem{{Line: 3, Column: 5, Message: "few: names no tool"}}, Replay: &tooldv1.Replay{
			Judged: 3, Skipped: 1, Before: &tooldv1.ReplayTotals{Asked: 3}, After: &tooldv1.ReplayTotals{Allowed: 1, Asked: 2},
			Changed: []*tooldv1.ChangedCall{{CallId: "0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e", Tool: "bash", Title: "make test", Caller: "ci", Before: &tooldv1.ShortRuling{Action: tooldv1.RuleAction_RULE_ACTION_ASK},
				After: &tooldv1.ShortRuling{Action: tooldv1.RuleAction_RULE_ACTION_ALLOW, Rule: "tests"}, Decided: tooldv1.DecisionAction_DECISION_ACTION_CANCEL}}}}),
		"run": v.Run(&tooldv1.RunSummary{RunId: "run-17", State: tooldv1.RunState_RUN_STATE_BLOCKED, Namespace: "default", BlockedReason: "no rm here",
			BlockedCallId: "0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e", ChangedAt: ago(time.Hour), Calls: &tooldv1.CallCounts{Failed: 1, Suspended: 12345}}),
		"tool": v.Tool(tool()),
		"info": v.Info(&tooldv1.GetInfoResponse{Version: "1.2.3", Commit: "abc", StoreId: "st-1", Store: "sqlite", Epoch: 3, StartedAt: ago(50 * time.Hour), Namespace: "default",
			Addresses: []*tooldv1.Address{{Network: "unix", Address: "/run/toold.sock"}, {Network: "tcp", Address: "10.0.0.1:7130", Tls: true}},
			Limits: &tooldv1.Limits{Arguments: 1 << 20, Result: 256 << 10, Ticket: 256 << 10, Frame: 1 << 20, RunningCalls: 256, QueuedCalls: 4096,
				RunningCallsNamespace: 64, QueuedCallsNamespace: 3072, QueuedCallsPrincipal: 2048, OpenSuspensionsPrincipal: 1000,
				RunningCallsTools: []*tooldv1.ToolLimit{{Tools: "web_*", Calls: 4}}, CircuitFailures: 5, CircuitOpen: durationpb.New(30 * time.Second),
				Suspension: durationpb.New(30 * 24 * time.Hour), Retention: durationpb.New(7 * 24 * time.Hour)},
			Features: []string{"artifacts", "describe"}, Draining: true,
			IsolationFacts: []*tooldv1.IsolationFact{{Name: "net", Held: true, Mechanism: "network namespace"}, {Name: "pids_limit", Detail: "no control groups"}}}),
		"info_bare": v.Info(&tooldv1.GetInfoResponse{Version: "1.2.3", IsolationFacts: []*tooldv1.IsolationFact{
			{Name: "net", Detail: "nothing is isolated yet"}, {Name: "processes_killed", Mechanism: "session, tag", Detail: "nothing is isolated yet"}}}),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, got) })
	}
}

func tool() *tooldv1.Descriptor {
	return &tooldv1.Descriptor{
		Id: "grep", DisplayName: "Search files", Description: "Searches the text files of the workspace.\nSecond line.", Source: "builtin", Version: "1",
		Parameters:   `{"type":"object","required":["pattern"],"properties":{"pattern":{"type":"string","description":"A Go regular expression."},"mode":{"type":"string","enum":["files","count"],"default":"files"},"tags":{"type":["array","null"]},"any":true}}`,
		Effects:      &tooldv1.Assessment{Mutability: tooldv1.Mutability_MUTABILITY_READ_ONLY, Safety: tooldv1.Safety_SAFETY_READ_ONLY, Tier: tooldv1.Tier_TIER_OBSERVE},
		MaxArguments: 64 << 10, OutputBudget: 48 << 10, Aliases: []string{"search"}, Guidance: "Prefer it to bash.", Digest: strings.Repeat("cd", 32),
		Timeouts: &tooldv1.Timeouts{Attempt: durationpb.New(11 * time.Minute)}, RequiredIsolation: tooldv1.IsolationLevel_ISOLATION_LEVEL_NONE,
	}
}

// TestTables checks that every line has at most 80 columns and that ids are not cut.
func TestTables(t *testing.T) {
	long := strings.Repeat("i", 64)
	var calls []*tooldv1.Call
	for i, id := range []string{"0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e", long, "short-call-id-16"} {
		calls = append(calls, &tooldv1.Call{
			CallId: id, Status: tooldv1.CallStatus(i + 2), Tool: []string{"bash", "日本語日本語日本語日本語", strings.Repeat("t", 64)}[i],
			CreatedAt: ago(time.Duration(i+1) * 25 * time.Hour), StartedAt: ago(time.Hour), EndedAt: ago(59 * time.Minute),
		})
	}
	tools := []*tooldv1.Descriptor{tool(), {Id: strings.Repeat("x", 64), Source: "mcp:" + long, Description: long + long,
		Effects: &tooldv1.Assessment{Tier: tooldv1.Tier_TIER_ESCALATE, Safety: tooldv1.Safety_SAFETY_DESTRUCTIVE}}}
	for name, got := range map[string]string{"calls": view().Calls(calls), "tools": view().Tools(tools), "calls_none": view().Calls(nil)} {
		t.Run(name, func(t *testing.T) {
			for line := range strings.Lines(got) {
				if n := show.Columns(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			golden(t, name, got)
		})
	}
	if got := view().Calls(calls); !strings.Contains(got, long) {
		t.Errorf("an id was cut:\n%s", got)
	}
}

// TestLongTexts checks that descriptions and lists wrap between words, and that text that users copy does not wrap.
func TestLongTexts(t *testing.T) {
	sentence := strings.Repeat("several wörter 日本語 ", 20)
	path := "/srv/" + strings.Repeat("p", 100)
	described := tool()
	described.Description, described.Guidance = sentence, "first\n"+sentence
	described.Parameters = `{"properties":{"a":{"description":"` + sentence + `"}}}`
	info := &tooldv1.GetInfoResponse{Features: strings.Fields(sentence), Addresses: []*tooldv1.Address{{Network: "unix", Address: path}}, HeldCalls: 1200}
	for _, name := range strings.Fields(sentence) {
		info.IsolationFacts = append(info.IsolationFacts, &tooldv1.IsolationFact{Name: name, Detail: "not proven"})
	}
	painted := view()
	painted.Color = true
	for name, got := range map[string]string{"tool": view().Tool(described), "info": view().Info(info), "painted": painted.Info(info)} {
		for line := range strings.Lines(got) {
			line = regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
			if n := show.Columns(line); n > 80 && !strings.Contains(line, path) {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
	if got := view().Info(info); !strings.Contains(got, path) || !strings.Contains(got, "1,200 calls are held") {
		t.Errorf("info:\n%s", got)
	}
}

// ended returns the event of a call that succeeded with this data.
func ended(data string) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{Event: &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{
		Status: tooldv1.CallStatus_CALL_STATUS_SUCCEEDED, Executed: tooldv1.Executed_EXECUTED_FINISHED, Result: &tooldv1.ToolResult{Data: data},
	}}}
}

func TestEvents(t *testing.T) {
	s := ticket().GetSuspension()
	who := &tooldv1.Principal{Subject: "eve", Method: "token"}
	var b strings.Builder
	for _, e := range []*tooldv1.CallEvent{
		{Event: &tooldv1.CallEvent_Accepted{Accepted: &tooldv1.CallAccepted{Tool: "edit", Description: s.GetDescription()}}},
		{Event: &tooldv1.CallEvent_Queued{Queued: &tooldv1.CallQueued{}}},
		{Event: &tooldv1.CallEvent_GateDecided{GateDecided: &tooldv1.GateDecided{Verdict: &tooldv1.Verdict{Gate: "g", Action: tooldv1.VerdictAction_VERDICT_ACTION_BLOCK, Reason: "no\x1b[2J", Overruled: true}}}},
		{Event: &tooldv1.CallEvent_Suspended{Suspended: &tooldv1.CallSuspended{Suspension: s}}},
		{Event: &tooldv1.CallEvent_VoteRecorded{VoteRecorded: &tooldv1.VoteRecorded{Votes: 1, Needed: 2, Vote: &tooldv1.Vote{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Voter: who}}}},
		{Event: &tooldv1.CallEvent_Resumed{Resumed: &tooldv1.CallResumed{Decision: &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, DecidedBy: who, Result: `"red"`}}}},
		{Event: &tooldv1.CallEvent_StatusChanged{StatusChanged: &tooldv1.StatusChanged{Status: tooldv1.CallStatus_CALL_STATUS_RESUMING}}},
		{Event: &tooldv1.CallEvent_AttemptStarted{AttemptStarted: &tooldv1.AttemptStarted{Attempt: 2}}},
		{Event: &tooldv1.CallEvent_Progress{Progress: &tooldv1.Progress{Status: tooldv1.ProgressStatus_PROGRESS_STATUS_RUNNING, Fraction: 0.4, Message: "compiling"}}},
		{Event: &tooldv1.CallEvent_Progress{Progress: &tooldv1.Progress{Status: tooldv1.ProgressStatus_PROGRESS_STATUS_DONE, Loaded: 5000, Total: 5000}}},
		{Event: &tooldv1.CallEvent_ActivitySnapshot{ActivitySnapshot: &tooldv1.ActivitySnapshot{ActivityId: "plan", ActivityType: "list", Content: `["a"]`}}},
		{Event: &tooldv1.CallEvent_ActivityDelta{ActivityDelta: &tooldv1.ActivityDelta{ActivityId: "plan", Patch: `[]`}}},
		{Event: &tooldv1.CallEvent_Output{Output: &tooldv1.Output{Stream: "stdout", Data: []byte("not here")}}},
		{Event: &tooldv1.CallEvent_CancelRequested{CancelRequested: &tooldv1.CancelRequested{Request: &tooldv1.CancelRequest{Cause: "PARENT", RequestedBy: who, Reason: "over"}}}},
		{Event: &tooldv1.CallEvent_DocumentChanged{DocumentChanged: &tooldv1.DocumentChanged{Scope: tooldv1.DocumentScope_DOCUMENT_SCOPE_THREAD, Key: "todo", Revision: 3}}},
		{Event: &tooldv1.CallEvent_StateConflict{StateConflict: &tooldv1.StateConflict{Scope: tooldv1.DocumentScope_DOCUMENT_SCOPE_RUN, Key: "k"}}},
		{Event: &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{Status: tooldv1.CallStatus_CALL_STATUS_CANCELLED, Executed: tooldv1.Executed_EXECUTED_STARTED, Result: finished().GetResult()}}},
		{Event: &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{Status: tooldv1.CallStatus_CALL_STATUS_SUCCEEDED, Executed: tooldv1.Executed_EXECUTED_FINISHED,
			Result: &tooldv1.ToolResult{Message: "the result is data", Duration: durationpb.New(2100 * time.Millisecond)}}}},
		ended(`{"exit_code":127,"stdout":"","stderr":"nope: command not found"}`), ended(`{"exit_code":-1,"signal":"SIG\u001bKILL"}`),
		ended(`{"exit_code":0}`), ended(`{"exit_code":-1,"running":true}`), ended(`{"exit_code":"x"}`), ended(`[3]`),
		{}, // a content type that this version does not know
	} {
		b.WriteString(view().Event(e))
	}
	for _, f := range []*tooldv1.Frame{
		{Control: &tooldv1.Frame_Gap{Gap: &tooldv1.Gap{Reason: tooldv1.GapReason_GAP_REASON_TRIMMED, FirstKept: 7, Epoch: 1}}},
		{Control: &tooldv1.Frame_Gap{Gap: &tooldv1.Gap{Reason: tooldv1.GapReason_GAP_REASON_LOST_TAIL, FirstKept: 9, Epoch: 2}}},
		{Control: &tooldv1.Frame_Lagged{Lagged: &tooldv1.Lagged{}}},
		{Control: &tooldv1.Frame_Closing{Closing: &tooldv1.Closing{Reason: tooldv1.ClosingReason_CLOSING_REASON_DRAIN}}},
		{Control: &tooldv1.Frame_Snapshot{Snapshot: ticket()}},
		{Control: &tooldv1.Frame_Heartbeat{Heartbeat: &tooldv1.Heartbeat{}}},
		{Control: &tooldv1.Frame_CaughtUp{CaughtUp: &tooldv1.CaughtUp{}}},
	} {
		b.WriteString(view().Control(f))
	}
	golden(t, "events", b.String())
}

func TestMessageIsStableAndExact(t *testing.T) {
	m := &tooldv1.Call{CallId: "c", RequestedArguments: `{"n":12345678901234567890.0,"s":"` + "\u202e\u009b" + `<"}`, LastSequence: 1}
	want := `{"call_id":"c","requested_arguments":"{\"n\":12345678901234567890.0,\"s\":\"\u202e\u009b<\"}","last_sequence":"1"}` + "\n"
	for range 20 { // protojson adds random white space
		if got, err := show.Message(m, false); err != nil || got != want {
			t.Fatalf("Message = %s, %v, want %s", got, err, want)
		}
	}
}
