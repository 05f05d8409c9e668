package ledger

import (
	"sync"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Feed is a reading of the logs of many calls, in commit order, over any number of lives. Its events are durable, so none may ever be
// missing, repeated or withdrawn.
type Feed struct {
	ledger *Ledger
	find   func(id string) *Call

	mu     sync.Mutex
	cursor string
	last   map[string]int64
}

// Feed returns a new reading of the feed. find returns the call with an id, or nil to ignore it.
func (l *Ledger) Feed(find func(id string) *Call) *Feed {
	return &Feed{ledger: l, find: find, last: map[string]int64{}}
}

// Cursor returns the position of the reading. It is empty before the first frame.
func (f *Feed) Cursor() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cursor
}

// Last returns the newest event number that the feed has returned for a call.
func (f *Feed) Last(id string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[id]
}

// Frame processes the next frame.
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

// written processes an event from a feed.
func (c *Call) written(e *tooldv1.CallEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := e.GetSequence()
	known, ok := c.events[n]
	switch {
	case !ok:
		return // No other client of the call has seen the event yet.
	case known == contentOfEvent(e):
		if n == c.firm+1 {
			c.firm = n
		}
	case n <= c.firm:
		c.breakLocked("P4", "the feed has another event under number %d: %s", n, kindOf(e))
	}
}
