package lifecycle

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/lifecycle/watch"
)

// A sharedFrame holds the newest events of a call, for all watchers at the same position.
type sharedFrame struct {
	after, last, epoch int64
	events             []call.Event
	cursor             string
	form               call.Shared
}

// sharedLocked returns the newest events for a watcher that is not the only one; nil when they cannot be shared: the
// journal has them, one frame does not hold them, or not every watcher may see all of them.
func (w *callWatcher) sharedLocked() *sharedFrame {
	l := w.l
	if l.watchers < 2 {
		return nil
	}
	if s := l.shared.Load(); s != nil && s.after == w.after && s.last == l.log.Published() {
		return s
	}
	events := l.log.After(w.after)
	if len(events) == 0 || int64(len(events)) != l.log.Published()-w.after || len(watch.Fitting(events)) < len(events) || view.Asks(events) {
		return nil
	}
	epoch := l.c.EpochOf(l.log.Published())
	s := &sharedFrame{after: w.after, last: l.log.Published(), epoch: epoch, events: events, cursor: watch.Cursor{Epoch: epoch, Sequence: l.log.Published()}.String()}
	l.shared.Store(s)
	return s
}

// take moves the watcher behind what is shared.
func (w *callWatcher) take(s *sharedFrame) call.Frame {
	w.after, w.epoch = s.last, s.epoch
	return call.Frame{Key: w.l.key, Events: s.events, Cursor: s.cursor, Shared: &s.form}
}
