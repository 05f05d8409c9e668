package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Call holds everything that is known of one call.
type Call struct {
	ID string
	// Once means that the call's tool may run at most once. It is set for tools that are not read-only, not idempotent, and ask no question
	// themselves.
	Once bool

	ledger *Ledger

	mu      sync.Mutex
	events  map[int64]content
	last    int64 // newest event number seen
	firm    int64 // events up to this number must not be lost or changed
	life    int64 // the life in which the call was last seen
	sync    bool  // every event that clients see is already durable
	output  map[string]*bytesOf
	marks   []Mark
	rounds  []*Round
	ballots map[string]*ballot // by suspension id
	end     *End
	cancel  bool // a cancel request was sent
	granted bool // the daemon has said that a cancel request is stored
	history []string
	kind    string // kind of the last event in history
}

// An End is the outcome of a call.
type End struct {
	Status   tooldv1.CallStatus
	Executed tooldv1.Executed
	Code     tooldv1.ErrorCode
	Reason   string

	sequence int64 // number of the finished event; 0 when only the record was seen
	life     int64
	result   content
}

// A Mark is a position in a call's log from which a client may resume.
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

// Note adds a line to the history that a violation prints.
func (c *Call) Note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked(format, args...)
}

func (c *Call) noteLocked(format string, args ...any) {
	c.kind = ""
	if len(c.history) == historyKept {
		c.history = append(c.history[:5], c.history[6:]...) // keep the first lines and drop from the middle
	}
	at := time.Since(c.ledger.began).Round(time.Millisecond)
	c.history = append(c.history, fmt.Sprintf("%9s  %s", at, fmt.Sprintf(format, args...)))
}

// Break records a violation that the ledger cannot detect itself.
func (c *Call) Break(promise, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.breakLocked(promise, format, args...)
}

func (c *Call) breakLocked(promise, format string, args ...any) {
	v := Violation{Promise: promise, CallID: c.ID, What: fmt.Sprintf(format, args...), History: append([]string(nil), c.history...)}
	c.ledger.add(v)
}

// Published reports whether the daemon has published anything about the call.
func (c *Call) Published() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last > 0 || c.end != nil || c.sync
}

// Settled returns the end of the call when the finished event is known and can no longer change. Otherwise it returns nil.
func (c *Call) Settled() *End {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil || c.end.sequence == 0 || c.firm < c.end.sequence {
		return nil
	}
	end := *c.end
	return &end
}

// Ended returns the end of the call, or nil when it is not known to have ended.
func (c *Call) Ended() *End {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		return nil
	}
	end := *c.end
	return &end
}

// Last returns the newest event number seen.
func (c *Call) Last() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Whole reports whether all events up to the newest known position were seen, including the finished event if the call has ended.
func (c *Call) Whole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := c.last
	for _, m := range c.marks {
		newest = max(newest, m.Sequence)
	}
	return int64(len(c.events)) == newest && (c.end == nil || c.end.sequence > 0)
}

// Marks returns the remembered positions, in the order in which they were seen.
func (c *Call) Marks() []Mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Mark(nil), c.marks...)
}

// Newest returns the last position in the log that any client has reached, or nil. A client that resumes there after a crash finds out
// about every event that was lost.
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

// Current reports whether the call's log was read in this life, so that the known state is up to date.
func (c *Call) Current(life int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life == life || c.sync
}

// Missing records that the daemon does not know the call. The daemon may forget only read-only calls of an earlier life.
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

// forgetLocked drops the events with this number or a higher one.
func (c *Call) forgetLocked(from int64) {
	for n := range c.events {
		if n >= from {
			delete(c.events, n)
		}
	}
	c.last = min(c.last, from-1)
	c.end = nil // The end belongs to the last event, which was dropped.
	kept := c.marks[:0]
	for _, m := range c.marks {
		if m.Sequence < from {
			kept = append(kept, m)
		}
	}
	c.marks = kept
	clear(c.output) // the offsets of dropped output are reused
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

// Stopped records an orderly end of the daemon: all events that it published are durable.
func (c *Call) Stopped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.firm = max(c.firm, c.last)
}

// bytesOf holds the known bytes of an output stream. They are one contiguous piece, because pieces arrive in order.
type bytesOf struct {
	known []byte
	from  int64
}

// outputLocked checks that a piece of output equals the bytes that were seen earlier at the same offsets, and records the new bytes.
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

// Output returns the known bytes of a stream and the offset at which they start.
func (c *Call) Output(stream string) (data []byte, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.output[stream]
	if b == nil {
		return nil, 0
	}
	return append([]byte(nil), b.known...), b.from
}
