package watch

import (
	"context"
	"io"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A batchWatcher implements [call.Stream] for the calls of a batch.
type batchWatcher struct {
	feedWatcher
	batch   *call.Batch
	through bool // the stream continues while calls are suspended
	over    bool // Next has returned BatchFinished
}

// See returns the record of a batch if the principal may see it.
func (s *Service) See(ctx context.Context, p tool.Principal, id string) (*call.Batch, error) {
	record, err := s.cfg.Store.Batch(ctx, call.Key{Namespace: p.Namespace, ID: id})
	if err == nil && record.Caller != p.Subject && !view.SeesAll(p) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, refusal.OfBatch(err, id)
	}
	return record, nil
}

// BatchState returns the record of a batch and its calls as they are now, as far as the principal may see them.
func (s *Service) BatchState(ctx context.Context, p tool.Principal, id string) (*call.Batch, *call.BatchFinished, error) {
	record, err := s.See(ctx, p, id)
	if err != nil {
		return nil, nil, err
	}
	state, err := s.finished(ctx, record)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range state.Calls {
		state.Calls[i] = view.Call(p, c)
	}
	return record, state, nil
}

// WatchBatch streams the events of a batch's calls until the last call ends. The stream continues while calls are suspended. Without follow
// it ends after the events that exist now.
func (s *Service) WatchBatch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (call.Stream, error) {
	record, err := s.See(ctx, p, id)
	if err != nil {
		return nil, err
	}
	w := s.newBatchWatcher(p, record)
	w.follow, w.through = follow, true
	return s.begin(ctx, w, cursor)
}

// Attach streams the events of a batch's calls to the client that sent the batch. Without [call.ExecuteOptions.WaitForDecision] the stream
// ends when each call has ended or waits for a decision.
func (s *Service) Attach(ctx context.Context, p tool.Principal, record *call.Batch, o call.ExecuteOptions) (call.Stream, error) {
	w := s.newBatchWatcher(p, record)
	w.follow, w.through, w.caughtUp = true, o.WaitForDecision, true
	return s.begin(ctx, w, o.Cursor)
}

func (s *Service) newBatchWatcher(p tool.Principal, record *call.Batch) *batchWatcher {
	return &batchWatcher{batch: record, feedWatcher: feedWatcher{s: s, as: p, feed: store.Feed{Namespace: p.Namespace, Batch: record.ID}}}
}

func (s *Service) begin(ctx context.Context, w *batchWatcher, cursor string) (call.Stream, error) {
	if err := w.start(ctx, cursor); err != nil {
		return nil, err
	}
	s.count.Add(1)
	return w, nil
}

func (w *batchWatcher) Next(ctx context.Context) (call.Frame, error) {
	for {
		changed, closing, idle := w.s.wait(&w.feed), w.s.cfg.Drain.Closing(), w.idle() // Read these before look, so that a change after look wakes the watcher.
		if f, found, err := w.look(ctx); found || err != nil {
			return f, err
		}
		if idle && w.over {
			return call.Frame{}, io.EOF
		}
		if idle {
			if f, found, err := w.finished(ctx, changed); found || err != nil {
				return f, err
			}
		}
		if f, found, err := w.wait(ctx, changed, closing); found || err != nil {
			return f, err
		}
	}
}

// idle reports whether this daemon changes no call of the batch before a decision or the end of work outside the daemon. A batch is also
// idle while the daemon stops, although the next daemon will start further calls.
func (w *batchWatcher) idle() bool { return w.follow && !w.s.cfg.Moves(w.batch.Key()) }

// finished returns the frame that ends the stream of an idle batch. found is false when the watcher must continue. It is also false
// when the batch has become active again, because the records may then be newer than the events that the watcher has returned.
func (w *batchWatcher) finished(ctx context.Context, changed <-chan struct{}) (f call.Frame, found bool, err error) {
	done, err := w.s.finished(ctx, w.batch)
	if err != nil {
		return f, false, err
	}
	select {
	case <-changed:
		return f, false, nil
	default:
	}
	if !w.idle() {
		return f, false, nil
	}
	moves := slices.ContainsFunc(done.Calls, func(c *call.Call) bool { return c.Operation() != nil && !w.s.cfg.Held(c) }) // Such a call can change without a client, because its operation continues.
	if len(done.Open) > 0 && (w.through || moves || w.s.cfg.Drain.Refusing()) {
		return f, false, nil
	}
	for i, c := range done.Calls {
		done.Calls[i] = view.Call(w.as, c)
	}
	w.over = true
	return call.Frame{BatchFinished: done, Cursor: w.Cursor()}, true, nil
}

func (s *Service) finished(ctx context.Context, record *call.Batch) (*call.BatchFinished, error) {
	page, err := s.cfg.Store.Calls(ctx, call.Query{Namespace: record.Namespace, Batch: record.ID, OldestFirst: true, Limit: len(record.Calls)})
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
