package translate_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// anyText draws mostly ordinary text, and sometimes invalid UTF-8.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringN(100, 200, -1), rapid.Just(""),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 3), func(b []byte) string { return string(b) }))
}

func anyResult(t *rapid.T) *tool.Result {
	text := anyText()
	r := &tool.Result{
		Status:   rapid.SampledFrom([]tool.ResultStatus{tool.StatusSuccess, tool.StatusError, tool.StatusPending, ""}).Draw(t, "status"),
		ToolName: text.Draw(t, "tool"), Data: text.Draw(t, "data"), Message: text.Draw(t, "message"),
		Display:  rapid.SampledFrom([]tool.Display{"", tool.DisplayCode, tool.DisplayHidden}).Draw(t, "display"),
		Duration: time.Duration(rapid.Int64().Draw(t, "duration")), Truncated: rapid.Bool().Draw(t, "truncated"),
	}
	switch rapid.IntRange(0, 7).Draw(t, "part") {
	case 0:
		r.Error = &tool.Error{Code: tool.Internal, Message: text.Draw(t, "error")}
	case 1:
		r.Content = []tool.Content{{Type: tool.ContentText, Text: text.Draw(t, "content")}}
	case 2:
		r.Artifacts = []tool.Artifact{{Name: text.Draw(t, "artifact"), Size: 3}}
	case 3:
		r.Metadata = map[string]string{"key": text.Draw(t, "value")}
	case 4:
		r.Process = &tool.ProcessReport{Killed: []int{7}}
	}
	return r
}

func anyEvent(t *rapid.T) call.Event {
	text, number := anyText(), rapid.Int64()
	ev := call.Event{
		Sequence: number.Draw(t, "sequence"), Time: time.Unix(rapid.Int64Range(-1<<35, 1<<35).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")),
		Type: rapid.SampledFrom([]call.EventType{
			call.EventAccepted, call.EventAttemptStarted, call.EventProgress, call.EventOutput, call.EventFinished, call.EventQueued, call.EventActivityDelta, call.EventStatusChanged,
		}).Draw(t, "type"),
	}
	switch ev.Type {
	case call.EventAccepted:
		ev.Accepted = &call.Accepted{
			Tool: text.Draw(t, "tool"), ToolDigest: text.Draw(t, "digest"), Class: rapid.SampledFrom([]call.Class{call.Sync, call.Behind, ""}).Draw(t, "class"),
			Run: text.Draw(t, "run"), Thread: text.Draw(t, "thread"), ModelCallID: text.Draw(t, "model"),
		}
	case call.EventAttemptStarted:
		ev.Attempt = rapid.Int().Draw(t, "attempt")
	case call.EventProgress:
		ev.Progress = &tool.Progress{
			Status:   rapid.SampledFrom([]tool.ProgressStatus{"", tool.ProgressRunning, tool.ProgressDone}).Draw(t, "status"),
			Fraction: rapid.Float64().Draw(t, "fraction"), Message: text.Draw(t, "message"), Loaded: number.Draw(t, "loaded"), Total: number.Draw(t, "total"),
		}
	case call.EventOutput:
		ev.Output = &call.Output{Stream: text.Draw(t, "stream"), Offset: number.Draw(t, "offset"), Bytes: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"), Length: rapid.Int().Draw(t, "length")}
	case call.EventFinished:
		ev.Outcome = &call.Outcome{
			Status:   rapid.SampledFrom([]call.Status{call.Succeeded, call.Failed, call.Cancelled}).Draw(t, "status"),
			Executed: rapid.SampledFrom([]call.Executed{call.Finished, call.NotStarted, call.Started}).Draw(t, "executed"), Result: anyResult(t),
		}
	case call.EventActivityDelta:
		ev.Activity = &call.Activity{ID: text.Draw(t, "id"), Patch: text.Draw(t, "patch")}
	case call.EventStatusChanged:
		ev.Status = call.Running
	}
	return ev
}

// TestFramesAreReceivedAsTheyWouldBeWritten checks that a client receives the same events from the hand-written encoder as from the
// generated code, and that both encoders refuse the same events.
func TestFramesAreReceivedAsTheyWouldBeWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		frame := &call.Frame{Key: call.Key{ID: anyText().Draw(t, "call")}, Cursor: "c1.1.3"}
		for range rapid.IntRange(1, 4).Draw(t, "events") {
			frame.Events = append(frame.Events, anyEvent(t))
		}
		want := &tooldv1.ExecuteToolResponse{Frame: translate.PlainFrame(frame)}
		_, wantErr := proto.Marshal(want)
		b, err := proto.Marshal(&tooldv1.ExecuteToolResponse{Frame: translate.FromFrame(frame)})
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		got := &tooldv1.ExecuteToolResponse{}
		if err := proto.Unmarshal(b, got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

func anyCall(t *rapid.T) *call.Call {
	text, number := rapid.OneOf(rapid.String(), rapid.Just("")), rapid.Int64()
	if rapid.IntRange(0, 3).Draw(t, "broken") == 0 { // Draw invalid text rarely: a record has so many texts that otherwise one of them would almost always be invalid.
		text = anyText()
	}
	times := func(name string) time.Time {
		return rapid.SampledFrom([]time.Time{{}, time.Unix(1, 0), time.Unix(rapid.Int64Range(0, 1<<35).Draw(t, name), 5)}).Draw(t, name)
	}
	c := &call.Call{
		Namespace: text.Draw(t, "namespace"), ID: text.Draw(t, "id"), ModelCallID: text.Draw(t, "model"), Tool: text.Draw(t, "tool"),
		ToolDigest: text.Draw(t, "digest"), RetryOf: text.Draw(t, "retry"), ModelReason: text.Draw(t, "model reason"), Requested: text.Draw(t, "requested"), Effective: text.Draw(t, "effective"),
		Run:        tool.Run{ID: text.Draw(t, "run"), Thread: text.Draw(t, "thread"), Origin: text.Draw(t, "origin"), Unattended: rapid.Bool().Draw(t, "unattended")},
		Caller:     tool.Principal{Subject: text.Draw(t, "subject"), Method: "token", Namespace: "n", Roles: []string{"caller", "viewer", "none"}[:rapid.IntRange(0, 3).Draw(t, "roles")], Groups: []string{"ops", "finance"}[:rapid.IntRange(0, 2).Draw(t, "groups")]},
		OnBehalfOf: text.Draw(t, "behalf"), Detached: rapid.Bool().Draw(t, "detached"),
		Class:    rapid.SampledFrom([]call.Class{call.Sync, call.Behind, ""}).Draw(t, "class"),
		Status:   rapid.SampledFrom([]call.Status{call.New, call.Running, call.Suspended, call.Succeeded, call.Failed, call.Cancelled}).Draw(t, "status"),
		Executed: rapid.SampledFrom([]call.Executed{call.Finished, call.NotStarted, call.ExecutedUnknown, ""}).Draw(t, "executed"),
		Assessment: rapid.SampledFrom([]tool.Effects{{}, {Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true}, {OpenWorld: true},
			{Resources: []tool.Resource{{Kind: "file", ID: "a"}, {Kind: "table", ID: "b/é", Shared: true}}}}).Draw(t, "assessment"),
		Created: times("created"), Started: times("started"), Ended: times("ended"), Revision: number.Draw(t, "revision"), LastSequence: number.Draw(t, "last"),
		Epochs: []call.EpochStart{{Epoch: 7, First: 1}}, BatchID: text.Draw(t, "batch"), BatchPosition: rapid.Int().Draw(t, "position"),
		Isolation: call.Isolation{
			Required: rapid.SampledFrom([]tool.Isolation{tool.IsolationNone, tool.IsolationFull, ""}).Draw(t, "required"),
			Network:  rapid.SampledFrom([]string{"none", "open", ""}).Draw(t, "network"),
		},
	}
	for range rapid.IntRange(0, 12).Draw(t, "facts") {
		c.Isolation.Facts = append(c.Isolation.Facts, call.Fact{Name: text.Draw(t, "name"), Held: rapid.Bool().Draw(t, "held")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "verdicts") {
		c.Verdicts = append(c.Verdicts, call.GateVerdict{Gate: text.Draw(t, "gate"), Kind: "ALLOW", Reason: text.Draw(t, "reason"), Rule: text.Draw(t, "rule"), Answered: rapid.Bool().Draw(t, "answered"),
			Asked: times("asked"), Took: time.Duration(rapid.Int64().Draw(t, "took"))})
	}
	for n := range rapid.IntRange(0, 2).Draw(t, "attempts") {
		c.Attempts = append(c.Attempts, call.Attempt{Number: n + 1, Epoch: 7, Started: times("began"), Ended: times("returned")})
		if rapid.Bool().Draw(t, "elsewhere") {
			c.Attempts[n].Operation = &call.Operation{ID: text.Draw(t, "operation"), Expires: call.StampOf(times("expires"))}
		}
	}
	if rapid.Bool().Draw(t, "answered") {
		c.Result = anyResult(t)
	}
	switch rapid.IntRange(0, 8).Draw(t, "rare") {
	case 8:
		c.HookRuns = []call.HookRun{{Kind: "AFTER", Hook: text.Draw(t, "hook"), Asked: time.Unix(1, 0), Took: 5, Failed: true}}
	case 0:
		c.Rounds = []call.Round{{Suspension: call.Suspension{ID: text.Draw(t, "suspension"), Message: text.Draw(t, "asks")}}}
	case 1:
		c.Cancel = &call.CancelRequest{Reason: text.Draw(t, "cancelled")}
	case 2:
		c.Timeouts.Attempt = time.Second
	case 3:
		c.Rewriters = []string{text.Draw(t, "rewriter")}
	case 4:
		c.Run.Labels = map[string]string{"key": text.Draw(t, "label")}
	case 5:
		c.Run.Agent.ID = text.Draw(t, "agent")
	case 6:
		c.Description = tool.Description{Kind: tool.KindExecute, Title: text.Draw(t, "title"), Degraded: rapid.Bool().Draw(t, "degraded")}
		if rapid.Bool().Draw(t, "quoted") {
			c.Description.Preview = []tool.Content{{Type: tool.ContentText, Text: text.Draw(t, "preview")}}
		}
	}
	return c
}

// TestRecordsAreReceivedAsTheyWouldBeWritten checks that a client receives the same record from the hand-written encoder as from the
// generated code, and that both encoders refuse the same records.
func TestRecordsAreReceivedAsTheyWouldBeWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := anyCall(t)
		want := translate.FromCall(c)
		_, wantErr := proto.Marshal(want)
		b, err := proto.Marshal(translate.WholeCall(c))
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		got := &tooldv1.Call{}
		if err := proto.Unmarshal(b, got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

// TestRecordsHaveTheFieldsThatAreWritten fails when a message has a new field. The field must then be added to encoder.call and to anyCall.
// Otherwise encoded records would not contain it.
func TestRecordsHaveTheFieldsThatAreWritten(t *testing.T) {
	t.Parallel()
	for message, written := range map[proto.Message]int{
		&tooldv1.Call{}: 38, &tooldv1.Run{}: 11, &tooldv1.Principal{}: 5, &tooldv1.Attempt{}: 7, &tooldv1.Verdict{}: 8, &tooldv1.Description{}: 8,
		&tooldv1.Assessment{}: 6, &tooldv1.Isolation{}: 3, &tooldv1.ToolResult{}: 13,
	} {
		if d := message.ProtoReflect().Descriptor(); d.Fields().Len() != written {
			t.Errorf("%s has %d fields; %d are known to be written", d.Name(), d.Fields().Len(), written)
		}
	}
}

// BenchmarkRecord compares two ways to encode a common record: directly, and by first building its messages.
func BenchmarkRecord(b *testing.B) {
	now := time.Now()
	c := &call.Call{
		Namespace: "default", ID: "bench-00000000000000000001", Tool: "bench_noop", ToolDigest: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Run: tool.Run{ID: "bench-run", Thread: "bench-thread"}, Caller: tool.Principal{Subject: "local", Method: "token", Namespace: "default", Roles: []string{"caller", "approver", "operator"}},
		Requested: `{"path":"src/main/server.go","pattern":"func Serve","limit":200}`, Effective: `{"limit":200,"path":"src/main/server.go","pattern":"func Serve"}`,
		Class: call.Behind, Status: call.Succeeded, Executed: call.Finished, Description: tool.Description{Kind: tool.KindRead, Title: "bench_noop"}, Assessment: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true},
		Verdicts: []call.GateVerdict{{Gate: "permission", Kind: "ALLOW", Reason: "read-only"}}, Attempts: []call.Attempt{{Number: 1, Epoch: 1, Started: now, Ended: now}},
		Result: &tool.Result{ToolName: "bench_noop", Status: tool.StatusSuccess, Data: `{"ok":true}`, Duration: 50_000}, Isolation: call.Isolation{Required: tool.IsolationNone, Network: "none"},
		Created: now, Started: now, Ended: now, LastSequence: 3, Epochs: []call.EpochStart{{Epoch: 1, First: 1}}, Detached: true,
	}
	for _, way := range []struct {
		name string
		make func(*call.Call) *tooldv1.Call
	}{{"hand", translate.WholeCall}, {"messages", translate.FromCall}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := proto.Marshal(&tooldv1.CallToolResponse{Call: way.make(c)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFrame compares two ways to encode a common frame: directly, and by first building its messages.
func BenchmarkFrame(b *testing.B) {
	now := time.Now()
	frame := &call.Frame{Key: call.Key{ID: "bench-00000000000000000001"}, Cursor: "c1.1.3", Events: []call.Event{
		{Sequence: 1, Time: now, Type: call.EventAccepted, Accepted: &call.Accepted{Tool: "bench_noop", ToolDigest: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Class: call.Behind, Run: "bench-run", Thread: "bench-thread"}},
		{Sequence: 2, Time: now, Type: call.EventAttemptStarted, Attempt: 1},
		{Sequence: 3, Time: now, Type: call.EventFinished, Outcome: &call.Outcome{Status: call.Succeeded, Executed: call.Finished, Result: &tool.Result{ToolName: "bench_noop", Status: tool.StatusSuccess, Data: `{"ok":true}`, Duration: 50_000}}},
	}}
	for _, way := range []struct {
		name string
		make func(*call.Frame) *tooldv1.Frame
	}{{"hand", translate.FromFrame}, {"messages", translate.PlainFrame}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := proto.Marshal(&tooldv1.ExecuteToolResponse{Frame: way.make(frame)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
