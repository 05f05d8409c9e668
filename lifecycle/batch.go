package lifecycle

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// A batch in memory is one of which something moves, or may: it begins the pipeline runs of its calls, each on the one path,
// and is gone when nothing can move any more. What it does next follows from the records of its calls alone, so that a
// restart, or a decision weeks later, goes on where it stood. One goroutine does all of that.
type activeBatch struct {
	e   *Engine
	key call.Key

	ready   chan struct{} // closed when the record is there, or err says why not
	err     error
	record  *call.Batch
	members []*activeCall // of its calls, in order; nil where a record cannot be read any more

	signal  chan struct{} // has room for one: something of the batch changed
	pending []*member     // allowed, and waiting for room to execute
	ended   bool          // and that is stored
}

// batches are those in memory.
type batches struct {
	mu   sync.Mutex
	of   map[call.Key]*activeBatch
	held map[call.Key]int // how many hold them still
	due  map[call.Key]int // how often they will be woken, because of what is stored now or was just stored

	recovering atomic.Bool // what the last daemon left is taken up, and one pipeline run of a call is enough
}

// reference returns a batch in memory and whether it was not there: then the caller carries it, or takes it out again.
func (s *batches) reference(e *Engine, key call.Key) (b *activeBatch, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.of[key]; b != nil {
		return b, false
	}
	b = &activeBatch{e: e, key: key, ready: make(chan struct{}), signal: make(chan struct{}, 1)}
	if s.of == nil {
		s.of = map[call.Key]*activeBatch{}
	}
	s.of[key] = b
	return b, true
}

// expect says that a batch will be woken: from here on nobody takes it for one that rests.
func (s *batches) expect(key call.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expectLocked(key)
}

func (s *batches) expectLocked(key call.Key) {
	if s.due == nil {
		s.due = map[call.Key]int{}
	}
	s.due[key]++
}

// met takes back what expect said.
func (s *batches) met(key call.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metLocked(key)
}

func (s *batches) metLocked(key call.Key) {
	if s.due[key]--; s.due[key] == 0 {
		delete(s.due, key)
	}
}

// poke tells a batch that is in memory that something changed, as was expected.
func (s *batches) poke(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of[key]
	if b == nil {
		return false
	}
	s.metLocked(key)
	select {
	case b.signal <- struct{}{}:
	default:
	}
	return true
}

// hold keeps a batch as it is, whether it is in memory or not, until the function that it returns has been called.
func (s *batches) hold(e *Engine, key call.Key) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[call.Key]int{}
	}
	s.held[key]++
	return func() {
		s.mu.Lock()
		if s.held[key]--; s.held[key] == 0 {
			delete(s.held, key)
		}
		s.expectLocked(key)
		s.mu.Unlock()
		e.wakeExpected(key)
	}
}

// still reports whether somebody holds a batch.
func (s *batches) still(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key] > 0
}

// drop takes a batch out of memory, unless something changed since it was looked at.
func (s *batches) drop(b *activeBatch, anyway bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.signal) > 0 && !anyway {
		return false
	}
	if s.of[b.key] == b {
		delete(s.of, b.key)
	}
	return true
}

// has reports whether something of a batch moves, or will when it was woken or nobody holds it still any more.
func (s *batches) has(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[key] != nil || s.held[key] > 0 || s.due[key] > 0
}

// moveInBatch is called before a change of a call is stored: from there on its batch does not rest. The function that it returns
// is told whether it was stored, and tells the batch.
func (e *Engine) moveInBatch(c *call.Call, before call.Status) func(stored bool) {
	if c.BatchID == "" || c.Status == before && c.Cancel == nil {
		return func(bool) {}
	}
	key := call.Key{Namespace: c.Namespace, ID: c.BatchID}
	e.batches.expect(key)
	return func(stored bool) {
		if stored {
			e.wakeExpected(key)
		} else {
			e.unexpect(key)
		}
	}
}

// unexpect says that a batch will not be woken after all.
func (e *Engine) unexpect(key call.Key) {
	e.batches.met(key)
	e.watches.WakeBatch(key)
}

// wakeBatch has somebody look what a batch can do now.
func (e *Engine) wakeBatch(namespace, id string) {
	key := call.Key{Namespace: namespace, ID: id}
	e.batches.expect(key)
	e.wakeExpected(key)
}

// wakeExpected wakes a batch for which that is expected. A drain begins nothing: the next daemon does. Neither does a recovery
// before it has seen all calls: recoverBatches wakes them then.
func (e *Engine) wakeExpected(key call.Key) {
	for !e.batches.recovering.Load() {
		switch {
		case e.batches.poke(key):
			return
		case !e.drain.Admit():
			e.unexpect(key)
			return
		}
		if b, fresh := e.batches.reference(e, key); fresh {
			e.batches.met(key)
			go b.takeUp()
			return
		}
		e.drain.Leave()
	}
	e.unexpect(key)
}

// takeUp loads a batch and does what can be done.
func (b *activeBatch) takeUp() {
	if b.load(); b.err == nil {
		b.carry()
		return
	}
	b.e.log.Error("batch not carried on", zap.String("batch_id", b.key.ID), zap.Error(b.err))
	b.e.batches.drop(b, true)
	b.e.drain.Leave()
	b.e.watches.WakeBatch(b.key)
}

// load reads a batch and its calls.
func (b *activeBatch) load() {
	defer close(b.ready)
	ctx := context.Background()
	if b.record, b.err = b.e.store.Batch(ctx, b.key); b.err != nil {
		return
	}
	b.members = make([]*activeCall, len(b.record.Calls))
	for i, id := range b.record.Calls {
		l, err := b.e.acquire(ctx, call.Key{Namespace: b.key.Namespace, ID: id})
		if err != nil {
			b.e.log.Error("call of a batch cannot be read; the others go on", zap.String("batch_id", b.key.ID), zap.String("call_id", id), zap.Error(err))
			continue
		}
		l.concurrent.Store(b.parallel())
		b.members[i] = l
	}
}

// carry does what can be done until nothing moves.
func (b *activeBatch) carry() {
	defer b.e.drain.Leave()
	for {
		b.advance()
		if b.e.batches.drop(b, false) {
			break
		}
		<-b.signal
	}
	for _, l := range b.members {
		if l != nil {
			l.release()
		}
	}
	b.e.watches.WakeBatch(b.key)
}

// endBatch is what happens at the end of a batch, when all of its calls have ended: the actions that wait for it are due. A
// crash in between has it done again, so each part of it must bear that; the end itself is stored last.
func (e *Engine) endBatch(ctx context.Context, key call.Key) error {
	if err := e.outbox.EndBatch(ctx, key.Namespace, key.ID); err != nil {
		return err
	}
	return e.store.EndBatch(ctx, key, e.store.Now())
}

// end ends the batch, once. What the journal may take later is tried again.
func (b *activeBatch) end() {
	if b.ended || !b.record.Ended.IsZero() {
		return
	}
	b.e.cfg.FailPoint("before-batch-end")
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := b.e.endBatch(context.Background(), b.key)
		if b.ended = err == nil; b.ended {
			return
		}
		if errors.Is(err, store.ErrFatal) {
			b.e.fatal(err)
		}
		if !transient(err) || b.e.drain.Ending() {
			b.e.log.Error("end of a batch not stored; the next start does it", zap.String("batch_id", b.key.ID), zap.Error(err))
			return
		}
		time.Sleep(wait)
	}
}

// recoverBatches goes on with what the last daemon had begun: decided and new calls, and ends that were not stored.
func (e *Engine) recoverBatches(ctx context.Context) error {
	e.batches.recovering.Store(false)
	var open []call.Key
	err := e.store.OpenBatches(ctx, func(key call.Key, _ *call.Batch, err error) error {
		if err != nil {
			e.log.Error("batch not recovered: its row is damaged", zap.String("batch_id", key.ID), zap.Error(err))
		} else {
			open = append(open, key)
		}
		return nil
	})
	for _, key := range open {
		e.wakeBatch(key.Namespace, key.ID)
	}
	return err
}
