package lifecycle

import (
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
)

// A Shared is the newest events of a call, for all who watch it and stand at the same place: what one of them makes of it,
// such as its form on the wire, is there for the others.
type Shared struct {
	after, last, epoch int64
	events             []call.Event
	cursor             string

	once sync.Once
	form atomic.Value
}

// Form returns what the first call of it has made.
func (s *Shared) Form(make func() any) any {
	s.once.Do(func() { s.form.Store(make()) })
	return s.form.Load()
}

// Made returns what [Shared.Form] has made, or nil.
func (s *Shared) Made() any { return s.form.Load() }

// sharedLocked returns the newest events for a watcher who is not the only one; nil when they are not for sharing: the
// journal has them, one frame does not hold them, or not everybody may see all of them.
func (w *Watcher) sharedLocked() *Shared {
	l := w.l
	if l.watchers < 2 {
		return nil
	}
	if s := l.shared.Load(); s != nil && s.after == w.after && s.last == l.told {
		return s
	}
	events := l.tailAfterLocked(w.after)
	if len(events) == 0 || int64(len(events)) != l.told-w.after || len(fitting(events)) < len(events) || asks(events) {
		return nil
	}
	epoch := l.c.EpochOf(l.told)
	s := &Shared{after: w.after, last: l.told, epoch: epoch, events: events, cursor: cursor{epoch, l.told}.String()}
	l.shared.Store(s)
	return s
}

// take moves the watcher behind what is shared.
func (w *Watcher) take(s *Shared) Frame {
	w.after, w.epoch = s.last, s.epoch
	return Frame{Key: w.l.key, Events: s.events, Cursor: s.cursor, Shared: s}
}
