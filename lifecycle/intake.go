package lifecycle

import (
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// An intake passes the events of a call through its filters, and stores the output of the tool in the spool of the call.
type intake struct {
	l *activeCall

	order    sync.Mutex       // held while events pass the filters; lock it before activeCall.mu
	filters  *calllog.Filters // nil until they are created
	accepted *call.Accepted   // content of the accepted event; nil when the log has begun
	output   calllog.Output
}

// pass filters events and stores the remaining output in the spool. The caller numbers, stores and publishes the events after that. pass
// also returns the records that filters store with the events. The error reports output that was lost.
func (in *intake) pass(events []call.Event) ([]call.Event, []store.Record, error) {
	l := in.l
	in.order.Lock()
	defer in.order.Unlock()
	if in.filters == nil {
		c := l.record()
		def, _ := l.e.catalog.Lookup(c)
		in.filters = calllog.NewFilters(l.e.hooks.Load().Filter, newInput(c, def), failures{l.e})
	}
	in.open()
	return in.passOrdered(events)
}

// passOrdered is like pass, for a caller that holds in.order.
func (in *intake) passOrdered(events []call.Event) ([]call.Event, []store.Record, error) {
	l := in.l
	for i := range events {
		if events[i].Time.IsZero() {
			events[i].Time = time.Now()
		}
	}
	events, records := in.filters.Change(events)
	var err error
	if calllog.Counts(events) {
		events, err = in.output.Keep(events, l.peek())
	}
	return events, append(records, in.filters.Observe(events)...), in.exhausted(err)
}

// exhausted stops the call if err is a [calllog.ExhaustedError]. It returns err.
func (in *intake) exhausted(err error) error {
	l := in.l
	if e, is := errors.AsType[*calllog.ExhaustedError](err); is {
		l.stop(outcome.OverLimit(e.Err.Reason, e.Err.Message))
	}
	return err
}

// takeCheckpoint counts a checkpoint of n bytes. It stops the call if the quota is exceeded.
func (in *intake) takeCheckpoint(n int) error {
	l := in.l
	in.order.Lock()
	defer in.order.Unlock()
	return in.exhausted(in.output.TakeCheckpoint(n, len(l.peek().Checkpoint)))
}

// takeCommand counts a document command of the tool and reports whether it fits into the quota.
func (in *intake) takeCommand(c *tool.Command) bool {
	in.order.Lock()
	defer in.order.Unlock()
	return in.output.TakeCommand(c)
}

// save stores an artifact of the tool. It stops the call if the quota is exceeded.
func (in *intake) save(name string, b []byte) (string, error) {
	l := in.l
	in.order.Lock()
	defer in.order.Unlock()
	name, err := in.output.Save(name, b, l.thread())
	return name, in.exhausted(err)
}

// step filters the events of a step like pass. A step must not fail, so it ignores an error about output that could not be stored.
func (in *intake) step(events []call.Event) ([]call.Event, []store.Record) {
	l := in.l
	events, kept, err := in.pass(events)
	if err != nil {
		l.e.log.Error("output that a filter held back is lost", zap.String("call_id", l.key.ID), zap.Error(err))
	}
	return events, kept
}

// changes reports whether a filter may change or remove events.
func (in *intake) changes() bool {
	in.order.Lock()
	defer in.order.Unlock()
	return in.filters.Changes()
}

// reset makes the next events use new filters. The caller calls it when the end of the call was not stored, because the call then
// continues.
func (in *intake) reset() {
	in.order.Lock()
	defer in.order.Unlock()
	in.filters = nil
}

// open begins the log with the accepted event, if that is not done yet. The event has no description if the tool has not described the call
// yet. The caller holds in.order.
func (in *intake) open() {
	l := in.l
	if in.accepted == nil {
		return
	}
	accepted, c := in.accepted, l.peek()
	in.accepted, accepted.Class = nil, c.Class
	first := call.Event{Type: call.EventAccepted, Time: c.Created, Accepted: accepted}
	events, records, _ := in.passOrdered(append(make([]call.Event, 0, calllog.Few), first)) // The error would report lost output, and this event has no output.
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Begin(events, records, c.Class == call.Behind)
	if c.Class == call.Behind {
		l.numberLocked(events)
		l.publishLocked(events)
	}
}

// end passes the last events of a call through its filters. It also returns the result to store, which is the result in the filtered
// events. Filters cannot change the status and the error code of the outcome, and cannot remove the outcome.
func (in *intake) end(events []call.Event, out *outcome.Terminal) ([]call.Event, []store.Record, *tool.Result) {
	last := events[len(events)-1]
	events, kept := in.step(events)
	if !in.changes() {
		return events, kept, last.Outcome.Result
	}
	for i := range events {
		if o := events[i].Outcome; o != nil && o.Result != nil {
			last = events[i]
			events = slices.Delete(events, i, i+1)
			break
		}
	}
	result := outcome.CopyResult(last.Outcome.Result)
	result.Status = out.Result.Status
	if e := out.Result.Error; e != nil {
		if result.Error == nil {
			result.Error = &tool.Error{}
		}
		result.Error.Code, result.Error.Aborted, result.Error.TerminateRun = e.Code, e.Aborted, e.TerminateRun
	}
	last.Outcome = &call.Outcome{Status: out.Status, Executed: out.Executed, Result: result}
	return append(events, last), kept, result
}

// question passes a question through the filters. They may change its texts but not remove it.
func (in *intake) question(events []call.Event) ([]call.Event, []store.Record) {
	asked := events[len(events)-1]
	events, kept := in.step(events)
	if !slices.ContainsFunc(events, func(ev call.Event) bool { return ev.Type == call.EventSuspended }) {
		events = append(events, asked)
	}
	return events, kept
}
