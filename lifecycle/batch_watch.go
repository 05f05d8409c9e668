package lifecycle

import (
	"context"
	"io"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A BatchFinished says what became of the calls of a batch in which nothing can move, for now or for good.
type BatchFinished struct {
	BatchID string
	Calls   []*call.Call // in model order, as they stand; those that cannot be read have an id alone
	Open    []string     // those that have not ended
}

// attachBatch joins a batch that is known: the same request attaches, another one is a reuse of the id.
func (e *Engine) attachBatch(ctx context.Context, p tool.Principal, record *call.Batch, digest string, o ExecuteOptions) (*Watcher, error) {
	if record.Digest != digest {
		return nil, call.Refuse(call.AlreadyExists, "BATCH_ID_REUSED", "batch_id %q belongs to another batch; ids are never used twice", record.ID)
	}
	w, err := e.watchBatch(ctx, p, record, o.Cursor)
	if err == nil {
		w.follow, w.through, w.caughtUp = true, o.WaitForDecision, true
	}
	return w, err
}

// WatchBatch follows the calls of a batch, over suspensions to the end of the last; without follow it ends when it has caught
// up.
func (e *Engine) WatchBatch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (*Watcher, error) {
	record, err := e.seeBatch(ctx, p, id)
	if err != nil {
		return nil, err
	}
	w, err := e.watchBatch(ctx, p, record, cursor)
	if err == nil {
		w.follow, w.through = follow, true
	}
	return w, err
}

// seeBatch finds a batch that the principal may see.
func (e *Engine) seeBatch(ctx context.Context, p tool.Principal, id string) (*call.Batch, error) {
	record, err := e.store.Batch(ctx, call.Key{Namespace: p.Namespace, ID: id})
	if err == nil && record.Caller != p.Subject && !overlooks(p) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, batchRefusal(err, id)
	}
	return record, nil
}

func (e *Engine) watchBatch(ctx context.Context, p tool.Principal, record *call.Batch, cursor string) (*Watcher, error) {
	f := store.Feed{Namespace: p.Namespace, Batch: record.ID}
	w := &Watcher{e: e, feed: &f, batch: record, as: &p}
	if err := w.placeInFeed(ctx, cursor); err != nil {
		return nil, err
	}
	e.stats.watchers.Add(1)
	return w, nil
}

// BatchID returns the id of the watched batch; "" when none is.
func (w *Watcher) BatchID() string {
	if w.batch == nil {
		return ""
	}
	return w.batch.ID
}

// rests reports whether nothing of the watched batch can move. While a daemon stops, what has not begun may yet: by the next.
func (w *Watcher) rests() bool {
	return w.batch != nil && w.follow && !w.e.batches.has(w.batch.Key())
}

// finished says what became of a batch that rests. ok is false when the watcher goes on, also when it does not rest any more: what was
// read may be of calls whose events the watcher has not seen.
func (w *Watcher) finished(ctx context.Context, changed <-chan struct{}) (f Frame, ok bool, err error) {
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
	moves := slices.ContainsFunc(done.Calls, func(c *call.Call) bool { return c.Operation() != nil && !w.e.holds(c) }) // by itself, later
	if len(done.Open) > 0 && (w.through || moves || w.e.Draining()) {
		return f, false, nil
	}
	for i, c := range done.Calls {
		done.Calls[i] = w.shown(c)
	}
	w.over = true
	return Frame{BatchFinished: done, Cursor: w.Cursor()}, true, nil
}

func (e *Engine) finished(ctx context.Context, record *call.Batch) (*BatchFinished, error) {
	page, err := e.store.Calls(ctx, store.Query{Namespace: record.Namespace, Batch: record.ID, OldestFirst: true, Limit: maxBatch})
	if err != nil {
		return nil, err
	}
	known := make(map[string]*call.Call, len(page.Calls))
	for _, c := range page.Calls {
		known[c.ID] = c
	}
	done := &BatchFinished{BatchID: record.ID}
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

// atRest is what a watcher of a batch that found nothing new gets: the end, or what is nil. changed is closed when there is something new.
func (w *Watcher) atRest(ctx context.Context, changed <-chan struct{}) (Frame, bool, error) {
	if w.over {
		return Frame{}, true, io.EOF
	}
	return w.finished(ctx, changed)
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
