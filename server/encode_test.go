package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server"
	"github.com/toold-dev/toold/tool"
)

// anyText is mostly what people write, now and then what is no text.
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

// Events that are written by hand are received as those that the generated code writes; what it refuses is refused.
func TestFramesAreReceivedAsTheyWouldBeWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		frame := &server.Frame{CallID: anyText().Draw(t, "call"), Cursor: "c1.1.3"}
		for range rapid.IntRange(1, 4).Draw(t, "events") {
			frame.Events = append(frame.Events, anyEvent(t))
		}
		want := &tooldv1.ExecuteToolResponse{Frame: server.PlainFrame(frame)}
		_, wantErr := proto.Marshal(want)
		b, err := proto.Marshal(&tooldv1.ExecuteToolResponse{Frame: server.FromFrame(frame)})
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

func TestIsolationIsReceivedAsItWouldBeWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		i := &call.Isolation{
			Required: rapid.SampledFrom([]tool.Isolation{tool.IsolationNone, ""}).Draw(t, "required"), Network: rapid.SampledFrom([]string{"none", ""}).Draw(t, "network"),
		}
		for range rapid.IntRange(0, 12).Draw(t, "facts") {
			i.Facts = append(i.Facts, call.Fact{Name: anyText().Draw(t, "name"), Held: rapid.Bool().Draw(t, "held")})
		}
		want := server.FromIsolation(i)
		_, wantErr := proto.Marshal(want)
		b, err := proto.Marshal(server.EncodedIsolation(i))
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		got := &tooldv1.Isolation{}
		if err := proto.Unmarshal(b, got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

// What a common frame costs, with and without its messages.
func BenchmarkFrame(b *testing.B) {
	now := time.Now()
	frame := &server.Frame{CallID: "bench-00000000000000000001", Cursor: "c1.1.3", Events: []call.Event{
		{Sequence: 1, Time: now, Type: call.EventAccepted, Accepted: &call.Accepted{Tool: "bench_noop", ToolDigest: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Class: call.Behind, Run: "bench-run", Thread: "bench-thread"}},
		{Sequence: 2, Time: now, Type: call.EventAttemptStarted, Attempt: 1},
		{Sequence: 3, Time: now, Type: call.EventFinished, Outcome: &call.Outcome{Status: call.Succeeded, Executed: call.Finished, Result: &tool.Result{ToolName: "bench_noop", Status: tool.StatusSuccess, Data: `{"ok":true}`, Duration: 50_000}}},
	}}
	for _, way := range []struct {
		name string
		make func(*server.Frame) *tooldv1.Frame
	}{{"hand", server.FromFrame}, {"messages", server.PlainFrame}} {
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
