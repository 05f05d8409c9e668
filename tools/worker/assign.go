package worker

import (
	"container/list"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// labelPrefix is the prefix of run labels. A label with this prefix requires a worker with this label.
const labelPrefix = "worker."

// A waiter is work that waits for a worker with a free slot.
type waiter struct {
	lease *lease
	want  map[string]string // labels that the worker must have
	ready chan struct{}     // closed when the lease is given
	at    *list.Element
}

// wants returns the labels that a call requires of its worker.
func wants(c *tool.Call) map[string]string {
	var want map[string]string
	for key, value := range c.Run.Labels {
		if label, ok := strings.CutPrefix(key, labelPrefix); ok {
			if want == nil {
				want = map[string]string{}
			}
			want[label] = value
		}
	}
	return want
}

// assign gives a lease to a worker. When no worker has a free slot, it waits for one.
func (h *Hub) assign(ctx context.Context, l *lease) error {
	w := &waiter{lease: l, want: wants(l.call), ready: make(chan struct{})}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return fmt.Errorf("%w: %w", tool.ErrNotRun, ErrClosed)
	}
	if s := h.chooseLocked(l.tool, w.want); s != nil {
		h.giveLocked(l, s)
		h.mu.Unlock()
		return nil
	}
	if l.kind == Poll { // A poll does not wait, because the engine polls again later. Otherwise thousands of operations could wait for a disconnected worker.
		h.mu.Unlock()
		return h.nobody(l.tool, w.want)
	}
	w.at = h.waiting.PushBack(w)
	h.mu.Unlock()
	patience := time.NewTimer(h.cfg.Wait)
	defer patience.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", tool.ErrNotRun, context.Cause(ctx))
	case <-patience.C:
		err = h.nobody(l.tool, w.want)
	}
	return h.giveUp(w, err)
}

// giveUp ends a wait and returns err. It returns nil when the lease was given just before.
func (h *Hub) giveUp(w *waiter, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.at == nil {
		return nil
	}
	h.waiting.Remove(w.at)
	return err
}

// nobody returns the error for work that no worker has taken. It says whether all suitable workers are busy, or none is connected.
func (h *Hub) nobody(t *offered, want map[string]string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range t.serving {
		if !s.draining && s.fits(want) {
			return fmt.Errorf("%w: %w", tool.ErrNotRun, &tool.Error{
				Code: tool.ResourceExhausted, Reason: "WORKERS_BUSY", Retryable: true, RetryAfter: h.cfg.Wait,
				Message: fmt.Sprintf("Not run: every worker of %s is busy. Try again later.", t.offer.Descriptor.ID),
			})
		}
	}
	return fmt.Errorf("%w: %w", tool.ErrNotRun, &tool.Error{
		Code: tool.Upstream, Reason: "NO_WORKER", Retryable: true, RetryAfter: h.cfg.Wait,
		Message: fmt.Sprintf("Not run: no worker serves %s now. Try again later.", t.offer.Descriptor.ID),
	})
}

// chooseLocked returns a worker with a free slot, or nil. It prefers the worker that uses the smallest part of its limit. Among equally
// loaded workers, it prefers the worker whose last work was given first.
func (h *Hub) chooseLocked(t *offered, want map[string]string) *Session {
	var best *Session
	for s := range t.serving {
		if !s.roomLocked() || !s.fits(want) {
			continue
		}
		if best == nil || s.freerLocked(best) {
			best = s
		}
	}
	return best
}

func (s *Session) roomLocked() bool { return !s.draining && !s.closed && len(s.leases) < s.limit }

func (s *Session) freerLocked(than *Session) bool {
	mine, its := len(s.leases)*than.limit, len(than.leases)*s.limit
	return mine < its || mine == its && s.given < than.given
}

// fits reports whether a worker has the required labels.
func (s *Session) fits(want map[string]string) bool {
	for key, value := range want {
		if have, ok := s.labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// fillLocked assigns waiting work to a session while it has free slots.
func (h *Hub) fillLocked(s *Session) {
	for e := h.waiting.Front(); e != nil && s.roomLocked(); {
		next := e.Next()
		w := e.Value.(*waiter)
		if _, serves := w.lease.tool.serving[s]; serves && s.fits(w.want) {
			h.waiting.Remove(e)
			w.at = nil
			h.giveLocked(w.lease, s)
			close(w.ready)
		}
		e = next
	}
}
