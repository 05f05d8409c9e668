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
	// Snapshot returns the record without unpublished changes, and the sequence of the newest published event.
	Snapshot() (c *call.Call, published int64)
	// Published returns the sequence of the newest published event.
	Published() int64
	// EpochOf returns the epoch of an event.
	EpochOf(sequence int64) int64
	// Look returns the state of the log after the event with the sequence after. It returns an error when the call was not accepted.
	Look(after int64) (Look, error)
	// Shared returns the newest frame that several watchers share, or nil.
	Shared() *SharedFrame
	// Idle returns the record when the call has ended or waits for a decision. Otherwise it returns a channel that is closed at the next
	// change.
	Idle() (c *call.Call, changed <-chan struct{}, err error)
	// Left must be called when a watcher is closed.
	Left()
}

// A Look is the state of an active call's log after the position of a watcher.
type Look struct {
	More   bool            // there are newer events
	Shared *SharedFrame    // contains all newer events
	Events []call.Event    // newer events; nil when they are no longer in memory
	Status call.Status     // status of the call; set only when there are no newer events
	Change <-chan struct{} // closed when newer events arrive; nil when the call has ended
}

// A Position is the position of a watcher in the log of a call.
type Position struct {
	After, Epoch int64     // sequence and epoch of the newest event that the watcher has
	Gap          *call.Gap // the gap to report, when a crash lost events that the watcher had received
}

// PositionOf returns the position of a cursor in the log of a call. published is the sequence of the newest event; epoch is the epoch of this
// daemon. If a crash lost events before the cursor, the position has a gap.
func PositionOf(c *call.Call, published, epoch int64, cur Cursor) (p Position, err error) {
	last := published // sequence of the last event whose epoch is not after the cursor's epoch
	for _, s := range c.Epochs {
		if s.Epoch > cur.Epoch {
			last = s.First - 1
			break
		}
	}
	switch {
	case cur.Epoch > epoch:
		return p, call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor is from a later epoch than this daemon")
	case cur.Sequence <= last:
		p.After = cur.Sequence
	case cur.Epoch == epoch:
		return p, call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor names event %d; the newest is %d", cur.Sequence, published)
	default: // A crash lost events that the watcher had already received.
		next := c.EpochOf(last + 1) // the epoch in which the log continues after the lost events
		if next <= cur.Epoch {
			next = epoch
		}
		p.Gap = &call.Gap{LostTail: true, FirstKept: last + 1, Epoch: next}
		p.After = last
	}
	p.Epoch = c.EpochOf(p.After)
	return p, nil
}

// Options configure a CallWatcher.
type Options struct {
	Position
	Snapshot bool            // the first frame is a snapshot
	Through  bool            // continue across suspensions
	Follow   bool            // wait for new events; otherwise the watch ends after the existing ones
	Fresh    bool            // the watcher's request started the call
	As       *tool.Principal // the client that watches; nil means the caller of the call
}

// A CallWatcher implements [call.Watcher].
type CallWatcher struct {
	s  *Service
	of Watched
	o  Options // options; After, Epoch and Gap move forward with each frame

	ahead     []call.Event // read from the journal but not returned yet
	caughtUp  bool
	closed    bool
	heartbeat heartbeat
}

// Call returns a watcher of a call. Its Close calls [Watched.Left].
func (s *Service) Call(of Watched, o Options) *CallWatcher {
	s.count.Add(1)
	return &CallWatcher{s: s, of: of, o: o, caughtUp: o.Fresh}
}

// Call returns the current record of the watched call.
func (w *CallWatcher) Call() *call.Call {
	c, _ := w.of.Snapshot()
	return w.shown(c)
}

// Cursor returns the position of the watcher.
func (w *CallWatcher) Cursor() string { return Cursor{Epoch: w.o.Epoch, Sequence: w.o.After}.String() }

// Close ends the watch. A call that has no watchers may be cancelled after its linger time.
func (w *CallWatcher) Close() {
	if w.closed {
		return
	}
	w.closed = true
	w.s.count.Add(-1)
	w.heartbeat.stop(w.s)
	w.of.Left()
}

// Next waits for the next frame and returns it. It returns io.EOF at the end of the watch, and the cause of ctx when ctx is done.
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
				continue // Return the events that were published before the end.
			}
			w.o.Follow = false
			return call.Frame{Key: w.of.Key(), Cursor: w.Cursor(), Closing: true}, nil
		case <-w.heartbeat.due(w.s):
			return call.Frame{Key: w.of.Key(), Heartbeat: true}, nil
		}
	}
}

// Wait waits at most d until the call is terminal or suspended, and returns its current record. It closes the watcher.
func (w *CallWatcher) Wait(ctx context.Context, d time.Duration) (*call.Call, error) {
	defer w.Close()
	w.yield()
	var timer *time.Timer
	for {
		c, changed, err := w.of.Idle()
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
				return nil, refusal.OfCall(err, w.of.Key().ID) // The journal failed. It is unknown whether it contains the call.
			}
			return w.Call(), nil
		}
	}
}

// yield lets a new call run before its watcher reads the log. The result of a quick tool is then in the first frame, which saves a message
// and a wake-up.
func (w *CallWatcher) yield() {
	if w.o.Fresh {
		w.o.Fresh = false
		runtime.Gosched()
	}
}

// opening returns the gap or the snapshot that begins the stream of a late watcher.
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

// look returns the next frame, or a channel to wait for. At the end of the watch it returns io.EOF.
func (w *CallWatcher) look(ctx context.Context) (call.Frame, <-chan struct{}, error) {
	if s := w.of.Shared(); s != nil && s.after == w.o.After {
		return w.take(s), nil, nil // This path takes no lock. Otherwise a thousand watchers that wake together would wait for each other.
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

// frame returns a frame with events from memory. When events is nil, it reads them from the journal.
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

// ReadAhead is the number of events that a late watcher reads from the journal at once. It is several times the size of a frame, because a
// row of the journal may hold many events and is always decoded completely.
const ReadAhead = 4 * calllog.FrameEvents

// stored returns the next events from the journal, or a gap when retention has removed them.
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
	published := w.of.Published() // Do not return events that are written but not published yet.
	next := w.ahead[:min(len(w.ahead), calllog.FrameEvents, int(published-w.o.After))]
	if len(next) == 0 {
		return nil, nil, refusal.OfCall(store.ErrCorrupt, key.ID)
	}
	next = fitting(next)
	if w.ahead = w.ahead[len(next):]; len(w.ahead) == 0 {
		w.ahead = nil
	}
	next, err := w.s.hydrate(key, slices.Clone(next)) // Clone the events, so that ahead does not keep the output bytes of returned events in memory.
	return next, nil, err
}

// viewer returns the principal that watches. c is the watched call.
func (w *CallWatcher) viewer(c *call.Call) tool.Principal {
	if w.o.As == nil {
		return c.Caller
	}
	return *w.o.As
}

// shown returns the record of the watched call as the viewer may see it.
func (w *CallWatcher) shown(c *call.Call) *call.Call { return view.Call(w.viewer(c), c) }

// shownEvents returns events of the watched call as the viewer may see them.
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

// Share returns a frame with the newest events of a call that several watchers can use, and stores it in at. It returns nil when some of
// the events are not in memory, do not fit into one frame, or look different to different viewers. The caller holds the lock of the log.
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

// take returns a shared frame and moves the watcher behind it.
func (w *CallWatcher) take(s *SharedFrame) call.Frame {
	w.o.After, w.o.Epoch = s.last, s.epoch
	return call.Frame{Key: w.of.Key(), Events: s.events, Cursor: s.cursor, Shared: &s.form}
}
