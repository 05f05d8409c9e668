package custody

import (
	"time"

	"github.com/toold-dev/toold/call"
)

// A Hold is how long a daemon that took over a journal leaves the attempts of the earlier owner alone, because they may still
// run. Nothing reconciles them, runs them again or ends them, and no other call of their threads starts.
//
// Keep is called before the engine serves; the other methods may be called concurrently after that. The zero Hold is over.
type Hold struct {
	over    <-chan time.Time
	threads map[call.Key]struct{} // of the attempts
	free    chan struct{}         // closed by End; nil: there is no hold
}

// NewHold returns a Hold that takes d; 0 or less is none.
func NewHold(d time.Duration) Hold {
	if d <= 0 {
		return Hold{}
	}
	return Hold{over: time.After(d), threads: map[call.Key]struct{}{}, free: make(chan struct{})}
}

// Began reports whether there is a hold, over or not.
func (h *Hold) Began() bool { return h.free != nil }

// Keep leaves the thread of a call alone.
func (h *Hold) Keep(c *call.Call) {
	if h.Began() && c.Run.Thread != "" {
		h.threads[call.Key{Namespace: c.Namespace, ID: c.Run.Thread}] = struct{}{}
	}
}

// Holds reports whether a call has to wait because an earlier one of its thread is left alone.
func (h *Hold) Holds(c *call.Call) bool {
	if !h.Began() || c.Run.Thread == "" {
		return false
	}
	select {
	case <-h.free:
		return false
	default:
	}
	_, ok := h.threads[call.Key{Namespace: c.Namespace, ID: c.Run.Thread}]
	return ok
}

// Over returns a channel that receives once when the time is over: the attempts cannot run any more.
func (h *Hold) Over() <-chan time.Time { return h.over }

// End frees the threads, after the calls of the attempts were recovered.
func (h *Hold) End() { close(h.free) }

// Free returns a channel that is closed by End.
func (h *Hold) Free() <-chan struct{} { return h.free }
