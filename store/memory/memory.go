// Package memory is a journal in memory, for tests.
//
// It holds data in stored form, so it shares no pointer with its callers. It has no goroutines and reads the time only through [Config], so
// it works inside a testing/synctest bubble. [Store.Crash] simulates kill -9 and [Store.LosePower] simulates a power loss. Both methods
// return the store that the next daemon opens.
package memory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// Config configures a Store; the zero value is usable.
type Config struct {
	Now func() time.Time // nil means time.Now
	// Fail is called with each change before any check, without a lock held. When it returns an error, the change is refused with that
	// error. ErrFatal stops the store, as a failing disk does.
	Fail   func(*store.Change) error
	Output store.OutputLimits
}

// A Store is a journal in memory.
type Store struct {
	cfg   Config
	spool *Spool

	mu      sync.Mutex
	current *state
	// durable is the state without the changes in pending. It is the state that a power loss leaves.
	durable *state
	pending []*effect
	clock   *store.Clock
	moved   bool
	clean   bool
	ended   error // why every request is refused
}

var _ interface {
	store.Store
	store.RecordReader
} = (*Store)(nil)

// New returns an empty store in epoch 1.
func New(cfg Config) *Store {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	id := uuid.NewString()
	s := &Store{cfg: cfg, spool: NewSpool(cfg.Output), clock: new(store.Clock), current: newState(id), durable: newState(id), clean: true}
	s.current.epoch, s.durable.epoch = 1, 1
	return s
}

// Crash ends s like kill -9 and returns the store that the next daemon opens. It has all acknowledged changes, and the next epoch.
func (s *Store) Crash() *Store { return s.next(false, false) }

// LosePower ends s like a power loss: Normal changes since the last Full change are lost.
func (s *Store) LosePower() *Store { return s.next(true, false) }

// Reopen closes s cleanly if it is open, and returns the store that the next daemon opens.
func (s *Store) Reopen() *Store { return s.next(false, true) }

func (s *Store) next(power, clean bool) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	clean = clean || errors.Is(s.ended, store.ErrClosed)
	s.ended = store.ErrClosed
	n := &Store{cfg: s.cfg, spool: s.spool.Reopen(), current: s.current, durable: s.durable, clock: s.clock, clean: clean, moved: s.moved}
	for _, e := range s.pending {
		if power {
			break
		}
		n.durable.install(e)
	}
	if power {
		n.current = n.durable.clone()
	}
	n.current.epoch++
	n.durable.epoch = n.current.epoch
	return n
}

// SetMoved marks the store as moved, or not, for tests of moved stores.
func (s *Store) SetMoved(moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = moved
}

// Now returns the time of the store's clock, which never runs backwards.
func (s *Store) Now() call.Stamp {
	return s.clock.Now(func() (machine, now time.Time) {
		now = s.cfg.Now()
		return now, now
	})
}

// Identity returns the store's id and its current epoch.
func (s *Store) Identity() store.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Identity{StoreID: s.current.id, Epoch: s.current.epoch, Moved: s.moved, Clean: s.clean}
}

// Spool returns the spool, which holds the output of this store's calls.
func (s *Store) Spool() store.Spool { return s.spool }

// Close makes the store refuse all later requests.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = store.ErrClosed
	}
	return s.spool.Close()
}

// Submit applies c before it returns. It invokes done without a lock held.
func (s *Store) Submit(c *store.Change, done func(error)) { done(s.apply(c)) }

// Commit applies c.
func (s *Store) Commit(ctx context.Context, c *store.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.apply(c)
}

func (s *Store) apply(c *store.Change) error {
	if err := c.Validate(); err != nil {
		return err
	}
	var failed error
	if s.cfg.Fail != nil {
		failed = s.cfg.Fail(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	if failed != nil {
		if errors.Is(failed, store.ErrFatal) {
			s.ended = store.ErrFatal
		}
		return failed
	}
	e, err := s.current.plan(c, s.Now())
	if err != nil {
		return err
	}
	s.commitLocked(e, c.Durability)
	return nil
}

func (s *Store) commitLocked(e *effect, d store.Durability) {
	s.current.install(e)
	s.pending = append(s.pending, e)
	if d != store.Full {
		return
	}
	for _, e := range s.pending {
		s.durable.install(e)
	}
	s.pending = nil
}

// write commits an effect that belongs to no change.
func (s *Store) write(make func(st *state, now call.Stamp) *effect) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	s.commitLocked(make(s.current, s.Now()), store.Full)
	return nil
}

// read invokes f with the current state.
func (s *Store) read(ctx context.Context, f func(st *state) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	return f(s.current)
}
