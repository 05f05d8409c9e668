package group

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/metric"
	"github.com/toold-dev/toold/store"
)

// The most that one group holds.
const (
	maxChanges = 512
	maxBytes   = 1 << 20
)

// keptMemory is how much of an op's memory is kept for a later one.
const keptMemory = 16 << 10

// A Database carries out the transactions of a writer, one after the other, on the writer's goroutine.
type Database interface {
	// Begin opens a transaction and reads what the plan asks for, its clock last.
	Begin(ctx context.Context, p *Plan) error
	// Apply writes what the plan decided.
	Apply(ctx context.Context, p *Plan) error
	// Commit ends the transaction. ErrFatal means that nobody knows whether it is committed; after any other error it is not.
	Commit(ctx context.Context, p *Plan) error
	// Failed ends a transaction after an error and returns what the error means. again says that the same group is to be
	// tried again at once.
	Failed(ctx context.Context, p *Plan, err error) (again bool, _ error)
	// Read reads what a plan asks for inside the open transaction.
	Read(ctx context.Context, p *Plan) error
	// RemoveAction and InsertBatch write inside the open transaction: ErrNotFound when there is no such action, ErrExists or
	// ErrTrimmed when the batch is known.
	RemoveAction(ctx context.Context, namespace, id string) error
	InsertBatch(ctx context.Context, b *call.Batch, record []byte) error
}

// Config says how a writer behaves.
type Config struct {
	Database Database
	// Patience bounds a transaction; 0 is no bound.
	Patience time.Duration
	// Lost is called once when the writer ends with ErrFatal.
	Lost func(error)
}

// A Writer takes changes and writes them in groups.
type Writer struct {
	cfg  Config
	ops  sync.Pool // of *Op, for their memory
	plan Plan      // of the group that is being written

	Groups, Syncs *metric.Histogram // ops of a transaction; nanoseconds of one that waits for the disk

	mu       sync.Mutex
	arrived  *sync.Cond
	full     []*Op // written first
	normal   []*Op
	stopping bool
	stopped  chan struct{} // closed when Write has returned

	ended atomic.Pointer[error] // why every request is refused
	done  chan struct{}         // closed with ended
}

// New returns a writer. The caller runs [Writer.Write].
func New(cfg Config) *Writer {
	w := &Writer{
		cfg: cfg, stopped: make(chan struct{}), done: make(chan struct{}),
		Groups: metric.NewHistogram(1, 2, 4, 8, 16, 32, 64, 128, 256, 512), Syncs: metric.NewTimes(),
	}
	w.arrived = sync.NewCond(&w.mu)
	return w
}

// Submit queues a change. done runs on the goroutine that writes and must not wait for the store.
func (w *Writer) Submit(c *store.Change, done func(error)) {
	o := w.newOp(c)
	o.done = done
	err := o.prepare()
	if err == nil {
		err = w.submit(o, c.Durability)
	}
	if err != nil {
		w.recycle(o)
		done(err)
	}
}

func (w *Writer) newOp(c *store.Change) *Op {
	o, ok := w.ops.Get().(*Op)
	if !ok {
		o = new(Op)
	}
	o.Change = c
	return o
}

// recycle keeps the memory of an op that is done.
func (w *Writer) recycle(o *Op) {
	memory := o.memory
	if cap(memory) > keptMemory {
		memory = nil
	}
	*o = Op{memory: memory}
	w.ops.Put(o)
}

// Commit submits a change and waits.
func (w *Writer) Commit(ctx context.Context, c *store.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	w.Submit(c, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do has the writer carry out an op that is no change, and waits.
func (w *Writer) Do(o Op) error {
	done := make(chan error, 1)
	if err := w.Queue(o, func(err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

// Queue is Do that does not wait.
func (w *Writer) Queue(o Op, done func(error)) error {
	o.done = done
	return w.submit(&o, store.Full)
}

// Last carries out one op after Stop, on the goroutine of its caller.
func (w *Writer) Last(o Op) error {
	w.commit([]*Op{&o})
	return o.Err
}

func (w *Writer) submit(o *Op, d store.Durability) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.Refusal(); err != nil {
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

// Refuse ends the store with a reason and reports whether it is the first, which counts.
func (w *Writer) Refuse(err error) bool {
	first := w.ended.CompareAndSwap(nil, &err)
	if first {
		close(w.done)
	}
	return first
}

// Lose ends the store because nobody knows what is in the journal, or because it belongs to another daemon.
func (w *Writer) Lose(err error) {
	if !errors.Is(err, store.ErrFatal) {
		err = fmt.Errorf("%w: %w", store.ErrFatal, err)
	}
	if w.Refuse(err) && w.cfg.Lost != nil {
		w.cfg.Lost(err)
	}
}

// Refusal returns why requests are refused, or nil.
func (w *Writer) Refusal() error {
	if err := w.ended.Load(); err != nil {
		return *err
	}
	return nil
}

// Done is closed when requests are refused.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Stop lets the writer finish what was submitted. It waits for Write.
func (w *Writer) Stop() {
	w.mu.Lock()
	w.stopping = true
	w.arrived.Signal()
	w.mu.Unlock()
	<-w.stopped
}

// Stats returns what the writer has counted.
func (w *Writer) Stats() store.Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return store.Stats{Groups: w.Groups.Snapshot(), Syncs: w.Syncs.Snapshot(), Lanes: [2]int{len(w.full), len(w.normal)}}
}

// Write writes until Stop.
func (w *Writer) Write() {
	defer close(w.stopped)
	for ops := w.take(); ops != nil; ops = w.take() {
		if err := w.Refusal(); err != nil {
			refuse(ops, err)
		} else {
			w.commit(ops)
		}
		w.plan.reset(nil) // it holds nothing of a group that is done
		for _, o := range ops {
			err, done := o.Err, o.done
			w.recycle(o)
			done(err)
		}
		runtime.Gosched() // the callers may have more for the next group
	}
}

func refuse(ops []*Op, err error) {
	for _, o := range ops {
		o.Err = err
	}
}

// take waits for something to write and returns the next group, or nil after Stop. An op without a change is a group.
func (w *Writer) take() []*Op {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.full) == 0 && len(w.normal) == 0 {
		if w.stopping {
			return nil
		}
		w.arrived.Wait()
	}
	var ops []*Op
	size := 0
	for _, queue := range []*[]*Op{&w.full, &w.normal} {
		n := 0
		for n < len(*queue) && len(ops) < maxChanges && size < maxBytes {
			o := (*queue)[n]
			if o.Change == nil && len(ops) > 0 {
				break
			}
			n++
			ops = append(ops, o)
			if o.Change == nil {
				*queue = (*queue)[n:]
				return ops
			}
			size += o.Size()
		}
		if *queue = (*queue)[n:]; len(*queue) > 0 {
			return ops // the second queue is written when the first is empty
		}
		*queue = nil
	}
	return ops
}

// commit writes a group. One change may fail the whole group, so a group that fails is tried again one by one.
func (w *Writer) commit(ops []*Op) {
	again, err := true, error(nil)
	for again {
		again, err = w.transaction(ops)
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrFatal):
		w.Lose(err)
		refuse(ops, err)
	case errors.Is(err, store.ErrFull), len(ops) == 1:
		refuse(ops, err)
	default:
		for i := range ops {
			if refused := w.Refusal(); refused != nil {
				ops[i].Err = refused
				continue
			}
			w.commit(ops[i : i+1])
		}
	}
}

// transaction writes a group once. A nil error means that each op's Err says what became of it; with any other error
// nothing of the group is committed, or nobody knows (ErrFatal).
func (w *Writer) transaction(ops []*Op) (again bool, err error) {
	ctx, cancel := w.context(ops[0])
	defer cancel()
	p := &w.plan
	p.reset(ops)
	if ops[0].Bare {
		err = ops[0].Run(ctx, p)
	} else {
		err = w.steps(ctx, p)
	}
	if err == nil {
		w.Groups.Observe(int64(len(ops)))
		return false, nil
	}
	return w.cfg.Database.Failed(ctx, p, err)
}

func (w *Writer) steps(ctx context.Context, p *Plan) error {
	db := w.cfg.Database
	if err := db.Begin(ctx, p); err != nil {
		return err
	}
	if o := p.Ops[0]; o.Run != nil {
		if err := o.Run(ctx, p); err != nil {
			return err
		}
	} else {
		p.decide()
	}
	if err := db.Apply(ctx, p); err != nil {
		return err
	}
	return db.Commit(ctx, p)
}

// context bounds a transaction: by Patience, or by the life of the store when the op may take long.
func (w *Writer) context(o *Op) (context.Context, context.CancelFunc) {
	switch {
	case w.cfg.Patience == 0:
		return context.Background(), func() {}
	case !o.Bare && !o.Slow:
		return context.WithTimeout(context.Background(), w.cfg.Patience)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the first of them
		select {
		case <-w.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
