package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

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
	change *store.Change
	record []byte // stored form of the change's call and events, when they are known before its documents are
	events []byte
	room   []byte                // that both are parts of
	silent bool                  // events is empty because the record implies them, as it may in a pack
	told   []call.DocumentNotice // what its callbacks were told

	decision []byte // stored form of the change's decision, when its time is known before it is written

	admin func(*writer) error // what is no change; it is a group of its own
	bare  bool                // admin does without a transaction around it

	done func(error)
	err  error
}

func (o *op) size() int { return len(o.record) + len(o.events) + 256 }

// A writer owns the connection that writes.
type writer struct {
	s    *Store
	conn *sqlite.Conn

	groups, syncs *metric.Histogram // changes of a transaction; nanoseconds of one that waits for the disk

	mu       sync.Mutex
	arrived  *sync.Cond
	full     []*op // first lane
	normal   []*op // second lane
	stopping bool
	stopped  chan struct{}

	begun     atomic.Bool // the journal has the epoch; set by the goroutine that writes
	beginning atomic.Bool // a change that begins it is on its way

	// The rest belongs to the goroutine that writes.
	first       meta // what the epoch begins with
	position    int64
	synchronous store.Durability
	block       int64             // that members speaks of
	members     map[member]uint64 // bits of new calls that are not written yet
	gathered    gathering         // calls of a pack that is not written yet
	kept        []kept            // of the group
	// insertPacked are the statements for packs of 1, 2, ... calls
	insertPacked [packCalls]string
	written      int  // bytes since the last checkpoint
	documents    bool // the group changes some
}

func newWriter(s *Store, conn *sqlite.Conn) *writer {
	w := &writer{
		s: s, conn: conn, stopped: make(chan struct{}), members: map[member]uint64{}, insertPacked: insertPacked(),
		groups: metric.NewHistogram(1, 2, 4, 8, 16, 32, 64, 128, 256, 512), syncs: metric.NewTimes(),
	}
	w.arrived = sync.NewCond(&w.mu)
	return w
}

// recall reads what the writer keeps in memory.
func (w *writer) recall(m meta) error {
	w.position = m.position
	return known(query(w.conn, "SELECT 1 FROM tombstones LIMIT 1", func(*sqlite.Stmt) error {
		w.s.tombstones.Store(true)
		return nil
	}))
}

// Submit queues a change. done runs on the goroutine that writes and must not wait for the store.
func (s *Store) Submit(c *store.Change, done func(error)) {
	o, ok := s.ops.Get().(*op)
	if !ok {
		o = new(op)
	}
	o.change, o.done = c, done
	err := o.prepare()
	if err == nil {
		err = s.writer.submit(o, c.Durability)
	}
	if err != nil {
		s.recycle(o)
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
	b := o.room[:0]
	if o.change.Call != nil {
		if b, err = call.AppendCall(b, o.change.Call); err != nil {
			return err
		}
	}
	record := len(b)
	if o.silent = o.mayPack() && call.Implies(o.change.Call, o.change.Events); !o.silent && len(o.change.Events) > 0 {
		if b, err = call.AppendEvents(b, o.change.Events); err != nil {
			return err
		}
	}
	o.room, o.record, o.events = b, b[:record], b[record:]
	return nil
}

// keptRoom is how much of an op's memory is kept for a later one.
const keptRoom = 16 << 10

// recycle keeps the memory of an op that is done.
func (s *Store) recycle(o *op) {
	room := o.room
	if cap(room) > keptRoom {
		room = nil
	}
	*o = op{room: room}
	s.ops.Put(o)
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
func (s *Store) write(f func(*writer) error) error { return s.admin(&op{admin: f}) }

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

// mayPublish reports whether the journal has the epoch, and tries to store it otherwise. An event that is published before is
// lost with the epoch: the next start begins the same one, and would publish others under the same numbers.
func (w *writer) mayPublish() bool {
	if w.begun.Load() {
		return true
	}
	if w.beginning.CompareAndSwap(false, true) {
		o := &op{admin: func(*writer) error { return nil }, done: func(error) { w.beginning.Store(false) }}
		if w.submit(o, store.Full) != nil {
			w.beginning.Store(false)
		}
	}
	return w.begun.Load()
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
			w.s.recycle(o)
		}
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

// writeGroup commits a group. What fails as a whole for the sake of one is tried again one by one.
func (w *writer) writeGroup(group []*op) {
	defer w.tellDocuments(group)
	err := w.transaction(group)
	if errors.Is(err, store.ErrFull) && !group[0].bare && w.s.room.release() {
		err = w.transaction(group) // the reserve is for this
	}
	switch {
	case err == nil:
		w.checkpoint()
	case errors.Is(err, store.ErrFatal):
		w.s.refuse(store.ErrFatal)
		refuse(group, err)
	case errors.Is(err, store.ErrFull), len(group) == 1:
		refuse(group, err)
	default:
		for i := range group {
			w.writeGroup(group[i : i+1])
		}
	}
}

// tellDocuments forgets the lists of documents when the group may have changed one. What is no change of a call may change all.
func (w *writer) tellDocuments(group []*op) {
	if w.documents || group[0].admin != nil {
		w.s.documents.changed()
	}
	w.documents = false
}
