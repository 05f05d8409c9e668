package limit

import (
	"slices"
	"sync"
	"time"
)

// Circuits stops calls to a source whose upstream failed several times in a row. The circuit of such a source opens for a time. After that,
// one call tries the source while the others wait for its outcome. Each namespace has separate circuits, because a caller may be the reason
// why a source fails.
type Circuits struct {
	failures int           // consecutive failures that open a circuit; 0 disables circuits
	open     time.Duration // time until one call tries again

	mu     sync.Mutex
	probes int64                 // number of calls that have tried
	of     map[upstream]*circuit // only sources whose last call failed, at most one entry per source and namespace
}

// An upstream is a source as seen from one namespace.
type upstream struct{ namespace, source string }

type circuit struct {
	failures int
	until    time.Time // zero when the circuit is closed
	probe    int64     // number of the call that tries the source; 0 when none does
}

// probeRetry is the delay for a call that finds another call trying the source.
const probeRetry = time.Second

// A Visit represents a call that uses a source. The zero value uses none.
type Visit struct {
	entered bool
	probe   int64
}

// Enter returns the visit of a call to a source. While the circuit is open, it returns the time to wait and the number of failures instead.
func (s *Circuits) Enter(namespace, source string) (v Visit, wait time.Duration, failures int) {
	if s.failures == 0 {
		return Visit{}, 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[upstream{namespace, source}]
	if c == nil || c.until.IsZero() {
		return Visit{entered: true}, 0, 0
	}
	if wait = time.Until(c.until); wait > 0 {
		return Visit{}, wait, c.failures
	}
	if c.probe != 0 {
		return Visit{}, probeRetry, c.failures
	}
	s.probes++
	c.probe = s.probes
	return Visit{entered: true, probe: c.probe}, 0, 0
}

// Leave ends a visit. failed reports that the upstream failed; reached reports that it answered. For a question, a cancellation or a
// timeout, both are false. Leave returns the time for which this visit opened the circuit, or 0.
func (s *Circuits) Leave(namespace, source string, v Visit, failed, reached bool) (opened time.Duration) {
	u := upstream{namespace, source}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[u]
	if c != nil && v.probe != 0 && c.probe == v.probe {
		c.probe = 0 // Another call may try next, unless this outcome decides below.
	} else if c != nil && !c.until.IsZero() {
		return 0 // This visit began before the circuit opened.
	}
	switch {
	case reached:
		delete(s.of, u)
	case failed:
		if c == nil {
			c = &circuit{}
			if s.of == nil {
				s.of = map[upstream]*circuit{}
			}
			s.of[u] = c
		}
		if c.failures++; c.failures >= s.failures {
			c.until = time.Now().Add(s.open)
			return s.open
		}
	}
	return 0
}

// Open returns the sources that have an open circuit, sorted.
func (s *Circuits) Open() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []string
	for u, c := range s.of {
		if !c.until.IsZero() {
			open = append(open, u.source)
		}
	}
	slices.Sort(open)
	return slices.Compact(open)
}
