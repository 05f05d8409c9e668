package limit

import (
	"slices"
	"sync"
	"time"
)

// Circuits keep calls from sources whose upstream failed several times in a row. The circuit of such a source opens for a time. Then one
// call tries the source, and the others wait for its outcome. Each namespace has its own circuits, because a caller may be the reason why a
// source fails.
type Circuits struct {
	failures int           // in a row that open a circuit; 0: circuits never open
	open     time.Duration // until one call tries

	mu     sync.Mutex
	probes int64                 // calls that tried
	of     map[upstream]*circuit // of sources that failed last; each namespace has at most one for each source
}

// An upstream is a source as a namespace reaches it.
type upstream struct{ namespace, source string }

type circuit struct {
	failures int
	until    time.Time // zero: closed
	probe    int64     // the call that tries; 0: none
}

// probeRetry is when to try again while another call tries the source.
const probeRetry = time.Second

// A Visit is a call that uses a source. The zero value uses none.
type Visit struct {
	entered bool
	probe   int64
}

// Enter returns the visit of a call to a source, or for how long the source is not used, and after how many failures.
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

// Leave ends a visit. failed says that the upstream failed; reached says that it answered. A question, a cancellation and a timeout are
// neither. Leave returns for how long the visit opened the circuit; 0: it did not.
func (s *Circuits) Leave(namespace, source string, v Visit, failed, reached bool) (opened time.Duration) {
	u := upstream{namespace, source}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[u]
	if c != nil && v.probe != 0 && c.probe == v.probe {
		c.probe = 0 // another call tries next, unless this one learned something
	} else if c != nil && !c.until.IsZero() {
		return 0 // it began before the circuit opened
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
