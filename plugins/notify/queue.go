package notify

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
)

const (
	// window is the maximum number of letters of a target in memory.
	window = 256
	// readEvery is the interval at which a queue reads the outbox even if Wake was not called.
	readEvery = 15 * time.Second
	// leastAttempts is the minimum number of times that a letter is sent before it becomes dead. It applies to old letters too, because the
	// daemon may have been down for days.
	leastAttempts = 5
	// settleTime is the time limit of one write to the outbox after ctx is done.
	settleTime = 5 * time.Second
	// lastMoment is the time that the queue waits for answers when the daemon ends. It equals the time that the daemon waits for its
	// clients.
	lastMoment = 800 * time.Millisecond
)

type queue struct {
	target Target
	keys   func(context.Context) ([]Secret, error)
	log    *zap.Logger // set by run
	client *http.Client
	woken  chan struct{} // has capacity 1
	unread atomic.Bool   // the outbox may contain letters that are not in memory
	gone   atomic.Bool

	delivered, failed, dead atomic.Int64

	mu          sync.Mutex
	waiting     []*waiting // ordered by position
	after       int64      // position of the last letter read
	flying      int
	pausedUntil time.Time // nothing is sent before this time
	broken      bool      // the latest attempt to send a letter failed
}

// waiting is a letter in memory.
type waiting struct {
	Letter
	read     time.Time // time when the letter was read, on the monotonic clock
	failures int
	hurried  int // number of times that this letter became due earlier because the receiver accepted another letter
	due      time.Time
	stop     context.CancelFunc // cancels the request that sends the letter
	taken    bool               // accepted by the receiver, but not settled in the outbox yet
}

func newQueue(t Target, n *Notifier) (*queue, error) {
	client, err := newClient(&t, n.dial)
	if err != nil {
		return nil, err
	}
	return &queue{target: t, keys: n.keys(&t), client: client, woken: make(chan struct{}, 1)}, nil
}

func (q *queue) wake() {
	q.unread.Store(true)
	signal(q.woken)
}

// run delivers until ctx is done.
func (q *queue) run(ctx context.Context, outbox Outbox, log *zap.Logger) {
	q.log = log.With(zap.String("target", q.target.Name))
	var attempts sync.WaitGroup
	defer q.client.CloseIdleConnections()
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	q.unread.Store(true)
	read := time.NewTicker(readEvery)
	defer read.Stop()
	for {
		q.read(ctx, outbox)
		next := time.NewTimer(q.launch(sending, outbox, &attempts))
		select {
		case <-ctx.Done():
			next.Stop()
			late := time.AfterFunc(lastMoment, stop)
			attempts.Wait()
			late.Stop()
			return
		case <-q.woken:
		case <-next.C:
		case <-read.C:
			q.unread.Store(true)
		}
		next.Stop()
	}
}

// read fills the window.
func (q *queue) read(ctx context.Context, outbox Outbox) {
	for {
		q.mu.Lock()
		room, after := window-len(q.waiting), q.after
		q.mu.Unlock()
		if room <= 0 || !q.unread.Swap(false) {
			return
		}
		page, err := outbox.Letters(ctx, q.target.Name, after, room)
		if err != nil {
			if ctx.Err() == nil {
				q.log.Warn("cannot read notifications; will try again", zap.Error(err))
			}
			return
		}
		if len(page) == room {
			q.unread.Store(true)
		}
		now := time.Now()
		q.mu.Lock()
		for i := range page {
			q.after = page[i].Position
			if page[i].Broken {
				q.log.Error("a stored notification is damaged and cannot be sent", zap.String("action_id", page[i].ID), zap.String("call_id", page[i].CallID))
				continue
			}
			q.waiting = append(q.waiting, &waiting{Letter: page[i], read: now})
		}
		q.mu.Unlock()
	}
}

// launch begins to send the letters that are due, as far as there are free slots. It returns the time until the next letter is due.
func (q *queue) launch(ctx context.Context, outbox Outbox, attempts *sync.WaitGroup) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, wait := time.Now(), readEvery
	earlier := map[call.Key]bool{}
	for _, w := range q.waiting {
		key := call.Key{Namespace: w.Namespace, ID: w.CallID}
		if earlier[key] {
			continue // letters of one call are sent one after another
		}
		earlier[key] = true
		if w.stop != nil {
			continue
		}
		due := w.due
		switch {
		case q.gone.Load() && !w.taken:
			due = now // The letter becomes a dead letter at once. It is not sent again.
		case q.pausedUntil.After(due) && !w.taken:
			due = q.pausedUntil
		}
		if due.After(now) {
			wait = min(wait, due.Sub(now))
			continue
		}
		if q.flying == q.target.AtOnce {
			break // the queue is woken when a sent letter was answered or has failed
		}
		own, stop := context.WithCancel(ctx)
		w.stop = stop
		q.flying++
		attempts.Go(func() {
			defer stop()
			q.attempt(own, outbox, w)
		})
	}
	return wait
}

// attempt sends a letter once and settles the result.
func (q *queue) attempt(ctx context.Context, outbox Outbox, w *waiting) {
	defer func() {
		q.mu.Lock()
		w.stop = nil
		q.flying--
		q.mu.Unlock()
		signal(q.woken)
	}()
	failed := ""
	switch {
	case w.taken:
	case q.gone.Load():
		failed = errGone.Error()
	default:
		got := q.send(ctx, outbox, &w.Letter)
		if got.err != nil && ctx.Err() != nil {
			return // This does not count as a failure of the receiver.
		}
		if got.kept {
			q.mu.Lock()
			w.due = time.Now().Add(time.Second)
			q.mu.Unlock()
			return
		}
		if failed = q.record(w, got); got.err != nil && failed == "" {
			return
		}
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	err := outbox.Settle(settling, &w.Letter, w.failures, failed)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		w.due = time.Now().Add(q.target.First)
		q.log.Warn("cannot mark a notification as sent; it may be sent again", zap.String("action_id", w.ID), zap.Error(err))
		return
	}
	if failed != "" {
		q.dead.Add(1)
	}
	q.drop(w)
}

// record stores the result of sending a letter once. When the letter becomes a dead letter, record returns the reason.
func (q *queue) record(w *waiting, got answer) (failed string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if got.err == nil {
		w.taken = true
		q.delivered.Add(1)
		q.recovered(now)
		return ""
	}
	q.failed.Add(1)
	w.failures++
	switch {
	case errors.Is(got.err, errGone):
		q.log.Error("the receiver accepts no more notifications: none are sent until its configuration changes or the daemon restarts")
		q.gone.Store(true)
		return got.err.Error()
	case w.failures >= leastAttempts && w.Age+now.Sub(w.read) >= q.target.GiveUp:
		return got.err.Error()
	}
	if !q.broken {
		q.log.Warn("not delivered; will try again", zap.String("action_id", w.ID), zap.String("call_id", w.CallID), zap.Error(got.err))
	}
	q.broken = true
	w.due = now.Add(jitter(backoff(q.target.First, q.target.Most, w.failures-1)))
	if got.retryAfter > 0 {
		q.pausedUntil = now.Add(got.retryAfter)
	}
	return ""
}

// recovered is called when the receiver has accepted a letter. It makes letters with failed attempts due earlier. A receiver may refuse one
// letter while it accepts others. For such a letter, the delay doubles each time.
func (q *queue) recovered(now time.Time) {
	if q.broken {
		q.log.Info("delivery recovered")
	}
	q.broken = false
	for _, w := range q.waiting {
		if w.failures == 0 || w.stop != nil || w.taken {
			continue
		}
		sooner := now.Add(jitter(backoff(q.target.First, q.target.Most, w.hurried)))
		if sooner.Before(w.due) {
			w.due = sooner
			w.hurried++
		}
	}
}

// backoff returns first doubled n times, at most most.
func backoff(first, most time.Duration, n int) time.Duration {
	for range n {
		if first >= most {
			break
		}
		first *= 2
	}
	return min(first, most)
}

// jitter returns a random time between d/2 and d.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) } //nolint:gosec // it spreads attempts, and hides nothing

// drop removes a letter from the window. The caller holds q.mu.
func (q *queue) drop(done *waiting) {
	for i, w := range q.waiting {
		if w == done {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return
		}
	}
}

// forget removes the letters of calls and cancels the requests that send them.
func (q *queue) forget(calls map[call.Key]bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var kept []*waiting
	for _, w := range q.waiting {
		switch {
		case !calls[call.Key{Namespace: w.Namespace, ID: w.CallID}]:
			kept = append(kept, w)
		case w.stop != nil:
			w.stop()
		}
	}
	q.waiting = kept
}

func (q *queue) stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{
		Target: q.target.Name, Delivered: q.delivered.Load(), Failed: q.failed.Load(), Dead: q.dead.Load(), Waiting: len(q.waiting), Gone: q.gone.Load(),
	}
}
