package call_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

var began = time.Date(2026, 3, 1, 9, 30, 0, 123456789, time.UTC)

// finishedCall returns a finished read-only call, with the arguments of the speed measurements.
func finishedCall() *call.Call {
	digest := strings.Repeat("0123456789abcdef", 4)
	return &call.Call{
		Namespace: "default", ID: "019a0c3e-7b1d-7c52-9f6e-0d8b5a4c3e21", ModelCallID: "toolu_01A09q90qw90lq917835lq9",
		Tool: "grep", ToolDigest: digest,
		Run:           tool.Run{ID: "run-4711", Thread: "thread-42", Agent: tool.Agent{ID: "coder"}},
		Caller:        tool.Principal{Namespace: "default", Subject: "uid:1000", Roles: []string{"caller", "approver"}, Method: "peer"},
		RequestDigest: digest,
		Requested:     tenProperties, Effective: tenProperties,
		Class: call.Behind, Status: call.Succeeded, Executed: call.Finished,
		Assessment:  tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Observe, ConcurrencySafe: true},
		Description: tool.Description{Kind: tool.KindSearch, Title: "Search src/server/handler.go"},
		Verdicts:    []call.GateVerdict{{Gate: "permission", Kind: "ALLOW"}},
		Attempts:    []call.Attempt{{Number: 1, Epoch: 7, Started: began, Ended: began.Add(time.Millisecond)}},
		Result:      &tool.Result{ToolName: "grep", Status: tool.StatusSuccess, Data: `{"matches":3,"files":["handler.go"]}`, Message: "handler.go:12: func Handle", Duration: time.Millisecond},
		Isolation:   call.Isolation{Required: tool.IsolationNone},
		Created:     began, Started: began, Ended: began.Add(time.Millisecond), Revision: 3, LastSequence: 3,
		Epochs: []call.EpochStart{{Epoch: 7, First: 1}},
	}
}

// waitingCall returns a suspended call as in the inbox of an approver.
func waitingCall() *call.Call {
	c := finishedCall()
	c.Class, c.Status, c.Executed, c.Result, c.Ended = call.Sync, call.Suspended, call.NotStarted, nil, time.Time{}
	c.Tool, c.Attempts, c.Started = "edit", nil, time.Time{}
	c.Assessment = tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyDestructive, Tier: tool.Confirm}
	c.Verdicts = []call.GateVerdict{{Gate: "permission", Kind: "SUSPEND"}}
	c.Description = tool.Description{Kind: tool.KindEdit, Title: "Edit src/server/handler.go",
		Locations: []tool.Location{{Path: "src/server/handler.go", Line: 12}},
		Preview:   []tool.Content{{Type: tool.ContentDiff, Text: strings.Repeat("-\told line\n+\tnew line\n", 10)}}}
	c.Rounds = []call.Round{{Suspension: call.Suspension{
		ID: "019a0c3e-7b1d-7c52-9f6e-0d8b5a4c3e22", Round: 1, Origin: "permission", Action: "approval", Message: "May edit run?",
		Parameters: json.RawMessage(`{"rule":"ask","tool":"edit"}`), ResumeMode: tool.ReplayToolCall,
		Approvers: &tool.Approvers{Roles: []string{"approver"}, Count: 1},
		Pending:   call.Pending{ID: c.ID, Name: "edit", Arguments: tenProperties},
		Digest:    c.RequestDigest, Description: c.Description, Created: call.StampOf(began), ExpiresAt: call.StampOf(began.AddDate(0, 0, 30)),
	}}}
	return c
}

// threeEvents returns the log of a call that is allowed and finishes.
func threeEvents() []call.Event {
	c := finishedCall()
	return []call.Event{
		{Sequence: 1, Time: began, Type: call.EventAccepted, Accepted: &call.Accepted{Tool: c.Tool, ToolDigest: c.ToolDigest, Class: c.Class, Run: c.Run.ID, Thread: c.Run.Thread, ModelCallID: c.ModelCallID}},
		{Sequence: 2, Time: began, Type: call.EventAttemptStarted, Attempt: 1},
		{Sequence: 3, Time: c.Ended, Type: call.EventFinished, Outcome: &call.Outcome{Status: c.Status, Executed: c.Executed, Result: c.Result}},
	}
}

func progressEvents(n int) []call.Event {
	events := make([]call.Event, n)
	for i := range events {
		events[i] = call.Event{Sequence: int64(i) + 1, Time: began.Add(time.Duration(i) * time.Millisecond), Type: call.EventProgress,
			Progress: &tool.Progress{Status: tool.ProgressRunning, Fraction: float64(i) / float64(n), Message: "reading file"}}
	}
	return events
}

// BenchmarkStored compares the stored form with the JSON of the same records.
func BenchmarkStored(b *testing.B) {
	b.Run("finished", func(b *testing.B) { compare(b, finishedCall(), call.EncodeCall, call.DecodeCall) })
	b.Run("waiting", func(b *testing.B) { compare(b, waitingCall(), call.EncodeCall, call.DecodeCall) })
	b.Run("events=3", func(b *testing.B) { compare(b, threeEvents(), call.EncodeEvents, call.DecodeEvents) })
	b.Run("progress=256", func(b *testing.B) { compare(b, progressEvents(256), call.EncodeEvents, call.DecodeEvents) })
}

func compare[T any](b *testing.B, v T, encode func(T) ([]byte, error), decode func([]byte) (T, error)) {
	b.Run("stored", func(b *testing.B) { encodeAndDecode(b, v, encode, decode) })
	b.Run("json", func(b *testing.B) {
		encodeAndDecode(b, v, func(v T) ([]byte, error) { return json.Marshal(v) }, func(b []byte) (v T, err error) {
			return v, json.Unmarshal(b, &v)
		})
	})
}

func encodeAndDecode[T any](b *testing.B, v T, encode func(T) ([]byte, error), decode func([]byte) (T, error)) {
	stored, err := encode(v)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encode(v); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(stored)), "bytes")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decode(stored); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDecodeEventsAfter reads one page of 256 from the end of a call that was stored as one row.
func BenchmarkDecodeEventsAfter(b *testing.B) {
	stored, err := call.EncodeEvents(progressEvents(10_000))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if events, err := call.DecodeEventsAfter(stored, 9_000, 256); err != nil || len(events) != 256 {
			b.Fatal(len(events), err)
		}
	}
}
