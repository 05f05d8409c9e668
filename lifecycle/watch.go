package lifecycle

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A frame holds at most this many events and bytes of output.
const (
	frameEvents = 256
	frameBytes  = 256 << 10
)

// A Frame is what a watcher gets at once: events of one call, or one control.
type Frame struct {
	Key    call.Key
	Events []call.Event
	Cursor string // where the watcher stands after this frame

	Snapshot  *call.Call // the call as it is: what follows comes after it
	Gap       *Gap
	CaughtUp  bool // what follows is new
	Heartbeat bool
	Closing   bool // the daemon is stopping: come back with the cursor

	Shared *Shared // the same frame is for other watchers too

	BatchFinished *BatchFinished // nothing of the batch can move: the watch ends
}

// A Gap says that events are missing.
type Gap struct {
	LostTail  bool  // a crash took events that the cursor knew; else retention trimmed the beginning
	Corrupt   bool  // the row of the events is damaged; of feeds alone
	FirstKept int64 // the sequence of the next event; 0 when a damaged row does not contain it
	Epoch     int64 // of what follows
}

// A Watcher follows one call, or the feed of many. It is used by one goroutine.
type Watcher struct {
	e *Engine
	l *live // nil for a feed

	after    int64 // newest sequence, or feed position, that was handed out
	part     int   // events of the next feed entry that were handed out
	epoch    int64
	ahead    []call.Event // read from the journal and not handed out
	snapshot bool         // a snapshot comes first
	gap      *Gap
	through  bool // goes on over suspensions
	follow   bool
	caughtUp bool
	named    bool // watches the call by its name: keeps it alive
	fresh    bool // nothing was handed out of a call that this watcher began
	closed   bool

	feed  *store.Feed
	batch *call.Batch     // whose calls the feed shows; nil for other feeds
	over  bool            // that it rests was told
	as    *tool.Principal // who watches; nil is the caller of the call

	// HeartbeatEvery makes Next return a heartbeat when nothing happens for so long; 0 is never.
	HeartbeatEvery time.Duration
	timer          *time.Timer
}

// freshWatcher returns the watcher of a call that begins. It takes over the caller's reference.
func freshWatcher(l *live, o ExecuteOptions) *Watcher {
	w := &Watcher{e: l.e, l: l, through: o.WaitForDecision, follow: true, named: true, fresh: true, epoch: l.e.epoch, caughtUp: true}
	l.watchers++ // nobody else knows the call yet
	l.e.stats.watchers.Add(1)
	return w
}

// newWatcher returns a watcher of a known call from a cursor on, or with a snapshot first. It takes over the caller's
// reference unless it fails.
func newWatcher(l *live, o ExecuteOptions, follow bool) (*Watcher, error) {
	w := &Watcher{e: l.e, l: l, through: o.WaitForDecision, follow: follow, named: true}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.Cursor == "" {
		w.snapshot, w.after = true, l.told
	} else {
		cur, err := parseCursor(o.Cursor)
		if err != nil {
			return nil, err
		}
		if err := w.placeLocked(cur); err != nil {
			return nil, err
		}
	}
	l.watchers++
	l.e.stats.watchers.Add(1)
	if l.linger != nil {
		l.linger.Stop()
		l.linger = nil
	}
	return w, nil
}

// checkCursor refuses what newWatcher would refuse.
func (l *live) checkCursor(text string) error {
	if text == "" {
		return nil
	}
	cur, err := parseCursor(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return (&Watcher{l: l}).placeLocked(cur)
}

// placeLocked finds where a cursor stands in the log as it is: events up to the last one of its epoch are what it knew.
func (w *Watcher) placeLocked(cur cursor) error {
	l := w.l
	last := l.told // that its epoch, or one before it, wrote
	for _, s := range l.c.Epochs {
		if s.Epoch > cur.epoch {
			last = s.First - 1
			break
		}
	}
	switch {
	case cur.epoch > l.e.epoch:
		return call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor is of a daemon that has not started yet")
	case cur.sequence <= last:
		w.after = cur.sequence
	case cur.epoch == l.e.epoch:
		return call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor names event %d; the newest is %d", cur.sequence, l.told)
	default: // a crash took what the cursor knew
		w.gap = &Gap{LostTail: true, FirstKept: last + 1, Epoch: epochAfter(l, cur.epoch, last)}
		w.after = last
	}
	w.epoch = l.c.EpochOf(w.after)
	return nil
}

// epochAfter returns the epoch in which the log goes on behind last: that of the next event, or of this daemon.
func epochAfter(l *live, lost, last int64) int64 {
	if next := l.c.EpochOf(last + 1); next > lost {
		return next
	}
	return l.e.epoch
}

// Watch follows a call by id. With follow it ends with the call, else when it has caught up.
func (e *Engine) Watch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (*Watcher, error) {
	l, err := e.acquireVisible(ctx, p, id)
	if err != nil {
		return nil, err
	}
	w, err := newWatcher(l, ExecuteOptions{Cursor: cursor, WaitForDecision: true}, follow)
	if err != nil {
		l.release()
		return nil, err
	}
	w.as = &p
	return w, nil
}

// acquireVisible finds a call that the principal may see.
func (e *Engine) acquireVisible(ctx context.Context, p tool.Principal, id string) (*live, error) {
	l, err := e.acquire(ctx, call.Key{Namespace: p.Namespace, ID: id})
	if err != nil {
		return nil, storeRefusal(err, id)
	}
	if !visible(p, l.record()) {
		l.release()
		return nil, unknownCall(id)
	}
	return l, nil
}

// CallID returns the id of the watched call; "" for a feed.
func (w *Watcher) CallID() string {
	if w.l == nil {
		return ""
	}
	return w.l.key.ID
}

// Call returns the watched call as it stands.
func (w *Watcher) Call() *call.Call { return w.shown(w.l.snapshot()) }

// Cursor returns where the watcher stands.
func (w *Watcher) Cursor() string {
	if w.feed != nil {
		return feedCursor(w.after, w.part)
	}
	return cursor{w.epoch, w.after}.String()
}

// Close ends the watch. A call that nobody watches by name any more may end after its linger time.
func (w *Watcher) Close() {
	if w.closed {
		return
	}
	w.closed = true
	w.e.stats.watchers.Add(-1)
	if w.timer != nil {
		w.timer.Stop()
		w.e.timers.Put(w.timer)
	}
	if w.l == nil {
		w.e.feed.leave(w.feed)
		return
	}
	w.l.left()
	w.l.release()
}

// Next returns the next frame, and io.EOF when the watch has come to its end. It waits no longer than ctx.
func (w *Watcher) Next(ctx context.Context) (Frame, error) {
	if w.feed != nil {
		return w.nextOfFeed(ctx)
	}
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
			return Frame{}, context.Cause(ctx)
		case <-w.e.closing:
			if w.caughtUp && w.behindNow() {
				continue
			}
			w.follow = false
			return Frame{Key: w.l.key, Cursor: w.Cursor(), Closing: true}, nil
		case <-w.beat():
			return Frame{Key: w.l.key, Heartbeat: true}, nil
		}
	}
}

// yield lets the call go first when it has just begun: what a tool answers at once is in the first frame, which saves a
// message and a wake-up.
func (w *Watcher) yield() {
	if w.fresh {
		w.fresh = false
		runtime.Gosched()
	}
}

// behindNow reports whether there is something to hand out before the end.
func (w *Watcher) behindNow() bool {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.told > w.after
}

// beat returns what fires when a heartbeat is due.
func (w *Watcher) beat() <-chan time.Time {
	if w.HeartbeatEvery <= 0 {
		return nil
	}
	if w.timer == nil {
		w.timer, _ = w.e.timers.Get().(*time.Timer)
	}
	if w.timer == nil {
		w.timer = time.NewTimer(w.HeartbeatEvery)
	} else {
		w.timer.Reset(w.HeartbeatEvery)
	}
	return w.timer.C
}

// opening returns what a watcher that joins late gets first.
func (w *Watcher) opening() (Frame, bool) {
	switch {
	case w.gap != nil:
		f := Frame{Key: w.l.key, Gap: w.gap, Cursor: w.Cursor()}
		w.gap = nil
		return f, true
	case w.snapshot:
		w.snapshot = false
		w.l.mu.Lock()
		c := w.l.snapshotLocked()
		w.after = w.l.told
		w.l.mu.Unlock()
		w.epoch = max(c.EpochOf(w.after), 1)
		return Frame{Key: w.l.key, Snapshot: w.shown(c), Cursor: w.Cursor()}, true
	}
	return Frame{}, false
}

// look returns the next events, the end, or what to wait for.
func (w *Watcher) look(ctx context.Context) (Frame, <-chan struct{}, error) {
	l := w.l
	if s := l.shared.Load(); s != nil && s.after == w.after {
		return w.take(s), nil, nil // a thousand who are woken at once do not wait for each other here
	}
	l.mu.Lock()
	if l.lost != nil {
		defer l.mu.Unlock()
		return Frame{}, nil, l.lost
	}
	if l.told > w.after {
		if s := w.sharedLocked(); s != nil {
			l.mu.Unlock()
			return w.take(s), nil, nil
		}
		events := l.tailAfterLocked(w.after)
		l.mu.Unlock()
		f, err := w.hand(ctx, events)
		return f, nil, err
	}
	defer l.mu.Unlock()
	switch s := l.c.Status; {
	case s.Terminal(), s == call.Suspended && !w.through, !w.follow:
		return Frame{}, nil, io.EOF
	}
	if !w.caughtUp {
		w.caughtUp = true
		return Frame{Key: l.key, CaughtUp: true, Cursor: w.Cursor()}, nil, nil
	}
	return Frame{}, l.waitLocked(), nil
}

// tailAfterLocked returns what memory has behind a sequence, or nil when it does not reach back so far.
func (l *live) tailAfterLocked(after int64) []call.Event {
	if len(l.tail) == 0 || l.tail[0].Sequence > after+1 {
		return nil
	}
	rest := l.tail[after+1-l.tail[0].Sequence:]
	if len(l.tail) <= fewEvents {
		return slices.Clip(rest) // what is told is only ever appended to
	}
	return slices.Clone(rest[:min(len(rest), frameEvents)]) // a slow watcher must not keep the whole tail alive
}

// hand makes a frame of events from memory, or of what the journal has when they are gone from it.
func (w *Watcher) hand(ctx context.Context, events []call.Event) (Frame, error) {
	if events == nil {
		var gap *Gap
		var err error
		if events, gap, err = w.stored(ctx); err != nil {
			return Frame{}, err
		}
		if gap != nil {
			return Frame{Key: w.l.key, Gap: gap, Cursor: w.Cursor()}, nil
		}
	}
	events = fitting(events)
	w.after = events[len(events)-1].Sequence
	w.epoch = w.l.epochOf(w.after)
	return Frame{Key: w.l.key, Events: w.shownEvents(events), Cursor: w.Cursor()}, nil
}

// readAhead is how many events a watcher that is behind reads at once: a row of the journal may hold many, and is decoded
// whole.
const readAhead = 4 * frameEvents

// stored returns the next events from the journal, or the gap that retention left.
func (w *Watcher) stored(ctx context.Context) ([]call.Event, *Gap, error) {
	if len(w.ahead) == 0 || w.ahead[0].Sequence != w.after+1 {
		kept, first, err := w.e.store.Events(ctx, w.l.key, w.after, readAhead)
		if err != nil {
			return nil, nil, storeRefusal(err, w.l.key.ID)
		}
		if first > w.after+1 {
			w.after, w.epoch = first-1, w.l.epochOf(first-1)
			return nil, &Gap{FirstKept: first, Epoch: w.l.epochOf(first)}, nil
		}
		w.ahead = kept
	}
	told := w.toldNow() // what is written but not told yet has to wait
	next := w.ahead[:min(len(w.ahead), frameEvents, int(told-w.after))]
	if len(next) == 0 {
		return nil, nil, storeRefusal(store.ErrCorrupt, w.l.key.ID)
	}
	next = fitting(next)
	if w.ahead = w.ahead[len(next):]; len(w.ahead) == 0 {
		w.ahead = nil
	}
	next, err := w.hydrate(w.l.key, slices.Clone(next)) // what is read ahead must not keep the bytes of what was sent
	return next, nil, err
}

func (w *Watcher) toldNow() int64 {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.told
}

func (l *live) epochOf(sequence int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.EpochOf(sequence)
}

// fitting returns the first events, as many as a frame takes.
func fitting(events []call.Event) []call.Event {
	size := 0
	for i := range events {
		if size += events[i].Weight(); size > frameBytes && i > 0 {
			return events[:i]
		}
	}
	return events
}

// hydrate reads the bytes of output back from the spool, up to what fits a frame.
func (w *Watcher) hydrate(key call.Key, events []call.Event) ([]call.Event, error) {
	size := 0
	for i := range events {
		o := events[i].Output
		if o == nil || o.Bytes != nil {
			continue
		}
		if size += o.Length; size > frameBytes && i > 0 {
			break
		}
		b := make([]byte, o.Length)
		n, err := w.e.spool.ReadAt(key, o.Stream, b, o.Offset)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		filled := *o
		filled.Bytes = b[:n]
		events[i].Output = &filled
	}
	return events, nil
}
