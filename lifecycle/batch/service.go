package batch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/drain"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
)

// Config is what batches need of an engine.
type Config struct {
	Store Journal
	Log   *zap.Logger
	Drain *drain.Drain
	// Acquire returns a call of a batch; the loop releases it.
	Acquire func(ctx context.Context, key call.Key) (Member, error)
	// End does what happens at the end of a batch, before the end is stored. A crash in between repeats it.
	End func(ctx context.Context, namespace, id string) error
	// Rests is called when nothing of a batch can change any more.
	Rests func(call.Key)
	// Held reports whether a call waits for an operator's release.
	Held      func(*call.Call) bool
	Fatal     func(error)
	FailPoint func(name string)
}

// A Journal is what the loops read and write.
type Journal interface {
	Batch(ctx context.Context, key call.Key) (*call.Batch, error)
	OpenBatches(ctx context.Context, visit func(key call.Key, b *call.Batch, err error) error) error
	EndBatch(ctx context.Context, key call.Key, at time.Time) error
	Now() time.Time
}

// A Service has the batches in memory: those of which something moves, or may. It may be used concurrently.
type Service struct {
	cfg Config

	mu   sync.Mutex
	of   map[call.Key]*loop
	held map[call.Key]int // holds that were not released
	due  map[call.Key]int // wakes that will come, because of what is stored now or was just stored

	recovering atomic.Bool
}

// New returns a Service without batches.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, of: map[call.Key]*loop{}, held: map[call.Key]int{}, due: map[call.Key]int{}}
}

// Enter returns the record of a batch. When the batch is not in memory, create is called with its record if the journal has
// none: it stores the batch, and returns its record and calls. What it counted in [drain.Drain] the batch leaves. known says that the batch
// was there before.
func (s *Service) Enter(ctx context.Context, key call.Key, create func() (*call.Batch, []Member, error)) (record *call.Batch, known bool, err error) {
	for {
		b, fresh := s.reference(key)
		if fresh {
			return s.accept(ctx, b, create)
		}
		<-b.ready
		if b.err == nil {
			return b.record, true, nil
		}
		s.drop(b, true) // the goroutine that had the place only looked for the batch, and found none
	}
}

// accept fills the place of a batch that is not in memory.
func (s *Service) accept(ctx context.Context, b *loop, create func() (*call.Batch, []Member, error)) (record *call.Batch, known bool, err error) {
	b.record, err = s.cfg.Store.Batch(ctx, b.key)
	known = err == nil
	if errors.Is(err, store.ErrNotFound) {
		b.record, b.members, err = create()
	} else if err != nil {
		err = refusal.OfBatch(err, b.key.ID)
	}
	if err == nil && !known {
		close(b.ready)
		go b.carry()
		return b.record, false, nil
	}
	record = b.record
	b.err = cmp.Or(err, store.ErrNotFound) // the batch is not in memory: goroutines that looked for it look again
	s.expect(b.key)
	s.drop(b, true)
	close(b.ready)
	if err == nil && record.Ended.IsZero() || len(b.signal) > 0 { // a wake that came meanwhile did nothing
		s.wakeExpected(b.key)
	} else {
		s.unexpect(b.key)
	}
	return record, known, err
}

// Moving is called before a change of a call is stored: from there on its batch does not rest. The caller calls the function
// that it returns with whether the change was stored.
func (s *Service) Moving(c *call.Call, before call.Status) func(stored bool) {
	if c.BatchID == "" || c.Status == before && c.Cancel == nil {
		return func(bool) {}
	}
	key := call.Key{Namespace: c.Namespace, ID: c.BatchID}
	s.expect(key)
	return func(stored bool) {
		if stored {
			s.wakeExpected(key)
		} else {
			s.unexpect(key)
		}
	}
}

// Wake looks what a batch can do now.
func (s *Service) Wake(key call.Key) {
	s.expect(key)
	s.wakeExpected(key)
}

// Hold keeps a batch, in memory or not, from beginning anything until release is called.
func (s *Service) Hold(key call.Key) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[key]++
	return func() {
		s.mu.Lock()
		if s.held[key]--; s.held[key] == 0 {
			delete(s.held, key)
		}
		s.due[key]++
		s.mu.Unlock()
		s.wakeExpected(key)
	}
}

// Moves reports whether something of a batch moves, or will after a wake or a release that is to come.
func (s *Service) Moves(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[key] != nil || s.held[key] > 0 || s.due[key] > 0
}

// BeginRecovery keeps every batch as it is until the calls that the last daemon left are taken up: one pipeline run of a call is
// enough. end ends that, if Recover was not called.
func (s *Service) BeginRecovery() (end func()) {
	s.recovering.Store(true)
	return func() { s.recovering.Store(false) }
}

// Recover resumes what the last daemon had begun: decided and new calls, and ends that were not stored.
func (s *Service) Recover(ctx context.Context) error {
	s.recovering.Store(false)
	var open []call.Key
	err := s.cfg.Store.OpenBatches(ctx, func(key call.Key, _ *call.Batch, err error) error {
		if err != nil {
			s.cfg.Log.Error("batch not recovered: its row is damaged", zap.String("batch_id", key.ID), zap.Error(err))
		} else {
			open = append(open, key)
		}
		return nil
	})
	for _, key := range open {
		s.Wake(key)
	}
	return err
}

// reference returns a batch in memory. A fresh one was not there: the caller carries it, or drops it.
func (s *Service) reference(key call.Key) (b *loop, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.of[key]; b != nil {
		return b, false
	}
	b = &loop{s: s, key: key, ready: make(chan struct{}), signal: make(chan struct{}, 1)}
	s.of[key] = b
	return b, true
}

// expect notes that a wake will come: from here on the batch does not rest.
func (s *Service) expect(key call.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[key]++
}

// met takes back one expect.
func (s *Service) met(key call.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metLocked(key)
}

func (s *Service) metLocked(key call.Key) {
	if s.due[key]--; s.due[key] == 0 {
		delete(s.due, key)
	}
}

// unexpect notes that a wake will not come after all.
func (s *Service) unexpect(key call.Key) {
	s.met(key)
	s.cfg.Rests(key)
}

// wakeExpected wakes a batch after expect. A drain begins nothing: the next daemon does. Neither does a recovery before it has
// seen all calls: Recover wakes the batches then.
func (s *Service) wakeExpected(key call.Key) {
	for !s.recovering.Load() {
		switch {
		case s.poke(key):
			return
		case !s.cfg.Drain.Admit():
			s.unexpect(key)
			return
		}
		if b, fresh := s.reference(key); fresh {
			s.met(key)
			go b.takeUp()
			return
		}
		s.cfg.Drain.Leave()
	}
	s.unexpect(key)
}

// poke signals a batch in memory, as was expected.
func (s *Service) poke(key call.Key) bool {
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

// isHeld reports whether nothing of a batch may begin.
func (s *Service) isHeld(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key] > 0
}

// drop takes a batch out of memory, unless something changed since it was looked at.
func (s *Service) drop(b *loop, anyway bool) bool {
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
