package ledger

import (
	"sync"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Feed is the reading of the logs of many calls, in the order of their commits, over any number of lives. What it tells
// is written: nothing in it may ever be missing, repeated or taken back.
type Feed struct {
	ledger *Ledger
	find   func(id string) *Call

	mu     sync.Mutex
	cursor string
	last   map[string]int64
}

// Feed returns the reading of a feed; find returns the call with an id, nil when it is not of interest.
func (l *Ledger) Feed(find func(id string) *Call) *Feed {
	return &Feed{ledger: l, find: find, last: map[string]int64{}}
}

// Cursor returns where the reading stands; empty before it began.
func (f *Feed) Cursor() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cursor
}

// Last returns the newest number that was told of a call.
func (f *Feed) Last(id string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[id]
}

// Frame takes the next frame.
func (f *Feed) Frame(frame *tooldv1.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := frame.GetGap(); g != nil {
		f.ledger.Break("P4", "a gap in the feed: %v of call %q", g.GetReason(), g.GetCallId())
	}
	for _, e := range frame.GetEvents() {
		f.eventLocked(e)
	}
	if frame.GetCursor() != "" {
		f.cursor = frame.GetCursor()
	}
}

func (f *Feed) eventLocked(e *tooldv1.CallEvent) {
	c := f.find(e.GetCallId())
	if c == nil {
		return
	}
	if want := f.last[c.ID] + 1; e.GetSequence() != want {
		c.Break("P4", "the feed has event %d (%s) where %d has to come", e.GetSequence(), kindOf(e), want)
	}
	f.last[c.ID] = e.GetSequence()
	c.written(e)
}

// written takes an event that a feed told.
func (c *Call) written(e *tooldv1.CallEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := e.GetSequence()
	known, ok := c.events[n]
	switch {
	case !ok:
		return // the clients of the call itself have not heard of it yet
	case known == contentOfEvent(e):
		if n == c.firm+1 {
			c.firm = n
		}
	case n <= c.firm:
		c.breakLocked("P4", "the feed has another event under number %d: %s", n, kindOf(e))
	}
}
