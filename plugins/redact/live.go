package redact

import (
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A Live is a [Redactor] whose secrets can be replaced. A call that has begun keeps those that it began with for its
// events, or a stream could be cut in the middle of a secret.
type Live struct{ now atomic.Pointer[Redactor] }

// NewLive returns a Live that knows what r knows.
func NewLive(r *Redactor) *Live {
	l := &Live{}
	l.now.Store(r)
	return l
}

// Swap replaces what is known.
func (l *Live) Swap(r *Redactor) { l.now.Store(r) }

// Filter implements [hook.Filter].
func (l *Live) Filter(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	return l.now.Load().Filter(in)
}

// Text implements [hook.Scrubber], and so do the others.
func (l *Live) Text(s string) string { return l.now.Load().Text(s) }

// JSON returns JSON text without its secrets.
func (l *Live) JSON(text string) string { return l.now.Load().JSON(text) }

// Contents returns contents without their secrets.
func (l *Live) Contents(in []tool.Content) []tool.Content { return l.now.Load().Contents(in) }

// Result returns a result without its secrets.
func (l *Live) Result(in *tool.Result) *tool.Result { return l.now.Load().Result(in) }

// Artifact returns bytes that are a text without their secrets.
func (l *Live) Artifact(mimeType string, b []byte) []byte { return l.now.Load().Artifact(mimeType, b) }

// Stream returns what takes the secrets, as they are known now, out of a text that comes in chunks.
func (l *Live) Stream() *Stream { return l.now.Load().Stream() }
