// Package flush collects items and writes them to the journal together after a short delay.
//
// Writing many small changes together takes the journal about as long as writing a single one. All events that a short call publishes
// within the delay become one row.
package flush

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// delay is the longest time that an item waits.
	delay = 50 * time.Millisecond
	// early is the number of waiting items at which a flush starts before the delay is over.
	early = 512
	// most is the number of unwritten items above which [List.Full] returns true.
	most = 16384
)

// A List holds items that wait and items that are being written. Its methods may be called concurrently.
type List[T any] struct {
	write   func(item T, done func(T))
	flushed func(T)

	mu      sync.Mutex
	waiting []T
	armed   bool
	// flights holds the flushes that are being written.
	flights map[*flight]struct{}
	// away counts the items that are being written or were postponed.
	away atomic.Int64
}

// A flight holds the items of one flush until all are written.
type flight struct {
	left    atomic.Int64
	flushed chan struct{} // closed when the journal has stored or refused all items
}

// New returns an empty List. write starts to write an item, and invokes done when it is written, possibly after write has returned. flushed
// is then called for an item that was passed to Add.
func New[T any](write func(item T, done func(T)), flushed func(T)) *List[T] {
	return &List[T]{write: write, flushed: flushed, flights: map[*flight]struct{}{}}
}

// Add adds an item. The caller must not add the same item again before it is written.
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

// Postpone invokes again(item) after a delay. Use it for an item that the journal refused for now. Until then, Count includes the item.
func (b *List[T]) Postpone(item T, again func(T)) {
	b.away.Add(1)
	time.AfterFunc(10*delay, func() {
		b.away.Add(-1)
		again(item)
	})
}

// Write writes one item immediately and waits until it is written.
func (b *List[T]) Write(item T) {
	written := make(chan struct{})
	b.write(item, func(T) { close(written) })
	<-written
}

// Full reports whether too many items are unwritten.
func (b *List[T]) Full() bool { return b.Count() > most }

// Count returns the number of items that are not in the journal yet.
func (b *List[T]) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) + int(b.away.Load())
}

// Settle waits until every item that was added before is in the journal or was refused.
func (b *List[T]) Settle() {
	b.flush()
	b.mu.Lock()
	flights := slices.Collect(maps.Keys(b.flights))
	b.mu.Unlock()
	for _, f := range flights {
		<-f.flushed
	}
}

// flush starts to write the waiting items.
func (b *List[T]) flush() {
	b.mu.Lock()
	waiting := b.waiting
	b.waiting = nil
	if len(waiting) == 0 {
		b.mu.Unlock()
		return
	}
	f := &flight{flushed: make(chan struct{})}
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
		close(f.flushed)
	}
	for _, item := range waiting {
		b.write(item, done)
	}
}
