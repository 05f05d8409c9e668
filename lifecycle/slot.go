package lifecycle

import "sync"

// A slot is taken by one at a time, in the order in which they came.
type slot struct{ c chan struct{} }

func newSlot() slot { return slot{make(chan struct{}, 1)} }

func (s slot) take() { s.c <- struct{}{} }

// try takes the slot if nobody has it.
func (s slot) try() bool {
	select {
	case s.c <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slot) give() { <-s.c }

// A signal is given once. Only who comes before needs a channel to wait for it.
type signal struct {
	mu    sync.Mutex
	given bool
	heard chan struct{} // nil: nobody waits
}

func (s *signal) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = true
	if s.heard != nil {
		close(s.heard)
		s.heard = nil
	}
}

func (s *signal) isGiven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

func (s *signal) wait() {
	s.mu.Lock()
	if s.given {
		s.mu.Unlock()
		return
	}
	if s.heard == nil {
		s.heard = make(chan struct{})
	}
	heard := s.heard
	s.mu.Unlock()
	<-heard
}
