package redact

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A Live is a [Redactor] whose secrets can be replaced, and which gets to know more of them at any time. A call that has
// begun keeps those that it began with beside all that come to be known later: a stream that is cut in the middle of a
// secret continues where it was.
type Live struct {
	known atomic.Pointer[known]

	mu      sync.Mutex
	base    Config  // of NewLive and Swap
	learned []Value // by Know, the newest last
	gone    Config  // of earlier bases, for calls of their time
}

// known is what holds at one time.
type known struct {
	now    *Redactor // for what begins
	always *Redactor // for what began before the last Swap
	swaps  int
}

// The bounds of what is learned, of each name, and of what is gone. Of more the oldest is forgotten.
const (
	mostLearned = 256
	mostBytes   = 256 << 10
)

// NewLive returns a Live that knows what r knows.
func NewLive(r *Redactor) *Live {
	l := &Live{base: r.cfg}
	l.known.Store(&known{now: r, always: r})
	return l
}

// Swap replaces what is known but by [Live.Know].
func (l *Live) Swap(r *Redactor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone.Values = newest(more(l.gone.Values, l.base.Values), func(Value) bool { return true })
	l.gone.Patterns = more(l.gone.Patterns, l.base.Patterns)
	l.gone.Patterns = l.gone.Patterns[max(len(l.gone.Patterns)-mostLearned, 0):]
	l.gone.Tokens = l.gone.Tokens || l.base.Tokens
	l.base = r.cfg
	_ = l.rebuildLocked(l.known.Load().swaps + 1) // each of the parts was taken before
}

// Know adds a value that is redacted from now on, also after every Swap. An error means that it cannot be redacted; the error
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

// more is a list with what of another one is not in it.
func more[T comparable](list, other []T) []T {
	for _, v := range other {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// newest drops the oldest of those that count, when they are too many. The last one stays.
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
		cfg.Values, cfg.Patterns = slices.Concat(cfg.Values, l.gone.Values), more(slices.Clone(cfg.Patterns), l.gone.Patterns)
		cfg.Tokens = cfg.Tokens || l.gone.Tokens
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

// since is what holds for what began when there had been so many swaps, and has used r so far.
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

// Text implements [hook.Scrubber], and so do the others.
func (l *Live) Text(s string) string { return l.now().Text(s) }

// JSON returns JSON text without its secrets.
func (l *Live) JSON(text string) string { return l.now().JSON(text) }

// Contents returns contents without their secrets.
func (l *Live) Contents(in []tool.Content) []tool.Content { return l.now().Contents(in) }

// Result returns a result without its secrets.
func (l *Live) Result(in *tool.Result) *tool.Result { return l.now().Result(in) }

// Artifact returns bytes that are a text without their secrets.
func (l *Live) Artifact(mimeType string, b []byte) []byte { return l.now().Artifact(mimeType, b) }

// A LiveStream is a [Stream] that takes out what comes to be known while it lasts, too.
type LiveStream struct {
	l     *Live
	swaps int
	text  *Stream
}

// Stream returns what takes the secrets out of a text that comes in chunks.
func (l *Live) Stream() *LiveStream {
	k := l.known.Load()
	return &LiveStream{l, k.swaps, k.now.Stream()}
}

// Next is [Stream.Next].
func (s *LiveStream) Next(chunk []byte) []byte { s.follow(); return s.text.Next(chunk) }

// End is [Stream.End].
func (s *LiveStream) End() []byte { s.follow(); return s.text.End() }

func (s *LiveStream) follow() { s.text.use(s.l.since(s.swaps, s.text.scan.r)) }
