package lifecycle

import (
	"context"
	"io"
	"runtime"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A callWatcher implements [call.Watcher].
type callWatcher struct {
	e *Engine
	l *activeCall

	after    int64 // newest sequence that Next returned
	epoch    int64
	ahead    []call.Event // read from the journal and not returned yet
	snapshot bool         // a snapshot comes first
	gap      *call.Gap
	through  bool // continues across suspensions
	follow   bool
	caughtUp bool
	fresh    bool // Next was not called yet, and this watcher began the call
	closed   bool

	as   *tool.Principal // the client that watches; nil is the caller of the call
	beat watch.Heartbeat
}

// freshWatcher returns the watcher of a call that begins. It takes over the caller's reference.
func freshWatcher(l *activeCall, o call.ExecuteOptions) *callWatcher {
	w := &callWatcher{e: l.e, l: l, through: o.WaitForDecision, follow: true, fresh: true, epoch: l.e.epoch, caughtUp: true}
	l.watchers++ // nobody else knows the call yet
	l.e.watches.Count().Add(1)
	return w
}

// newWatcher returns a watcher of a known call from a cursor on, or with a snapshot first. It takes over the caller's
// reference unless it fails.
func newWatcher(l *activeCall, o call.ExecuteOptions, follow bool) (*callWatcher, error) {
	w := &callWatcher{e: l.e, l: l, through: o.WaitForDecision, follow: follow}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.Cursor == "" {
		w.snapshot, w.after = true, l.log.Published()
	} else {
		cur, err := watch.ParseCursor(o.Cursor)
		if err != nil {
			return nil, err
		}
		if err := w.placeLocked(cur); err != nil {
			return nil, err
		}
	}
	l.watchers++
	l.e.watches.Count().Add(1)
	if l.linger != nil {
		l.linger.Stop()
		l.linger = nil
	}
	return w, nil
}

// checkCursor refuses what newWatcher would refuse.
func (l *activeCall) checkCursor(text string) error {
	if text == "" {
		return nil
	}
	cur, err := watch.ParseCursor(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return (&callWatcher{l: l}).placeLocked(cur)
}

// placeLocked finds where a cursor stands in the log as it is: events up to the last one of its epoch are what it knew.
func (w *callWatcher) placeLocked(cur watch.Cursor) error {
	l := w.l
	last := l.log.Published() // that its epoch, or one before it, wrote
	for _, s := range l.c.Epochs {
		if s.Epoch > cur.Epoch {
			last = s.First - 1
			break
		}
	}
	switch {
	case cur.Epoch > l.e.epoch:
		return call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor is of a daemon that has not started yet")
	case cur.Sequence <= last:
		w.after = cur.Sequence
	case cur.Epoch == l.e.epoch:
		return call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor names event %d; the newest is %d", cur.Sequence, l.log.Published())
	default: // a crash took what the cursor knew
		w.gap = &call.Gap{LostTail: true, FirstKept: last + 1, Epoch: epochAfter(l, cur.Epoch, last)}
		w.after = last
	}
	w.epoch = l.c.EpochOf(w.after)
	return nil
}

// epochAfter returns the epoch in which the log goes on behind last: that of the next event, or of this daemon.
func epochAfter(l *activeCall, lost, last int64) int64 {
	if next := l.c.EpochOf(last + 1); next > lost {
		return next
	}
	return l.e.epoch
}

// Watch follows a call by id. With follow it ends with the call, else when it has caught up.
func (e *Engine) Watch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (call.Watcher, error) {
	l, err := e.acquireVisible(ctx, p, id)
	if err != nil {
		return nil, err
	}
	w, err := newWatcher(l, call.ExecuteOptions{Cursor: cursor, WaitForDecision: true}, follow)
	if err != nil {
		l.release()
		return nil, err
	}
	w.as = &p
	return w, nil
}

// acquireVisible finds a call that the principal may see.
func (e *Engine) acquireVisible(ctx context.Context, p tool.Principal, id string) (*activeCall, error) {
	l, err := e.acquire(ctx, call.Key{Namespace: p.Namespace, ID: id})
	if err != nil {
		return nil, storeRefusal(err, id)
	}
	if !view.Sees(p, l.record()) {
		l.release()
		return nil, unknownCall(id)
	}
	return l, nil
}

// Call returns the watched call as it stands.
func (w *callWatcher) Call() *call.Call { return w.shown(w.l.snapshot()) }

// Cursor returns where the watcher stands.
func (w *callWatcher) Cursor() string {
	return watch.Cursor{Epoch: w.epoch, Sequence: w.after}.String()
}

// Close ends the watch. A call that nobody watches by name any more may end after its linger time.
func (w *callWatcher) Close() {
	if w.closed {
		return
	}
	w.closed = true
	w.e.watches.Count().Add(-1)
	w.beat.Stop(w.e.watches)
	w.l.left()
	w.l.release()
}

// Next returns the next frame, and io.EOF when the watch has come to its end. It waits no longer than ctx.
func (w *callWatcher) Next(ctx context.Context) (call.Frame, error) {
	if f, ok := w.opening(); ok {
		return f, nil
	}
	w.yield()
	for {
		f, wait, err := w.look(ctx)
		if wait == nil {
			return f, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return call.Frame{}, context.Cause(ctx)
		case <-w.e.drain.Closed():
			if w.caughtUp && w.behindNow() {
				continue
			}
			w.follow = false
			return call.Frame{Key: w.l.key, Cursor: w.Cursor(), Closing: true}, nil
		case <-w.beat.Due(w.e.watches):
			return call.Frame{Key: w.l.key, Heartbeat: true}, nil
		}
	}
}

// yield lets the call go first when it has just begun: what a tool answers at once is in the first frame, which saves a
// message and a wake-up.
func (w *callWatcher) yield() {
	if w.fresh {
		w.fresh = false
		runtime.Gosched()
	}
}

// behindNow reports whether there is something to hand out before the end.
func (w *callWatcher) behindNow() bool {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.log.Published() > w.after
}

// opening returns what a watcher that joins late gets first.
func (w *callWatcher) opening() (call.Frame, bool) {
	switch {
	case w.gap != nil:
		f := call.Frame{Key: w.l.key, Gap: w.gap, Cursor: w.Cursor()}
		w.gap = nil
		return f, true
	case w.snapshot:
		w.snapshot = false
		w.l.mu.Lock()
		c := w.l.snapshotLocked()
		w.after = w.l.log.Published()
		w.l.mu.Unlock()
		w.epoch = max(c.EpochOf(w.after), 1)
		return call.Frame{Key: w.l.key, Snapshot: w.shown(c), Cursor: w.Cursor()}, true
	}
	return call.Frame{}, false
}

// look returns the next events, the end, or what to wait for.
func (w *callWatcher) look(ctx context.Context) (call.Frame, <-chan struct{}, error) {
	l := w.l
	if s := l.shared.Load(); s != nil && s.after == w.after {
		return w.take(s), nil, nil // a thousand who are woken at once do not wait for each other here
	}
	l.mu.Lock()
	if l.lost != nil {
		defer l.mu.Unlock()
		return call.Frame{}, nil, l.lost
	}
	if l.log.Published() > w.after {
		if s := w.sharedLocked(); s != nil {
			l.mu.Unlock()
			return w.take(s), nil, nil
		}
		events := l.log.After(w.after)
		l.mu.Unlock()
		f, err := w.hand(ctx, events)
		return f, nil, err
	}
	defer l.mu.Unlock()
	switch s := l.c.Status; {
	case s.Terminal(), s == call.Suspended && !w.through, !w.follow:
		return call.Frame{}, nil, io.EOF
	}
	if !w.caughtUp {
		w.caughtUp = true
		return call.Frame{Key: l.key, CaughtUp: true, Cursor: w.Cursor()}, nil, nil
	}
	return call.Frame{}, l.log.Changed(), nil
}

// hand makes a frame of events from memory, or of what the journal has when they are gone from it.
func (w *callWatcher) hand(ctx context.Context, events []call.Event) (call.Frame, error) {
	if events == nil {
		var gap *call.Gap
		var err error
		if events, gap, err = w.stored(ctx); err != nil {
			return call.Frame{}, err
		}
		if gap != nil {
			return call.Frame{Key: w.l.key, Gap: gap, Cursor: w.Cursor()}, nil
		}
	}
	events = watch.Fitting(events)
	w.after = events[len(events)-1].Sequence
	w.epoch = w.l.epochOf(w.after)
	return call.Frame{Key: w.l.key, Events: w.shownEvents(events), Cursor: w.Cursor()}, nil
}

// readAhead is how many events a watcher that is behind reads at once: a row of the journal may hold many, and is decoded
// whole.
const readAhead = 4 * calllog.FrameEvents

// stored returns the next events from the journal, or the gap that retention left.
func (w *callWatcher) stored(ctx context.Context) ([]call.Event, *call.Gap, error) {
	if len(w.ahead) == 0 || w.ahead[0].Sequence != w.after+1 {
		kept, first, err := w.e.store.Events(ctx, w.l.key, w.after, readAhead)
		if err != nil {
			return nil, nil, storeRefusal(err, w.l.key.ID)
		}
		if first > w.after+1 {
			w.after, w.epoch = first-1, w.l.epochOf(first-1)
			return nil, &call.Gap{FirstKept: first, Epoch: w.l.epochOf(first)}, nil
		}
		w.ahead = kept
	}
	told := w.toldNow() // what is written but not told yet has to wait
	next := w.ahead[:min(len(w.ahead), calllog.FrameEvents, int(told-w.after))]
	if len(next) == 0 {
		return nil, nil, storeRefusal(store.ErrCorrupt, w.l.key.ID)
	}
	next = watch.Fitting(next)
	if w.ahead = w.ahead[len(next):]; len(w.ahead) == 0 {
		w.ahead = nil
	}
	next, err := w.e.watches.Hydrate(w.l.key, slices.Clone(next)) // what is read ahead must not keep the bytes of what was sent
	return next, nil, err
}

func (w *callWatcher) toldNow() int64 {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.log.Published()
}

func (l *activeCall) epochOf(sequence int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.EpochOf(sequence)
}

// viewer returns the client that watches; c is the watched call.
func (w *callWatcher) viewer(c *call.Call) tool.Principal {
	if w.as == nil {
		return c.Caller
	}
	return *w.as
}

// shown returns a record of the watched call as the client may see it.
func (w *callWatcher) shown(c *call.Call) *call.Call { return view.Call(w.viewer(c), c) }

// shownEvents returns events of the watched call as the client may see them.
func (w *callWatcher) shownEvents(events []call.Event) []call.Event {
	if !view.Asks(events) {
		return events
	}
	c := w.l.record()
	return view.Events(w.viewer(c), c, events)
}

// Watches returns what follows feeds and batches.
func (e *Engine) Watches() *watch.Service { return e.watches }
