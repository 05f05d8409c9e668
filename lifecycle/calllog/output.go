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

// An OutputConfig defines where the output of calls is stored, and its limits. All calls of an engine share it.
type OutputConfig struct {
	Spool  store.Spool
	Events func(ctx context.Context, key call.Key, after int64, limit int) ([]call.Event, int64, error) // reads events from the journal
	Quota  int64                                                                                        // bytes that a call may print, report and save in total
	Full   func() bool                                                                                  // reports whether the disk is full
	// Namespaces limits the stored bytes of each namespace.
	Namespaces Namespaces
}

// Namespaces counts the stored bytes of namespaces against their limits.
type Namespaces interface {
	Full(namespace string) bool
	Add(namespace string, n int64)
	Max() int64
}

// Output counts and stores the output, artifacts and reports of one call within its quotas. The output of earlier attempts counts too,
// because it is still stored.
//
// Output has no lock. Its owner must hold the lock of the call's events when it calls a method. Only Store, Cut and NoteCut need no lock.
type Output struct {
	Config *OutputConfig
	Key    call.Key

	streams    map[string]struct{} // streams whose size is included in total
	reports    bool                // whether total includes the reports of earlier attempts
	checkpoint int                 // size of the largest checkpoint, which is included in total
	total      int64
	// cut is the exhausted quota of the thread or namespace, or nil. It stays set until the end of the attempt, even when there is space
	// again. Otherwise the stored output would have a hole before the later output.
	cut atomic.Pointer[store.QuotaError]
}

// An ExhaustedError names the limit that a call has reached. The engine must then stop the call.
type ExhaustedError struct{ Err tool.Error }

func (e *ExhaustedError) Error() string { return e.Err.Message }

// Unwrap returns the error of the call's outcome.
func (e *ExhaustedError) Unwrap() error { return &e.Err }

func isExhausted(err error) bool {
	_, is := errors.AsType[*ExhaustedError](err)
	return is
}

func exhausted(reason, format string, args ...any) error {
	return &ExhaustedError{tool.Error{Code: tool.ResourceExhausted, Reason: reason, Message: fmt.Sprintf(format, args...), Aborted: true}}
}

// Keep stores the bytes of output events, and sets their offsets. Progress and activity events are only counted. Keep returns the events
// without those that could not be stored. The error explains the first failure, but an ExhaustedError takes precedence.
func (o *Output) Keep(events []call.Event, c *call.Call) (kept []call.Event, err error) {
	kept = events[:0:len(events)]
	failed := func(what string, cause error) {
		if err == nil || !isExhausted(err) && isExhausted(cause) { // An exhausted limit takes precedence, because the call must be stopped.
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

// Counts reports whether one of the events counts towards the quota.
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
		return exhausted("OUTPUT_QUOTA", "Stopped: the call exceeded its limit of %d bytes of output, reports and artifacts", most)
	}
	o.total += int64(n)
	return nil
}

// eventWeight is the approximate size of an event in the journal without its content, in bytes.
const eventWeight = 64

// reportWeight returns the bytes that a report of the tool uses of the quota. It is 0 for events of the engine.
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

// countReports counts the reports of earlier attempts, which are in the journal. Only its first call has an effect.
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

// TakeCheckpoint counts a checkpoint of n bytes. A checkpoint replaces the previous one, so only the bytes beyond the largest checkpoint so
// far count. stored is the size of the checkpoint in the record.
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

// TakeCommand counts a document command of a tool and reports whether the command fits into the quota. A command that does not fit does not
// stop the call: the tool has ended, so its result is kept.
func (o *Output) TakeCommand(c *tool.Command) bool {
	n := int64(len(c.Key) + len(c.Value) + eventWeight)
	if o.total+n > o.Config.Quota {
		return false
	}
	o.total += n
	return true
}

// print appends b to a stream and returns the offset of b in the stream.
func (o *Output) print(stream string, b []byte, thread string) (offset int64, err error) {
	if err := o.spend(stream, len(b)); err != nil {
		return 0, err
	}
	if cut := o.cut.Load(); cut != nil {
		return 0, cut
	}
	if err := o.reserve(len(b)); err != nil {
		return 0, err
	}
	offset, err = o.Config.Spool.Append(o.Key, thread, stream, b)
	return offset, unlessFull(err)
}

// reserve counts n bytes for the namespace. It refuses bytes above the limit of the namespace. It also refuses them on a full disk, because
// the remaining space is reserved for the outcomes of calls.
func (o *Output) reserve(n int) error {
	if o.Config.Full() {
		return unlessFull(store.ErrFull)
	}
	s := o.Config.Namespaces
	if s.Full(o.Key.Namespace) {
		return exhausted("STORAGE_QUOTA", "Stopped: the calls of this namespace have reached their limit of %d stored bytes", s.Max())
	}
	s.Add(o.Key.Namespace, int64(n))
	return nil
}

// unlessFull returns an ExhaustedError when err means a full disk. Otherwise it returns err.
func unlessFull(err error) error {
	if errors.Is(err, store.ErrFull) {
		return exhausted("STORAGE_FULL", "Stopped: the disk has no space for its output")
	}
	return err
}

// Save stores an artifact of the tool within the quotas. It stores all of it or nothing. It returns the name of the stored artifact, which
// differs from the requested name when another artifact has that name.
func (o *Output) Save(name string, b []byte, thread string) (string, error) {
	if err := o.spend(name, len(b)); err != nil {
		return "", err
	}
	if err := o.reserve(len(b)); err != nil {
		return "", err
	}
	name, err := o.Store(name, b, thread)
	if full, is := errors.AsType[*store.QuotaError](err); is {
		return "", &tool.Error{Code: tool.ResourceExhausted, Reason: cutReason(full), Message: fmt.Sprintf("%d bytes cannot be saved: %v", len(b), full)}
	}
	return name, unlessFull(err)
}

// Store stores an artifact that the engine creates, outside the quotas of the call. It does not replace output or artifacts of earlier
// attempts: when the name is in use, it appends a number.
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

// Cut makes toold discard the further output of this attempt. full is the error of the exhausted quota. Cut(nil) reverts that.
func (o *Output) Cut(full *store.QuotaError) { o.cut.Store(full) }

// noteFirstCut handles the error of an output event. Its second result reports that the quota of the thread or namespace refused the
// output. The call then continues without this output, because earlier calls have used the quota. For the first refused event, noteFirstCut
// replaces the event by a progress event with a message, and returns published as true.
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
	return fmt.Sprintf("Output was cut: the calls of this %s may keep %d bytes of output", of, full.Most)
}

func cutReason(full *store.QuotaError) string {
	if full.Thread {
		return "OUTPUT_QUOTA_THREAD"
	}
	return "OUTPUT_QUOTA_NAMESPACE"
}

// NoteCut marks a result whose output is incomplete. It sets the actual sizes of the artifacts, and removes artifacts that were not stored.
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
