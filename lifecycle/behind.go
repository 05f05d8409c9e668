package lifecycle

import (
	"errors"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/flush"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
)

// behind lists the calls that have unwritten events, and writes these events.
type behind struct{ *flush.List[*activeCall] }

func newBehind() behind {
	var b behind
	b.List = flush.New(func(l *activeCall, done func(*activeCall)) { b.submit(l, done) }, (*activeCall).release)
	return b
}

// add puts a call on the list if it is not listed yet.
func (b behind) add(l *activeCall) {
	l.mu.Lock()
	known := l.dirty
	l.dirty = true
	l.mu.Unlock()
	if known {
		return
	}
	l.retain()
	b.Add(l)
}

// submit passes the published events of a call to the journal. It waits for the slot of the call but not for the journal, which invokes
// done later.
func (b behind) submit(l *activeCall, done func(*activeCall)) {
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
	if l.frozen {
		next := *l.c
		l.c = &next
	}
	l.c.Revision++
	l.c.LastSequence = l.log.Last()
	l.frozen = true // The store keeps a reference to the record, so a later change must copy the record.
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

// written handles the result of a write to the journal.
func (b behind) written(l *activeCall, change *store.Change, err error) {
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
	l.c, l.frozen = &current, false
	if errors.Is(err, store.ErrFatal) {
		go l.e.fatal(err)
		return
	}
	if !refusal.Transient(err) {
		l.e.log.Error("events of a read-only call are not in the journal", zap.String("call_id", l.key.ID), zap.Error(err))
	} else if !l.dirty {
		l.dirty = true
		b.later(l)
	}
}

// later lists a call again after a delay, because a second write may succeed. Until then the call stays in memory, because the journal does
// not have its events.
func (b behind) later(l *activeCall) {
	l.retain()
	b.Postpone(l, func(l *activeCall) {
		defer l.release()
		l.mu.Lock()
		l.dirty = false
		l.mu.Unlock()
		b.add(l)
	})
}
