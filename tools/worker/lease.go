package worker

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/toold-dev/toold/tool"
)

// ErrNotHeld means that a session does not hold a lease: the lease belongs to another worker, is lost, or has ended.
var ErrNotHeld = errors.New("the lease is not held")

// A lease is one piece of work that a worker does or will do. The hub's lock guards all fields after the field opening.
type lease struct {
	id   string
	tool *offered
	kind string
	call *tool.Call
	done chan struct{} // closed when the lease has ended; result and err are then valid

	back  chan struct{} // closed when a worker that reconnects names the lease; nil unless an earlier daemon gave the lease
	taken chan struct{} // closed when the call waits for the lease again, or when it is certain that no call will wait

	opening chan struct{} // a lock: the goroutine that has put an entry into the channel may open the input

	session *Session // nil while its worker is disconnected
	owner   string   // subject of the worker
	expiry  *time.Timer
	feed    *feed // nil until the worker requests input
	cause   error // reason for the cancel; nil when the call was not cancelled
	ended   bool
	result  *tool.Result
	err     error
	by      *Session // session over which the outcome was reported last; it gets the acknowledgement
	settled bool     // The journal has the outcome.
}

// The kinds of work, with the names in the API.
const (
	Execute   = "EXECUTE"
	Reconcile = "RECONCILE"
	Abandon   = "ABANDON"
	Poll      = "POLL"
)

func newLease(t *offered, kind string, c *tool.Call) *lease {
	l := &lease{tool: t, kind: kind, call: c, done: make(chan struct{}), opening: make(chan struct{}, 1)}
	if kind != Execute {
		l.id = rand.Text()
	}
	return l
}

// giveLocked gives a lease to the worker of a session.
func (h *Hub) giveLocked(l *lease, s *Session) {
	if l.id == "" {
		l.id = h.idOf(l.call, s.owner.Subject)
	}
	h.given++
	s.given = h.given
	l.session, l.owner = s, s.owner.Subject
	s.leases[l.id] = l
	h.leases[l.id] = l
}

// endLocked ends a lease and gives its slot to the oldest waiting work that the worker can do.
func (h *Hub) endLocked(l *lease, r *tool.Result, err error) {
	if l.ended {
		return
	}
	l.ended, l.result, l.err = true, r, err
	if errors.Is(err, tool.ErrLost) {
		h.stats.Lost++
	}
	if l.expiry != nil {
		l.expiry.Stop()
	}
	delete(h.leases, l.id)
	s := l.session
	if s != nil {
		delete(s.leases, l.id)
	}
	l.session = nil
	close(l.done)
	h.takenLocked(l)
	if s != nil {
		h.fillLocked(s)
	}
}

// cancel asks the worker of a lease to stop. A disconnected worker gets the request when it reconnects.
func (h *Hub) cancel(l *lease, cause error) {
	h.mu.Lock()
	l.cause = cause
	s := l.session
	h.mu.Unlock()
	if s != nil {
		s.line.Cancel(l.id, cause)
	}
}

// drop ends a lease whose outcome is no longer needed.
func (h *Hub) drop(l *lease, cause error) {
	h.mu.Lock()
	s, over := l.session, l.ended
	h.endLocked(l, nil, cause)
	h.mu.Unlock()
	if s != nil && !over {
		s.line.Lost(l.id)
	}
}

// expire ends a lease as lost, because its worker has not reconnected in time.
func (h *Hub) expire(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.session == nil {
		h.endLocked(l, nil, tool.ErrLost)
	}
}
