package log_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/log"
	"github.com/toold-dev/toold/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A sink is a log file in memory. While held, its writes block.
type sink struct {
	mu   sync.Mutex
	text bytes.Buffer
	held chan struct{}
}

func (s *sink) Write(b []byte) (int, error) {
	if s.held != nil {
		<-s.held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *sink) Sync() error { return nil }

// lines returns the logged lines without their times.
func (s *sink) lines(t *testing.T) []map[string]any {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []map[string]any
	for text := range strings.Lines(s.text.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("line %q: %v", text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func logger(s *sink) *zap.Logger {
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder, EncodeDuration: zapcore.MillisDurationEncoder})
	return zap.New(zapcore.NewCore(encoder, s, zapcore.InfoLevel))
}

func newFilter(t testing.TB, cfg log.Config) *log.Filter {
	t.Helper()
	f, err := log.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run starts Run and returns a function that ends it.
func run(t *testing.T, f *log.Filter) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
}

const secret = "hunter2"

func input() *hook.Input {
	return &hook.Input{
		Namespace: "default", CallID: "call-0123456789abcdef", Descriptor: &tool.Descriptor{ID: "bash", Source: "shell", Description: secret},
		Requested: `{"password":"` + secret + `"}`, Arguments: tool.NewArguments(`{"password":"`+secret+`"}`, map[string]any{"password": secret}),
		Run:    tool.Run{ID: "run-1", Thread: "thread-1", Agent: tool.Agent{ID: "coder", Spec: secret}, Labels: map[string]string{"k": secret}},
		Caller: tool.Principal{Subject: "alice"}, Description: tool.Description{Title: secret},
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(ms int, e call.Event) call.Event {
	e.Time = start.Add(time.Duration(ms) * time.Millisecond)
	return e
}

func finished(ms int, status call.Status, executed call.Executed, r *tool.Result) call.Event {
	return at(ms, call.Event{Type: call.EventFinished, Outcome: &call.Outcome{Status: status, Executed: executed, Result: r}})
}

func TestLines(t *testing.T) {
	failure := func(code tool.Code, reason string) *tool.Result {
		return &tool.Result{Status: tool.StatusError, Data: secret, Message: secret, Error: &tool.Error{Code: code, Reason: reason, Message: secret, DeveloperMessage: secret, Aborted: true}}
	}
	accepted := at(0, call.Event{Type: call.EventAccepted})
	started := at(5, call.Event{Type: call.EventAttemptStarted, Attempt: 1})
	ids := map[string]any{"namespace": "default", "call_id": "call-0123456789abcdef", "tool": "bash", "source": "shell", "run_id": "run-1", "thread_id": "thread-1", "agent_id": "coder", "caller": "alice"}
	line := func(fields map[string]any) map[string]any {
		l := map[string]any{"level": "info", "msg": "call finished"}
		for k, v := range ids {
			l[k] = v
		}
		for k, v := range fields {
			l[k] = v
		}
		return l
	}
	tests := []struct {
		name   string
		events []call.Event
		want   []map[string]any
	}{
		{"success", []call.Event{
			accepted, started,
			at(6, call.Event{Type: call.EventProgress, Progress: &tool.Progress{Message: secret}}),
			at(7, call.Event{Type: call.EventOutput, Output: &call.Output{Stream: "stdout", Length: 7, Bytes: []byte(secret)}}),
			finished(25, call.Succeeded, call.Finished, &tool.Result{Status: tool.StatusSuccess, Data: secret, Truncated: true}),
		}, []map[string]any{line(map[string]any{"status": "SUCCEEDED", "executed": "FINISHED", "attempts": 1.0, "events": 5.0, "output_bytes": 7.0, "total": 25.0, "ran": 20.0, "truncated": true})}},
		{"a tool's own code", []call.Event{accepted, finished(1, call.Failed, call.Finished, failure(tool.ExecutionFailed, "NO_MATCH"))},
			[]map[string]any{line(map[string]any{"status": "FAILED", "executed": "FINISHED", "code": "EXECUTION_FAILED", "reason": "NO_MATCH", "aborted": true, "events": 2.0, "total": 1.0})}},
		{"a tool's own text in place of a code", []call.Event{accepted, finished(1, call.Failed, call.Finished, failure(tool.ExecutionFailed, secret))},
			[]map[string]any{line(map[string]any{"status": "FAILED", "executed": "FINISHED", "code": "EXECUTION_FAILED", "aborted": true, "events": 2.0, "total": 1.0})}},
		{"somebody should look", []call.Event{accepted, finished(1, call.Failed, call.ExecutedUnknown, failure(tool.InDoubt, ""))},
			[]map[string]any{line(map[string]any{"level": "warn", "status": "FAILED", "executed": "UNKNOWN", "code": "IN_DOUBT", "aborted": true, "events": 2.0, "total": 1.0})}},
		{"blocked", []call.Event{
			accepted,
			at(1, call.Event{Type: call.EventGateDecided, Verdict: &call.GateVerdict{Gate: "permission", Kind: "BLOCK", Reason: secret}}),
			at(1, call.Event{Type: call.EventGateDecided, Verdict: &call.GateVerdict{Gate: "other", Kind: "SUSPEND", Overruled: true}}),
			at(1, call.Event{Type: call.EventGateDecided, Verdict: &call.GateVerdict{Gate: "third", Kind: "ALLOW"}}),
			finished(2, call.Failed, call.NotStarted, failure(tool.Denied, "BLOCKED")),
		}, []map[string]any{line(map[string]any{"status": "FAILED", "executed": "NOT_STARTED", "code": "DENIED", "reason": "BLOCKED", "aborted": true, "gate": "permission", "verdict": "BLOCK", "events": 5.0, "total": 2.0})}},
		{"asked, answered, run", []call.Event{
			accepted,
			at(1, call.Event{Type: call.EventGateDecided, Verdict: &call.GateVerdict{Gate: "permission", Kind: "SUSPEND"}}),
			at(2, call.Event{Type: call.EventSuspended, Suspension: &call.Suspension{ID: secret, Round: 1, Action: "approval", Message: secret}}),
			at(1000, call.Event{Type: call.EventResumed, Decision: &tool.Decision{Reason: secret, Result: secret}}),
			at(1005, call.Event{Type: call.EventAttemptStarted, Attempt: 2}),
			finished(1010, call.Succeeded, call.Finished, &tool.Result{Status: tool.StatusSuccess}),
		}, []map[string]any{
			line(map[string]any{"msg": "call suspended", "status": "SUSPENDED", "gate": "permission", "verdict": "SUSPEND", "action": "approval", "round": 1.0, "events": 3.0, "total": 2.0}),
			line(map[string]any{"status": "SUCCEEDED", "executed": "FINISHED", "round": 1.0, "attempts": 2.0, "events": 6.0, "total": 1010.0, "ran": 5.0}),
		}},
		{"the beginning was before a restart", []call.Event{finished(9, call.Cancelled, call.NotStarted, failure(tool.Expired, ""))},
			[]map[string]any{line(map[string]any{"status": "CANCELLED", "executed": "NOT_STARTED", "code": "EXPIRED", "aborted": true, "events": 1.0})}},
		{"a clock that jumped back", []call.Event{accepted, finished(-500, call.Succeeded, call.Finished, nil)},
			[]map[string]any{line(map[string]any{"status": "SUCCEEDED", "executed": "FINISHED", "events": 2.0})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &sink{}
			f := newFilter(t, log.Config{Log: logger(s)})
			pass := f.Filter(input())
			for _, e := range tt.events {
				events, records := pass(e)
				if d := cmp.Diff([]call.Event{e}, events); d != "" || records != nil {
					t.Errorf("the event did not pass as it is, records %v:\n%s", records, d)
				}
			}
			run(t, f)() // Run writes the waiting lines at its end
			if d := cmp.Diff(tt.want, s.lines(t)); d != "" {
				t.Errorf("lines (-want +got):\n%s", d)
			}
			if strings.Contains(s.text.String(), secret) {
				t.Errorf("a secret is in the log: %s", s.text.String())
			}
		})
	}
}

func end(f *log.Filter) {
	f.Filter(input())(finished(1, call.Succeeded, call.Finished, &tool.Result{Status: tool.StatusSuccess}))
}

func TestWrittenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		f := newFilter(t, log.Config{Log: logger(s), Every: time.Second})
		stop := run(t, f)
		defer stop()
		end(f)
		synctest.Wait()
		if got := len(s.lines(t)); got != 0 {
			t.Errorf("%d lines at once, want them to wait for the next write", got)
		}
		for want := 1; want <= 3; want++ {
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if got := len(s.lines(t)); got != want {
				t.Errorf("%d lines, want %d", got, want)
			}
			end(f)
		}
	})
}

// The test checks that lines are lost when the log blocks, and that calls are not delayed.
func TestSlowLogReportsDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{held: make(chan struct{})}
		f := newFilter(t, log.Config{Log: logger(s), Buffer: 10, Every: time.Second})
		stop := run(t, f)
		end(f)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait() // now the write of the first line blocks
		for range 25 {
			end(f)
		}
		if got := f.Dropped(); got != 15 {
			t.Errorf("dropped %d of 25 with room for 10", got)
		}
		close(s.held)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		end(f)
		stop()
		var lines, reports int
		for _, l := range s.lines(t) {
			if l["dropped"] != nil {
				reports++
				if l["dropped"] != 15.0 || l["level"] != "warn" {
					t.Errorf("report = %v", l)
				}
				continue
			}
			lines++
		}
		if lines != 12 || reports != 1 {
			t.Errorf("%d lines and %d reports, want 12 and 1", lines, reports)
		}
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	s := &sink{}
	f := newFilter(t, log.Config{Log: logger(s), Every: time.Millisecond})
	stop := run(t, f)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				end(f)
			}
		})
	}
	wg.Wait()
	stop()
	if got := len(s.lines(t)); got != 800 || f.Dropped() != 0 {
		t.Errorf("%d lines, %d dropped, want 800 and none", got, f.Dropped())
	}
}

func TestLongNamesAreCut(t *testing.T) {
	s := &sink{}
	f := newFilter(t, log.Config{Log: logger(s)})
	in := input()
	in.Run.ID = strings.Repeat("ü", 10_000) + "\x1b[31m"
	f.Filter(in)(finished(1, call.Succeeded, call.Finished, nil))
	run(t, f)()
	if id, _ := s.lines(t)[0]["run_id"].(string); id != strings.Repeat("ü", 64)+"…" {
		t.Errorf("run_id = %q", id)
	}
}

func TestNeedsALogger(t *testing.T) {
	if _, err := log.New(log.Config{}); err == nil {
		t.Error("no logger, no error")
	}
}

func BenchmarkCall(b *testing.B) {
	core := zapcore.NewCore(log.NewEncoder(), zapcore.AddSync(io.Discard), zapcore.InfoLevel)
	f := newFilter(b, log.Config{Log: zap.New(core), Buffer: 1 << 20})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	in := input()
	events := []call.Event{at(0, call.Event{Type: call.EventAccepted}), at(1, call.Event{Type: call.EventAttemptStarted, Attempt: 1}), finished(2, call.Succeeded, call.Finished, nil)}
	b.ReportAllocs()
	for b.Loop() {
		pass := f.Filter(in)
		for _, e := range events {
			pass(e)
		}
	}
	cancel()
	<-done
}
