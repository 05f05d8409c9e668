package lifecycle

import (
	"context"
	"io"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A batchWatcher implements [call.Stream] for the calls of a batch.
type batchWatcher struct {
	feedWatcher
	batch   *call.Batch
	through bool // continues across suspensions
	over    bool // Next returned BatchFinished
}

// attachBatch joins a batch that is known: the same request attaches, another one is a reuse of the id.
func (e *Engine) attachBatch(ctx context.Context, p tool.Principal, record *call.Batch, digest string, o call.ExecuteOptions) (call.Stream, error) {
	if record.Digest != digest {
		return nil, call.Refuse(call.AlreadyExists, "BATCH_ID_REUSED", "batch_id %q belongs to another batch; ids are never used twice", record.ID)
	}
	w, err := e.watchBatch(ctx, p, record, o.Cursor)
	if err != nil {
		return nil, err
	}
	w.follow, w.through, w.caughtUp = true, o.WaitForDecision, true
	return w, nil
}

// WatchBatch follows the calls of a batch, across suspensions to the end of the last call. Without follow it ends when it has
// caught up.
func (e *Engine) WatchBatch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (call.Stream, error) {
	record, err := e.seeBatch(ctx, p, id)
	if err != nil {
		return nil, err
	}
	w, err := e.watchBatch(ctx, p, record, cursor)
	if err != nil {
		return nil, err
	}
	w.follow, w.through = follow, true
	return w, nil
}

// seeBatch finds a batch that the principal may see.
func (e *Engine) seeBatch(ctx context.Context, p tool.Principal, id string) (*call.Batch, error) {
	record, err := e.store.Batch(ctx, call.Key{Namespace: p.Namespace, ID: id})
	if err == nil && record.Caller != p.Subject && !view.SeesAll(p) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, batchRefusal(err, id)
	}
	return record, nil
}

func (e *Engine) watchBatch(ctx context.Context, p tool.Principal, record *call.Batch, cursor string) (*batchWatcher, error) {
	w := &batchWatcher{batch: record, feedWatcher: feedWatcher{e: e, as: p, feed: store.Feed{Namespace: p.Namespace, Batch: record.ID}}}
	if err := w.start(ctx, cursor); err != nil {
		return nil, err
	}
	e.stats.watchers.Add(1)
	return w, nil
}

// Next implements [call.Stream].
func (w *batchWatcher) Next(ctx context.Context) (call.Frame, error) {
	for {
		changed, closing, rests := w.e.feed.wait(&w.feed), w.e.drain.Closing(), w.rests() // before look: what changes later wakes the watcher
		if f, found, err := w.look(ctx); found || err != nil {
			return f, err
		}
		if rests && w.over {
			return call.Frame{}, io.EOF
		}
		if rests {
			if f, found, err := w.finished(ctx, changed); found || err != nil {
				return f, err
			}
		}
		if f, found, err := w.wait(ctx, changed, closing); found || err != nil {
			return f, err
		}
	}
}

// rests reports whether no call of the watched batch can change. While a daemon stops, a call that has not begun may yet: the
// next daemon runs it.
func (w *batchWatcher) rests() bool { return w.follow && !w.e.batches.has(w.batch.Key()) }

// finished returns the calls of a batch that rests. found is false when the watcher continues, also when the batch does not rest
// any more: the records may be newer than the events that the watcher returned.
func (w *batchWatcher) finished(ctx context.Context, changed <-chan struct{}) (f call.Frame, found bool, err error) {
	done, err := w.e.finished(ctx, w.batch)
	if err != nil {
		return f, false, err
	}
	select {
	case <-changed:
		return f, false, nil
	default:
	}
	if !w.rests() {
		return f, false, nil
	}
	moves := slices.ContainsFunc(done.Calls, func(c *call.Call) bool { return c.Operation() != nil && !w.e.held.Holds(c) }) // by itself, later
	if len(done.Open) > 0 && (w.through || moves || w.e.drain.Refusing()) {
		return f, false, nil
	}
	for i, c := range done.Calls {
		done.Calls[i] = view.Call(w.as, c)
	}
	w.over = true
	return call.Frame{BatchFinished: done, Cursor: w.Cursor()}, true, nil
}

func (e *Engine) finished(ctx context.Context, record *call.Batch) (*call.BatchFinished, error) {
	page, err := e.store.Calls(ctx, call.Query{Namespace: record.Namespace, Batch: record.ID, OldestFirst: true, Limit: maxBatch})
	if err != nil {
		return nil, err
	}
	known := make(map[string]*call.Call, len(page.Calls))
	for _, c := range page.Calls {
		known[c.ID] = c
	}
	done := &call.BatchFinished{BatchID: record.ID}
	for i, id := range record.Calls {
		c := known[id]
		if c == nil {
			c = &call.Call{Namespace: record.Namespace, ID: id, BatchID: record.ID, BatchPosition: i + 1}
		} else if !c.Status.Terminal() {
			done.Open = append(done.Open, id)
		}
		done.Calls = append(done.Calls, c)
	}
	return done, nil
}

// wakeBatch tells the watchers of a batch that it rests.
func (f *feed) wakeBatch(key call.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for watched, changed := range f.waiting {
		if watched.Namespace == key.Namespace && watched.Batch == key.ID {
			close(changed)
			delete(f.waiting, watched)
		}
	}
}
