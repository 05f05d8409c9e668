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

// maxName bounds what callers choose themselves, in bytes.
const maxName = 128

// A line is what is logged of a call.
type line struct {
	namespace, call, tool, source string
	run, thread, agent, caller    string

	status   string
	executed call.Executed
	code     tool.Code
	reason   string
	aborted  bool
	gate     string // that asked, denied or blocked
	verdict  string
	action   string // of the question that it waits for
	round    int

	attempts  int
	events    int
	output    int64
	truncated bool
	total     time.Duration // 0: the beginning was not seen
	ran       time.Duration // the last attempt
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

// A tracker follows the events of one call. It belongs to whoever passes the events, one goroutine at a time.
type tracker struct {
	line
	accepted, started time.Time
}

// see takes an event in, and reports whether the line is to be written now.
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

// isCode keeps a tool's own texts out: a reason is logged only when it has the form that reasons should have.
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
		return zapcore.WarnLevel // somebody should look
	}
	return zapcore.InfoLevel
}

// write logs the line. Fields without a value are left out; the room for them is used again.
func (l *line) write(log *zap.Logger, fields []zap.Field) []zap.Field {
	message := "call finished"
	if l.status == string(call.Suspended) {
		message = "call suspended"
	}
	entry := log.Check(l.level(), message)
	if entry == nil {
		return fields
	}
	fields = fields[:0]
	for _, f := range []struct{ key, value string }{
		{"namespace", l.namespace}, {"call_id", l.call}, {"tool", l.tool}, {"source", l.source}, {"run_id", l.run},
		{"thread_id", l.thread}, {"agent_id", l.agent}, {"caller", l.caller}, {"status", l.status},
		{"executed", string(l.executed)}, {"code", string(l.code)}, {"reason", l.reason}, {"gate", l.gate},
		{"verdict", l.verdict}, {"action", l.action},
	} {
		if f.value != "" {
			fields = append(fields, zap.String(f.key, f.value))
		}
	}
	for _, f := range []struct {
		key   string
		value int64
	}{{"round", int64(l.round)}, {"attempts", int64(l.attempts)}, {"events", int64(l.events)}, {"output_bytes", l.output}} {
		if f.value != 0 {
			fields = append(fields, zap.Int64(f.key, f.value))
		}
	}
	for _, f := range []struct {
		key   string
		value time.Duration
	}{{"total", l.total}, {"ran", l.ran}} {
		if f.value != 0 {
			fields = append(fields, zap.Duration(f.key, f.value))
		}
	}
	for _, f := range []struct {
		key   string
		value bool
	}{{"aborted", l.aborted}, {"truncated", l.truncated}} {
		if f.value {
			fields = append(fields, zap.Bool(f.key, true))
		}
	}
	entry.Write(fields...)
	return fields
}

// clip shortens a name at a character.
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
