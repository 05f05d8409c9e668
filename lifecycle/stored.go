package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// stored is about how many bytes of each namespace are kept, when that is limited: what was measured last, and what was written
// since. The journal is not asked on the path of a call.
type stored struct {
	most int64 // of each; 0: any number

	mu    sync.Mutex
	bytes map[string]int64
	since map[string]int64 // the last measurement began
}

// recordWeight is about what a call takes that has no content.
const recordWeight = 1 << 10

func (s *stored) add(namespace string, n int64) {
	if s.most == 0 || n == 0 {
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

// addChange notes what the journal was given.
func (s *stored) addChange(c *store.Change) {
	if s.most == 0 || c.Call == nil {
		return
	}
	n := 0
	if c.Create {
		n = recordWeight + len(c.Call.Requested) + len(c.Call.Effective)
	}
	for i := range c.Events {
		if c.Events[i].Output == nil { // which was counted when it was printed
			n += c.Events[i].Weight()
		}
	}
	s.add(c.Call.Namespace, int64(n))
}

// full reports whether a namespace has as much as it may have.
func (s *stored) full(namespace string) bool {
	if s.most == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes[namespace] >= s.most
}

// begin starts to measure; end takes what was found.
func (s *stored) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = map[string]int64{}
}

func (s *stored) end(found map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, n := range s.since { // some of it is in what was found: too much rather than too little, until the next time
		found[namespace] += n
	}
	s.bytes = found
}

// Stored returns about how many bytes each namespace has; nil when that is not limited.
func (e *Engine) Stored() map[string]int64 {
	s := &e.stored
	if s.most == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]int64, len(s.bytes))
	for namespace, n := range s.bytes {
		all[namespace] = n
	}
	return all
}

// MeasureStored counts anew what each namespace has in the journal and the spool, when that is limited: after the start, and
// when calls were trimmed or purged. It reads every record.
func (e *Engine) MeasureStored(ctx context.Context) error {
	if e.stored.most == 0 {
		return nil
	}
	e.stored.begin()
	found := map[string]int64{}
	for query := (store.Query{OldestFirst: true, Limit: 500}); ; {
		page, err := e.store.Calls(ctx, query)
		if err != nil {
			return fmt.Errorf("measure the journal: %w", err)
		}
		for _, c := range page.Calls {
			found[c.Namespace] += weightOf(c)
		}
		if query.After = page.Next; query.After == 0 {
			break
		}
	}
	if spool, ok := e.spool.(store.SpoolSizer); ok {
		err := spool.Sizes(ctx, func(key call.Key, bytes int64) { found[key.Namespace] += bytes })
		if err != nil {
			return fmt.Errorf("measure the spool: %w", err)
		}
	}
	e.stored.end(found)
	return nil
}

// weightOf is about what a call takes in the journal.
func weightOf(c *call.Call) int64 {
	n := recordWeight + len(c.Requested) + len(c.Effective) + len(c.Checkpoint)
	for i := range c.Rounds {
		n += (&call.Event{Suspension: &c.Rounds[i].Suspension}).Weight() + (&call.Event{Decision: c.Rounds[i].Decision}).Weight()
	}
	n += (&call.Event{Outcome: &call.Outcome{Result: c.Result}}).Weight()
	return int64(n)
}

// refuseStored is the refusal of new calls of a namespace that has as much as it may have.
func refuseStored(most int64) error {
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "STORAGE_QUOTA", RetryAfter: time.Minute,
		Message: fmt.Sprintf("the calls of this namespace have %d bytes, as many as they may; there is room again when old ones were trimmed or purged", most)}
}

// storedOut stops a call that prints when its namespace has as much as it may have.
func (l *live) storedOut(n int) error {
	if l.e.stored.full(l.key.Namespace) {
		return l.exhausted("STORAGE_QUOTA", fmt.Sprintf("Stopped: the calls of this namespace have %d bytes, as many as they may", l.e.stored.most))
	}
	l.e.stored.add(l.key.Namespace, int64(n))
	return nil
}
