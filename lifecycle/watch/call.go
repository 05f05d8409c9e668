package watch

import (
	"context"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A Watched is an active call. Its methods may be called concurrently.
type Watched interface {
	Key() call.Key
	Record() *call.Call
	// Snapshot returns the record as people may see it, and the number of the newest published event.
	Snapshot() (c *call.Call, published int64)
	// Published returns the number of the newest published event.
	Published() int64
	// EpochOf returns the epoch of an event.
	EpochOf(sequence int64) int64
	// Look returns what there is behind an event, or why the call was never accepted.
	Look(after int64) (Look, error)
	// Shared returns the newest frame of several watchers; nil when there is none.
	Shared() *SharedFrame
	// Rested returns the record when the call has ended or waits for a decision; else a channel that is closed when it changes.
	Rested() (c *call.Call, changed <-chan struct{}, err error)
	// Left is called when a watcher is gone.
	Left()
}

// A Look is what a watcher finds in an active call.
type Look struct {
	More   bool            // events were published
	Shared *SharedFrame    // has all of them
	Events []call.Event    // nil when memory does not have them any more
	Status call.Status     // when there are no more events
	Change <-chan struct{} // is closed when there are; nil when the call has ended
}

// A Position is where a watcher of a call is in its log.
type Position struct {
	After, Epoch int64     // the newest event that it knows, and the epoch of that event
	Gap          *call.Gap // what a crash took from it
}

// Place finds the position of a cursor in the log of a call: events up to the last one of its epoch are what it knew. published is the
// newest event, epoch that of this daemon.
func Place(c *call.Call, published, epoch int64, cur Cursor) (p Position, err error) {
	last := published // that its epoch, or one before it, wrote
	for _, s := range c.Epochs {
		if s.Epoch > cur.Epoch {
			last = s.First - 1
			break
		}
	}
	switch {
	case cur.Epoch > epoch:
		return p, call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor is of a daemon that has not started yet")
	case cur.Sequence <= last:
		p.After = cur.Sequence
	case cur.Epoch == epoch:
		return p, call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor names event %d; the newest is %d", cur.Sequence, published)
	default: // a crash took what the cursor knew
		next := c.EpochOf(last + 1) // in which the log continues
		if next <= cur.Epoch {
			next = epoch
		}
		p.Gap = &call.Gap{LostTail: true, FirstKept: last + 1, Epoch: next}
		p.After = last
	}
	p.Epoch = c.EpochOf(p.After)
	return p, nil
}

// Options say how to watch a call.
type Options struct {
	Position
	Snapshot bool            // a snapshot comes first
	Through  bool            // continues across suspensions
	Follow   bool            // else it ends when it has caught up
	Fresh    bool            // the watcher begins the call
	As       *tool.Principal // the client that watches; nil is the caller of the call
}

// A CallWatcher implements [call.Watcher].
type CallWatcher struct {
	s  *Service
	of Watched
	o  Options // its position moves

	ahead    []call.Event // read from the journal and not returned yet
	caughtUp bool
	closed   bool
	beat     heartbeat
}

// Call returns the watcher of a call. Its Close calls [Watched.Left].
func (s *Service) Call(of Watched, o Options) *CallWatcher {
	s.count.Add(1)
	return &CallWatcher{s: s, of: of, o: o, caughtUp: o.Fresh}
}

// Call returns the watched call as it is now.
func (w *CallWatcher) Call() *call.Call {
	c, _ := w.of.Snapshot()
	return w.shown(c)
}

// Cursor returns the position of the watcher.
func (w *CallWatcher) Cursor() string { return Cursor{Epoch: w.o.Epoch, Sequence: w.o.After}.String() }

// Close ends the watch. A call that nobody watches by name any more may end after its linger time.
func (w *CallWatcher) Close() {
	if w.closed {
		return
	}
	w.closed = true
	w.s.count.Add(-1)
	w.beat.stop(w.s)
	w.of.Left()
}

// Next returns the next frame, and io.EOF when the watch has come to its end. It waits no longer than ctx.
func (w *CallWatcher) Next(ctx context.Context) (call.Frame, error) {
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
		case <-w.s.cfg.Drain.Closed():
			if w.caughtUp && w.of.Published() > w.o.After {
				continue // there is something to return before the end
			}
			w.o.Follow = false
			return call.Frame{Key: w.of.Key(), Cursor: w.Cursor(), Closing: true}, nil
		case <-w.beat.due(w.s):
			return call.Frame{Key: w.of.Key(), Heartbeat: true}, nil
		}
	}
}

// Wait returns the call when it is terminal or suspended, or as it is when d is over. It takes the watcher over.
func (w *CallWatcher) Wait(ctx context.Context, d time.Duration) (*call.Call, error) {
	defer w.Close()
	w.yield()
	var timer *time.Timer
	for {
		c, changed, err := w.of.Rested()
		if err != nil {
			return nil, err
		}
		if c != nil {
			return w.shown(c), nil
		}
		if timer == nil {
			timer = time.NewTimer(d)
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C:
			return w.Call(), nil
		case <-ctx.Done():
			return w.Call(), nil
		case <-w.s.cfg.Drain.Closed():
			if err := w.s.cfg.Drain.Err(); err != nil {
				return nil, refusal.OfCall(err, w.of.Key().ID) // nobody knows whether there is such a call
			}
			return w.Call(), nil
		}
	}
}

// yield lets the call go first when it has just begun: what a tool answers at once is in the first frame, which saves a
// message and a wake-up.
func (w *CallWatcher) yield() {
	if w.o.Fresh {
		w.o.Fresh = false
		runtime.Gosched()
	}
}

// opening returns what a watcher that joins late gets first.
func (w *CallWatcher) opening() (call.Frame, bool) {
	switch {
	case w.o.Gap != nil:
		f := call.Frame{Key: w.of.Key(), Gap: w.o.Gap, Cursor: w.Cursor()}
		w.o.Gap = nil
		return f, true
	case w.o.Snapshot:
		w.o.Snapshot = false
		c, published := w.of.Snapshot()
		w.o.After, w.o.Epoch = published, max(c.EpochOf(published), 1)
		return call.Frame{Key: w.of.Key(), Snapshot: w.shown(c), Cursor: w.Cursor()}, true
	}
	return call.Frame{}, false
}

// look returns the next events, the end, or what to wait for.
func (w *CallWatcher) look(ctx context.Context) (call.Frame, <-chan struct{}, error) {
	if s := w.of.Shared(); s != nil && s.after == w.o.After {
		return w.take(s), nil, nil // a thousand watchers that wake at once do not wait for each other here
	}
	l, err := w.of.Look(w.o.After)
	switch {
	case err != nil:
		return call.Frame{}, nil, err
	case l.Shared != nil:
		return w.take(l.Shared), nil, nil
	case l.More:
		f, err := w.frame(ctx, l.Events)
		return f, nil, err
	case l.Status.Terminal(), l.Status == call.Suspended && !w.o.Through, !w.o.Follow:
		return call.Frame{}, nil, io.EOF
	case !w.caughtUp:
		w.caughtUp = true
		return call.Frame{Key: w.of.Key(), CaughtUp: true, Cursor: w.Cursor()}, nil, nil
	}
	return call.Frame{}, l.Change, nil
}

// frame makes a frame of events from memory, or of what the journal has when they are gone from it.
func (w *CallWatcher) frame(ctx context.Context, events []call.Event) (call.Frame, error) {
	if events == nil {
		var gap *call.Gap
		var err error
		if events, gap, err = w.stored(ctx); err != nil {
			return call.Frame{}, err
		}
		if gap != nil {
			return call.Frame{Key: w.of.Key(), Gap: gap, Cursor: w.Cursor()}, nil
		}
	}
	events = fitting(events)
	w.o.After = events[len(events)-1].Sequence
	w.o.Epoch = w.of.EpochOf(w.o.After)
	return call.Frame{Key: w.of.Key(), Events: w.shownEvents(events), Cursor: w.Cursor()}, nil
}

// ReadAhead is how many events a watcher that is behind reads at once: a row of the journal may hold many, and is decoded
// whole.
const ReadAhead = 4 * calllog.FrameEvents

// stored returns the next events from the journal, or the gap that retention left.
func (w *CallWatcher) stored(ctx context.Context) ([]call.Event, *call.Gap, error) {
	key := w.of.Key()
	if len(w.ahead) == 0 || w.ahead[0].Sequence != w.o.After+1 {
		kept, first, err := w.s.cfg.Store.Events(ctx, key, w.o.After, ReadAhead)
		if err != nil {
			return nil, nil, refusal.OfCall(err, key.ID)
		}
		if first > w.o.After+1 {
			w.o.After, w.o.Epoch = first-1, w.of.EpochOf(first-1)
			return nil, &call.Gap{FirstKept: first, Epoch: w.of.EpochOf(first)}, nil
		}
		w.ahead = kept
	}
	published := w.of.Published() // what is written but not published yet has to wait
	next := w.ahead[:min(len(w.ahead), calllog.FrameEvents, int(published-w.o.After))]
	if len(next) == 0 {
		return nil, nil, refusal.OfCall(store.ErrCorrupt, key.ID)
	}
	next = fitting(next)
	if w.ahead = w.ahead[len(next):]; len(w.ahead) == 0 {
		w.ahead = nil
	}
	next, err := w.s.hydrate(key, slices.Clone(next)) // what is read ahead must not keep the bytes of what was sent
	return next, nil, err
}

// viewer returns the client that watches; c is the watched call.
func (w *CallWatcher) viewer(c *call.Call) tool.Principal {
	if w.o.As == nil {
		return c.Caller
	}
	return *w.o.As
}

// shown returns a record of the watched call as the client may see it.
func (w *CallWatcher) shown(c *call.Call) *call.Call { return view.Call(w.viewer(c), c) }

// shownEvents returns events of the watched call as the client may see them.
func (w *CallWatcher) shownEvents(events []call.Event) []call.Event {
	if !view.Asks(events) {
		return events
	}
	c := w.of.Record()
	return view.Events(w.viewer(c), c, events)
}

// A SharedFrame holds the newest events of a call, for all watchers at the same position.
type SharedFrame struct {
	after, last, epoch int64
	events             []call.Event
	cursor             string
	form               call.Shared
}

// Share returns the newest events of a call for watchers of which there are several, and keeps them in at; nil when they cannot be
// shared: the journal has them, one frame does not hold them, or not every watcher may see all of them. The caller holds the lock
// of the log.
func Share(at *atomic.Pointer[SharedFrame], log *calllog.Log, c *call.Call, after int64) *SharedFrame {
	last := log.Published()
	if s := at.Load(); s != nil && s.after == after && s.last == last {
		return s
	}
	events := log.After(after)
	if len(events) == 0 || int64(len(events)) != last-after || len(fitting(events)) < len(events) || view.Asks(events) {
		return nil
	}
	epoch := c.EpochOf(last)
	s := &SharedFrame{after: after, last: last, epoch: epoch, events: events, cursor: Cursor{Epoch: epoch, Sequence: last}.String()}
	at.Store(s)
	return s
}

// take moves the watcher behind what is shared.
func (w *CallWatcher) take(s *SharedFrame) call.Frame {
	w.o.After, w.o.Epoch = s.last, s.epoch
	return call.Frame{Key: w.of.Key(), Events: s.events, Cursor: s.cursor, Shared: &s.form}
}
