package lifecycle

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"go.uber.org/zap"
)

// pollsAtOnce is how many tools are asked at the same time how far their operations are.
const pollsAtOnce = 64

// operations are the calls whose work goes on elsewhere, by when something is to be done for them: 100 bytes of each.
type operations struct {
	woken chan struct{} // has room for one

	mu    sync.Mutex
	due   dueHeap
	of    map[call.Key]*dueOperation
	turns map[call.Key]chan struct{} // closed when the turn of a call is over
}

type dueOperation struct {
	key      call.Key
	at       time.Time
	failures int
	index    int
}

// arm has a call get its next turn when the tool is to be asked, or the operation expires.
func (o *operations) arm(key call.Key, op *call.Operation, now time.Time, failures int) {
	at := op.Expires
	if op.Every > 0 {
		wait := op.Every
		for range min(failures, 16) {
			wait = max(op.Every, min(2*wait, pollMost))
		}
		if next := now.Add(wait); next.Before(at) {
			at = next
		}
	}
	o.put(key, at, failures)
}

// soon is arm for a start: what is to be asked is asked at once.
func (o *operations) soon(key call.Key, op *call.Operation, cancelled bool, now time.Time) {
	if op.Every > 0 || cancelled {
		o.put(key, now, 0)
		return
	}
	o.put(key, op.Expires, 0)
}

func (o *operations) put(key call.Key, at time.Time, failures int) {
	o.mu.Lock()
	if d := o.of[key]; d != nil {
		d.at, d.failures = at, failures
		heap.Fix(&o.due, d.index)
	} else {
		if o.of == nil {
			o.of = map[call.Key]*dueOperation{}
		}
		d = &dueOperation{key: key, at: at, failures: failures}
		o.of[key] = d
		heap.Push(&o.due, d)
	}
	first := o.due[0].key == key
	o.mu.Unlock()
	if first {
		o.wake()
	}
}

func (o *operations) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// next takes the call whose turn has come; else it says how long nobody's turn comes.
func (o *operations) next(now time.Time) (*dueOperation, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.due) == 0 {
		return nil, sweepMost
	}
	d := o.due[0]
	if wait := d.at.Sub(now); wait > 0 {
		return nil, min(max(wait, time.Millisecond), sweepMost)
	}
	heap.Pop(&o.due)
	delete(o.of, d.key)
	return d, 0
}

// take begins the turn of a call, after the one before; the caller ends it with what is returned.
func (o *operations) take(key call.Key) (end func()) {
	for {
		o.mu.Lock()
		before := o.turns[key]
		if before == nil {
			if o.turns == nil {
				o.turns = map[call.Key]chan struct{}{}
			}
			mine := make(chan struct{})
			o.turns[key] = mine
			o.mu.Unlock()
			return func() {
				o.mu.Lock()
				delete(o.turns, key)
				o.mu.Unlock()
				close(mine)
			}
		}
		o.mu.Unlock()
		<-before
	}
}

// Poll asks tools how far their operations are, and ends those that are out of time. It blocks until ctx is done, and what it began.
func (e *Engine) Poll(ctx context.Context) error {
	var turns sync.WaitGroup
	defer turns.Wait()
	places := make(chan struct{}, pollsAtOnce)
	for {
		d, wait := e.operations.next(e.store.Now())
		if d != nil {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			turns.Go(func() {
				defer func() { <-places }()
				if err := e.turn(d.key, d.failures, nil); err != nil && !errors.Is(err, errNoOperation) && !e.Draining() {
					e.log.Warn("operation not looked at; will try again", zap.String("call_id", d.key.ID), zap.Error(err))
					e.operations.put(d.key, e.store.Now().Add(time.Second), d.failures)
				}
			})
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-e.operations.woken:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// hurry gives a call its turn now: it was cancelled.
func (e *Engine) hurry(key call.Key) {
	go func() { // a pass: a drain waits for it
		if err := e.turn(key, 0, nil); err != nil && !errors.Is(err, errNoOperation) && !e.Draining() {
			e.operations.put(key, e.store.Now(), 0)
		}
	}()
}

// dueHeap is a heap of package heap.
type dueHeap []*dueOperation

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	d := x.(*dueOperation)
	d.index = len(*h)
	*h = append(*h, d)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}
