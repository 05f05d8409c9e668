// Package custody decides which calls this daemon may continue.
//
// [Custody] holds the unfinished calls of a store that was copied or restored, because the daemon of the original store may continue them
// too. This daemon starts none of the calls of earlier epochs until an operator releases them. Releases are not stored. After a restart,
// the next daemon therefore holds all calls that are still unfinished. A store needs no custody any more as soon as a daemon has no call
// left to hold.
//
// [Hold] delays calls that an earlier owner of the journal may still run. [Checker] finds and adopts calls that have no owner.
package custody

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// Custody records which calls are held.
type Custody struct {
	store store.Lister
	epoch int64 // epoch of this daemon
	on    atomic.Bool

	mu       sync.Mutex
	released map[call.Key]struct{}
}

// New returns the custody of a store. epoch is the epoch of this daemon. moved reports that the store was copied or restored; otherwise no
// call is held.
func New(s store.Lister, epoch int64, moved bool) *Custody {
	h := &Custody{store: s, epoch: epoch, released: map[call.Key]struct{}{}}
	h.on.Store(moved)
	return h
}

// Any reports whether calls may be held.
func (h *Custody) Any() bool { return h.on.Load() }

// End ends the custody. After it, Holds returns false for every call.
func (h *Custody) End() { h.on.Store(false) }

// Holds reports whether a call waits for an operator's release.
func (h *Custody) Holds(c *call.Call) bool {
	if !h.Any() || c.Status.Terminal() || c.EpochOf(c.LastSequence) >= h.epoch {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, released := h.released[c.Key()]
	return !released
}

// MarkReleased marks a call as released, and reports whether it was not marked before.
func (h *Custody) MarkReleased(key call.Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, before := h.released[key]; before {
		return false
	}
	h.released[key] = struct{}{}
	return true
}

// UnmarkReleased reverts MarkReleased.
func (h *Custody) UnmarkReleased(key call.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.released, key)
}

// Held counts the held calls of a namespace.
func (h *Custody) Held(ctx context.Context, namespace string) (n int, err error) {
	err = h.Each(ctx, call.Query{Namespace: namespace}, func(*call.Call) { n++ })
	return n, err
}

// Each visits the held calls that a query selects, oldest first.
func (h *Custody) Each(ctx context.Context, q call.Query, visit func(*call.Call)) error {
	if !h.Any() {
		return nil
	}
	return store.EachUnfinished(ctx, h.store, q, func(calls []*call.Call) error {
		for _, c := range calls {
			if h.Holds(c) {
				visit(c)
			}
		}
		return nil
	})
}
