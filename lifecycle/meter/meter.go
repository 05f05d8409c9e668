// Package meter counts the calls of each tool: how they ended, how long they took, what they asked and what they left behind.
package meter

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/metric"
	"github.com/toold-dev/toold/tool"
)

// Other is in counts the name of tools that are not registered, and for those beyond a thousand: what callers send must
// not make new series.
const Other = "other"

const meteredTools = 1000

// outcomes are how calls are counted: as a success, or by their error's code.
func outcomes() [13 + 2]tool.Code {
	return [...]tool.Code{
		"SUCCEEDED", tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.Internal, tool.Timeout, tool.Cancelled,
		tool.Expired, tool.Interrupted, tool.InDoubt, tool.Sandbox, tool.ResourceExhausted, tool.Upstream, "FAILED",
	}
}

// A Meter counts the calls of one tool.
type Meter struct {
	ended     [13 + 2]atomic.Int64 // by outcomes
	attempt   *metric.Histogram    // the last attempt, from intent to result
	call      *metric.Histogram    // from accepted to ended, of calls that asked nobody
	unkilled  atomic.Int64
	suspended atomic.Int64
}

func newMeter() *Meter { return &Meter{attempt: metric.NewTimes(), call: metric.NewTimes()} }

// Meters has the meter of each tool that was called. Looking one up takes no lock.
type Meters struct {
	mu    sync.Mutex
	known atomic.Pointer[map[string]*Meter] // replaced, never changed
	other *Meter
}

// New returns meters that have counted nothing.
func New() *Meters {
	m := &Meters{other: newMeter()}
	m.known.Store(&map[string]*Meter{})
	return m
}

// Of returns the meter of a tool; nil is one that is not registered.
func (m *Meters) Of(d *tool.Descriptor) *Meter {
	if d == nil {
		return m.other
	}
	if found := (*m.known.Load())[d.ID]; found != nil {
		return found
	}
	if strings.HasPrefix(d.ID, tool.FrontendPrefix) { // callers would make series
		return m.other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.known.Load()
	if found := known[d.ID]; found != nil {
		return found
	}
	if len(known) >= meteredTools {
		return m.other
	}
	next := maps.Clone(known)
	next[d.ID] = newMeter()
	m.known.Store(&next)
	return next[d.ID]
}

// End counts a call that ended.
func (m *Meter) End(c *call.Call) {
	m.ended[outcomeOf(c)].Add(1)
	if n := len(c.Attempts); n > 0 {
		if a := &c.Attempts[n-1]; !a.Ended.IsZero() {
			m.attempt.Observe(int64(a.Ended.Sub(a.Started)))
		}
	}
	if len(c.Rounds) == 0 {
		m.call.Observe(int64(c.Ended.Sub(c.Created)))
	}
	if r := c.Result; r != nil && r.Process != nil && len(r.Process.KillUnverified) > 0 {
		m.unkilled.Add(1)
	}
}

func outcomeOf(c *call.Call) int {
	if c.Status == call.Succeeded {
		return 0
	}
	all := outcomes()
	if c.Result != nil && c.Result.Error != nil {
		for i, code := range all[1:] {
			if c.Result.Error.Code == code {
				return i + 1
			}
		}
	}
	return len(all) - 1
}

// Stats is what was counted of one tool since the start.
type Stats struct {
	Ended          map[tool.Code]int64 // by SUCCEEDED, FAILED or the error's code; only those that came up
	Suspended      int64               // questions that were asked
	KillUnverified int64               // calls that left processes whose end nobody saw
	Attempt, Call  metric.Snapshot     // in nanoseconds
}

// Suspended counts a question.
func (m *Meter) Suspended() { m.suspended.Add(1) }

// Stats returns what was counted, by the ids of tools and [Other].
func (m *Meters) Stats() map[string]Stats {
	stats := map[string]Stats{Other: m.other.stats()}
	for id, of := range *m.known.Load() {
		stats[id] = of.stats()
	}
	return stats
}

func (m *Meter) stats() Stats {
	s := Stats{
		Ended: map[tool.Code]int64{}, Suspended: m.suspended.Load(), KillUnverified: m.unkilled.Load(),
		Attempt: m.attempt.Snapshot(), Call: m.call.Snapshot(),
	}
	for i, code := range outcomes() {
		if n := m.ended[i].Load(); n > 0 {
			s.Ended[code] = n
		}
	}
	return s
}
