package lifecycle

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/metric"
	"github.com/toold-dev/toold/tool"
)

// OtherTool stands in counts for tools that are not registered, and for those beyond a thousand: what callers send must
// not make new series.
const OtherTool = "other"

const meteredTools = 1000

// outcomes are how calls are counted: as a success, or by their error's code.
func outcomes() [13 + 2]tool.Code {
	return [...]tool.Code{
		"SUCCEEDED", tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.Internal, tool.Timeout, tool.Cancelled,
		tool.Expired, tool.Interrupted, tool.InDoubt, tool.Sandbox, tool.ResourceExhausted, tool.Upstream, "FAILED",
	}
}

// meter counts the calls of one tool.
type meter struct {
	ended     [13 + 2]atomic.Int64 // by outcomes
	attempt   *metric.Histogram    // the last attempt, from intent to result
	call      *metric.Histogram    // from accepted to ended, of calls that asked nobody
	unkilled  atomic.Int64
	suspended atomic.Int64
}

func newMeter() *meter { return &meter{attempt: metric.NewTimes(), call: metric.NewTimes()} }

// meters has the meter of each tool that was called. Looking one up takes no lock.
type meters struct {
	mu    sync.Mutex
	known atomic.Pointer[map[string]*meter] // replaced, never changed
	other *meter
}

func newMeters() *meters {
	m := &meters{other: newMeter()}
	m.known.Store(&map[string]*meter{})
	return m
}

// of returns the meter of a tool; nil is one that is not registered.
func (m *meters) of(def *Definition) *meter {
	if def == nil {
		return m.other
	}
	if found := (*m.known.Load())[def.Descriptor.ID]; found != nil {
		return found
	}
	if strings.HasPrefix(def.Descriptor.ID, tool.FrontendPrefix) { // callers would make series
		return m.other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.known.Load()
	if found := known[def.Descriptor.ID]; found != nil {
		return found
	}
	if len(known) >= meteredTools {
		return m.other
	}
	next := maps.Clone(known)
	next[def.Descriptor.ID] = newMeter()
	m.known.Store(&next)
	return next[def.Descriptor.ID]
}

// metered returns the meter of a call. The new call of a registered tool has it at hand.
func (l *activeCall) metered() *meter {
	if l.meter != nil {
		return l.meter
	}
	def, _ := l.e.cfg.Tools.Lookup(l.c.Namespace, l.c.Tool)
	return l.e.meters.of(def)
}

// meterLocked counts a change of the record that was made.
func (l *activeCall) meterLocked(before call.Status, c *call.Call) {
	if before == call.Suspended && c.Status != before {
		l.e.limits.Questions.Closed(c)
	}
	switch {
	case c.Status == before:
	case c.Status == call.Suspended:
		l.metered().suspended.Add(1)
	case c.Status.Terminal():
		l.metered().end(c)
	}
}

func (m *meter) end(c *call.Call) {
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

// ToolStats is what was counted of one tool since the start.
type ToolStats struct {
	Ended          map[tool.Code]int64 // by SUCCEEDED, FAILED or the error's code; only those that came up
	Suspended      int64               // questions that were asked
	KillUnverified int64               // calls that left processes whose end nobody saw
	Attempt, Call  metric.Snapshot     // in nanoseconds
}

// ToolStats returns what was counted, by the ids of tools and [OtherTool].
func (e *Engine) ToolStats() map[string]ToolStats {
	stats := map[string]ToolStats{OtherTool: e.meters.other.stats()}
	for id, m := range *e.meters.known.Load() {
		stats[id] = m.stats()
	}
	return stats
}

func (m *meter) stats() ToolStats {
	s := ToolStats{
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
