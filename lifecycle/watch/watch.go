// Package watch streams the events of calls: of one call, or of all calls of a run, a thread, a namespace or a batch. It also handles
// cursors, the size of frames, and heartbeats.
//
// A watcher of one call reads the active call in memory, and reads older events from the journal. All other watchers read only the journal,
// and wait for [Service.Wake]. A watcher of the inbox reads records instead of events. Each watcher receives every event after its cursor once, in the order of the log.
package watch

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/drain"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Config holds the functions and objects of the engine that watchers use.
type Config struct {
	Store     Journal
	Spool     Spool
	Drain     *drain.Drain
	Heartbeat time.Duration         // interval between heartbeats while a watcher waits; 0 disables them
	Settle    func()                // waits until the journal has all events that were published
	Moves     func(call.Key) bool   // reports whether the batch is active
	Epoch     int64                 // epoch of this daemon
	Held      func(*call.Call) bool // reports whether a call waits for an operator's release
	// Rights returns what a principal may do with a suspension of a call.
	Rights func(c *call.Call, p tool.Principal, suspensionID string) call.TicketRights
}

// A Journal is the part of the journal that watchers read.
type Journal interface {
	Feed(ctx context.Context, f store.Feed, after int64, limit int) (entries []store.FeedEntry, newest int64, err error)
	Call(ctx context.Context, key call.Key) (*call.Call, error)
	Calls(ctx context.Context, q call.Query) (call.Page, error)
	Expiring(ctx context.Context, q call.Query) (call.Page, error)
	Batch(ctx context.Context, key call.Key) (*call.Batch, error)
	Events(ctx context.Context, key call.Key, after int64, limit int) (events []call.Event, first int64, err error)
}

// A Spool reads the bytes of output.
type Spool interface {
	ReadAt(key call.Key, name string, p []byte, off int64) (int, error)
}

// A Service creates watchers. It may be used concurrently.
type Service struct {
	cfg    Config
	timers sync.Pool    // stopped timers of closed watchers, for reuse; of type *time.Timer
	count  atomic.Int64 // number of watchers

	mu      sync.Mutex
	waiting map[*store.Feed]chan struct{}
	inboxes map[*inboxNews]bool
}

// New returns a Service.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, waiting: map[*store.Feed]chan struct{}{}, inboxes: map[*inboxNews]bool{}}
}

// Count returns the number of watchers.
func (s *Service) Count() int64 { return s.count.Load() }

// Wake wakes the watchers that a committed change of a call concerns. Other watchers keep waiting.
func (s *Service) Wake(c *call.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watched, changed := range s.waiting {
		if shows(watched, c) {
			close(changed)
			delete(s.waiting, watched)
		}
	}
	if len(c.Rounds) == 0 {
		return
	}
	for news := range s.inboxes {
		news.add(c.Key())
	}
}

func shows(f *store.Feed, c *call.Call) bool {
	return f.Namespace == c.Namespace && (f.Run == "" || f.Run == c.Run.ID) && (f.Thread == "" || f.Thread == c.Run.Thread) && (f.Batch == "" || f.Batch == c.BatchID) &&
		(f.Caller == "" || f.Caller == c.Caller.Subject)
}

// wait returns a channel that is closed when the feed may have new entries.
func (s *Service) wait(watched *store.Feed) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, ok := s.waiting[watched]
	if !ok {
		changed = make(chan struct{})
		s.waiting[watched] = changed
	}
	return changed
}

func (s *Service) leave(watched *store.Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, watched)
}

// WakeBatch wakes the watchers of an idle batch.
func (s *Service) WakeBatch(key call.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watched, changed := range s.waiting {
		if watched.Namespace == key.Namespace && watched.Batch == key.ID {
			close(changed)
			delete(s.waiting, watched)
		}
	}
}

// frameBytes is the maximum total weight of the events in a frame, in bytes.
const frameBytes = 256 << 10

// fitting returns the leading events that fit into one frame.
func fitting(events []call.Event) []call.Event {
	size := 0
	for i := range events {
		if size += events[i].Weight(); size > frameBytes && i > 0 {
			return events[:i]
		}
	}
	return events
}

// hydrate reads the bytes of output events from the spool, up to the size of a frame.
func (s *Service) hydrate(key call.Key, events []call.Event) ([]call.Event, error) {
	size := 0
	for i := range events {
		o := events[i].Output
		if o == nil || o.Bytes != nil {
			continue
		}
		if size += o.Length; size > frameBytes && i > 0 {
			break
		}
		b := make([]byte, o.Length)
		n, err := s.cfg.Spool.ReadAt(key, o.Stream, b, o.Offset)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		filled := *o
		filled.Bytes = b[:n]
		events[i].Output = &filled
	}
	return events, nil
}

// A heartbeat is the timer of a waiting watcher.
type heartbeat struct{ timer *time.Timer }

// due returns a channel that fires when the watcher has waited for the heartbeat interval. It returns nil when heartbeats are disabled.
func (h *heartbeat) due(s *Service) <-chan time.Time {
	if s.cfg.Heartbeat <= 0 {
		return nil
	}
	if h.timer == nil {
		h.timer, _ = s.timers.Get().(*time.Timer)
	}
	if h.timer == nil {
		h.timer = time.NewTimer(s.cfg.Heartbeat)
	} else {
		h.timer.Reset(s.cfg.Heartbeat)
	}
	return h.timer.C
}

// stop returns the timer to the pool when the watcher is closed.
func (h *heartbeat) stop(s *Service) {
	if h.timer != nil {
		h.timer.Stop()
		s.timers.Put(h.timer)
	}
}
