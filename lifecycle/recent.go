package lifecycle

import (
	"sync"

	"github.com/toold-dev/toold/call"
)

// What is kept of the newest questions: so many, and of each call no more than so many bytes.
const (
	recentMost  = 256
	recentBytes = 16 << 10
)

// recent holds the calls that asked last, as they are in the journal: most answers come soon, and find their call here
// without reading it twice. A call is in it only while nothing of it is being written, and while it waits.
type recent struct {
	mu     sync.Mutex
	calls  map[question]*call.Call
	order  [recentMost]question // a ring; some of them are not in calls any more
	newest int
	room   []byte
}

// A question names an open suspension.
type question struct{ namespace, id string }

func questionOf(c *call.Call) (question, bool) {
	s := c.Open()
	if s == nil {
		return question{}, false
	}
	return question{c.Namespace, s.ID}, true
}

// put keeps a call that was just stored, if it waits and is not large. The caller has the slot.
func (r *recent) put(c *call.Call) {
	q, ok := questionOf(c)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := call.AppendCall(r.room[:0], c)
	if err != nil || len(b) > recentBytes {
		return
	}
	r.room = b
	if r.calls == nil {
		r.calls = make(map[question]*call.Call, recentMost)
	}
	r.newest = (r.newest + 1) % recentMost
	delete(r.calls, r.order[r.newest])
	r.order[r.newest], r.calls[q] = q, c
}

// drop forgets a call that is about to change. The caller has the slot.
func (r *recent) drop(c *call.Call) {
	if q, ok := questionOf(c); ok {
		r.mu.Lock()
		delete(r.calls, q)
		r.mu.Unlock()
	}
}

// find returns a call as the journal has it, or nil. It stays so for who may change the call alone.
func (r *recent) find(q question) *call.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[q]
}
