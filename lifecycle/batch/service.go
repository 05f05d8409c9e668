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

// Config holds the dependencies of batches on the engine.
type Config struct {
	Store Journal
	Log   *zap.Logger
	Drain *drain.Drain
	// Acquire returns a call of a batch. The loop releases it later.
	Acquire func(ctx context.Context, key call.Key) (Member, error)
	// End runs the steps at the end of a batch, before the end is stored. After a crash in between they are repeated.
	End func(ctx context.Context, namespace, id string) error
	// Rests is called when no call of a batch can change any more.
	Rests func(call.Key)
	// Held reports whether a call waits for an operator's release.
	Held      func(*call.Call) bool
	Fatal     func(error)
	FailPoint func(name string)
}

// A Journal is the part of the journal that batches use.
type Journal interface {
	Batch(ctx context.Context, key call.Key) (*call.Batch, error)
	OpenBatches(ctx context.Context, visit func(key call.Key, b *call.Batch, err error) error) error
	EndBatch(ctx context.Context, key call.Key, at time.Time) error
	Now() time.Time
}

// A Service holds the active batches in memory. It may be used concurrently.
type Service struct {
	cfg Config

	mu   sync.Mutex
	of   map[call.Key]*loop
	held map[call.Key]int // number of holds that were not released
	due  map[call.Key]int // number of pending wakes, after a change that is being stored or was just stored

	recovering atomic.Bool
}

// New returns a Service without batches.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, of: map[call.Key]*loop{}, held: map[call.Key]int{}, due: map[call.Key]int{}}
}

// Enter returns the record of a batch, and creates the batch if it is neither in memory nor in the journal. create stores the batch, and
// returns its record and calls. The batch calls Leave for the work that create counted in [drain.Drain]. known reports that the batch
// existed before.
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
		s.drop(b, true) // The goroutine that added this entry found no batch to load.
	}
}

// accept loads or creates the batch of a new entry.
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
	b.err = cmp.Or(err, store.ErrNotFound) // The entry holds no batch, so goroutines that wait for it try again.
	s.expect(b.key)
	s.drop(b, true)
	close(b.ready)
	if err == nil && record.Ended.IsZero() || len(b.signal) > 0 { // A wake of this entry had no effect.
		s.wakeExpected(b.key)
	} else {
		s.unexpect(b.key)
	}
	return record, known, err
}

// Moving must be called before a change of a call is stored, so that its batch does not rest meanwhile. The caller then calls the returned
// function and passes whether the change was stored.
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

// Wake makes a batch check its next step.
func (s *Service) Wake(key call.Key) {
	s.expect(key)
	s.wakeExpected(key)
}

// Hold prevents a batch from beginning calls until release is called. The batch need not be in memory.
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

// Moves reports whether a batch is active, or will be after a pending wake or release.
func (s *Service) Moves(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[key] != nil || s.held[key] > 0 || s.due[key] > 0
}

// BeginRecovery stops the batches until Recover has resumed the calls of the last daemon, because a call must not have two pipeline runs.
// Call end if Recover is not called.
func (s *Service) BeginRecovery() (end func()) {
	s.recovering.Store(true)
	return func() { s.recovering.Store(false) }
}

// Recover resumes the batches of the last daemon: their new and decided calls, and ends that were not stored.
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

// reference returns the entry of a batch. fresh reports that it is new; the caller must then load or drop it.
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

// expect counts a pending wake. Until the wake, the batch does not rest.
func (s *Service) expect(key call.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[key]++
}

// met ends one expect.
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

// unexpect ends one expect without a wake.
func (s *Service) unexpect(key call.Key) {
	s.met(key)
	s.cfg.Rests(key)
}

// wakeExpected wakes a batch after expect. It does nothing during a drain, because the next daemon continues the batch. During a recovery
// it does nothing either, because Recover wakes the batches later.
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

// poke signals a batch in memory, and ends one expect.
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

// isHeld reports whether the batch is held.
func (s *Service) isHeld(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key] > 0
}

// drop removes a batch from memory and reports whether it did. Unless anyway is set, it keeps a batch that has changed since its last look.
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
