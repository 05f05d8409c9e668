package limit

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// Storage estimates how many bytes each namespace has in the journal and the spool, if that is limited. The estimate is the last
// measurement plus the bytes written since. A call can therefore be checked without reading the journal.
type Storage struct {
	max int64 // limit of each namespace; 0 means no limit

	mu    sync.Mutex
	bytes map[string]int64
	since map[string]int64 // bytes written since the last measurement began
}

// recordWeight is the approximate size of a call without content, in bytes.
const recordWeight = 1 << 10

// Add counts n bytes that the spool stores.
func (s *Storage) Add(namespace string, n int64) {
	if s.max == 0 || n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes == nil {
		s.bytes, s.since = map[string]int64{}, map[string]int64{}
	}
	s.bytes[namespace] += n
	s.since[namespace] += n
}

// AddChange counts a change that the journal stores.
func (s *Storage) AddChange(c *store.Change) {
	if s.max == 0 || c.Call == nil {
		return
	}
	n := 0
	if c.Create {
		n = recordWeight + len(c.Call.Requested) + len(c.Call.Effective)
	}
	for i := range c.Events {
		if c.Events[i].Output == nil { // Output was counted when the tool wrote it.
			n += c.Events[i].Weight()
		}
	}
	s.Add(c.Call.Namespace, int64(n))
}

// Full reports whether a namespace has reached the limit.
func (s *Storage) Full(namespace string) bool {
	if s.max == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes[namespace] >= s.max
}

// Max returns the limit of each namespace in bytes. Zero means no limit.
func (s *Storage) Max() int64 { return s.max }

// Refusal returns the error for new calls of a namespace whose storage is full.
func (s *Storage) Refusal() error {
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "STORAGE_QUOTA", RetryAfter: time.Minute,
		Message: fmt.Sprintf("the calls of this namespace have reached their limit of %d stored bytes; send the call again after old calls are trimmed or purged", s.max)}
}

// Usage returns the estimated bytes of each namespace, or nil without a limit.
func (s *Storage) Usage() map[string]int64 {
	if s.max == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes == nil {
		return map[string]int64{}
	}
	return maps.Clone(s.bytes)
}

// Measure measures the bytes of each namespace in the journal and the spool, if there is a limit. It reads every record.
func (s *Storage) Measure(ctx context.Context, j Journal, spool store.Spool) error {
	if s.max == 0 {
		return nil
	}
	s.mu.Lock()
	s.since = map[string]int64{}
	s.mu.Unlock()
	found := map[string]int64{}
	for query := (call.Query{OldestFirst: true, Limit: 500}); ; {
		page, err := j.Calls(ctx, query)
		if err != nil {
			return fmt.Errorf("measure the journal: %w", err)
		}
		for _, c := range page.Calls {
			found[c.Namespace] += weight(c)
		}
		if query.After = page.Next; query.After == 0 {
			break
		}
	}
	if sizer, ok := spool.(store.SpoolSizer); ok {
		err := sizer.Sizes(ctx, func(key call.Key, bytes int64) { found[key.Namespace] += bytes })
		if err != nil {
			return fmt.Errorf("measure the spool: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, n := range s.since { // Keep these bytes in the estimate, although the measurement may already include some of them. Until the next measurement, the estimate is rather too high than too low.
		found[namespace] += n
	}
	s.bytes = found
	return nil
}

// weight returns the approximate size of a call in the journal, in bytes.
func weight(c *call.Call) int64 {
	n := recordWeight + len(c.Requested) + len(c.Effective) + len(c.Checkpoint)
	for i := range c.Rounds {
		n += (&call.Event{Suspension: &c.Rounds[i].Suspension}).Weight() + (&call.Event{Decision: c.Rounds[i].Decision}).Weight()
	}
	n += (&call.Event{Outcome: &call.Outcome{Result: c.Result}}).Weight()
	return int64(n)
}
