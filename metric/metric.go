// Package metric is how the parts of the daemon count, and how the counts are written for Prometheus.
//
// A counter is an atomic integer of the part that counts. A [Histogram] costs two atomic adds an observation and never
// allocates. Names and labels belong to who writes the numbers down: nothing that counts looks a name up.
package metric

import (
	"slices"
	"sync/atomic"
	"time"
)

// A Histogram counts observations by size. Its methods may be called from many goroutines.
type Histogram struct {
	bounds []int64 // inclusive, ascending
	counts []atomic.Int64
	sum    atomic.Int64
}

// NewHistogram returns a histogram with these inclusive upper bounds, which must ascend and must not be changed; what is
// above the last one is counted too.
func NewHistogram(bounds ...int64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// NewTimes returns a histogram of durations from 100 µs to 10 min.
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

// Snapshot is a histogram as it stood: the counts of each bound alone, and of what is above the last.
type Snapshot struct {
	Bounds []int64
	Counts []int64
	Sum    int64
}

// Snapshot returns what was counted. Observations that happen meanwhile may be in the counts and not in the sum.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{Bounds: slices.Clone(h.bounds), Counts: make([]int64, len(h.counts)), Sum: h.sum.Load()}
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
	}
	return s
}

// Count is how many observations there were.
func (s Snapshot) Count() (n int64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}
