// Package metric counts events in the parts of the daemon and writes the counts in the text format of Prometheus.
//
// Each part of the daemon counts with atomic integers. A [Histogram] costs two atomic adds for each observation and never allocates.
// Counting looks up no name: only the code that writes the metrics knows their names and labels.
package metric

import (
	"slices"
	"sync/atomic"
	"time"
)

// A Histogram counts observations by size. Its methods may be called concurrently.
type Histogram struct {
	bounds []int64 // inclusive, ascending
	counts []atomic.Int64
	sum    atomic.Int64
}

// NewHistogram returns a histogram with these inclusive upper bounds. They must ascend and must not be modified later. Observations above
// the last bound are counted too.
func NewHistogram(bounds ...int64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// NewTimes returns a histogram for durations, with bounds from 100 µs to 10 min.
func NewTimes() *Histogram {
	const us, ms, s = int64(time.Microsecond), int64(time.Millisecond), int64(time.Second)
	return NewHistogram(100*us, 250*us, 500*us, ms, 5*ms/2, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, s, 5*s/2, 5*s, 10*s, 30*s, 60*s, 300*s, 600*s)
}

// Observe counts v.
func (h *Histogram) Observe(v int64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

// Snapshot is the state of a histogram at one time. Its counts are not cumulative: there is one count for each bound, and one for the
// observations above the last bound.
type Snapshot struct {
	Bounds []int64
	Counts []int64
	Sum    int64
}

// Snapshot returns the current counts. A concurrent observation may be in the counts and not yet in the sum.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{Bounds: slices.Clone(h.bounds), Counts: make([]int64, len(h.counts)), Sum: h.sum.Load()}
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
	}
	return s
}

// Count returns the number of observations.
func (s Snapshot) Count() (n int64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}
