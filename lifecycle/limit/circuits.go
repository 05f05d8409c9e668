package limit

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Circuits stops calls to a source whose upstream failed several times in a row. The circuit of such a source opens for a time. After that
// time, one call tries the source while other calls are refused. Each namespace has its own circuits, because its callers may be the reason
// why a source fails.
type Circuits struct {
	failures int           // consecutive failures that open a circuit; 0 disables circuits
	open     time.Duration // time for which a circuit stays open

	mu     sync.Mutex
	probes int64                 // number of calls that tried a source after its circuit opened
	of     map[Upstream]*circuit // only sources whose last call failed
}

// An Upstream is a source as seen from one namespace.
type Upstream struct{ Namespace, Source string }

type circuit struct {
	failures int
	until    time.Time // zero when the circuit is closed
	probe    int64     // number of the call that tries the source; 0 when none does
}

// probeRetry is the delay after which a client may repeat a call that was refused because another call was trying the source.
const probeRetry = time.Second

// A Visit represents a call that uses a source. The zero value means that the call uses no source.
type Visit struct {
	entered bool
	probe   int64
}

// Enter returns the visit of a call to a source. While the circuit is open, it refuses the call: it returns the time after which the call
// may be sent again, and the number of failures.
func (s *Circuits) Enter(namespace, source string) (v Visit, wait time.Duration, failures int) {
	if s.failures == 0 {
		return Visit{}, 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[Upstream{namespace, source}]
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

// Leave ends a visit. failed reports that the upstream failed; reached reports that it answered. After a question, a cancellation or a
// timeout, both are false. If this visit opens the circuit, Leave returns the time for which the circuit is open. Otherwise it returns 0.
func (s *Circuits) Leave(namespace, source string, v Visit, failed, reached bool) (opened time.Duration) {
	u := Upstream{namespace, source}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[u]
	if c != nil && v.probe != 0 && c.probe == v.probe {
		c.probe = 0 // If this outcome shows nothing about the upstream, another call may try next.
	} else if c != nil && !c.until.IsZero() {
		return 0 // The visit began before the circuit opened, so it must not change the circuit.
	}
	switch {
	case reached:
		delete(s.of, u)
	case failed:
		if c == nil {
			c = &circuit{}
			if s.of == nil {
				s.of = map[Upstream]*circuit{}
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

// Open returns the sources that have an open circuit, sorted by source.
func (s *Circuits) Open() []Upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []Upstream
	for u, c := range s.of {
		if !c.until.IsZero() {
			open = append(open, u)
		}
	}
	slices.SortFunc(open, func(a, b Upstream) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Namespace, b.Namespace))
	})
	return open
}
