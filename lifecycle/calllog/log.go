package calllog

import (
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// FrameEvents is the maximum number of events in a frame.
const FrameEvents = 256

// Few is the number of events of a typical call. It sizes preallocated slices.
const Few = 3

// Limits of the events that a log keeps in memory. Older events are read from the journal.
const (
	tailEvents = 512
	tailBytes  = 512 << 10
)

// maxUnwritten is a size in bytes. When the unwritten events of a call exceed it, the tool of the call must wait for the journal.
const maxUnwritten = 1 << 20

// A Log holds the last part of the log of one call: the newest published events, and all events that are not in the journal yet.
//
// An event is added, numbered, written and published. Events of a SYNC call are published after they are written; events of a BEHIND call
// are published before. The number of a published event is never used again. If a write fails, the numbers of its unpublished events are
// used again.
//
// A Log has no lock and does no I/O. The owner of a Log must serialize all calls to it, and may have only one write in progress.
type Log struct {
	last      int64 // the newest number in use
	written   int64 // the newest number in the journal
	published int64 // the newest published number; tail ends with it

	unwritten []call.Event // may share memory with tail
	records   []store.Record
	size      int // total weight of the unwritten events
	inFlight  struct{ events, size int }

	tail     []call.Event
	tailSize int
	changed  chan struct{} // closed by the next change; nil when no watcher waits
}

// Reset makes the log continue after the event with this number, which is in the journal.
func (l *Log) Reset(sequence int64) { l.last, l.written, l.published = sequence, sequence, sequence }

// Begin adds the first events of a log. If share is true, published and unwritten events use the same memory until the next Take. Pass true
// for events that are published immediately.
func (l *Log) Begin(events []call.Event, records []store.Record, share bool) {
	l.unwritten, l.records = events, records
	if share {
		l.tail = events[:0]
	}
}

// Add adds events, and the records that are written with them.
func (l *Log) Add(events []call.Event, records []store.Record) {
	for i := range events {
		l.size += events[i].Weight()
	}
	l.unwritten, l.records = append(l.unwritten, events...), append(l.records, records...)
}

// Number assigns numbers to the events that have none. It returns the epochs of the call, with a new entry when these are the first events
// of epoch.
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

// Publish publishes numbered events and wakes the watchers. It skips events that were published before, and returns how many are new.
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

// trim removes the oldest published events from memory. It keeps the newest events and all that are not in the journal.
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

// Take removes and returns all unwritten events and records, for a write. [Log.Wrote] or [Log.Failed] ends the write.
func (l *Log) Take() (events []call.Event, records []store.Record) {
	events, records = slices.Clip(l.unwritten), l.records
	l.inFlight.events, l.inFlight.size = len(events), l.size
	l.unwritten, l.size, l.records = nil, 0, nil
	return events, records
}

// Wrote ends a successful write: the journal has all events up to sequence.
func (l *Log) Wrote(sequence int64) {
	l.inFlight.events, l.inFlight.size = 0, 0
	l.written = sequence
}

// GiveBack frees the numbers after last, because their events were not written. It never frees published numbers.
func (l *Log) GiveBack(last int64) { l.last = max(last, l.published) }

// Failed ends a failed write. The events and records that Take returned become unwritten again, and the numbers after last become free.
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

// Last returns the newest number in use.
func (l *Log) Last() int64 { return l.last }

// Written returns the newest number in the journal.
func (l *Log) Written() int64 { return l.written }

// Published returns the newest published number.
func (l *Log) Published() int64 { return l.published }

// Unwritten reports whether there are events to take.
func (l *Log) Unwritten() bool { return len(l.unwritten) > 0 }

// Full reports whether the tool must wait for the journal. A write in progress counts as unwritten, because the journal may refuse it.
func (l *Log) Full() bool {
	return l.size+l.inFlight.size > maxUnwritten || len(l.unwritten)+l.inFlight.events > 4*tailEvents
}

// After returns the published events after the event with this number, at most as many as fit into a frame. It returns nil when the next
// event is no longer in memory.
func (l *Log) After(sequence int64) []call.Event {
	if len(l.tail) == 0 || l.tail[0].Sequence > sequence+1 {
		return nil
	}
	rest := l.tail[sequence+1-l.tail[0].Sequence:]
	if len(l.tail) <= Few {
		return slices.Clip(rest) // The frame may share memory with the tail: the log appends to the tail and never changes an event in it.
	}
	return slices.Clone(rest[:min(len(rest), FrameEvents)]) // A copy, so that a slow watcher does not keep the whole tail in memory.
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
