package lifecycle

import (
	"context"
	"io"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// feed wakes the watchers of runs, threads and namespaces when something of theirs was committed: what others do costs
// them nothing.
type feed struct {
	mu      sync.Mutex
	waiting map[*store.Feed]chan struct{}
}

// wake tells those who watch this call.
func (f *feed) wake(c *call.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for watched, changed := range f.waiting {
		if shows(watched, c) {
			close(changed)
			delete(f.waiting, watched)
		}
	}
}

func shows(f *store.Feed, c *call.Call) bool {
	return f.Namespace == c.Namespace && (f.Run == "" || f.Run == c.Run.ID) && (f.Thread == "" || f.Thread == c.Run.Thread) && (f.Batch == "" || f.Batch == c.BatchID) &&
		(f.Caller == "" || f.Caller == c.Caller.Subject)
}

// wait returns what is closed when there may be something new.
func (f *feed) wait(watched *store.Feed) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, ok := f.waiting[watched]
	if !ok {
		if f.waiting == nil {
			f.waiting = map[*store.Feed]chan struct{}{}
		}
		changed = make(chan struct{})
		f.waiting[watched] = changed
	}
	return changed
}

func (f *feed) leave(watched *store.Feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, watched)
}

// WatchFeed follows the calls of a run, a thread, or of the whole namespace when both are empty. Whoever may not look at
// others' calls sees its own. The empty cursor starts with the oldest that is kept; when the whole namespace is followed, with
// what happens next.
func (e *Engine) WatchFeed(ctx context.Context, p tool.Principal, run, thread, cursor string, follow bool) (*Watcher, error) {
	f := store.Feed{Namespace: p.Namespace, Run: run, Thread: thread, Caller: p.Subject}
	if hasRole(p, "viewer") || hasRole(p, "operator") {
		f.Caller = ""
	} else if run == "" && thread == "" {
		return nil, call.Refuse(call.PermissionDenied, "ROLE_REQUIRED", "watching the namespace needs the role viewer or operator")
	}
	w := &Watcher{e: e, feed: &f, follow: follow, as: &p}
	if err := w.placeInFeed(ctx, cursor); err != nil {
		return nil, err
	}
	if cursor == "" && follow && run == "" && thread == "" {
		_, newest, err := e.store.Feed(ctx, f, 1<<62, 1)
		if err != nil {
			return nil, err
		}
		w.after = newest
	}
	e.stats.watchers.Add(1)
	return w, nil
}

// placeInFeed finds where a cursor stands; the empty one is the beginning.
func (w *Watcher) placeInFeed(ctx context.Context, cursor string) error {
	if cursor == "" {
		return nil
	}
	after, part, err := parseFeedCursor(cursor)
	if err != nil {
		return err
	}
	_, newest, err := w.e.store.Feed(ctx, *w.feed, 1<<62, 1)
	if err != nil {
		return err
	}
	if after > newest {
		return call.Refuse(call.OutOfRange, "CURSOR_OUT_OF_RANGE", "the cursor names position %d; the newest is %d", after, newest)
	}
	w.after, w.part = after, part
	return nil
}

// nextOfFeed is Next for feeds: one frame holds what one commit told of one call.
func (w *Watcher) nextOfFeed(ctx context.Context) (Frame, error) {
	for {
		changed, closing, rests := w.e.feed.wait(w.feed), w.e.isClosing(), w.rests() // before it is looked at what there is
		if !w.follow {
			w.e.settle()
		}
		entries, _, err := w.e.store.Feed(ctx, *w.feed, w.after, 1)
		if err != nil {
			return Frame{}, err
		}
		if len(entries) > 0 {
			return w.feedFrame(entries[0])
		}
		if !w.caughtUp {
			w.caughtUp = true
			return Frame{CaughtUp: true, Cursor: w.Cursor()}, nil
		}
		if !w.follow {
			return Frame{}, io.EOF
		}
		if rests {
			if f, ok, err := w.atRest(ctx, changed); ok || err != nil {
				return f, err
			}
		}
		if closing {
			w.follow = false
			return Frame{Cursor: w.Cursor(), Closing: true}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Frame{}, context.Cause(ctx)
		case <-w.e.closing:
		case <-w.beat():
			return Frame{Heartbeat: true}, nil
		}
	}
}

// feedFrame hands out an entry, or the next part of one that is larger than a frame.
func (w *Watcher) feedFrame(entry store.FeedEntry) (Frame, error) {
	if entry.Corrupt {
		w.after, w.part = entry.Position, 0
		gap := &Gap{Corrupt: true, Epoch: entry.Epoch}
		if entry.Last > 0 {
			gap.FirstKept = entry.Last + 1
		}
		return Frame{Key: entry.Key, Gap: gap, Cursor: w.Cursor()}, nil
	}
	if entry.Position != w.after+1 { // the one that was begun was trimmed or purged
		w.part = 0
	}
	events := entry.Events[min(w.part, len(entry.Events)):]
	all := len(events)
	events = fitting(events[:min(all, frameEvents)])
	if _, err := w.hydrate(entry.Key, events); err != nil {
		return Frame{}, err
	}
	if len(events) < all {
		w.after, w.part = entry.Position-1, w.part+len(events)
	} else {
		w.after, w.part = entry.Position, 0
	}
	return Frame{Key: entry.Key, Events: w.shownEvents(events), Cursor: w.Cursor()}, nil
}
