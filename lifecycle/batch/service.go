package batch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/drain"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
)

// Config holds the functions and objects of the engine that batches use.
type Config struct {
	Store Journal
	Log   *zap.Logger
	Drain *drain.Drain
	// Acquire returns a call of a batch. The batch releases it when it no longer needs it.
	Acquire func(ctx context.Context, key call.Key) (Member, error)
	// End does the work that is due at the end of a batch. After End returns, the batch stores its end. If the daemon crashes between these
	// two steps, the next daemon calls End again.
	End func(ctx context.Context, namespace, id string) error
	// Idle is called with the key of a batch when each of its calls has ended, or waits for a decision or for work outside the daemon.
	Idle func(call.Key)
	// Held reports whether a call waits for an operator's release.
	Held      func(*call.Call) bool
	Fatal     func(error)
	FailPoint func(name string)
}

// A Journal is the part of the journal that batches use.
type Journal interface {
	Batch(ctx context.Context, key call.Key) (*call.Batch, error)
	OpenBatches(ctx context.Context, visit func(key call.Key, b *call.Batch, err error) error) error
	EndBatch(ctx context.Context, key call.Key) error
}

// A Service holds the active batches in memory. It may be used concurrently.
type Service struct {
	cfg Config

	mu   sync.Mutex
	of   map[call.Key]*loop
	held map[call.Key]int // number of unreleased holds of each batch
	due  map[call.Key]int // number of pending wakes of each batch, caused by changes that are being stored or were just stored

	recovering atomic.Bool
}

// New returns a Service without batches.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, of: map[call.Key]*loop{}, held: map[call.Key]int{}, due: map[call.Key]int{}}
}

// Enter returns the record of a batch. If the batch is neither in memory nor in the journal, create stores it and returns its record and
// calls. The batch calls Leave for the work that create counted in [drain.Drain]. known reports that the batch existed before.
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
		s.drop(b, true) // The entry holds no batch: its goroutine could not load or create the batch, or did not start it here. Try again with a new entry.
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
		go b.process()
		return b.record, false, nil
	}
	record = b.record
	b.err = cmp.Or(err, store.ErrNotFound) // The entry holds no batch. The error makes goroutines that wait for the entry try again.
	s.expect(b.key)
	s.drop(b, true)
	close(b.ready)
	if err == nil && record.Ended == 0 || len(b.signal) > 0 { // Start the batch, also for a wake that only reached the dropped entry.
		s.wakeExpected(b.key)
	} else {
		s.unexpect(b.key)
	}
	return record, known, err
}

// Moving must be called before a change of a call is stored, so that the batch does not become idle before the change. The caller then
// calls the returned function and passes whether the change was stored.
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

// Hold prevents a batch from beginning calls until the caller invokes release. The batch need not be in memory.
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

// Moves reports whether a batch is active, or will become active through a pending wake or the release of a hold.
func (s *Service) Moves(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[key] != nil || s.held[key] > 0 || s.due[key] > 0
}

// BeginRecovery makes all batches wait until Recover has resumed the calls of the last daemon. Otherwise a call could have two pipeline
// runs. The caller must call end if it does not call Recover.
func (s *Service) BeginRecovery() (end func()) {
	s.recovering.Store(true)
	return func() { s.recovering.Store(false) }
}

// Recover continues the batches of the last daemon. It starts their new calls and resumes their decided calls. If all calls of a batch have
// ended, it stores the end of the batch.
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

// reference returns the entry of a batch. fresh reports that the entry is new. The caller must then load the batch or drop the entry.
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

// expect counts a pending wake. Until this wake comes, the batch is not idle.
func (s *Service) expect(key call.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[key]++
}

// met removes one pending wake that expect counted.
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

// unexpect removes one pending wake without waking the batch, and calls Config.Idle.
func (s *Service) unexpect(key call.Key) {
	s.met(key)
	s.cfg.Idle(key)
}

// wakeExpected wakes a batch and removes one pending wake. During a drain it starts no batch, because the next daemon continues the batch.
// During a recovery it wakes no batch, because Recover wakes all batches later.
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
			go b.start()
			return
		}
		s.cfg.Drain.Leave()
	}
	s.unexpect(key)
}

// If the batch is in memory, poke signals it, removes one pending wake and returns true.
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

// isHeld reports whether an unreleased hold stops the batch.
func (s *Service) isHeld(key call.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key] > 0
}

// drop removes a batch from memory and reports whether it did. It keeps a batch that has changed since its last step, unless anyway is set.
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
