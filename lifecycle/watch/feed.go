package watch

import (
	"context"
	"io"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A feedWatcher implements [call.Stream] for the calls of a run, a thread or a namespace.
type feedWatcher struct {
	s    *Service
	feed store.Feed
	as   tool.Principal // the principal that watches

	after     int64 // position of the newest entry that Next returned completely
	part      int   // number of events of the next entry that Next returned
	follow    bool
	caughtUp  bool
	closed    bool
	heartbeat heartbeat
}

// WatchFeed streams the events of the calls of a run or of a thread. When both ids are empty, it streams the events of the whole namespace.
// A client that may not see the calls of others gets only the events of its own calls. An empty cursor starts at the oldest stored event. A
// watcher that follows the whole namespace starts at the next event instead.
func (s *Service) WatchFeed(ctx context.Context, p tool.Principal, run, thread, cursor string, follow bool) (call.Stream, error) {
	f, err := view.Feed(p, run, thread)
	if err != nil {
		return nil, err
	}
	w := &feedWatcher{s: s, feed: f, follow: follow, as: p}
	if err := w.start(ctx, cursor); err != nil {
		return nil, err
	}
	if cursor == "" && follow && run == "" && thread == "" {
		_, newest, err := s.cfg.Store.Feed(ctx, f, 1<<62, 1)
		if err != nil {
			return nil, err
		}
		w.after = newest
	}
	s.count.Add(1)
	return w, nil
}

// start sets the position of a watcher to the position of a cursor. An empty cursor means the beginning.
func (w *feedWatcher) start(ctx context.Context, cursor string) error {
	if cursor == "" {
		return nil
	}
	after, part, err := ParseFeedCursor(cursor)
	if err != nil {
		return err
	}
	_, newest, err := w.s.cfg.Store.Feed(ctx, w.feed, 1<<62, 1)
	if err != nil {
		return err
	}
	if after > newest {
		return call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor names position %d; the newest is %d", after, newest)
	}
	w.after, w.part = after, part
	return nil
}

func (w *feedWatcher) Cursor() string { return feedCursor(w.after, w.part) }

func (w *feedWatcher) Close() {
	if w.closed {
		return
	}
	w.closed = true
	w.s.count.Add(-1)
	w.heartbeat.stop(w.s)
	w.s.leave(&w.feed)
}

// Next implements [call.Stream]. All events of a frame belong to one call and one commit.
func (w *feedWatcher) Next(ctx context.Context) (call.Frame, error) {
	for {
		changed, closing := w.s.wait(&w.feed), w.s.cfg.Drain.Closing() // Read these before look, so that a change after look wakes the watcher.
		if f, found, err := w.look(ctx); found || err != nil {
			return f, err
		}
		if f, found, err := w.wait(ctx, changed, closing); found || err != nil {
			return f, err
		}
	}
}

// look returns the next entry or control frame, and io.EOF after the last one. found is false when the watcher must wait.
func (w *feedWatcher) look(ctx context.Context) (f call.Frame, found bool, err error) {
	if !w.follow {
		w.s.cfg.Settle()
	}
	entries, _, err := w.s.cfg.Store.Feed(ctx, w.feed, w.after, 1)
	switch {
	case err != nil:
		return call.Frame{}, false, err
	case len(entries) > 0:
		f, err = w.frame(entries[0])
		return f, true, err
	case !w.caughtUp:
		w.caughtUp = true
		return call.Frame{CaughtUp: true, Cursor: w.Cursor()}, true, nil
	case !w.follow:
		return call.Frame{}, false, io.EOF
	}
	return call.Frame{}, false, nil
}

// wait waits until there may be new entries or a control frame is due. closing reports that the streams had to end already before the last
// look; if so, wait returns the last frame.
func (w *feedWatcher) wait(ctx context.Context, changed <-chan struct{}, closing bool) (f call.Frame, found bool, err error) {
	if closing {
		w.follow = false
		return call.Frame{Cursor: w.Cursor(), Closing: true}, true, nil
	}
	select {
	case <-changed:
	case <-ctx.Done():
		return call.Frame{}, false, context.Cause(ctx)
	case <-w.s.cfg.Drain.Closed():
	case <-w.heartbeat.due(w.s):
		return call.Frame{Heartbeat: true}, true, nil
	}
	return call.Frame{}, false, nil
}

// frame returns the events of an entry, or the next part of an entry that is larger than a frame.
func (w *feedWatcher) frame(entry store.FeedEntry) (call.Frame, error) {
	if entry.Corrupt {
		w.after, w.part = entry.Position, 0
		gap := &call.Gap{Corrupt: true, Epoch: entry.Epoch}
		if entry.Last > 0 {
			gap.FirstKept = entry.Last + 1
		}
		return call.Frame{Key: entry.Key, Gap: gap, Cursor: w.Cursor()}, nil
	}
	if entry.Position != w.after+1 { // If part counts events, the entry that it belongs to was trimmed or purged meanwhile.
		w.part = 0
	}
	events := entry.Events[min(w.part, len(entry.Events)):]
	all := len(events)
	events = fitting(events[:min(all, calllog.FrameEvents)])
	if _, err := w.s.hydrate(entry.Key, events); err != nil {
		return call.Frame{}, err
	}
	if len(events) < all {
		w.after, w.part = entry.Position-1, w.part+len(events)
	} else {
		w.after, w.part = entry.Position, 0
	}
	return call.Frame{Key: entry.Key, Events: view.FeedEvents(w.as, events), Cursor: w.Cursor()}, nil
}
