package postgres

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/metric"
	"github.com/toold-dev/toold/store"
)

// What one group may hold.
const (
	groupChanges = 512
	groupBytes   = 1 << 20
)

// An op is one thing to write.
type op struct {
	change   *store.Change
	record   []byte // stored form of the change's call and events, when they are known before its documents are
	events   []byte
	decision []byte // stored form of the change's decision, when its time is known before it is written

	told []call.DocumentNotice // what its callbacks were told

	admin func(context.Context, *writer) error // what is no change; it is a group of its own
	bare  bool                                 // admin does without a transaction around it
	slow  bool                                 // admin takes as long as it takes

	done func(error)
	err  error
}

func (o *op) size() int { return len(o.record) + len(o.events) + 256 }

// A writer owns the connection that writes.
type writer struct {
	s *Store

	sizes, syncs *metric.Histogram // changes of a transaction; nanoseconds from its begin to its end

	mu       sync.Mutex
	arrived  *sync.Cond
	full     []*op // first lane
	normal   []*op // second lane
	stopping bool
	stopped  chan struct{}

	// The rest belongs to the goroutine that writes.
	conn     *pgx.Conn // nil while it is lost
	pid      uint32    // of the session that was lost, or 0
	groups   int64     // that are committed
	unknown  bool      // nobody knows whether the next group is committed, too
	position int64     // the newest that was given
	pending  int64     // position with the group that is being written
	known    known

	created, changed, touched callColumns // of the group
}

func newWriter(s *Store, groups, position int64) *writer {
	w := &writer{
		s: s, groups: groups, position: position, stopped: make(chan struct{}),
		sizes: metric.NewHistogram(1, 2, 4, 8, 16, 32, 64, 128, 256, 512), syncs: metric.NewTimes(),
	}
	w.arrived = sync.NewCond(&w.mu)
	return w
}

// Submit queues a change. done runs on the goroutine that writes and must not wait for the store.
func (s *Store) Submit(c *store.Change, done func(error)) {
	o := &op{change: c, done: done}
	err := o.prepare()
	if err == nil {
		err = s.writer.submit(o, c.Durability)
	}
	if err != nil {
		done(err)
	}
}

// prepare encodes a change on the goroutine that submits it: the writer has enough to do. Documents may still change it.
func (o *op) prepare() (err error) {
	if err := o.change.Validate(); err != nil {
		return err
	}
	if d := o.change.Decision; d != nil && !d.Decision.Time.IsZero() {
		if o.decision, err = json.Marshal(d); err != nil {
			return err
		}
	}
	if len(o.change.Documents) > 0 {
		return nil
	}
	return o.encode()
}

func (o *op) encode() (err error) {
	if o.change.Call != nil {
		if o.record, err = call.EncodeCall(o.change.Call); err != nil {
			return err
		}
	}
	if len(o.change.Events) > 0 {
		o.events, err = call.EncodeEvents(o.change.Events)
	}
	return err
}

// Commit submits a change and waits.
func (s *Store) Commit(ctx context.Context, c *store.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	s.Submit(c, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write runs f as a transaction of its own.
func (s *Store) write(f func(context.Context, *writer) error) error { return s.admin(&op{admin: f}) }

// admin has the writer do what is no change.
func (s *Store) admin(o *op) error {
	done := make(chan error, 1)
	o.done = func(err error) { done <- err }
	if err := s.writer.submit(o, store.Full); err != nil {
		return err
	}
	return <-done
}

func (w *writer) submit(o *op, d store.Durability) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.s.refusal(); err != nil {
		return err
	}
	if w.stopping {
		return store.ErrClosed
	}
	if d == store.Full {
		w.full = append(w.full, o)
	} else {
		w.normal = append(w.normal, o)
	}
	w.arrived.Signal()
	return nil
}

// stop lets the writer finish what was submitted.
func (w *writer) stop() {
	w.mu.Lock()
	w.stopping = true
	w.arrived.Signal()
	w.mu.Unlock()
	<-w.stopped
}

// run writes until stop.
func (w *writer) run() {
	defer close(w.stopped)
	for group := w.take(); group != nil; group = w.take() {
		if err := w.s.refusal(); err != nil {
			refuse(group, err)
		} else {
			w.writeGroup(group)
		}
		for _, o := range group {
			o.done(o.err)
		}
		runtime.Gosched() // whom it told may have more for the next group
	}
}

func refuse(group []*op, err error) {
	for _, o := range group {
		o.err = err
	}
}

// take waits for something to write and returns what is there, or nil when there will be nothing more.
func (w *writer) take() []*op {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.full) == 0 && len(w.normal) == 0 {
		if w.stopping {
			return nil
		}
		w.arrived.Wait()
	}
	var group []*op
	size := 0
	for _, lane := range []*[]*op{&w.full, &w.normal} {
		n := 0
		for n < len(*lane) && len(group) < groupChanges && size < groupBytes {
			o := (*lane)[n]
			if o.admin != nil && len(group) > 0 {
				break
			}
			n++
			group = append(group, o)
			if o.admin != nil {
				*lane = (*lane)[n:]
				return group
			}
			size += o.size()
		}
		if *lane = (*lane)[n:]; len(*lane) > 0 {
			return group // the second lane goes when the first is empty
		}
		*lane = nil
	}
	return group
}
