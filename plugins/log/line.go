package log

import (
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// maxName bounds names that callers choose, in bytes.
const maxName = 128

// A line contains what is logged about a call.
type line struct {
	namespace, call, tool, source string
	run, thread, agent, caller    string

	status   string
	executed call.Executed
	code     tool.Code
	reason   string
	aborted  bool
	gate     string // the gate that asked, denied or blocked
	verdict  string
	action   string // action of the question for which the call waits
	round    int

	attempts  int
	events    int
	output    int64
	truncated bool
	total     time.Duration // 0 when the tracker did not see the start of the call
	ran       time.Duration // duration of the last attempt
}

func newLine(in *hook.Input) line {
	l := line{
		namespace: clip(in.Namespace), call: clip(in.CallID), run: clip(in.Run.ID), thread: clip(in.Run.Thread),
		agent: clip(in.Run.Agent.ID), caller: clip(in.Caller.Subject),
	}
	if in.Descriptor != nil {
		l.tool, l.source = clip(in.Descriptor.ID), clip(in.Descriptor.Source)
	}
	return l
}

// A tracker follows the events of one call. Only one goroutine may use it at a time.
type tracker struct {
	line
	accepted, started time.Time
}

// see processes an event and reports whether the line must be written now.
func (t *tracker) see(e *call.Event) bool {
	t.events++
	switch e.Type {
	case call.EventAccepted:
		t.accepted = e.Time
	case call.EventAttemptStarted:
		t.started = e.Time
		t.attempts = e.Attempt
	case call.EventGateDecided:
		if v := e.Verdict; v != nil && !v.Overruled && v.Kind != string(hook.KindAllow) {
			t.gate, t.verdict = clip(v.Gate), clip(v.Kind)
		}
	case call.EventOutput:
		if e.Output != nil {
			t.output += int64(e.Output.Length)
		}
	case call.EventResumed:
		t.gate, t.verdict, t.action, t.started = "", "", "", time.Time{}
	case call.EventSuspended:
		t.suspended(e)
		return true
	case call.EventFinished:
		t.finished(e)
		return true
	}
	return false
}

func (t *tracker) suspended(e *call.Event) {
	t.status = string(call.Suspended)
	if s := e.Suspension; s != nil {
		t.action, t.round = clip(s.Action), s.Round
	}
	t.times(e.Time)
}

func (t *tracker) finished(e *call.Event) {
	t.action = ""
	t.times(e.Time)
	o := e.Outcome
	if o == nil {
		return
	}
	t.status, t.executed = string(o.Status), o.Executed
	if o.Result == nil {
		return
	}
	t.truncated = o.Result.Truncated
	if err := o.Result.Error; err != nil {
		t.code, t.aborted = err.Code, err.Aborted
		if isCode(err.Reason) {
			t.reason = err.Reason
		}
	}
}

func (t *tracker) times(now time.Time) {
	t.total, t.ran = 0, 0
	if !t.accepted.IsZero() {
		t.total = max(now.Sub(t.accepted), 0)
	}
	if !t.started.IsZero() {
		t.ran = max(now.Sub(t.started), 0)
	}
}

// isCode reports whether a reason has the form of a code. Only such reasons are logged, because other reasons may contain text of a tool.
func isCode(reason string) bool {
	if reason == "" || len(reason) > 64 {
		return false
	}
	for _, c := range []byte(reason) {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

func (l *line) level() zapcore.Level {
	switch l.code {
	case tool.Internal, tool.InDoubt, tool.Sandbox:
		return zapcore.WarnLevel // an operator should look at such an error
	}
	return zapcore.InfoLevel
}

// write logs the line. It reuses room for the field and returns it.
func (l *line) write(log *zap.Logger, room []zap.Field) []zap.Field {
	message := "call finished"
	if l.status == string(call.Suspended) {
		message = "call suspended"
	}
	if entry := log.Check(l.level(), message); entry != nil {
		room = append(room[:0], zap.Inline(l))
		entry.Write(room...)
	}
	return room
}

// A field is one field of a line. It is left out when it has no value.
type field[T any] struct {
	key   string
	value T
}

func (l *line) names() [15]field[string] {
	return [...]field[string]{
		{"namespace", l.namespace}, {"call_id", l.call}, {"tool", l.tool}, {"source", l.source}, {"run_id", l.run},
		{"thread_id", l.thread}, {"agent_id", l.agent}, {"caller", l.caller}, {"status", l.status},
		{"executed", string(l.executed)}, {"code", string(l.code)}, {"reason", l.reason}, {"gate", l.gate},
		{"verdict", l.verdict}, {"action", l.action},
	}
}

func (l *line) counts() [4]field[int64] {
	return [...]field[int64]{{"round", int64(l.round)}, {"attempts", int64(l.attempts)}, {"events", int64(l.events)}, {"output_bytes", l.output}}
}

func (l *line) clocks() [2]field[time.Duration] {
	return [...]field[time.Duration]{{"total", l.total}, {"ran", l.ran}}
}

func (l *line) flags() [2]field[bool] {
	return [...]field[bool]{{"aborted", l.aborted}, {"truncated", l.truncated}}
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (l *line) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for _, f := range l.names() {
		if f.value != "" {
			enc.AddString(f.key, f.value)
		}
	}
	for _, f := range l.counts() {
		if f.value != 0 {
			enc.AddInt64(f.key, f.value)
		}
	}
	for _, f := range l.clocks() {
		if f.value != 0 {
			enc.AddDuration(f.key, f.value)
		}
	}
	for _, f := range l.flags() {
		if f.value {
			enc.AddBool(f.key, true)
		}
	}
	return nil
}

// clip shortens a name at a character boundary.
func clip(s string) string {
	if len(s) <= maxName {
		return s
	}
	most := maxName
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
