package group

import (
	"time"

	"github.com/toold-dev/toold/store"
)

// A State is what a journal knows of a call.
type State struct {
	store.Standing
	Position int64 // of its creation; 0 when there is no such call
	Trimmed  bool  // a tombstone has its id

	row *Row // what the plan writes of it
}

// Admit returns why a change must not commit, or nil. s is the state of its call, decided says that the id of its decision is
// stored, and now is the store's clock. The first reason counts: a repeated decision is ErrDecisionExists even when
// it comes too late.
func Admit(c *store.Change, s *State, decided bool, now time.Time) error {
	switch {
	case c.Decision != nil && decided:
		return store.ErrDecisionExists
	case s.Position == 0 && s.Trimmed:
		return store.ErrTrimmed
	case s.Position != 0 && c.Create:
		return store.ErrExists
	case s.Position == 0 && !c.Create:
		return store.ErrNotFound
	}
	if err := c.Follows(s.Standing); err != nil {
		return err
	}
	switch {
	case !c.NotAfter.IsZero() && !now.Before(c.NotAfter):
		return store.ErrExpired
	case !c.NotBefore.IsZero() && now.Before(c.NotBefore):
		return store.ErrTooEarly
	}
	return nil
}
