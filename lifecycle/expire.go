package lifecycle

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// sweepMost is the longest that expiry waits for its next look: the clock may be set meanwhile.
const sweepMost = 15 * time.Second

// Sweep expires suspensions that nobody decided in time. It blocks until ctx is done.
//
// Each namespace expires on its own: one whose hooks and tools take their time over thousands of calls delays no other.
func (e *Engine) Sweep(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	var busy sync.Map // namespaces whose calls expire now
	for {
		names, err := e.store.DueNamespaces(ctx)
		e.sweeps.failed(ctx, err)
		for _, namespace := range names {
			if _, is := busy.LoadOrStore(namespace, true); is {
				continue
			}
			all.Go(func() {
				moved, err := e.sweeps.namespace(ctx, namespace)
				e.sweeps.failed(ctx, err)
				busy.Delete(namespace)
				if moved > 0 { // others of the namespace may have become due meanwhile
					e.sweeps.look()
				}
			})
		}
		e.sweeps.next.Store(math.MaxInt64) // a question that comes from here on may not be among what is looked at
		wait, least := sweepMost, 100*time.Millisecond
		busy.Range(func(any, any) bool { // what expires now is due until it has expired
			least = time.Second
			return false
		})
		if next, err := e.store.NextExpiry(ctx); err == nil && !next.IsZero() && !e.held.Any() {
			wait = min(wait, max(next.Sub(e.store.Now()), least))
		}
		e.sweeps.next.Store(e.store.Now().Add(wait).UnixNano())
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-e.sweeps.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (s *sweeps) failed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.e.log.Warn("sweep failed; will try again", zap.Error(err))
	}
}

// sweeps expires suspensions, and knows when it looks next.
type sweeps struct {
	e    *Engine
	next atomic.Int64  // by the store's clock, in Unix nanoseconds
	wake chan struct{} // has room for one
}

// asked makes expiry look in time for a question that is open until then.
func (s *sweeps) asked(until time.Time) {
	if until.UnixNano() < s.next.Load() {
		s.look()
	}
}

// look makes expiry look now.
func (s *sweeps) look() {
	select {
	case s.wake <- struct{}{}:
	default: // it looks anyway
	}
}

// ExpireDue expires what is due by the store's clock and returns when that is stored.
func (e *Engine) ExpireDue(ctx context.Context) error {
	names, err := e.store.DueNamespaces(ctx)
	failed := make([]error, len(names))
	var all sync.WaitGroup
	for i, namespace := range names {
		all.Go(func() { _, failed[i] = e.sweeps.namespace(ctx, namespace) })
	}
	all.Wait()
	return errors.Join(append(failed, err)...)
}

// namespace expires what is due in a namespace and returns how many calls that are.
func (s *sweeps) namespace(ctx context.Context, namespace string) (moved int, err error) {
	for limit := 100; ; {
		due, err := s.e.store.Due(ctx, namespace, limit)
		if err != nil {
			return moved, err
		}
		n := s.all(ctx, due)
		moved += n
		switch {
		case n > 0:
		case len(due) < limit:
			return moved, nil
		default: // those that cannot be expired must not hide the others
			limit *= 4
		}
	}
}

// expiresAtOnce is how many suspensions of a namespace end at the same time: a call over which hooks and tools take their time
// delays few others of its tenant.
const expiresAtOnce = 32

// all ends the suspensions of calls and returns of how many it did.
func (s *sweeps) all(ctx context.Context, due []*call.Call) int {
	var all sync.WaitGroup
	var moved atomic.Int64
	slots := make(chan struct{}, expiresAtOnce)
	for _, c := range due {
		if s.e.held.Holds(c) {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if s.expire(ctx, c.Key()) {
				moved.Add(1)
			}
		})
	}
	all.Wait()
	return int(moved.Load())
}

// expire ends one suspension. It reports whether it did.
func (s *sweeps) expire(ctx context.Context, key call.Key) bool {
	e := s.e
	if !e.drain.Admit() {
		return false // the next daemon finds it
	}
	defer e.drain.Leave()
	l, err := e.acquire(ctx, key)
	if err != nil {
		return false
	}
	defer l.release()
	l.slot.Take()
	open := l.record().Open()
	if open == nil {
		l.unslot()
		return false
	}
	asked := *open
	if asked.DefaultResult != "" {
		// A client's decision has no space in its id, so that none can take this one.
		d := tool.Decision{ID: "expiry of " + asked.ID, Action: tool.Resume, Result: asked.DefaultResult, Reason: "expired: the default answer", Time: e.store.Now(), DecidedBy: tool.Principal{Namespace: key.Namespace, Subject: "toold", Method: "expiry"}}
		final := e.decisions.step(l, decision.Expiry(d, l.record().LastRound()), &d)
		final.notBefore = asked.ExpiresAt
		err = l.commitSlotted(final)
		l.unslot()
		if err == nil {
			l.resumeRun(ctx, d)
		}
	} else {
		err = storeExpired(l, &asked)
		l.unslot()
		if err == nil {
			p := lookupPipeline(l)
			p.abandoned(&asked)
		}
	}
	if err != nil && !errors.Is(err, store.ErrTooEarly) && !errors.Is(err, store.ErrConflict) {
		e.log.Warn("expiry not stored", zap.String("call_id", key.ID), zap.Error(err))
	}
	return err == nil
}

// storeExpired ends the call in the same transaction that finds the time come; the caller has the slot.
func storeExpired(l *activeCall, s *call.Suspension) error {
	p := lookupPipeline(l)
	out := outcome.Expired(s.ExpiresAt.Sub(s.Created))
	records := p.after(context.Background(), out)
	final := p.finalStep(out)
	final.notBefore, final.records = s.ExpiresAt, records
	apply := final.apply
	final.apply = func(c *call.Call) {
		apply(c)
		c.Rounds = slices.Clone(c.Rounds)
		c.Rounds[len(c.Rounds)-1].Expired = true
	}
	err := l.commitSlotted(final)
	if err != nil {
		l.refilter()
	}
	return err
}
