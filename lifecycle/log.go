package lifecycle

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// outputBacklog is how many bytes of output a call may have unwritten before its tool waits for the journal.
const outputBacklog = 1 << 20

// emit adds events to the call's log. It waits for the journal only when the tool is faster than that.
func (l *live) emit(events ...call.Event) error {
	l.mu.Lock()
	if l.c.Status.Terminal() {
		l.mu.Unlock()
		l.e.stats.late.Add(1)
		return errEnded
	}
	events = l.filterLocked(events)
	for i := range events {
		if o := events[i].Output; o != nil {
			l.size += len(o.Bytes)
		}
	}
	isBehind := l.c.Class == call.Behind
	if isBehind {
		l.numberLocked(events)
	}
	l.unwritten = append(l.unwritten, events...)
	if isBehind {
		l.tellLocked(events)
	}
	full := l.size > outputBacklog || len(l.unwritten) > 4*tailEvents
	l.mu.Unlock()
	if isBehind {
		l.e.behind.add(l)
		if full {
			l.e.behind.write(l)
		}
		return nil
	}
	if full {
		l.slot <- struct{}{}
		l.flushSlotted()
		l.unslot()
		return nil
	}
	l.kick()
	return nil
}

// kick writes what is unwritten of a SYNC call, unless somebody who holds the slot will do so.
func (l *live) kick() {
	l.mu.Lock()
	stored := l.stored
	l.mu.Unlock()
	if !stored {
		return // the first step of the call takes it along
	}
	select {
	case l.slot <- struct{}{}:
	default:
		return
	}
	l.retain()
	go func() {
		defer l.release()
		l.flushSlotted()
		l.unslot()
	}()
}

// flushSlotted appends what is unwritten to the journal; the caller has the slot. What fails stays unwritten and goes
// with the next step.
func (l *live) flushSlotted() {
	l.mu.Lock()
	events, records, size := l.unwritten, l.records, l.size
	if len(events) == 0 || !l.stored {
		l.mu.Unlock()
		return
	}
	before, prior := l.last, l.c
	wasBehind := prior.Class == call.Behind
	l.numberLocked(events)
	change := &store.Change{Key: l.key, Events: events, Durability: store.Normal, Records: records}
	if epochs := l.c.Epochs; len(epochs) > 0 && epochs[len(epochs)-1].First > l.written {
		// A new epoch begins with these events: the record must say so.
		next := *l.c
		next.Revision++
		next.LastSequence = l.last
		l.c, change.Call = &next, &next
	}
	l.unwritten, l.records, l.size = nil, nil, 0
	l.mu.Unlock()

	err := l.submit(change)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		current := *l.c
		current.Revision, current.Epochs, current.LastSequence = prior.Revision, prior.Epochs, prior.LastSequence
		l.last, l.c = before, &current
		l.unwritten = append(unnumber(events, before, wasBehind), l.unwritten...)
		l.records = append(records, l.records...)
		l.size += size
		return
	}
	l.written = events[len(events)-1].Sequence
	l.tellLocked(events[toldBefore(events, l.told):])
}

// filterLocked passes events through the call's filters.
func (l *live) filterLocked(events []call.Event) []call.Event {
	for _, f := range l.filters {
		var out []call.Event
		for _, ev := range events {
			kept, records := f(ev)
			out = append(out, kept...)
			for _, r := range records {
				l.records = append(l.records, store.Record(r))
			}
		}
		events = out
	}
	return events
}

// tellLocked shows numbered events to who watches.
func (l *live) tellLocked(events []call.Event) {
	if len(events) == 0 {
		return
	}
	l.tail = append(l.tail, events...)
	l.told = events[len(events)-1].Sequence
	l.trimTailLocked()
	l.wakeLocked()
}

// trimTailLocked keeps the newest events, and all that are in no journal yet.
func (l *live) trimTailLocked() {
	if len(l.tail) <= 2*tailEvents {
		return
	}
	drop := len(l.tail) - tailEvents
	for drop > 0 && l.tail[drop-1].Sequence > l.written {
		drop--
	}
	l.tail = append([]call.Event(nil), l.tail[drop:]...)
}

func (l *live) wakeLocked() {
	if l.waiting {
		close(l.changed)
		l.changed, l.waiting = nil, false
	}
}

// waitLocked returns what is closed at the next change.
func (l *live) waitLocked() <-chan struct{} {
	if !l.waiting {
		l.changed, l.waiting = make(chan struct{}), true
	}
	return l.changed
}

// lose tells who watches that the call never came to be.
func (l *live) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = err
	l.wakeLocked()
}
