// Package turns has what goroutines of one engine wait with: a slot that one holds at a time, a signal that is given once, and
// goroutines that are used again. Each exists because the standard form was measured to cost more in the path of a call.
package turns

import "sync"

// A Slot is taken by one goroutine at a time, in the order in which they came. A channel of one, which does the same, was a piece
// of memory for each call and three times as slow. The zero Slot is free.
type Slot struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{} // closed when it is their turn
}

// Take waits until the slot is free, and takes it.
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

// Try takes the slot if it is free.
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

// A Signal is given once. Only a goroutine that comes before needs a channel to wait for it.
type Signal struct {
	mu     sync.Mutex
	given  bool
	waited chan struct{} // nil: nobody waits
}

// Give gives the signal.
func (s *Signal) Give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = true
	if s.waited != nil {
		close(s.waited)
		s.waited = nil
	}
}

// IsGiven reports whether the signal was given.
func (s *Signal) IsGiven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

// Wait returns when the signal was given.
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
