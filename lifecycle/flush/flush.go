// Package flush collects what has to be written, and writes it together a little later.
//
// The journal takes many small changes at once for the price of one, and what a short call publishes within the delay is one row.
package flush

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// delay is how long an item waits at most.
	delay = 50 * time.Millisecond
	// early is the number of items that do not wait for the delay.
	early = 512
	// most bounds the items that wait for a slow journal.
	most = 16384
)

// A List has the items that wait, and those that are being written. Its methods may be called concurrently.
type List[T any] struct {
	write   func(item T, done func(T))
	flushed func(T)

	mu      sync.Mutex
	waiting []T
	armed   bool
	// flights are what is on its way to the journal.
	flights map[*flight]struct{}
	// away are the items that do not wait, and are not in the journal either.
	away atomic.Int64
}

// A flight is the items that one flush writes.
type flight struct {
	left   atomic.Int64
	landed chan struct{} // closed when all items are in the journal, or were refused
}

// New returns an empty List. write writes an item and calls done; it may return earlier. flushed is called after that for an item that
// was added.
func New[T any](write func(item T, done func(T)), flushed func(T)) *List[T] {
	return &List[T]{write: write, flushed: flushed, flights: map[*flight]struct{}{}}
}

// Add adds an item, which the caller does not add again before it is written.
func (b *List[T]) Add(item T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, item)
	if len(b.waiting) == early {
		go b.flush()
	}
	if !b.armed {
		b.armed = true
		time.AfterFunc(delay, func() {
			b.mu.Lock()
			b.armed = false
			b.mu.Unlock()
			b.flush()
		})
	}
}

// Postpone calls again later, for an item that the journal refused for now. The item counts meanwhile.
func (b *List[T]) Postpone(item T, again func(T)) {
	b.away.Add(1)
	time.AfterFunc(10*delay, func() {
		b.away.Add(-1)
		again(item)
	})
}

// Write writes one item now.
func (b *List[T]) Write(item T) {
	written := make(chan struct{})
	b.write(item, func(T) { close(written) })
	<-written
}

// Full reports whether too many items wait.
func (b *List[T]) Full() bool { return b.Count() > most }

// Count returns how many items are not in the journal.
func (b *List[T]) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) + int(b.away.Load())
}

// Settle returns when everything that was added before is in the journal, or could not be written.
func (b *List[T]) Settle() {
	b.flush()
	b.mu.Lock()
	flights := slices.Collect(maps.Keys(b.flights))
	b.mu.Unlock()
	for _, f := range flights {
		<-f.landed
	}
}

// flush starts to write what waits.
func (b *List[T]) flush() {
	b.mu.Lock()
	waiting := b.waiting
	b.waiting = nil
	if len(waiting) == 0 {
		b.mu.Unlock()
		return
	}
	f := &flight{landed: make(chan struct{})}
	f.left.Store(int64(len(waiting)))
	b.flights[f] = struct{}{}
	b.away.Add(f.left.Load())
	b.mu.Unlock()
	done := func(item T) {
		b.flushed(item)
		b.away.Add(-1)
		if f.left.Add(-1) > 0 {
			return
		}
		b.mu.Lock()
		delete(b.flights, f)
		b.mu.Unlock()
		close(f.landed)
	}
	for _, item := range waiting {
		b.write(item, done)
	}
}
