package limit

import "sync"

// A Thread identifies a queue of calls that run one after the other, because they are not safe to run concurrently. The nested calls of a
// call have a separate queue. In the queue of their parent they would wait for the parent, which waits for them.
type Thread struct{ Namespace, Thread, Parent string }

// Threads holds the queues with running or waiting calls. Calls that are safe to run concurrently use no queue.
type Threads struct {
	length int // maximum number of calls that wait in each queue

	mu     sync.Mutex
	queues map[Thread]*Slots
}

// Enter adds a call to a queue. turn is closed when it is the call's turn. leave removes the call from the queue, before or after its turn.
// The order of turns is the order of Enter. ok is false when too many calls wait; the call is then not added.
func (t *Threads) Enter(k Thread) (turn <-chan struct{}, leave func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queues == nil {
		t.queues = map[Thread]*Slots{}
	}
	q := t.queues[k]
	if q == nil {
		q = newSlots(1, t.length)
		t.queues[k] = q
	}
	if q.Full(Demand{}, 1) != nil {
		return nil, nil, false
	}
	turn, giveUp := q.wait(&Demand{})
	return turn, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		giveUp()
		if running, waiting := q.Count(); running+waiting == 0 {
			delete(t.queues, k)
		}
	}, true
}

// Waiting returns how many calls wait for their turn.
func (t *Threads) Waiting() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.queues {
		_, waiting := q.Count()
		n += waiting
	}
	return n
}
