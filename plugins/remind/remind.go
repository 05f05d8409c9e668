// Package remind adds a text to the results of some calls, for the model to read.
//
// It is a [hook.After]: it sees calls that ended SUCCEEDED or FAILED, also those that a gate answered. A [Reminder] says of
// which calls, by their tool, their arguments and what the model is about to read, and how long it keeps silent in a run after
// it spoke. The text goes behind the message, or behind that of an error; a result whose model reads its data gets it as a
// message. Data, status and code stay as they are.
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

// Metadata is the member of a result's metadata that names the reminders in it, with commas between them.
const Metadata = "reminders"

// prefix marks where the operator speaks and no longer the tool.
const prefix = "\n\nReminder: "

// looked bounds how much of a result a pattern is matched against, from its beginning and from its end.
const looked = 32 << 10

// A Reminders is a [hook.After].
type Reminders struct {
	mu     sync.Mutex
	rules  []rule // replaced, never changed
	spoken map[key]*list.Element
	order  list.List // of *moment, the newest at the end
}

// key is a reminder in a run, or in a thread of calls without one.
type key struct {
	namespace, id string
	thread        bool
	name          string
}

// moment is when a reminder was given last.
type moment struct {
	key   key
	until time.Time // it is silent
}

// mostMoments bounds what is remembered; beyond it the oldest are forgotten, and their reminders may speak early.
const mostMoments = 50_000

// New returns reminders.
func New(cfg Config) (*Reminders, error) {
	r := &Reminders{spoken: map[key]*list.Element{}}
	if err := r.Swap(cfg); err != nil {
		return nil, err
	}
	return r, nil
}

// Swap replaces the reminders. Those that keep their name stay silent for as long as they had to. With an error nothing changes.
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

// with returns a result with the text where the model reads it.
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

// speak reports whether a reminder may be given now, and notes that it was.
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
	if e := r.spoken[k]; e != nil {
		if now.Before(e.Value.(*moment).until) {
			return false
		}
		r.dropLocked(e)
	}
	for e := r.order.Front(); e != nil; e = r.order.Front() {
		if len(r.spoken) < mostMoments && now.Before(e.Value.(*moment).until) {
			break
		}
		r.dropLocked(e)
	}
	r.spoken[k] = r.order.PushBack(&moment{key: k, until: now.Add(m.Cooldown)})
	return true
}

func (r *Reminders) dropLocked(e *list.Element) {
	delete(r.spoken, r.order.Remove(e).(*moment).key)
}

// EndRun implements [hook.RunKeeper].
func (r *Reminders) EndRun(namespace, run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rules {
		if e := r.spoken[key{namespace: namespace, id: run, name: r.rules[i].Name}]; e != nil {
			r.dropLocked(e)
		}
	}
}

// Moments returns how many reminders in runs are remembered.
func (r *Reminders) Moments() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spoken)
}

// fits reports whether a reminder is about a call; what is cheap is looked at first.
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
