// Package meter counts the calls of each tool: outcomes, durations, questions and processes that could not be killed.
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

// Other is the name under which the calls of some tools are counted together: unregistered tools, frontend tools, and all tools after the
// first thousand. Callers choose tool names, and a caller must not be able to create any number of metric series.
const Other = "other"

const meteredTools = 1000

// outcomes lists the labels of counted calls: SUCCEEDED, FAILED or the code of the error.
func outcomes() [13 + 2]tool.Code {
	return [...]tool.Code{
		"SUCCEEDED", tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.Internal, tool.Timeout, tool.Cancelled,
		tool.Expired, tool.Interrupted, tool.InDoubt, tool.Sandbox, tool.ResourceExhausted, tool.Upstream, "FAILED",
	}
}

// A Meter counts the calls of one tool.
type Meter struct {
	ended     [13 + 2]atomic.Int64 // indexed like outcomes
	attempt   *metric.Histogram    // duration of the last attempt of each call, from intent to result
	call      *metric.Histogram    // duration from the acceptance to the end of calls without a question
	unkilled  atomic.Int64
	suspended atomic.Int64
}

func newMeter() *Meter { return &Meter{attempt: metric.NewTimes(), call: metric.NewTimes()} }

// Meters holds a Meter for each tool that was called. A lookup of a known tool takes no lock.
type Meters struct {
	mu    sync.Mutex
	known atomic.Pointer[map[string]*Meter] // the map is immutable; a new map replaces it
	other *Meter
}

// New returns empty Meters.
func New() *Meters {
	m := &Meters{other: newMeter()}
	m.known.Store(&map[string]*Meter{})
	return m
}

// Of returns the meter of a tool. Pass nil for a tool that is not registered.
func (m *Meters) Of(d *tool.Descriptor) *Meter {
	if d == nil {
		return m.other
	}
	if found := (*m.known.Load())[d.ID]; found != nil {
		return found
	}
	if strings.HasPrefix(d.ID, tool.FrontendPrefix) { // Count the call under Other: callers choose these names and could create any number of series.
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

// End counts an ended call.
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

// Stats holds the counts of one tool since the daemon started.
type Stats struct {
	Ended          map[tool.Code]int64 // number of ended calls by SUCCEEDED, FAILED or error code; without entries of zero
	Suspended      int64               // number of questions that calls asked
	KillUnverified int64               // calls that ended while their processes may still run
	Attempt, Call  metric.Snapshot     // durations in nanoseconds
}

// Suspended counts a question.
func (m *Meter) Suspended() { m.suspended.Add(1) }

// Stats returns the counts by tool id, and under [Other].
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

// Ended returns the number of calls of all tools that ended since the daemon started, and how many of them did not succeed.
func (m *Meters) Ended() (ended, failed int64) {
	count := func(of *Meter) {
		for i := range of.ended {
			n := of.ended[i].Load()
			if ended += n; i > 0 {
				failed += n
			}
		}
	}
	count(m.other)
	for _, of := range *m.known.Load() {
		count(of)
	}
	return ended, failed
}
