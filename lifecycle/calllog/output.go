package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// quota is what a call has in its spool and what its tool reported, guarded by live.order. Earlier attempts count: what they
// printed and reported is still there.
type quota struct {
	streams    map[string]struct{} // whose size is in total
	reports    bool                // those of earlier attempts are in total
	checkpoint int                 // size of the largest, which is in total
	total      int64
	// cut is why nothing more is kept of what the call prints: its thread or namespace has as much as it may. It stays so
	// until the attempt's end, or there would be a hole in the output. It is read without live.order.
	cut atomic.Pointer[store.QuotaError]
}

// spend notes that n bytes are going to a stream, or stops the call.
func (l *live) spend(stream string, n int) error {
	q := &l.printed
	if _, known := q.streams[stream]; !known {
		size, err := l.e.spool.Size(l.key, stream)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if q.streams == nil {
			q.streams = map[string]struct{}{}
		}
		q.streams[stream] = struct{}{}
		q.total += size
	}
	return l.take(n)
}

// take counts n bytes, or stops the call.
func (l *live) take(n int) error {
	q, most := &l.printed, l.e.cfg.OutputQuota
	if q.total+int64(n) > most {
		return l.exhausted("OUTPUT_QUOTA", fmt.Sprintf("Stopped: a call may print, report and save %d bytes, and this one had more", most))
	}
	q.total += int64(n)
	return nil
}

// eventWeight is about what an event takes in the journal beside its content.
const eventWeight = 64

// reportWeight returns how much a report of the tool counts in the quota; 0 for events of the engine.
func reportWeight(ev *call.Event) int {
	if ev.Progress == nil && ev.Activity == nil {
		return 0
	}
	return ev.Weight() + eventWeight
}

// takeReport counts a report of the tool, or stops the call.
func (l *live) takeReport(ev *call.Event) error {
	n := reportWeight(ev)
	if n == 0 {
		return nil
	}
	if err := l.countReports(); err != nil {
		return err
	}
	return l.take(n)
}

// countReports counts, once, what the journal has of the reports of earlier attempts.
func (l *live) countReports() error {
	q := &l.printed
	if q.reports {
		return nil
	}
	if c := l.peek(); len(c.Attempts) <= 1 && len(c.Rounds) == 0 {
		q.reports = true
		return nil
	}
	for after := int64(0); ; {
		events, _, err := l.e.store.Events(context.Background(), l.key, after, 1000)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			q.reports = true
			return nil
		}
		for i := range events {
			q.total += int64(reportWeight(&events[i]))
		}
		after = events[len(events)-1].Sequence
	}
}

// takeCheckpoint counts a checkpoint as far as it is larger than those before, whose place it takes, or stops the call.
func (l *live) takeCheckpoint(n int) error {
	l.order.Lock()
	defer l.order.Unlock()
	q := &l.printed
	if q.checkpoint == 0 {
		q.checkpoint = len(l.peek().Checkpoint)
		q.total += int64(q.checkpoint)
	}
	if n <= q.checkpoint {
		return nil
	}
	if err := l.take(n - q.checkpoint); err != nil {
		return err
	}
	q.checkpoint = n
	return nil
}

// takeCommand counts a document command of a tool and reports whether there was room for it. The tool has ended: its result
// stays.
func (l *live) takeCommand(c *tool.Command) bool {
	l.order.Lock()
	defer l.order.Unlock()
	n := int64(len(c.Key) + len(c.Value) + eventWeight)
	if l.printed.total+n > l.e.cfg.OutputQuota {
		return false
	}
	l.printed.total += n
	return true
}

// print appends to a stream of the spool. On a full disk it does not: what is left is for the ends of calls.
func (l *live) print(stream string, b []byte) (offset int64, err error) {
	if err := l.spend(stream, len(b)); err != nil {
		return 0, err
	}
	if cut := l.printed.cut.Load(); cut != nil {
		return 0, cut
	}
	if err := l.roomFor(len(b)); err != nil {
		return 0, err
	}
	offset, err = l.e.spool.Append(l.key, l.thread(), stream, b)
	return offset, l.unlessFull(err)
}

// roomFor stops a call for whose n bytes there is no room on the disk or in what its namespace may have stored; else it counts
// them.
func (l *live) roomFor(n int) error {
	if l.e.cfg.Full() {
		return l.unlessFull(store.ErrFull)
	}
	s := &l.e.limits.Storage
	if s.Full(l.key.Namespace) {
		return l.exhausted("STORAGE_QUOTA", fmt.Sprintf("Stopped: the calls of this namespace have %d bytes, as many as they may", s.Max()))
	}
	s.Add(l.key.Namespace, int64(n))
	return nil
}

// unlessFull stops the call when err means a full disk, and returns err otherwise.
func (l *live) unlessFull(err error) error {
	if errors.Is(err, store.ErrFull) {
		return l.exhausted("STORAGE_FULL", "Stopped: there is no space for what it prints and saves")
	}
	return err
}

func (l *live) thread() string { return l.peek().Run.Thread }

// cut reports whether output was refused for the quota of its thread or namespace. The call goes on without it: the room was
// taken by the calls before. The event that takes the place of the first such output says so.
func (l *live) cut(err error, first *call.Event) (told, is bool) {
	full, is := errors.AsType[*store.QuotaError](err)
	if !is || !l.printed.cut.CompareAndSwap(nil, full) {
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

// noteCut says in a result that not all output was kept, and which of its artifacts are shorter than the tool thinks.
func (l *live) noteCut(r *tool.Result) error {
	full := l.printed.cut.Load()
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
		size, err := l.e.spool.Size(l.key, a.Name)
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

// exhausted stops a call that has met a limit while it runs.
func (l *live) exhausted(reason, message string) error {
	cause := outcome.OverLimit(reason, message)
	l.stop(cause)
	return cause
}
