package lifecycle

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// behindDelay is how long what a read-only call told may stay out of the journal; a call that has ended by then is one
// row.
const behindDelay = 50 * time.Millisecond

// behindEarly is the number of waiting calls that are not made to wait for the delay.
const behindEarly = 512

// behindMost bounds the calls that wait for a slow journal: beyond it new read-only calls are refused.
const behindMost = 16384

// behind is the list of calls with something that the journal does not have yet.
type behind struct {
	mu    sync.Mutex
	dirty []*activeCall
	armed bool
	// flights are what is on its way to the journal; each is closed when all of it is there, or was refused.
	flights map[*flight]struct{}
	// away are the calls that are not on the list, and not in the journal either.
	away atomic.Int64
}

// A flight is the calls that one flush writes.
type flight struct {
	left    atomic.Int64
	flushed chan struct{}
}

// add puts a call on the list, once.
func (b *behind) add(l *activeCall) {
	l.mu.Lock()
	known := l.dirty
	l.dirty = true
	l.mu.Unlock()
	if known {
		return
	}
	l.retain()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dirty = append(b.dirty, l)
	if len(b.dirty) == behindEarly {
		go b.flush()
	}
	if !b.armed {
		b.armed = true
		time.AfterFunc(behindDelay, func() {
			b.mu.Lock()
			b.armed = false
			b.mu.Unlock()
			b.flush()
		})
	}
}

func (b *behind) full() bool { return b.count() > behindMost }

func (b *behind) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.dirty) + int(b.away.Load())
}

// flush starts to write what is on the list.
func (b *behind) flush() {
	b.mu.Lock()
	dirty := b.dirty
	b.dirty = nil
	if len(dirty) == 0 {
		b.mu.Unlock()
		return
	}
	f := &flight{flushed: make(chan struct{})}
	f.left.Store(int64(len(dirty)))
	if b.flights == nil {
		b.flights = map[*flight]struct{}{}
	}
	b.flights[f] = struct{}{}
	b.away.Add(f.left.Load())
	b.mu.Unlock()
	flushed := func(l *activeCall) {
		l.release()
		b.away.Add(-1)
		if f.left.Add(-1) > 0 {
			return
		}
		b.mu.Lock()
		delete(b.flights, f)
		b.mu.Unlock()
		close(f.flushed)
	}
	for _, l := range dirty {
		b.submit(l, flushed)
	}
}

// inFlight returns what is on its way.
func (b *behind) inFlight() []*flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.flights))
}

// write writes one call now.
func (b *behind) write(l *activeCall) {
	written := make(chan struct{})
	b.submit(l, func(*activeCall) { close(written) })
	<-written
}

// settle returns when everything that was told before is in the journal, or could not be written.
func (e *Engine) settle() {
	e.behind.flush()
	for _, f := range e.behind.inFlight() {
		<-f.flushed
	}
}

// submit writes what was told of a call and calls done. It waits for the slot but not for the journal.
func (b *behind) submit(l *activeCall, done func(*activeCall)) {
	l.slot.Take()
	l.mu.Lock()
	l.dirty = false
	if !l.log.Unwritten() && l.stored && l.c.Status == call.Suspended {
		l.mu.Unlock()
		l.unslot()
		done(l)
		return
	}
	if l.c.Class == call.Sync {
		l.mu.Unlock()
		l.flushSlotted()
		l.unslot()
		done(l)
		return
	}
	if l.lent {
		next := *l.c
		l.c = &next
	}
	l.c.Revision++
	l.c.LastSequence = l.log.Last()
	l.lent = true // to the store
	events, records := l.log.Take()
	change := &store.Change{
		Key: l.key, Call: l.c, Create: !l.stored, Events: events, Durability: store.Normal, Run: l.runLocked(nil), Records: records,
		Actions: l.e.outbox.NewPosts(l.c, events),
	}
	l.mu.Unlock()
	l.e.limits.Storage.AddChange(change)
	l.e.store.Submit(change, func(err error) {
		b.written(l, change, err)
		l.unslot()
		done(l)
	})
}

// written notes whether a change is stored.
func (b *behind) written(l *activeCall, change *store.Change, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.stored = true
		written := l.log.Written()
		if n := len(change.Events); n > 0 {
			written = change.Events[n-1].Sequence
		}
		l.log.Wrote(written)
		l.e.watches.Wake(l.c)
		l.e.outbox.Committed(change.Actions)
		return
	}
	l.log.Failed(change.Events, change.Records, l.log.Last())
	current := *l.c
	current.Revision--
	l.c, l.lent = &current, false
	if errors.Is(err, store.ErrFatal) {
		go l.e.fatal(err)
		return
	}
	if !transient(err) {
		l.e.log.Error("events of a read-only call are not in the journal", zap.String("call_id", l.key.ID), zap.Error(err))
	} else if !l.dirty {
		l.dirty = true
		b.later(l)
	}
}

// later puts a call whose write may succeed later back on the list, a little later. The call stays in memory:
// only there is it known.
func (b *behind) later(l *activeCall) {
	l.retain()
	b.away.Add(1)
	time.AfterFunc(10*behindDelay, func() {
		defer l.release()
		b.away.Add(-1)
		l.mu.Lock()
		l.dirty = false
		l.mu.Unlock()
		b.add(l)
	})
}
