package decision

import (
	"sync"

	"github.com/toold-dev/toold/call"
)

// What is kept of the newest questions: so many, and of each call no more than so many bytes.
const (
	recentMost  = 256
	recentBytes = 16 << 10
)

// Recent holds the calls that asked last, as they are in the journal: most answers come soon, and find their call here
// without reading it twice. A call is in it only while nothing of it is being written, and while it waits.
type Recent struct {
	mu     sync.Mutex
	calls  map[Question]*call.Call
	order  [recentMost]Question // a ring; some of them are not in calls any more
	newest int
	buf    []byte
}

// A Question names an open suspension.
type Question struct{ Namespace, ID string }

func questionOf(c *call.Call) (Question, bool) {
	s := c.Open()
	if s == nil {
		return Question{}, false
	}
	return Question{c.Namespace, s.ID}, true
}

// Put keeps a call that was just stored, if it waits and is not large. The caller has the slot.
func (r *Recent) Put(c *call.Call) {
	q, ok := questionOf(c)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := call.AppendCall(r.buf[:0], c)
	if err != nil || len(b) > recentBytes {
		return
	}
	r.buf = b
	if r.calls == nil {
		r.calls = make(map[Question]*call.Call, recentMost)
	}
	r.newest = (r.newest + 1) % recentMost
	delete(r.calls, r.order[r.newest])
	r.order[r.newest], r.calls[q] = q, c
}

// Drop forgets a call that is about to change. The caller has the slot.
func (r *Recent) Drop(c *call.Call) {
	if q, ok := questionOf(c); ok {
		r.mu.Lock()
		delete(r.calls, q)
		r.mu.Unlock()
	}
}

// Find returns a call as the journal has it, or nil. It stays so for a goroutine that has the slot of the call.
func (r *Recent) Find(q Question) *call.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[q]
}
