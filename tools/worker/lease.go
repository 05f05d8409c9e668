package worker

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/toold-dev/toold/tool"
)

// ErrNotHeld is the error for a lease that a session does not hold: of another worker, lost, or ended.
var ErrNotHeld = errors.New("the lease is not held")

// A lease is one piece of work at one worker. Its fields but the first ones are guarded by the hub.
type lease struct {
	id   string
	tool *offered
	kind string
	call *tool.Call
	done chan struct{} // closed when it has ended; result and err hold then

	back  chan struct{} // closed when its worker named it; nil: this daemon gave it
	taken chan struct{} // closed when the call continues after that, or never will

	opening chan struct{} // has room for the first goroutine that asks for input

	session *Session // nil while its worker is away
	owner   string   // subject of its holder
	expiry  *time.Timer
	feed    *feed // nil: the tool takes no input
	cause   error // why it was cancelled
	ended   bool
	result  *tool.Result
	err     error
	by      *Session // that said how it ended
	settled bool     // the journal has the outcome
}

// The kinds of work, as the API names them.
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

// giveLocked puts a lease into the hands of a session.
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

// endLocked ends a lease. The call that waits longest gets its slot.
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

// cancel tells the worker of a lease that it is to stop. A disconnected one gets it when it reconnects.
func (h *Hub) cancel(l *lease, cause error) {
	h.mu.Lock()
	l.cause = cause
	s := l.session
	h.mu.Unlock()
	if s != nil {
		s.line.Cancel(l.id, cause)
	}
}

// drop ends a lease whose answer nobody waits for.
func (h *Hub) drop(l *lease, cause error) {
	h.mu.Lock()
	s, over := l.session, l.ended
	h.endLocked(l, nil, cause)
	h.mu.Unlock()
	if s != nil && !over {
		s.line.Lost(l.id)
	}
}

// expire loses a lease whose worker did not come back.
func (h *Hub) expire(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.session == nil {
		h.endLocked(l, nil, tool.ErrLost)
	}
}
