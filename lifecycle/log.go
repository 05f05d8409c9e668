package lifecycle

import (
	"context"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// flushPause is the delay after which events that the journal refused are written again.
const flushPause = 100 * time.Millisecond

// emit adds events to the call's log. It waits for the journal only when too many bytes are unwritten.
func (l *activeCall) emit(events ...call.Event) error {
	if l.over() {
		return errEnded
	}
	events, records, err := l.intake.pass(events)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.c.Status.Terminal() {
		l.mu.Unlock()
		l.e.stats.late.Add(1)
		return errEnded
	}
	isBehind := l.c.Class == call.Behind
	if isBehind {
		l.numberLocked(events)
	}
	l.log.Add(events, records)
	if isBehind {
		l.publishLocked(events)
	}
	full, ctx := (l.stored || isBehind) && l.log.Full(), l.ctx
	l.mu.Unlock()
	if isBehind {
		l.e.behind.add(l)
	}
	if full {
		return l.waitForCapacity(ctx)
	}
	if !isBehind {
		l.kick()
	}
	return nil
}

// over reports whether the call has ended. If it has, over counts the late report of the tool, which the caller drops.
func (l *activeCall) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c.Status.Terminal() {
		l.e.stats.late.Add(1)
		return true
	}
	return false
}

// waitForCapacity waits until the journal has stored the unwritten events, or until the call is stopped. The wait bounds memory when a tool prints
// a lot or the disk is full.
func (l *activeCall) waitForCapacity(ctx context.Context) error {
	for {
		l.mu.Lock()
		isBehind, before := l.c.Class == call.Behind, l.log.Written()
		l.mu.Unlock()
		if isBehind {
			l.e.behind.Write(l)
		} else {
			l.slot.Take()
			l.flushSlotted()
			l.unslot()
		}
		l.mu.Lock()
		full, progress := l.log.Full(), l.log.Written() > before
		l.mu.Unlock()
		if !full {
			return nil
		}
		if progress {
			continue // Check again, because other goroutines of the tool may have printed meanwhile.
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(flushPause):
		}
	}
}

// kick starts to write the unwritten events of a SYNC call. It does nothing when another goroutine holds the slot, because that goroutine
// will write them.
func (l *activeCall) kick() {
	l.mu.Lock()
	idle := !l.stored || l.stalled // The events are written later: by the first step of the call, or by the retry after a refusal.
	l.mu.Unlock()
	if idle {
		return
	}
	if !l.slot.Try() {
		return
	}
	l.retain()
	go func() {
		defer l.release()
		l.flushSlotted()
		l.unslot()
	}()
}

// stallLocked delays the next write after the journal refused one. When the journal has failed, there is no next write.
func (l *activeCall) stallLocked(err error) {
	if l.stalled {
		return
	}
	l.stalled = true
	if settle(err, l.key.ID).is == fatal {
		return
	}
	l.retain()
	time.AfterFunc(flushPause, func() {
		defer l.release()
		l.mu.Lock()
		l.stalled = false
		l.mu.Unlock()
		l.kick()
	})
}

// flushSlotted writes the unwritten events to the journal. The caller holds the slot. If the write fails, the events stay unwritten, and
// the next write includes them.
func (l *activeCall) flushSlotted() {
	l.mu.Lock()
	if !l.log.Unwritten() || !l.stored {
		l.mu.Unlock()
		return
	}
	events, records := l.log.Take()
	before, prior := l.log.Last(), l.c
	l.numberLocked(events)
	change := &store.Change{Key: l.key, Events: events, Durability: store.Normal, Records: records, Actions: l.e.outbox.NewPosts(l.c, events)}
	if epochs := l.c.Epochs; len(epochs) > 0 && epochs[len(epochs)-1].First > l.log.Written() {
		// These events are the first of a new epoch, and the record must list the epoch.
		next := *l.c
		next.Revision++
		next.LastSequence = l.log.Last()
		l.c, change.Call = &next, &next
	}
	l.mu.Unlock()

	err := l.submit(change)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		current := *l.c
		current.Revision, current.Epochs, current.LastSequence = prior.Revision, prior.Epochs, prior.LastSequence
		l.c = &current
		l.log.Failed(events, records, before)
		l.stallLocked(err)
		return
	}
	l.log.Wrote(events[len(events)-1].Sequence)
	l.publishLocked(events)
}

// publishLocked publishes numbered events to watchers.
func (l *activeCall) publishLocked(events []call.Event) {
	l.e.stats.events.Add(int64(l.log.Publish(events)))
}

// numberLocked assigns the next sequences to events.
func (l *activeCall) numberLocked(events []call.Event) {
	epochs := l.log.Number(events, l.c.Epochs, l.e.epoch)
	if len(epochs) != len(l.c.Epochs) {
		next := *l.c
		next.Epochs = epochs
		l.c = &next
	}
}

func (l *activeCall) thread() string { return l.peek().Run.Thread }
