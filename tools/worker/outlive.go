package worker

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
)

var (
	_ tool.Continuer = (*offered)(nil)
	_ tool.Settler   = (*offered)(nil)
)

type attemptKey struct {
	namespace, call string
	attempt         int
}

func attemptOf(c *tool.Call) attemptKey { return attemptKey{c.Namespace, c.ID, c.Attempt} }

// idOf returns the lease id of an attempt at a worker with this subject. The next daemon of the same store computes the same id, because
// the id depends only on the attempt, the subject and the key. Clients cannot guess it without the key.
func (h *Hub) idOf(c *tool.Call, subject string) string {
	sum := hmac.New(sha256.New, h.cfg.Key)
	fmt.Fprintf(sum, "%q %q %d %q", c.Namespace, c.ID, c.Attempt, subject)
	return base32.StdEncoding.EncodeToString(sum.Sum(nil)[:16])[:26]
}

// keepKey stores the key in Memory before the first lease is given.
func (h *Hub) keepKey() {
	h.registering.Lock()
	defer h.registering.Unlock()
	if !h.unkept {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), memoryTime)
	defer cancel()
	if err := h.cfg.Memory.KeepKey(ctx, h.cfg.Key); err != nil {
		h.log.Error("calls of workers end with this daemon, because the key of their leases could not be stored", zap.Error(err))
		return
	}
	h.unkept = false
}

// Expect implements [tool.Continuer].
func (t *offered) Expect(c *tool.Call) tool.Expected {
	h := t.hub
	l := newLease(t, Execute, c)
	l.back, l.taken = make(chan struct{}), make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expected[l] = struct{}{}
	h.attempts[attemptOf(c)] = l
	return tool.Expected{Back: l.back, Within: h.cfg.Lease, Forget: func() {
		h.mu.Lock()
		delete(h.attempts, attemptOf(c))
		h.mu.Unlock()
		h.drop(l, tool.ErrLost)
	}}
}

// Continue implements [tool.Continuer].
func (t *offered) Continue(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	t.hub.mu.Lock()
	l := t.hub.attempts[attemptOf(c)]
	if l == nil {
		t.hub.mu.Unlock()
		return nil, tool.ErrLost
	}
	l.call = c
	t.hub.takenLocked(l)
	t.hub.mu.Unlock()
	return t.await(ctx, l)
}

// Settled implements [tool.Settler].
func (t *offered) Settled(namespace, id string, attempt int) {
	h, k := t.hub, attemptKey{namespace, id, attempt}
	h.mu.Lock()
	l := h.attempts[k]
	if l == nil {
		h.mu.Unlock()
		return
	}
	delete(h.attempts, k)
	delete(h.answered, l.id)
	l.settled = true
	s := l.by
	h.mu.Unlock()
	if s != nil {
		s.line.Ack(l.id)
	}
}

// takenLocked removes a lease from the expected ones and closes its channel taken.
func (h *Hub) takenLocked(l *lease) {
	delete(h.expected, l)
	if l.taken == nil {
		return
	}
	select {
	case <-l.taken:
	default:
		close(l.taken)
	}
}

// expectedLocked returns those expected leases that the worker of a session may hold, by lease id.
func (h *Hub) expectedLocked(s *Session) map[string]*lease {
	found := map[string]*lease{}
	for l := range h.expected {
		if s.tools[l.tool.offer.Descriptor.ID] == l.tool {
			found[h.idOf(l.call, s.owner.Subject)] = l
		}
	}
	return found
}

// awaitTaken waits until the calls of the expected leases in kept have resumed. It returns the leases that the worker still holds then.
func (h *Hub) awaitTaken(kept []string) ([]string, error) {
	patience := time.NewTimer(memoryTime)
	defer patience.Stop()
	var holds []string
	for _, id := range kept {
		h.mu.Lock()
		l := h.leases[id]
		h.mu.Unlock()
		if l != nil && l.taken != nil {
			select {
			case <-l.taken:
			case <-patience.C:
				return nil, ErrClosed // The engine has not resumed the call in time, because it stops or is overloaded.
			}
		}
		h.mu.Lock()
		closed, ended := h.closed, l == nil || l.ended
		_, answered := h.answered[id]
		h.mu.Unlock()
		if closed {
			return nil, ErrClosed
		}
		if !ended || answered {
			holds = append(holds, id)
		}
	}
	return holds, nil
}
