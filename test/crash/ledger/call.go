package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Call is what is known of one call.
type Call struct {
	ID string
	// Once says that the call's tool may run once at most, whatever happens: it is neither read-only nor idempotent, and
	// asks nothing itself.
	Once bool

	ledger *Ledger

	mu      sync.Mutex
	events  map[int64]content
	last    int64 // newest number that was told
	firm    int64 // up to this number nothing may be lost or change any more
	life    int64 // in which something was told last
	sync    bool  // everything that is told is firm
	output  map[string]*bytesOf
	marks   []Mark
	rounds  []*Round
	ballots map[string]*ballot // by question
	end     *End
	cancel  bool // a request to cancel was sent
	granted bool // one is stored, as far as was told
	history []string
	kind    string // of the event that the history has last
}

// An End is how a call ended.
type End struct {
	Status   tooldv1.CallStatus
	Executed tooldv1.Executed
	Code     tooldv1.ErrorCode
	Reason   string

	sequence int64 // of finished; 0 while only the record was seen
	life     int64
	result   content
}

// A Mark is a place in a call's log to which a client may come back.
type Mark struct {
	Cursor   string
	Sequence int64
}

const (
	marksKept   = 16
	historyKept = 60
)

// Call returns a new call of the ledger.
func (l *Ledger) Call(id string, once bool) *Call {
	return &Call{ID: id, Once: once, ledger: l, events: map[int64]content{}, output: map[string]*bytesOf{}}
}

// Note adds a line to what a violation tells of the call.
func (c *Call) Note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked(format, args...)
}

func (c *Call) noteLocked(format string, args ...any) {
	c.kind = ""
	if len(c.history) == historyKept {
		c.history = append(c.history[:5], c.history[6:]...) // how it began is worth more than how it went on
	}
	at := time.Since(c.ledger.began).Round(time.Millisecond)
	c.history = append(c.history, fmt.Sprintf("%9s  %s", at, fmt.Sprintf(format, args...)))
}

// Break notes a violation that the ledger cannot see itself.
func (c *Call) Break(promise, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.breakLocked(promise, format, args...)
}

func (c *Call) breakLocked(promise, format string, args ...any) {
	v := Violation{Promise: promise, CallID: c.ID, What: fmt.Sprintf(format, args...), History: append([]string(nil), c.history...)}
	c.ledger.add(v)
}

// Told reports whether anything at all was told of the call.
func (c *Call) Told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last > 0 || c.end != nil || c.sync
}

// Settled returns the end of a call when it was told and nothing of it may change any more.
func (c *Call) Settled() *End {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil || c.end.sequence == 0 || c.firm < c.end.sequence {
		return nil
	}
	end := *c.end
	return &end
}

// Ended returns the end of a call when it was told.
func (c *Call) Ended() *End {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		return nil
	}
	end := *c.end
	return &end
}

// Last returns the newest number that was told.
func (c *Call) Last() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Whole reports whether every event up to the newest place that is known of was told, and the end if there is one.
func (c *Call) Whole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := c.last
	for _, m := range c.marks {
		newest = max(newest, m.Sequence)
	}
	return int64(len(c.events)) == newest && (c.end == nil || c.end.sequence > 0)
}

// Marks returns the places that are remembered, in the order in which they were told.
func (c *Call) Marks() []Mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Mark(nil), c.marks...)
}

// Newest returns the farthest place in the log that anybody was told, nil when there is none. Who comes back from there
// after a crash hears of everything that it took.
func (c *Call) Newest() *Mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	var newest *Mark
	for _, m := range c.marks {
		if newest == nil || m.Sequence >= newest.Sequence {
			newest = &m
		}
	}
	return newest
}

// Current reports whether the call's log was looked at in this life, so that all that is known of it holds.
func (c *Call) Current(life int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life == life || c.sync
}

// Missing notes that the daemon does not know the call. Only read-only calls of an earlier life may be forgotten.
func (c *Call) Missing(life int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.firm > 0 || c.sync:
		c.breakLocked("P3", "the daemon does not know a call of which it had told %d events for good", c.firm)
	case c.last > 0 && life == c.life:
		c.breakLocked("P4", "the daemon forgot a call without a crash")
	}
	c.noteLocked("forgotten in life %d", life)
	c.forgetLocked(1)
}

// forgetLocked drops the events from a number on.
func (c *Call) forgetLocked(from int64) {
	for n := range c.events {
		if n >= from {
			delete(c.events, n)
		}
	}
	c.last = min(c.last, from-1)
	c.end = nil // it was the last event, so that it is among those that are gone
	kept := c.marks[:0]
	for _, m := range c.marks {
		if m.Sequence < from {
			kept = append(kept, m)
		}
	}
	c.marks = kept
	clear(c.output) // the offsets of what is gone are given again
}

func (c *Call) markLocked(cursor string, sequence int64) {
	if cursor == "" || sequence == 0 {
		return
	}
	m := Mark{cursor, sequence}
	if n := len(c.marks); n > 0 && c.marks[n-1].Sequence == sequence {
		c.marks[n-1] = m
		return
	}
	if len(c.marks) == marksKept {
		farthest := slices.MaxFunc(c.marks, func(a, b Mark) int { return cmp.Compare(a.Sequence, b.Sequence) })
		oldest := 0
		if c.marks[0] == farthest {
			oldest = 1
		}
		c.marks = slices.Delete(c.marks, oldest, oldest+1)
	}
	c.marks = append(c.marks, m)
}

// Stopped notes that the daemon ended in order: what it told is written.
func (c *Call) Stopped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.firm = max(c.firm, c.last)
}

// bytesOf is what is known of an output stream: one piece from the beginning on, since pieces follow each other.
type bytesOf struct {
	known []byte
	from  int64
}

// outputLocked compares a piece of output with what was told of the same bytes before.
func (c *Call) outputLocked(stream string, offset int64, data []byte) {
	if len(data) == 0 {
		return
	}
	b := c.output[stream]
	if b == nil || offset > b.from+int64(len(b.known)) || offset < b.from {
		c.output[stream] = &bytesOf{append([]byte(nil), data...), offset}
		return
	}
	at := offset - b.from
	known := b.known[at:]
	n := min(len(known), len(data))
	if string(known[:n]) != string(data[:n]) {
		c.breakLocked("P4", "other bytes in %s from offset %d on: %.60q, not %.60q", stream, offset, data[:n], known[:n])
		return
	}
	b.known = append(b.known, data[n:]...)
}

// Output returns what is known of a stream's bytes and where they begin.
func (c *Call) Output(stream string) (data []byte, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.output[stream]
	if b == nil {
		return nil, 0
	}
	return append([]byte(nil), b.known...), b.from
}
