package calllog

import (
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Filters applies the Filter hooks of one call. Events first pass the hooks that may change them, and then the hooks that only observe.
// Only one goroutine may use Filters at a time.
type Filters struct {
	callID    string
	rewriters []rewriter
	observers []observer
	few       [2]observer // preallocated memory for the first observers
	failures  Failures
}

// Failures is notified when a hook fails.
type Failures interface {
	FilterFailed(hook, callID string, err error)
}

// NewFilters calls each matching hook once to get its filter function. in describes the call before its arguments are parsed.
func NewFilters(hooks []hook.Entry[hook.Filter], in *hook.Input, failures Failures) *Filters {
	f := &Filters{callID: in.CallID, failures: failures}
	f.observers = f.few[:0]
	for _, entry := range hooks {
		if !entry.Match.Holds(in) {
			continue
		}
		if h, ok := entry.Hook.(hook.Observer); ok {
			f.observers = append(f.observers, f.observer(entry.Name, in, h))
		} else {
			f.rewriters = append(f.rewriters, f.rewriter(entry.Name, in, entry.Hook))
		}
	}
	return f
}

// Changes reports whether a hook may change or remove events.
func (f *Filters) Changes() bool { return len(f.rewriters) > 0 }

// Change passes events through the hooks that may change them. It returns the changed events, and the records that the hooks store with
// them.
func (f *Filters) Change(events []call.Event) ([]call.Event, []store.Record) {
	var records []store.Record
	for i := range f.rewriters {
		var out []call.Event
		for _, ev := range events {
			kept, more := f.rewrite(&f.rewriters[i], ev)
			out = append(out, kept...)
			for _, r := range more {
				records = append(records, store.Record(r))
			}
		}
		events = out
	}
	return events, records
}

// Observe passes events to the hooks that only observe, and returns the records that the hooks store with them.
func (f *Filters) Observe(events []call.Event) (records []store.Record) {
	for i := range f.observers {
		for j := range events {
			for _, r := range f.look(&f.observers[i], &events[j]) {
				records = append(records, store.Record(r))
			}
		}
	}
	return records
}

// An observer calls a [hook.Observer] or [hook.Recorder]. After a panic both functions are nil.
type observer struct {
	name   string
	look   func(*call.Event)
	record func(*call.Event) []hook.Record
}

func (f *Filters) observer(name string, in *hook.Input, h hook.Observer) observer {
	o := observer{name: name}
	if err := hook.Safely(func() error {
		if r, ok := h.(hook.Recorder); ok {
			o.record = r.Record(in)
		} else {
			o.look = h.Observe(in)
		}
		return nil
	}); err != nil {
		f.failures.FilterFailed(name, f.callID, err)
	}
	return o
}

func (f *Filters) look(o *observer, ev *call.Event) (records []hook.Record) {
	if o.look == nil && o.record == nil {
		return nil
	}
	if err := hook.Safely(func() error {
		if o.record != nil {
			records = o.record(ev)
		} else {
			o.look(ev)
		}
		return nil
	}); err != nil {
		f.failures.FilterFailed(o.name, f.callID, err)
		o.look, o.record = nil, nil
	}
	return records
}

// A rewriter calls a [hook.Filter] that may change events.
type rewriter struct {
	name string
	next func(call.Event) ([]call.Event, []hook.Record, error)
	err  error // the failure that disabled the hook for this call
}

func (f *Filters) rewriter(name string, in *hook.Input, h hook.Filter) rewriter {
	r := rewriter{name: name}
	r.err = hook.Safely(func() error {
		if fallible, ok := h.(hook.Fallible); ok {
			r.next = fallible.FilterOrFail(in)
			return nil
		}
		next := h.Filter(in)
		r.next = func(ev call.Event) ([]call.Event, []hook.Record, error) {
			kept, records := next(ev)
			return kept, records, nil
		}
		return nil
	})
	if r.err != nil {
		f.failures.FilterFailed(name, f.callID, r.err)
	}
	return r
}

// rewrite passes one event through a hook. After a failure of the hook, it drops the events with which the tool reports, and removes the
// content of the outcome.
func (f *Filters) rewrite(r *rewriter, ev call.Event) (events []call.Event, records []hook.Record) {
	if r.err == nil {
		r.err = hook.Safely(func() (err error) { events, records, err = r.next(ev); return err })
		if r.err == nil {
			return events, records
		}
		f.failures.FilterFailed(r.name, f.callID, r.err)
	}
	if Reports(ev.Type) {
		return nil, nil
	}
	if ev.Outcome != nil {
		o := *ev.Outcome
		o.Result = Withhold(o.Result, r.name)
		ev.Outcome = &o
	}
	return []call.Event{ev}, nil
}

// Reports reports whether events of this type come from a tool. Other events are steps of the call.
func Reports(t call.EventType) bool {
	switch t {
	case call.EventProgress, call.EventOutput, call.EventActivitySnapshot, call.EventActivityDelta:
		return true
	}
	return false
}

// Withhold returns a result without content, because the hook that had to check it failed.
func Withhold(r *tool.Result, name string) *tool.Result {
	c := *r
	c.Data, c.Content, c.Artifacts = "", nil, nil
	c.Message = fmt.Sprintf("The result is not shown: the hook %q failed", name)
	if r.Error != nil {
		e := *r.Error
		e.Message = c.Message
		c.Error = &e
	}
	c.Metadata = map[string]string{"after_failed": name}
	for k, v := range r.Metadata {
		c.Metadata[k] = v
	}
	return &c
}
