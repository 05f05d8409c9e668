package lifecycle

import (
	"context"
	"sync"

	"github.com/toold-dev/toold/call"
	"go.uber.org/zap"
)

// suspects are the calls that had no owner at the last check, with their revisions.
type suspects struct {
	e  *Engine
	mu sync.Mutex // held during a check
	of map[call.Key]int64
}

// CheckOwners looks for calls that are NEW, RUNNING or RESUMING and that nothing in this daemon carries on: no pipeline run, batch,
// operation or hold. It takes up each that had no owner at the check before either, as a start of the daemon does, and logs it: a
// correct engine never loses a call, so each is a bug.
func (e *Engine) CheckOwners(ctx context.Context) error {
	if e.drain.Err() != nil || !e.drain.Admit() {
		return nil // the next daemon recovers all calls
	}
	defer e.drain.Leave()
	return e.suspects.check(ctx)
}

func (s *suspects) check(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, before, found := s.e, s.of, map[call.Key]int64{}
	waiting := map[call.Key][]call.Key{} // by batch: calls that have to be begun or resumed
	err := e.store.Unfinished(ctx, func(key call.Key, c *call.Call, err error) error {
		if err != nil || s.isOwned(key, c, 0) {
			return ctx.Err()
		}
		if c.BatchID != "" && c.Status != call.Running {
			batch := call.Key{Namespace: key.Namespace, ID: c.BatchID}
			waiting[batch] = append(waiting[batch], key)
		}
		found[key] = c.Revision
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for batch, keys := range waiting {
		rests, err := s.batchRests(ctx, batch)
		if err != nil {
			return err
		}
		if rests || e.batches.Moves(batch) {
			for _, key := range keys {
				delete(found, key)
			}
		}
	}
	s.of = found
	for key, revision := range found {
		if known, ok := before[key]; ok && known == revision {
			delete(found, key)
			if err := s.adopt(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// isOwned reports whether something in this daemon carries a call on, or the call needs nothing. c is the stored record; references
// is the number of references that the caller itself has.
func (s *suspects) isOwned(key call.Key, c *call.Call, references int) bool {
	e := s.e
	e.mu.Lock()
	l := e.activeCalls[key]
	if l != nil {
		references = l.refs - references
	}
	e.mu.Unlock()
	if l != nil {
		if !l.ready.IsGiven() || l.loadErr != nil {
			return true
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if c = l.c; l.cancel != nil || references > l.watchers {
			return true // watchers look; every other reference belongs to what changes the call
		}
	}
	return c.Status.Terminal() || c.Status == call.Suspended || e.held.Holds(c) || c.Operation() != nil && e.operations.Has(key)
}

// batchRests reports whether a batch waits for a decision or for a call that runs.
func (s *suspects) batchRests(ctx context.Context, key call.Key) (bool, error) {
	b, err := s.e.store.Batch(ctx, key)
	if err != nil {
		return false, err
	}
	for _, id := range b.Calls {
		c, err := s.e.store.Call(ctx, call.Key{Namespace: key.Namespace, ID: id})
		if err == nil && (c.Status == call.Suspended || c.Status == call.Running) {
			return true, nil
		}
	}
	return false, ctx.Err()
}

// adopt takes up a call that has no owner.
func (s *suspects) adopt(ctx context.Context, key call.Key) error {
	e := s.e
	l, err := e.acquire(ctx, key)
	if err != nil {
		return err
	}
	defer l.release()
	c := l.record()
	if s.isOwned(key, c, 1) {
		return nil
	}
	e.stats.unowned.Add(1)
	e.log.Error("bug: nothing carried this call on; it is taken up as after a restart, please report it",
		zap.String("call_id", key.ID), zap.String("status", string(c.Status)), zap.String("batch_id", c.BatchID), zap.NamedError("lost", l.forgive()))
	if c.BatchID != "" && c.Status != call.Running {
		e.batches.Wake(call.Key{Namespace: key.Namespace, ID: c.BatchID})
		return nil
	}
	if err := findTail(ctx, l); err != nil {
		return err
	}
	noteUnseen(l)
	r := recovery{e: e}
	defer r.end()
	return r.takeUp(ctx, l)
}

// forgive forgets why a call could not be carried on, and returns it.
func (l *activeCall) forgive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = nil
	return lost
}
