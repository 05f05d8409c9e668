package calllog

import (
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// FrameEvents is how many events a frame has at most.
const FrameEvents = 256

// Few is how many events most calls have.
const Few = 3

// A log keeps about this much in memory. Older events are read back from the journal.
const (
	tailEvents = 512
	tailBytes  = 512 << 10
)

// maxUnwritten is how many bytes a call may have outside the journal before its tool has to wait.
const maxUnwritten = 1 << 20

// A Log is the end of the log of one call: the newest events that were published, and all events that the journal does not have yet.
//
// An event is added, numbered, written and published. Events of a SYNC call are numbered and written before they are published, events of a
// BEHIND call are published first. A number that was published is never given again. A number whose write failed before that is.
//
// A Log has no lock and does no I/O. Its owner calls it with a lock held, and has one write at a time under way.
type Log struct {
	last      int64 // the newest number that was given
	written   int64 // the newest number in the journal
	published int64 // the newest number that was published; tail ends with it

	unwritten []call.Event // may share memory with tail
	records   []store.Record
	size      int // weight of unwritten
	inFlight  struct{ events, size int }

	tail     []call.Event
	tailSize int
	changed  chan struct{} // closed by the next change; nil: nobody waits
}

// Reset makes the log continue after a number that the journal has.
func (l *Log) Reset(sequence int64) { l.last, l.written, l.published = sequence, sequence, sequence }

// Begin adds the first events of a log. With share, what is published next and what is unwritten grow in the same memory until some of it is taken:
// for events that are published at once.
func (l *Log) Begin(events []call.Event, records []store.Record, share bool) {
	l.unwritten, l.records = events, records
	if share {
		l.tail = events[:0]
	}
}

// Add adds events, and records that are written with them.
func (l *Log) Add(events []call.Event, records []store.Record) {
	for i := range events {
		l.size += events[i].Weight()
	}
	l.unwritten, l.records = append(l.unwritten, events...), append(l.records, records...)
}

// Number numbers the events that have no number and returns the epochs of the call, with the one that the events begin, if any.
func (l *Log) Number(events []call.Event, epochs []call.EpochStart, epoch int64) []call.EpochStart {
	for i := range events {
		if events[i].Sequence != 0 {
			continue
		}
		l.last++
		events[i].Sequence = l.last
		if events[i].Time.IsZero() {
			events[i].Time = time.Now()
		}
		if n := len(epochs); n == 0 || epochs[n-1].Epoch != epoch {
			epochs = append(epochs[:n:n], call.EpochStart{Epoch: epoch, First: l.last})
		}
	}
	return epochs
}

// Publish adds numbered events to what watchers see, without those that were published before, and wakes the watchers. It returns how many are new.
func (l *Log) Publish(events []call.Event) int {
	for len(events) > 0 && events[0].Sequence <= l.published {
		events = events[1:]
	}
	if len(events) == 0 {
		return 0
	}
	l.tail = append(l.tail, events...)
	for i := range events {
		l.tailSize += events[i].Weight()
	}
	l.published = events[len(events)-1].Sequence
	l.trim()
	l.Wake()
	return len(events)
}

// trim keeps the newest events, and all that are in no journal yet.
func (l *Log) trim() {
	if len(l.tail) <= 2*tailEvents && l.tailSize <= 2*tailBytes {
		return
	}
	drop := 0
	for drop < len(l.tail) && l.tail[drop].Sequence <= l.written && (len(l.tail)-drop > tailEvents || l.tailSize > tailBytes) {
		l.tailSize -= l.tail[drop].Weight()
		drop++
	}
	if drop > 0 {
		l.tail = append([]call.Event(nil), l.tail[drop:]...)
	}
}

// Take takes everything that is unwritten, to write it. [Log.Wrote] or [Log.Failed] ends the write.
func (l *Log) Take() (events []call.Event, records []store.Record) {
	events, records = slices.Clip(l.unwritten), l.records
	l.inFlight.events, l.inFlight.size = len(events), l.size
	l.unwritten, l.size, l.records = nil, 0, nil
	return events, records
}

// Wrote ends a write: the journal has all events up to sequence.
func (l *Log) Wrote(sequence int64) {
	l.inFlight.events, l.inFlight.size = 0, 0
	l.written = sequence
}

// GiveBack makes the numbers after last free, which were given to events that were not written. Published numbers stay.
func (l *Log) GiveBack(last int64) { l.last = max(last, l.published) }

// Failed ends a write: what was taken is unwritten again. The numbers after last are given back.
func (l *Log) Failed(events []call.Event, records []store.Record, last int64) {
	l.GiveBack(last)
	for i := range events {
		if events[i].Sequence > l.last {
			events[i].Sequence = 0
		}
	}
	l.unwritten, l.records = append(events, l.unwritten...), append(records, l.records...)
	l.size += l.inFlight.size
	l.inFlight.events, l.inFlight.size = 0, 0
}

// Last returns the newest number that was given.
func (l *Log) Last() int64 { return l.last }

// Written returns the newest number in the journal.
func (l *Log) Written() int64 { return l.written }

// Published returns the newest number that was published.
func (l *Log) Published() int64 { return l.published }

// Unwritten reports whether there are events to take.
func (l *Log) Unwritten() bool { return len(l.unwritten) > 0 }

// Full reports whether the tool has to wait for the journal. What is under way counts: the journal may refuse it.
func (l *Log) Full() bool {
	return l.size+l.inFlight.size > maxUnwritten || len(l.unwritten)+l.inFlight.events > 4*tailEvents
}

// After returns the published events after a number, as many as a frame has or more; nil when memory does not reach back so far.
func (l *Log) After(sequence int64) []call.Event {
	if len(l.tail) == 0 || l.tail[0].Sequence > sequence+1 {
		return nil
	}
	rest := l.tail[sequence+1-l.tail[0].Sequence:]
	if len(l.tail) <= Few {
		return slices.Clip(rest) // the tail only ever grows
	}
	return slices.Clone(rest[:min(len(rest), FrameEvents)]) // a slow watcher must not keep the whole tail in memory
}

// Forget drops the published events from memory.
func (l *Log) Forget() { l.tail, l.tailSize = nil, 0 }

// Changed returns a channel that the next change closes.
func (l *Log) Changed() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// Wake closes the channel of [Log.Changed].
func (l *Log) Wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
