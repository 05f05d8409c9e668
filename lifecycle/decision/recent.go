package decision

import (
	"sync"

	"github.com/toold-dev/toold/call"
)

// Bounds of [Recent]: the number of questions, and the bytes of each call.
const (
	recentMost  = 256
	recentBytes = 16 << 10
)

// Recent caches the calls that asked a question most recently. Most answers arrive soon after the question. Their calls are then found in
// this cache, which saves two reads of the journal. A cached call equals the record in the journal. A call is in the cache only while it is
// suspended and no change to it is being written.
type Recent struct {
	mu     sync.Mutex
	calls  map[Question]*call.Call
	order  [recentMost]Question // a ring; it may contain questions whose calls are no longer cached
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

// Put caches a call that was just stored, if it is suspended and small enough. The caller must hold the slot of the call.
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

// Drop removes a call that is about to change. The caller must hold the slot of the call.
func (r *Recent) Drop(c *call.Call) {
	if q, ok := questionOf(c); ok {
		r.mu.Lock()
		delete(r.calls, q)
		r.mu.Unlock()
	}
}

// Find returns the cached record of the call with this question, or nil. The record stays current while the caller holds the slot of the
// call.
func (r *Recent) Find(q Question) *call.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[q]
}
