// Package remind adds a text to the results of some calls, for the model to read.
//
// It is a [hook.After]: it sees calls that ended SUCCEEDED or FAILED, including calls that a gate answered. A [Reminder] selects calls by
// their tool, their arguments and the text that the model will read. After a reminder was added, it is not added again in the same run for
// a time.
//
// The text is appended to the message, or to the message of an error. When a result has no message, so that the model reads its data, data
// and text together become the message. Data, status and code stay unchanged.
package remind

import (
	"container/list"
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// Metadata is the key in a result's metadata whose value lists the names of its reminders, separated by commas.
const Metadata = "reminders"

// prefix separates the operator's text from the tool's.
const prefix = "\n\nReminder: "

// looked is the number of bytes at the beginning and at the end of a result with which a pattern is matched.
const looked = 32 << 10

// Reminders is a [hook.After].
type Reminders struct {
	mu    sync.Mutex
	rules []rule // replaced as a whole, never modified
	shown map[key]*list.Element
	order list.List // values are *moment, the newest last
}

// key identifies a reminder in a run, or in a thread for calls without a run.
type key struct {
	namespace, id string
	thread        bool
	name          string
}

// moment records when a reminder was last added.
type moment struct {
	key   key
	until time.Time // end of its pause
}

// mostMoments is the maximum number of recorded moments. Beyond it, the oldest are dropped, so their reminders may be added again too
// early.
const mostMoments = 50_000

// New returns reminders.
func New(cfg Config) (*Reminders, error) {
	r := &Reminders{shown: map[key]*list.Element{}}
	if err := r.Swap(cfg); err != nil {
		return nil, err
	}
	return r, nil
}

// Swap replaces the reminders. A reminder that keeps its name keeps its pauses. On an error nothing changes.
func (r *Reminders) Swap(cfg Config) error {
	rules, err := compile(cfg.Reminders)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = rules
	return nil
}

// After implements [hook.After].
func (r *Reminders) After(_ context.Context, in *hook.Input, o hook.Outcome) (hook.AfterResult, error) {
	if o.Status != call.Succeeded && o.Status != call.Failed {
		return hook.AfterResult{}, nil
	}
	r.mu.Lock()
	rules := r.rules
	r.mu.Unlock()
	var text strings.Builder
	var names []string
	for i := range rules {
		if rules[i].fits(in, &o) && r.speak(in, &rules[i]) {
			text.WriteString(prefix + rules[i].Text)
			names = append(names, rules[i].Name)
		}
	}
	if names == nil {
		return hook.AfterResult{}, nil
	}
	return hook.AfterResult{Result: with(o.Result, text.String(), names)}, nil
}

// with returns the result with text added where the model reads it.
func with(result *tool.Result, text string, names []string) *tool.Result {
	next := *result
	switch {
	case next.Error != nil:
		e := *next.Error
		if e.Message == "" {
			e.Message = next.ModelText()
		}
		e.Message += text
		next.Error = &e
	default:
		next.Message = next.ModelText() + text
	}
	next.Metadata = maps.Clone(next.Metadata)
	if next.Metadata == nil {
		next.Metadata = map[string]string{}
	}
	next.Metadata[Metadata] = strings.Join(names, ",")
	return &next
}

// speak reports whether a reminder may be added now. If so, it records that the reminder was added.
func (r *Reminders) speak(in *hook.Input, m *rule) bool {
	if m.Cooldown == 0 {
		return true
	}
	k := key{namespace: in.Namespace, id: in.Run.ID, name: m.Name}
	if k.id == "" {
		k.id, k.thread = in.Run.Thread, true
	}
	if k.id == "" {
		return true
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.shown[k]; e != nil {
		if now.Before(e.Value.(*moment).until) {
			return false
		}
		r.dropLocked(e)
	}
	for e := r.order.Front(); e != nil; e = r.order.Front() {
		if len(r.shown) < mostMoments && now.Before(e.Value.(*moment).until) {
			break
		}
		r.dropLocked(e)
	}
	r.shown[k] = r.order.PushBack(&moment{key: k, until: now.Add(m.Cooldown)})
	return true
}

func (r *Reminders) dropLocked(e *list.Element) {
	delete(r.shown, r.order.Remove(e).(*moment).key)
}

// EndRun implements [hook.RunDataOwner].
func (r *Reminders) EndRun(namespace, run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rules {
		if e := r.shown[key{namespace: namespace, id: run, name: r.rules[i].Name}]; e != nil {
			r.dropLocked(e)
		}
	}
}

// Moments returns the number of recorded moments.
func (r *Reminders) Moments() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.shown)
}

// fits reports whether a reminder matches a call. It checks cheap conditions first.
func (m *rule) fits(in *hook.Input, o *hook.Outcome) bool {
	if len(m.Tools) > 0 && !tool.AnyGlob(m.Tools, in.Descriptor.ID) {
		return false
	}
	if m.On != "" && string(m.On) != string(o.Status) {
		return false
	}
	if m.arguments != nil && !m.arguments.MatchString(in.Arguments.Text()) {
		return false
	}
	if m.result == nil {
		return true
	}
	text := o.Result.ModelText()
	if len(text) <= 2*looked {
		return m.result.MatchString(text)
	}
	return m.result.MatchString(text[:looked]) || m.result.MatchString(text[len(text)-looked:])
}
