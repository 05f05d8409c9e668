package call

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Stream delivers the frames of a call, of a batch, or of the calls of a run, a thread or a namespace. One goroutine uses it.
type Stream interface {
	// Next returns the next frame, and io.EOF after the last one. It waits no longer than ctx.
	Next(ctx context.Context) (Frame, error)
	// Cursor returns the position after the newest frame that Next returned.
	Cursor() string
	// Close ends the stream. Closing twice is no error.
	Close()
}

// A Watcher is the stream of one call.
type Watcher interface {
	Stream
	// Call returns the current record of the call.
	Call() *Call
	// Wait returns the call when it is terminal or suspended, or its current record after d. It closes the watcher.
	Wait(ctx context.Context, d time.Duration) (*Call, error)
}

// A Frame is what Next of a stream returns: events of one call, or one control.
type Frame struct {
	Key    Key // of the call to which events and gap belong
	Events []Event
	Cursor string // position of the stream after this frame

	Snapshot  *Call // the current record of the call: later frames follow it
	Gap       *Gap
	CaughtUp  bool // what follows is new
	Heartbeat bool
	Closing   bool // the daemon is stopping: the client continues later with the cursor

	Shared *Shared // set when other watchers get the same frame

	BatchFinished *BatchFinished // no call of the batch can change: the stream ends
}

// A Gap says that events are missing.
type Gap struct {
	LostTail  bool  // a crash took events that the cursor counted; else retention removed the beginning
	Corrupt   bool  // the row of the events is damaged; only in feeds
	FirstKept int64 // the sequence of the next event; 0 when a damaged row does not contain it
	Epoch     int64 // of the next event
}

// A BatchFinished holds the calls of a batch in which nothing can change, for now or for good.
type BatchFinished struct {
	BatchID string
	Calls   []*Call  // in model order; a call that cannot be read has only its id
	Open    []string // ids of the calls that are not terminal
}

// A Shared caches one translation of a frame for all watchers that get the frame, such as its form on the wire.
type Shared struct {
	once sync.Once
	form atomic.Value
}

// Form returns the result of make of its first call.
func (s *Shared) Form(make func() any) any {
	s.once.Do(func() { s.form.Store(make()) })
	return s.form.Load()
}

// Made returns the result of [Shared.Form], or nil before its first call.
func (s *Shared) Made() any { return s.form.Load() }
