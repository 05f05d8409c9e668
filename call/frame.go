package call

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Stream returns the frames of a call, of a batch, or of the calls of a run, a thread or a namespace. Only one goroutine may use it.
type Stream interface {
	// Next returns the next frame, and io.EOF after the last one. It waits no longer than ctx.
	Next(ctx context.Context) (Frame, error)
	// Cursor returns the position after the last frame that Next returned.
	Cursor() string
	// Close ends the stream. Closing twice is no error.
	Close()
}

// A Watcher is the stream of one call.
type Watcher interface {
	Stream
	// Call returns the current record of the call.
	Call() *Call
	// Wait returns the call when it is terminal or suspended, or its current record after the time d. It closes the watcher.
	Wait(ctx context.Context, d time.Duration) (*Call, error)
}

// A Frame contains events of one call, or one control message.
type Frame struct {
	Key    Key // the call to which events and gap belong
	Events []Event
	Cursor string // position of the stream after this frame

	Snapshot  *Call // the current record of the call; later frames have the events after it
	Gap       *Gap
	CaughtUp  bool // all stored events were returned; later frames have new events
	Heartbeat bool
	Closing   bool // the daemon is stopping; the client must reconnect with the cursor

	Shared *Shared // Set when other watchers get the same frame.

	BatchFinished *BatchFinished // each call of the batch has ended or waits for a decision, so the stream ends

	Inbox *InboxChange // set only in a stream of the inbox

	TurnStarted  *TurnStarted
	TurnMessage  *TurnMessage
	TurnFinished *TurnFinished // the last frame of a turn
}

// A Settlement says why a question no longer waits.
type Settlement string

// The values of Settlement.
const (
	SettledDecision Settlement = "DECIDED"
	SettledExpiry   Settlement = "EXPIRED"
	SettledCancel   Settlement = "CANCELLED"
	SettledHidden   Settlement = "HIDDEN" // the record is gone or damaged, or the principal may no longer see it
)

// An InboxChange reports a question that waits, or one that no longer waits. In the frame CaughtUp, only More is set.
type InboxChange struct {
	Call         *Call // as the principal may see it; nil with SettledHidden
	CallID       string
	SuspensionID string
	Rights       TicketRights   // set while the question waits
	Settled      Settlement     // empty while the question waits
	Decision     *tool.Decision // set with SettledDecision
	More         bool           // more questions wait than the stream sends
}

// A Gap reports that events are missing.
type Gap struct {
	LostTail  bool  // true: a crash lost events that the watcher had received; false: the beginning of the log was removed
	Corrupt   bool  // The row with the events is damaged. Occurs in feeds only.
	FirstKept int64 // sequence of the next event; 0 when a damaged row does not contain it
	Epoch     int64 // epoch of the next event
}

// A BatchFinished contains the calls of a batch at the end of a stream. Each of these calls has ended or waits for a decision.
type BatchFinished struct {
	BatchID string
	Calls   []*Call  // In model order. A call that cannot be read has only its id.
	Open    []string // ids of the calls that are not terminal
}

// A Shared caches one translation of a frame, such as its wire form, for all watchers that get the frame.
type Shared struct {
	once sync.Once
	form atomic.Value
}

// Form runs make only the first time, and returns the result of that run every time.
func (s *Shared) Form(make func() any) any {
	s.once.Do(func() { s.form.Store(make()) })
	return s.form.Load()
}

// Made returns the result of [Shared.Form], or nil before its first call.
func (s *Shared) Made() any { return s.form.Load() }
