package lifecycle

import (
	"fmt"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"go.uber.org/zap"
)

// A filter is one Filter hook's function for one call.
type filter func(call.Event) ([]call.Event, []hook.Record)

// filters is what the events of a call pass: what may change them, then what only looks.
type filters struct {
	change  []filter
	observe []observer
	few     [2]observer // room for observe
}

// sift passes events through the call's filters and puts what is left of output into its spool: nothing is numbered,
// stored or told before. The records that filters keep of the events go where the events go. An error means that output was
// lost, and how.
func (l *live) sift(events []call.Event) ([]call.Event, []store.Record, error) {
	l.order.Lock()
	defer l.order.Unlock()
	if l.filters == nil {
		c := l.record()
		def, _ := l.e.lookup(c)
		l.filters = l.e.filtersOf(l.e.hooks.Load(), newInput(c, def))
	}
	l.openOrdered()
	return l.siftOrdered(events)
}

// siftOrdered is sift for a caller that has l.order.
func (l *live) siftOrdered(events []call.Event) ([]call.Event, []store.Record, error) {
	for i := range events {
		if events[i].Time.IsZero() {
			events[i].Time = time.Now()
		}
	}
	var records []store.Record
	for _, f := range l.filters.change {
		var out []call.Event
		for _, ev := range events {
			kept, more := f(ev)
			out = append(out, kept...)
			for _, r := range more {
				records = append(records, store.Record(r))
			}
		}
		events = out
	}
	events, err := l.spool(events)
	for i := range l.filters.observe {
		o := &l.filters.observe[i]
		for i := range events {
			for _, r := range o.see(l, &events[i]) {
				records = append(records, store.Record(r))
			}
		}
	}
	return events, records, err
}

// spool appends the bytes of output events and says in the events where they are; what else the tool reports it counts. The
// caller has l.order, so offsets have the order of the events.
func (l *live) spool(events []call.Event) (kept []call.Event, err error) {
	if !reported(events) {
		return events, nil
	}
	kept = events[:0:len(events)]
	for _, ev := range events {
		if full := l.takeReport(&ev); full != nil {
			err = fmt.Errorf("a report of the tool: %w", full)
			continue
		}
		if ev.Output != nil {
			offset, appendErr := l.print(ev.Output.Stream, ev.Output.Bytes)
			if told, cut := l.cut(appendErr, &ev); told {
				kept = append(kept, ev)
				continue
			} else if cut {
				continue
			}
			if appendErr != nil {
				err = fmt.Errorf("output of %s: %w", ev.Output.Stream, appendErr)
				continue
			}
			o := *ev.Output
			o.Offset, o.Length = offset, len(o.Bytes)
			ev.Output = &o
		}
		kept = append(kept, ev)
	}
	return kept, err
}

// reported reports whether there is something among the events that counts in the call's quota.
func reported(events []call.Event) bool {
	for i := range events {
		if events[i].Output != nil || events[i].Progress != nil || events[i].Activity != nil {
			return true
		}
	}
	return false
}

// siftStep is sift for a step: output that could not be kept does not stop it.
func (l *live) siftStep(events []call.Event) ([]call.Event, []store.Record) {
	events, kept, err := l.sift(events)
	if err != nil {
		l.e.log.Error("output that a filter had kept back is lost", zap.String("call_id", l.key.ID), zap.Error(err))
	}
	return events, kept
}

// changes reports whether a filter may have left anything out of the events, or changed it.
func (l *live) changes() bool {
	l.order.Lock()
	defer l.order.Unlock()
	return len(l.filters.change) > 0
}

// resift makes filters anew after an end that was not stored: the call goes on.
func (l *live) resift() {
	l.order.Lock()
	defer l.order.Unlock()
	l.filters = nil
}

// filtersOf returns the functions through which the events of a call pass. The input is from before the arguments were
// read.
func (e *Engine) filtersOf(hooks *hookSet, in *hook.Input) *filters {
	fs := &filters{}
	fs.observe = fs.few[:0]
	for _, entry := range hooks.Filter {
		if !entry.Match.Holds(in) {
			continue
		}
		if o, ok := entry.Hook.(hook.Observer); ok {
			fs.observe = append(fs.observe, e.observe(entry.Name, in, o))
		} else {
			fs.change = append(fs.change, e.guard(entry.Name, in, entry.Hook))
		}
	}
	return fs
}

// An observer is one Observer hook's function for one call, or a Recorder's; none when it panicked, which ends it for this
// call alone.
type observer struct {
	name   string
	look   func(*call.Event)
	record func(*call.Event) []hook.Record
}

func (e *Engine) observe(name string, in *hook.Input, h hook.Observer) observer {
	o := observer{name: name}
	if err := hook.Safely(func() error {
		if r, ok := h.(hook.Recorder); ok {
			o.record = r.Record(in)
		} else {
			o.look = h.Observe(in)
		}
		return nil
	}); err != nil {
		e.filterFailed(name, in.CallID, err)
	}
	return o
}

func (o *observer) see(l *live, ev *call.Event) (records []hook.Record) {
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
		l.e.filterFailed(o.name, l.key.ID, err)
		o.look, o.record = nil, nil
	}
	return records
}

func (e *Engine) filterFailed(name, id string, err error) {
	e.stats.hookFailures.Add(1)
	e.log.Error("filter failed", zap.String("filter", name), zap.String("call_id", id), zap.Error(err))
}

// guard makes a filter of a hook. From a failure on it withholds what the hook did not look at: events that only report
// are dropped, an outcome keeps how the call ended and nothing else.
func (e *Engine) guard(name string, in *hook.Input, h hook.Filter) filter {
	var next func(call.Event) ([]call.Event, []hook.Record, error)
	failed := hook.Safely(func() error {
		if f, ok := h.(hook.Fallible); ok {
			next = f.FilterOrFail(in)
			return nil
		}
		f := h.Filter(in)
		next = func(ev call.Event) ([]call.Event, []hook.Record, error) { //nolint:unparam // this one cannot fail
			kept, records := f(ev)
			return kept, records, nil
		}
		return nil
	})
	if failed != nil {
		e.filterFailed(name, in.CallID, failed)
	}
	return func(ev call.Event) (events []call.Event, records []hook.Record) {
		if failed == nil {
			failed = hook.Safely(func() (err error) { events, records, err = next(ev); return err })
			if failed == nil {
				return events, records
			}
			e.filterFailed(name, in.CallID, failed)
		}
		if reports(ev.Type) {
			return nil, nil
		}
		if ev.Outcome != nil {
			o := *ev.Outcome
			o.Result = copyResult(o.Result)
			hide(o.Result, name)
			ev.Outcome = &o
		}
		return []call.Event{ev}, nil
	}
}

// reports tells the events by which a tool shows what it does from those that are steps of the call.
func reports(t call.EventType) bool {
	switch t {
	case call.EventProgress, call.EventOutput, call.EventActivitySnapshot, call.EventActivityDelta:
		return true
	}
	return false
}
