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
	"github.com/toold-dev/toold/store/rows"
)

// The limits of one group.
const (
	maxChanges = 512
	maxBytes   = 1 << 20
)

// keptMemory is the largest buffer, in bytes, that an op keeps for its next use.
const keptMemory = 16 << 10

// A Database runs the transactions of a writer, one after the other, on the writer's goroutine.
type Database interface {
	// Begin opens a transaction, reads the data that the plan asks for, and then reads the clock.
	Begin(ctx context.Context, p *Plan) error
	// Apply writes what the plan has decided.
	Apply(ctx context.Context, p *Plan) error
	// Commit ends the transaction. ErrFatal means that it is unknown whether the transaction is committed. After any other error it is not
	// committed.
	Commit(ctx context.Context, p *Plan) error
	// Failed ends a transaction after the error err. It returns the error of package store that describes err. If again is true, the writer
	// writes the same group again at once.
	Failed(ctx context.Context, p *Plan, err error) (again bool, _ error)
	// Read reads the data that a plan asks for, inside the open transaction.
	Read(ctx context.Context, p *Plan) error
	// Query runs a statement inside the open transaction and invokes row with each row. SQLite numbers the parameters $1, $2, … in the order
	// in which the text first uses them.
	Query(ctx context.Context, text string, row func(rows.Row) error, args ...any) error
	// Row reads a call inside the open transaction. If the call is stored in a pack with other calls, Row first moves it to a separate row
	// of the table calls. Errors: ErrNotFound, ErrTrimmed.
	Row(ctx context.Context, key call.Key) (rows.Call, error)
}

// Config configures a Writer.
type Config struct {
	Database Database
	// Timeout is the time limit of a transaction. Zero means no limit.
	Timeout time.Duration
	// Lost is called once when the writer stops with ErrFatal.
	Lost func(error)
}

// A Writer accepts changes and writes them in groups.
type Writer struct {
	cfg  Config
	ops  sync.Pool // *Op values, to reuse their buffers
	plan Plan      // the group that is being written

	Groups, Syncs *metric.Histogram // Groups counts the ops of each transaction; Syncs measures commits that wait for the disk, in nanoseconds

	mu       sync.Mutex
	arrived  *sync.Cond
	full     []*Op // Full ops, written first
	normal   []*Op
	stopping bool
	stopped  chan struct{} // closed when Write has returned

	ended atomic.Pointer[error] // the reason why every request is refused; nil while the writer works
	done  chan struct{}         // closed when ended is set
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

// Submit queues a change. done is called in the writing goroutine, or before Submit returns when the change is refused at once. done must
// not wait for the store.
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

// recycle keeps a finished op for reuse, with its buffer.
func (w *Writer) recycle(o *Op) {
	memory := o.memory
	if cap(memory) > keptMemory {
		memory = nil
	}
	*o = Op{memory: memory}
	w.ops.Put(o)
}

// Commit submits a change and waits for its outcome.
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

// Do runs an op without a change on the writing goroutine and waits for its outcome.
func (w *Writer) Do(o Op) error {
	done := make(chan error, 1)
	if err := w.Queue(o, func(err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

// Queue is like Do, but does not wait. If Queue returns nil, the writer later invokes done with the outcome.
func (w *Writer) Queue(o Op, done func(error)) error {
	o.done = done
	return w.submit(&o, store.Full)
}

// Last runs one op in the goroutine of its caller. Stop must have been called before.
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

// Refuse stops the store with a reason. It reports whether this was the first reason; later ones are ignored.
func (w *Writer) Refuse(err error) bool {
	first := w.ended.CompareAndSwap(nil, &err)
	if first {
		close(w.done)
	}
	return first
}

// Lose stops the store because the state of the journal is unknown, or because another daemon owns the journal.
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

// Done returns a channel that is closed when the store begins to refuse all requests.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Stop refuses new ops and waits until Write has written the submitted ones.
func (w *Writer) Stop() {
	w.mu.Lock()
	w.stopping = true
	w.arrived.Signal()
	w.mu.Unlock()
	<-w.stopped
}

// Stats returns the counters of the writer.
func (w *Writer) Stats() store.Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return store.Stats{Groups: w.Groups.Snapshot(), Syncs: w.Syncs.Snapshot(), Waiting: [2]int{len(w.full), len(w.normal)}}
}

// Write writes groups until Stop.
func (w *Writer) Write() {
	defer close(w.stopped)
	for ops := w.take(); ops != nil; ops = w.take() {
		if err := w.Refusal(); err != nil {
			refuse(ops, err)
		} else {
			w.commit(ops)
		}
		w.plan.reset(nil) // Drop the ops of the group, so that the plan keeps none of its calls in memory.
		for _, o := range ops {
			err, done := o.Err, o.done
			w.recycle(o)
			done(err)
		}
		runtime.Gosched() // Let other goroutines submit changes for the next group.
	}
}

func refuse(ops []*Op, err error) {
	for _, o := range ops {
		o.Err = err
	}
}

// take waits for ops and returns the next group, or nil after Stop. An op without a Change forms a group of its own.
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
			return ops // The Normal queue must wait until the Full queue is empty.
		}
		*queue = nil
	}
	return ops
}

// commit writes a group. If the group fails, commit tries its changes one by one, because a single change can be the cause. It does not do
// so when the disk is full or the state of the journal is unknown.
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

// transaction writes a group once. When err is nil, each op's Err is its outcome. After ErrFatal it is unknown whether the group is
// committed. After any other error nothing of it is committed.
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

// context limits a transaction to Timeout. An op that may take long is limited only by the life of the store.
func (w *Writer) context(o *Op) (context.Context, context.CancelFunc) {
	switch {
	case w.cfg.Timeout == 0:
		return context.Background(), func() {}
	case !o.Bare && !o.Slow:
		return context.WithTimeout(context.Background(), w.cfg.Timeout)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // This goroutine ends when the store stops or the caller cancels.
		select {
		case <-w.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
