package calllog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// An OutputConfig says where calls print and save, and how much. It is the same for all calls of an engine.
type OutputConfig struct {
	Spool  store.Spool
	Events func(ctx context.Context, key call.Key, after int64, limit int) ([]call.Event, int64, error) // of the journal
	Quota  int64                                                                                        // bytes that a call may print, report and save
	Full   func() bool                                                                                  // reports that the disk is full
	// Namespaces bounds what the calls of each namespace have stored.
	Namespaces Namespaces
}

// Namespaces counts the bytes that namespaces have stored.
type Namespaces interface {
	Full(namespace string) bool
	Add(namespace string, n int64)
	Max() int64
}

// Output is what one call prints, saves and reports, counted against its quotas. Earlier attempts count: their output is still stored.
//
// It has no lock. Its owner calls it with the lock held that orders the events of the call, but for Store, Cut and NoteCut, which need none.
type Output struct {
	Config *OutputConfig
	Key    call.Key

	streams    map[string]struct{} // whose size is in total
	reports    bool                // the reports of earlier attempts are in total
	checkpoint int                 // size of the largest checkpoint, which is in total
	total      int64
	// cut is why nothing more of the call's output is stored: its thread or namespace has as much as it may. It is set until the end of the
	// attempt, or there would be a hole in the output.
	cut atomic.Pointer[store.QuotaError]
}

// An ExhaustedError says which limit a call has reached. The call has to be stopped.
type ExhaustedError struct{ Err tool.Error }

func (e *ExhaustedError) Error() string { return e.Err.Message }

// Unwrap returns the error that the call ends with.
func (e *ExhaustedError) Unwrap() error { return &e.Err }

func isExhausted(err error) bool {
	_, is := errors.AsType[*ExhaustedError](err)
	return is
}

func exhausted(reason, format string, args ...any) error {
	return &ExhaustedError{tool.Error{Code: tool.ResourceExhausted, Reason: reason, Message: fmt.Sprintf(format, args...), Aborted: true}}
}

// Keep stores the bytes of output events and writes into the events where they are. Progress and activities are only counted. It returns the events
// without those that were not stored; the error says why the first of these was not.
func (o *Output) Keep(events []call.Event, c *call.Call) (kept []call.Event, err error) {
	kept = events[:0:len(events)]
	failed := func(what string, cause error) {
		if err == nil || !isExhausted(err) && isExhausted(cause) { // which has precedence: the call has to be stopped
			err = fmt.Errorf("%s: %w", what, cause)
		}
	}
	for _, ev := range events {
		if full := o.takeReport(&ev, c); full != nil {
			failed("a report of the tool", full)
			continue
		}
		if ev.Output != nil {
			offset, appendErr := o.print(ev.Output.Stream, ev.Output.Bytes, c.Run.Thread)
			if published, cut := o.noteFirstCut(appendErr, &ev); published {
				kept = append(kept, ev)
				continue
			} else if cut {
				continue
			}
			if appendErr != nil {
				failed("output of "+ev.Output.Stream, appendErr)
				continue
			}
			stored := *ev.Output
			stored.Offset, stored.Length = offset, len(stored.Bytes)
			ev.Output = &stored
		}
		kept = append(kept, ev)
	}
	return kept, err
}

// Counts reports whether some of the events count in the quota.
func Counts(events []call.Event) bool {
	for i := range events {
		if events[i].Output != nil || events[i].Progress != nil || events[i].Activity != nil {
			return true
		}
	}
	return false
}

// spend counts n bytes of a stream.
func (o *Output) spend(stream string, n int) error {
	if _, known := o.streams[stream]; !known {
		size, err := o.Config.Spool.Size(o.Key, stream)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if o.streams == nil {
			o.streams = map[string]struct{}{}
		}
		o.streams[stream] = struct{}{}
		o.total += size
	}
	return o.take(n)
}

func (o *Output) take(n int) error {
	if most := o.Config.Quota; o.total+int64(n) > most {
		return exhausted("OUTPUT_QUOTA", "Stopped: a call may print, report and save %d bytes, and this one had more", most)
	}
	o.total += int64(n)
	return nil
}

// eventWeight is about what an event takes in the journal besides its content.
const eventWeight = 64

// reportWeight returns how much a report of the tool counts in the quota; 0 for events of the engine.
func reportWeight(ev *call.Event) int {
	if ev.Progress == nil && ev.Activity == nil {
		return 0
	}
	return ev.Weight() + eventWeight
}

func (o *Output) takeReport(ev *call.Event, c *call.Call) error {
	n := reportWeight(ev)
	if n == 0 {
		return nil
	}
	if err := o.countReports(c); err != nil {
		return err
	}
	return o.take(n)
}

// countReports counts, once, the reports of earlier attempts, which the journal has.
func (o *Output) countReports(c *call.Call) error {
	if o.reports {
		return nil
	}
	if len(c.Attempts) <= 1 && len(c.Rounds) == 0 {
		o.reports = true
		return nil
	}
	for after := int64(0); ; {
		events, _, err := o.Config.Events(context.Background(), o.Key, after, 1000)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			o.reports = true
			return nil
		}
		for i := range events {
			o.total += int64(reportWeight(&events[i]))
		}
		after = events[len(events)-1].Sequence
	}
}

// TakeCheckpoint counts a checkpoint of n bytes, as far as it is larger than the largest one before, which it replaces; stored is the size of the
// one in the record.
func (o *Output) TakeCheckpoint(n, stored int) error {
	if o.checkpoint == 0 {
		o.checkpoint = stored
		o.total += int64(stored)
	}
	if n <= o.checkpoint {
		return nil
	}
	if err := o.take(n - o.checkpoint); err != nil {
		return err
	}
	o.checkpoint = n
	return nil
}

// TakeCommand counts a document command of a tool and reports whether the quota has room for it. The tool has ended: its result is kept.
func (o *Output) TakeCommand(c *tool.Command) bool {
	n := int64(len(c.Key) + len(c.Value) + eventWeight)
	if o.total+n > o.Config.Quota {
		return false
	}
	o.total += n
	return true
}

// print appends to a stream.
func (o *Output) print(stream string, b []byte, thread string) (offset int64, err error) {
	if err := o.spend(stream, len(b)); err != nil {
		return 0, err
	}
	if cut := o.cut.Load(); cut != nil {
		return 0, cut
	}
	if err := o.room(len(b)); err != nil {
		return 0, err
	}
	offset, err = o.Config.Spool.Append(o.Key, thread, stream, b)
	return offset, unlessFull(err)
}

// room counts n bytes in what the namespace has stored. It refuses them on a full disk, where the rest is for the outcomes of calls, and above the
// limit of the namespace.
func (o *Output) room(n int) error {
	if o.Config.Full() {
		return unlessFull(store.ErrFull)
	}
	s := o.Config.Namespaces
	if s.Full(o.Key.Namespace) {
		return exhausted("STORAGE_QUOTA", "Stopped: the calls of this namespace have %d bytes, as many as they may", s.Max())
	}
	s.Add(o.Key.Namespace, int64(n))
	return nil
}

// unlessFull returns an ExhaustedError when err means a full disk, else err.
func unlessFull(err error) error {
	if errors.Is(err, store.ErrFull) {
		return exhausted("STORAGE_FULL", "Stopped: there is no space for what it prints and saves")
	}
	return err
}

// Save stores an artifact of the tool within the quotas. Nothing is stored of one that does not fit. It returns the name, which differs from the
// requested one when that is in use.
func (o *Output) Save(name string, b []byte, thread string) (string, error) {
	if err := o.spend(name, len(b)); err != nil {
		return "", err
	}
	if err := o.room(len(b)); err != nil {
		return "", err
	}
	name, err := o.Store(name, b, thread)
	if full, is := errors.AsType[*store.QuotaError](err); is {
		return "", &tool.Error{Code: tool.ResourceExhausted, Reason: cutReason(full), Message: fmt.Sprintf("%d bytes cannot be saved: %v", len(b), full)}
	}
	return name, unlessFull(err)
}

// Store stores an artifact of the engine, which counts in no quota of the call. The output and the artifacts of earlier attempts stay: a name that
// is in use gets a number.
func (o *Output) Store(name string, b []byte, thread string) (string, error) {
	unique := name
	for n := 2; ; n++ {
		_, err := o.Config.Spool.Size(o.Key, unique)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return "", err
		}
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	_, err := o.Config.Spool.Append(o.Key, thread, unique, b)
	return unique, err
}

// Cut says that nothing more is stored of the output of this attempt; nil takes that back. It may be called without the lock.
func (o *Output) Cut(full *store.QuotaError) { o.cut.Store(full) }

// noteFirstCut reports whether output was refused for the quota of its thread or namespace. The call continues without it: earlier calls have used
// the quota. In the place of the first such output a progress event says so.
func (o *Output) noteFirstCut(err error, first *call.Event) (published, is bool) {
	full, is := errors.AsType[*store.QuotaError](err)
	if !is || !o.cut.CompareAndSwap(nil, full) {
		return false, is
	}
	*first = call.Event{Type: call.EventProgress, Time: first.Time, Progress: &tool.Progress{Status: tool.ProgressRunning, Message: cutNote(full)}}
	return true, true
}

func cutNote(full *store.QuotaError) string {
	of := "namespace"
	if full.Thread {
		of = "thread"
	}
	return fmt.Sprintf("Not all output is kept: the calls of this %s may keep %d bytes", of, full.Most)
}

func cutReason(full *store.QuotaError) string {
	if full.Thread {
		return "OUTPUT_QUOTA_THREAD"
	}
	return "OUTPUT_QUOTA_NAMESPACE"
}

// NoteCut writes into a result that not all output was stored, and the actual sizes of its artifacts.
func (o *Output) NoteCut(r *tool.Result) error {
	full := o.cut.Load()
	if full == nil {
		return nil
	}
	r.Truncated = true
	metadata := maps.Clone(r.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata["output_cut"] = cutReason(full)
	r.Metadata = metadata
	if note := "[" + cutNote(full) + "]"; r.Message != "" {
		r.Message += "\n" + note
	} else if r.Data == "" && r.Error == nil {
		r.Message = note
	}
	var there []tool.Artifact
	for _, a := range r.Artifacts {
		size, err := o.Config.Spool.Size(o.Key, a.Name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		a.Size = size
		there = append(there, a)
	}
	r.Artifacts = there
	return nil
}
