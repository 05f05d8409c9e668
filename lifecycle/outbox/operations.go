package outbox

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
)

// pollsAtOnce bounds the number of tools that are polled concurrently.
const pollsAtOnce = 64

// pollMost is the longest interval to which repeated failures extend the time between two polls of an operation.
const pollMost = 5 * time.Minute

// Operations is the schedule of the calls whose work continues outside toold. It holds for each call when to poll its tool or to end its
// operation. It uses about 100 bytes for each call. Its methods may be called concurrently.
type Operations struct {
	log *zap.Logger
	now func() call.Stamp
	// look polls or ends the operation of a call. After an error it must be called again. failures is the number of failed polls in a row.
	look  func(key call.Key, failures int) error
	woken chan struct{} // capacity 1

	mu    sync.Mutex
	due   dueHeap
	of    map[call.Key]*dueOperation
	taken call.Key                   // the last call that the method next removed, until its turn begins
	turns map[call.Key]chan struct{} // closed when the turn of a call is over
}

// NewOperations returns an empty schedule.
func NewOperations(log *zap.Logger, now func() call.Stamp, look func(key call.Key, failures int) error) *Operations {
	return &Operations{log: log, now: now, look: look, woken: make(chan struct{}, 1)}
}

type dueOperation struct {
	key      call.Key
	at       call.Stamp
	failures int
	index    int
}

// Arm schedules the next turn of a call: the next poll of its tool, or the end of its operation when that comes first. Each failed poll
// doubles the interval, up to pollMost.
func (o *Operations) Arm(key call.Key, op *call.Operation, failures int) {
	at := op.Expires
	if op.Every > 0 {
		wait := op.Every
		for range min(failures, 16) {
			wait = max(op.Every, min(2*wait, pollMost))
		}
		at = min(at, o.now().Add(wait))
	}
	o.put(key, at, failures)
}

// ArmNow is [Operations.Arm] for the start of the daemon. It schedules the turn immediately when the tool is polled or the call was
// cancelled.
func (o *Operations) ArmNow(key call.Key, op *call.Operation, cancelled bool) {
	if op.Every > 0 || cancelled {
		o.put(key, o.now(), 0)
		return
	}
	o.put(key, op.Expires, 0)
}

func (o *Operations) put(key call.Key, at call.Stamp, failures int) {
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

func (o *Operations) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// next removes and returns a call that is due. If no call is due, it returns the time until the next turn.
func (o *Operations) next(now call.Stamp) (*dueOperation, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.due) == 0 {
		return nil, actMost
	}
	d := o.due[0]
	if wait := d.at.Sub(now); wait > 0 {
		return nil, min(max(wait, time.Millisecond), actMost)
	}
	heap.Pop(&o.due)
	delete(o.of, d.key)
	o.taken = d.key
	return d, 0
}

// Has reports whether a turn of a call is scheduled, or was removed from the schedule and is about to begin.
func (o *Operations) Has(key call.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[key] != nil || o.turns[key] != nil || o.taken == key
}

// Take waits until the previous turn of a call is over and begins a new turn. The caller invokes end when the turn is over.
func (o *Operations) Take(key call.Key) (end func()) {
	for {
		o.mu.Lock()
		before := o.turns[key]
		if before == nil {
			if o.turns == nil {
				o.turns = map[call.Key]chan struct{}{}
			}
			mine := make(chan struct{})
			o.turns[key] = mine
			if o.taken == key {
				o.taken = call.Key{}
			}
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

// Run polls tools for the state of their operations, and ends expired operations. It blocks until ctx is done and all its turns are over.
func (o *Operations) Run(ctx context.Context) error {
	var turns sync.WaitGroup
	defer turns.Wait()
	slots := make(chan struct{}, pollsAtOnce)
	for {
		d, wait := o.next(o.now())
		if d != nil {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			turns.Go(func() {
				defer func() { <-slots }()
				if err := o.look(d.key, d.failures); err != nil {
					o.log.Warn("operation not checked; will try again", zap.String("call_id", d.key.ID), zap.Error(err))
					o.put(d.key, o.now().Add(time.Second), d.failures)
				}
			})
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-o.woken:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Hurry begins a turn of a cancelled call now, in another goroutine.
func (o *Operations) Hurry(key call.Key) {
	go func() { // A drain waits for this goroutine, because the turn counts as a pipeline run.
		if err := o.look(key, 0); err != nil {
			o.put(key, o.now(), 0)
		}
	}()
}

// dueHeap implements [heap.Interface].
type dueHeap []*dueOperation

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
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
