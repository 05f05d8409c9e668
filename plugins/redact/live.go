package redact

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A Live is a [Redactor] whose secrets can be replaced and extended at any time. A running call continues to redact the secrets that were
// known when it began, and also redacts all later ones. So a secret that is split between two chunks is found even when the secrets are
// replaced in between.
type Live struct {
	known atomic.Pointer[known]

	mu      sync.Mutex
	base    Config  // secrets from NewLive or Swap
	learned []Value // secrets from Know, newest last
	former  Config  // secrets of earlier bases, for calls that began before they were replaced
}

// known is the current state of a Live.
type known struct {
	now    *Redactor // used for new calls
	always *Redactor // used for calls that began before the last Swap
	swaps  int
}

// Limits for the number of learned values with the same name, and of values from earlier bases. Beyond them, the oldest values are dropped.
const (
	mostLearned = 256
	mostBytes   = 256 << 10
)

// NewLive returns a Live with the secrets of r.
func NewLive(r *Redactor) *Live {
	l := &Live{base: r.cfg}
	l.known.Store(&known{now: r, always: r})
	return l
}

// Swap replaces all secrets except those from [Live.Know].
func (l *Live) Swap(r *Redactor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.former.Values = newest(more(l.former.Values, l.base.Values), func(Value) bool { return true })
	l.former.Patterns = more(l.former.Patterns, l.base.Patterns)
	l.former.Patterns = l.former.Patterns[max(len(l.former.Patterns)-mostLearned, 0):]
	l.former.Tokens = l.former.Tokens || l.base.Tokens
	l.base = r.cfg
	_ = l.rebuildLocked(l.known.Load().swaps + 1) // This cannot fail, because each part was accepted before.
}

// Know adds a value that is redacted from now on, also after every Swap. It returns an error when the value cannot be redacted. The error
// does not contain the value.
func (l *Live) Know(name, text string) error {
	v := Value{Name: name, Text: text}
	if err := checkValue(v); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.learned, v) {
		return nil
	}
	l.learned = newest(append(l.learned, v), func(o Value) bool { return o.Name == name })
	return l.rebuildLocked(l.known.Load().swaps)
}

// more appends to list those elements of other that are not in list yet.
func more[T comparable](list, other []T) []T {
	for _, v := range other {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// newest removes the oldest values for which counts is true while there are too many. It never removes the last one.
func newest(list []Value, counts func(Value) bool) []Value {
	n, size := 0, 0
	for i, v := range slices.Backward(list) {
		if !counts(v) {
			continue
		}
		n, size = n+1, size+len(v.Text)
		if n > 1 && (n > mostLearned || size > mostBytes) {
			list = slices.Delete(list, i, i+1)
		}
	}
	return list
}

func (l *Live) rebuildLocked(swaps int) error {
	cfg := l.base
	cfg.Values = slices.Concat(l.base.Values, l.learned)
	now, err := New(cfg)
	if err != nil {
		return err
	}
	always := now
	if swaps > 0 {
		cfg.Values, cfg.Patterns = slices.Concat(cfg.Values, l.former.Values), more(slices.Clone(cfg.Patterns), l.former.Patterns)
		cfg.Tokens = cfg.Tokens || l.former.Tokens
		if always, err = New(cfg); err != nil {
			return err
		}
	}
	l.known.Store(&known{now, always, swaps})
	return nil
}

func (l *Live) now() *Redactor { return l.known.Load().now }

// Filter implements [hook.Filter].
func (l *Live) Filter(*hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	k := l.known.Load()
	f := &filter{r: k.now}
	return func(e call.Event) ([]call.Event, []hook.Record) {
		f.use(l.since(k.swaps, f.r))
		return f.pass(e), nil
	}
}

// since returns the Redactor that a call must use now. swaps is the number of Swap calls before the call began. r is the Redactor that the
// call has used so far.
func (l *Live) since(swaps int, r *Redactor) *Redactor {
	switch k := l.known.Load(); {
	case k.now == r:
		return r
	case k.swaps == swaps:
		return k.now
	default:
		return k.always
	}
}

// Text returns a text without its secrets. Filter and the methods Text to Artifact implement [hook.Scrubber].
func (l *Live) Text(s string) string { return l.now().Text(s) }

// JSON returns JSON text without its secrets.
func (l *Live) JSON(text string) string { return l.now().JSON(text) }

// Contents returns contents without their secrets.
func (l *Live) Contents(in []tool.Content) []tool.Content { return l.now().Contents(in) }

// Result returns a result without its secrets.
func (l *Live) Result(in *tool.Result) *tool.Result { return l.now().Result(in) }

// Artifact returns bytes without their secrets when they are a text.
func (l *Live) Artifact(mimeType string, b []byte) []byte { return l.now().Artifact(mimeType, b) }

// A LiveStream is a [Stream] that also redacts secrets that become known while it lasts.
type LiveStream struct {
	l     *Live
	swaps int
	text  *Stream
}

// Stream returns a redactor for a text that comes in chunks.
func (l *Live) Stream() *LiveStream {
	k := l.known.Load()
	return &LiveStream{l, k.swaps, k.now.Stream()}
}

// Next does the same as [Stream.Next].
func (s *LiveStream) Next(chunk []byte) []byte { s.follow(); return s.text.Next(chunk) }

// End does the same as [Stream.End].
func (s *LiveStream) End() []byte { s.follow(); return s.text.End() }

func (s *LiveStream) follow() { s.text.use(s.l.since(s.swaps, s.text.scan.r)) }
