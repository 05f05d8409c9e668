package limit

import (
	"slices"
	"sync"

	"github.com/toold-dev/toold/tool"
)

// A Thread identifies a queue of calls that are not safe to run concurrently. The nested calls of a call have a separate queue. In the
// queue of their parent they would wait for the parent, which waits for them.
type Thread struct{ Namespace, Thread, Parent string }

// Threads holds the queues with running or waiting calls. A call waits for every earlier call of its queue whose resources overlap its own,
// and for no other. So calls that overlap run in their order of arrival, and no call waits for a later call. Calls that are safe to run
// concurrently use no queue.
type Threads struct {
	length int // maximum number of calls that wait in each queue

	mu     sync.Mutex
	queues map[Thread]*threadQueue
}

// A threadQueue has its own lock, so that the comparison of resources delays only calls of the same thread.
type threadQueue struct {
	users int // guarded by Threads.mu

	mu      sync.Mutex
	waiting int
	calls   []*threadCall // in the order of arrival
}

type threadCall struct {
	uses   uses
	before int           // number of earlier calls that overlap and have not left
	turn   chan struct{} // closed when before is 0
}

// Enter adds a call to a queue. turn is closed when it is the call's turn; before that, the call waits for ahead earlier calls. leave removes the call from the queue, before or after its turn.
// A call without resources overlaps every call. ok is false when too many calls wait; the call is then not added.
func (t *Threads) Enter(k Thread, resources []tool.Resource) (turn <-chan struct{}, ahead int, leave func(), ok bool) {
	q := t.use(k)
	c := &threadCall{uses: usesOf(resources), turn: make(chan struct{})}
	ahead, ok = q.enter(c, t.length)
	if !ok {
		t.unuse(k, q)
		return nil, 0, nil, false
	}
	return c.turn, ahead, func() {
		q.leave(c)
		t.unuse(k, q)
	}, true
}

func (t *Threads) use(k Thread) *threadQueue {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queues == nil {
		t.queues = map[Thread]*threadQueue{}
	}
	q := t.queues[k]
	if q == nil {
		q = &threadQueue{}
		t.queues[k] = q
	}
	q.users++
	return q
}

func (t *Threads) unuse(k Thread, q *threadQueue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(t.queues, k)
	}
}

func (q *threadQueue) enter(c *threadCall, length int) (ahead int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, earlier := range q.calls {
		if earlier.uses.overlap(&c.uses) {
			c.before++
		}
	}
	switch {
	case c.before == 0:
		close(c.turn)
	case q.waiting == length:
		return 0, false
	default:
		q.waiting++
	}
	q.calls = append(q.calls, c)
	return c.before, true
}

func (q *threadQueue) leave(c *threadCall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.calls, c)
	q.calls = slices.Delete(q.calls, at, at+1)
	if c.before > 0 {
		q.waiting--
	}
	for _, later := range q.calls[at:] {
		if !c.uses.overlap(&later.uses) {
			continue
		}
		if later.before--; later.before == 0 {
			q.waiting--
			close(later.turn)
		}
	}
}

// Waiting returns how many calls wait for their turn.
func (t *Threads) Waiting() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.queues {
		q.mu.Lock()
		n += q.waiting
		q.mu.Unlock()
	}
	return n
}
