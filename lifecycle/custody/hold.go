package custody

import (
	"time"

	"github.com/toold-dev/toold/call"
)

// A Hold is the time after the journal has changed its owner. During it, the previous owner may still run its attempts. No part of the new
// daemon then reconciles, repeats or ends these attempts, and no other call of their threads starts.
//
// Keep must be called before the engine serves requests. The other methods may be called concurrently after that. The zero Hold is already
// over.
type Hold struct {
	over    <-chan time.Time
	threads map[call.Key]struct{} // threads of the attempts
	free    chan struct{}         // closed by End; nil when there is no hold
}

// NewHold returns a Hold of length d. Without a positive d there is no hold.
func NewHold(d time.Duration) Hold {
	if d <= 0 {
		return Hold{}
	}
	return Hold{over: time.After(d), threads: map[call.Key]struct{}{}, free: make(chan struct{})}
}

// Began reports whether there was a hold, even if it is over by now.
func (h *Hold) Began() bool { return h.free != nil }

// Keep adds the thread of a call to the hold. No other call of the thread then starts before [Hold.End].
func (h *Hold) Keep(c *call.Call) {
	if h.Began() && c.Run.Thread != "" {
		h.threads[call.Key{Namespace: c.Namespace, ID: c.Run.Thread}] = struct{}{}
	}
}

// Holds reports whether a call must wait because its thread is in the hold.
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

// Over returns a channel that receives one value when the time of the hold is over. From then on, the attempts cannot run any more.
func (h *Hold) Over() <-chan time.Time { return h.over }

// End releases the threads. The engine calls it after the hold, when it has recovered the calls of the attempts.
func (h *Hold) End() { close(h.free) }

// Free returns a channel that is closed by End.
func (h *Hold) Free() <-chan struct{} { return h.free }
