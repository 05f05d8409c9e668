// Package expiry finds questions that have expired, and ends the suspensions of their calls.
//
// Each namespace is processed separately: a namespace with thousands of calls and slow hooks delays no other namespace. All times come from
// the store's clock.
package expiry

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
)

const (
	// longestWait bounds the time between two checks, because the clock may be changed while Run waits.
	longestWait = 15 * time.Second
	// atOnce is the number of suspensions of a namespace that end concurrently. It is more than one, so that a call with slow hooks or tools
	// does not delay all other calls of its namespace.
	atOnce = 32
)

// A Journal finds the questions that are due.
type Journal interface {
	DueNamespaces(ctx context.Context) ([]string, error)
	Due(ctx context.Context, namespace string, limit int) ([]*call.Call, error)
	NextExpiry(ctx context.Context) (call.Stamp, error)
	Now() call.Stamp
}

// Custody reports whether calls wait for an operator's release. These calls do not expire.
type Custody interface {
	Any() bool
	Holds(*call.Call) bool
}

// A Sweeper expires questions. Its methods may be called concurrently.
type Sweeper struct {
	journal Journal
	custody Custody
	log     *zap.Logger
	expire  func(context.Context, call.Key) bool // ends the suspension of a call and reports whether it did

	next atomic.Int64  // time of Run's next check, in Unix nanoseconds
	wake chan struct{} // receives a value when Run must check now; capacity 1
}

// New returns a Sweeper that ends the suspensions of due calls with expire. expire is called concurrently, and reports whether it ended a
// suspension.
func New(j Journal, c Custody, log *zap.Logger, expire func(context.Context, call.Key) bool) *Sweeper {
	return &Sweeper{journal: j, custody: c, log: log, expire: expire, wake: make(chan struct{}, 1)}
}

// Run expires due questions repeatedly until ctx is done.
func (s *Sweeper) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	var busy sync.Map // namespaces whose questions are expiring now
	for {
		names, err := s.journal.DueNamespaces(ctx)
		s.failed(ctx, err)
		for _, namespace := range names {
			if _, is := busy.LoadOrStore(namespace, true); is {
				continue
			}
			all.Go(func() {
				moved, err := s.namespace(ctx, namespace)
				s.failed(ctx, err)
				busy.Delete(namespace)
				if moved > 0 { // More questions of the namespace may have become due meanwhile.
					s.look()
				}
			})
		}
		s.next.Store(math.MaxInt64) // NextExpiry below may miss a question that is asked from now on. The maximum makes sure that Asked wakes Run for such a question.
		wait, least := longestWait, 100*time.Millisecond
		busy.Range(func(any, any) bool { // A question stays due until its expiry is stored. The longer minimum avoids many checks meanwhile.
			least = time.Second
			return false
		})
		if next, err := s.journal.NextExpiry(ctx); err == nil && next != 0 && !s.custody.Any() {
			wait = min(wait, max(next.Sub(s.journal.Now()), least))
		}
		s.next.Store(int64(s.journal.Now().Add(wait)))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Once expires everything that is due now, and returns when the results are stored.
func (s *Sweeper) Once(ctx context.Context) error {
	names, err := s.journal.DueNamespaces(ctx)
	failed := make([]error, len(names))
	var all sync.WaitGroup
	for i, namespace := range names {
		all.Go(func() { _, failed[i] = s.namespace(ctx, namespace) })
	}
	all.Wait()
	return errors.Join(append(failed, err)...)
}

// Asked must be called for each new question; until is its expiry time. It wakes Run if Run would check too late.
func (s *Sweeper) Asked(until call.Stamp) {
	if int64(until) < s.next.Load() {
		s.look()
	}
}

// look wakes Run for a check.
func (s *Sweeper) look() {
	select {
	case s.wake <- struct{}{}:
	default: // A check is pending already.
	}
}

func (s *Sweeper) failed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.log.Warn("sweep of expired tickets failed; will try again", zap.Error(err))
	}
}

// namespace ends the due suspensions of a namespace and returns how many it ended.
func (s *Sweeper) namespace(ctx context.Context, namespace string) (moved int, err error) {
	for limit := 100; ; {
		due, err := s.journal.Due(ctx, namespace, limit)
		if err != nil {
			return moved, err
		}
		n := s.all(ctx, due)
		moved += n
		switch {
		case n > 0:
		case len(due) < limit:
			return moved, nil
		default: // Read more calls, so that due calls that cannot expire do not hide the others.
			limit *= 4
		}
	}
}

// all ends the suspensions of the given calls and returns how many it ended.
func (s *Sweeper) all(ctx context.Context, due []*call.Call) int {
	var all sync.WaitGroup
	var moved atomic.Int64
	slots := make(chan struct{}, atOnce)
	for _, c := range due {
		if s.custody.Holds(c) {
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
