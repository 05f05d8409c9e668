package log_test

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/log"
	"github.com/toold-dev/toold/tool"
)

type clock struct{ time.Time }

func (c clock) Now() time.Time                       { return c.Time }
func (clock) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// anyName draws names, some of which need escaping.
func anyName() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`[ -~]{0,20}`), rapid.String(), rapid.Just("bad \xff\xfe utf-8"), rapid.Just("\x7f\x1b[31m"))
}

// The encoder's own lines have the same bytes as zap's.
func TestEncoderWritesWhatZapWrites(t *testing.T) {
	cfg := zap.NewProductionEncoderConfig()
	cfg.TimeKey, cfg.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	rapid.Check(t, func(r *rapid.T) {
		in := &hook.Input{
			Namespace: anyName().Draw(r, "namespace"), CallID: anyName().Draw(r, "id"),
			Descriptor: &tool.Descriptor{ID: anyName().Draw(r, "tool"), Source: rapid.StringMatching("[a-z]{0,5}").Draw(r, "source")},
			Run:        tool.Run{ID: rapid.StringMatching("[a-z-]{0,9}").Draw(r, "run"), Thread: "t", Agent: tool.Agent{ID: "a"}},
			Caller:     tool.Principal{Subject: anyName().Draw(r, "caller")},
		}
		nanos := func(label string) time.Time {
			return start.Add(time.Duration(rapid.OneOf(rapid.Int64Range(0, 3e9), rapid.Int64Range(0, 1e18)).Draw(r, label)))
		}
		result := &tool.Result{Status: tool.StatusError, Truncated: rapid.Bool().Draw(r, "truncated"), Error: &tool.Error{
			Code: tool.Code(rapid.SampledFrom([]string{"", "DENIED", "INTERNAL", "odd \"code\""}).Draw(r, "code")), Aborted: rapid.Bool().Draw(r, "aborted"), Reason: "NO_MATCH",
		}}
		events := []call.Event{
			at(0, call.Event{Type: call.EventAccepted}),
			{Type: call.EventAttemptStarted, Attempt: rapid.IntRange(0, 3).Draw(r, "attempt"), Time: nanos("started")},
			{Type: call.EventGateDecided, Verdict: &call.GateVerdict{Gate: anyName().Draw(r, "gate"), Kind: "BLOCK"}},
			{Type: call.EventOutput, Output: &call.Output{Length: rapid.IntRange(0, 1<<40).Draw(r, "output")}},
			{Type: call.EventFinished, Time: nanos("ended"), Outcome: &call.Outcome{Status: call.Failed, Executed: call.NotStarted, Result: result}},
		}
		now := clock{time.Unix(0, rapid.Int64Range(0, 4e18).Draw(r, "now"))}
		written := func(encoder zapcore.Encoder, more ...zap.Field) string {
			s := &sink{}
			f := newFilter(t, log.Config{Log: zap.New(zapcore.NewCore(encoder, s, zapcore.InfoLevel), zap.WithClock(now)).With(more...)})
			observe := f.Observe(in)
			for i := range events {
				observe(&events[i])
			}
			run(t, f)()
			return s.text.String()
		}
		if got, want := written(log.NewEncoder()), written(zapcore.NewJSONEncoder(cfg)); got != want {
			r.Errorf("got  %q\nwant %q", got, want)
		}
		more := zap.String("host", "a")
		if got, want := written(log.NewEncoder(), more), written(zapcore.NewJSONEncoder(cfg), more); got != want {
			r.Errorf("with a field: got  %q\nwant %q", got, want)
		}
	})
}
