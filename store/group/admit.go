package group

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// A State is the stored state of a call.
type State struct {
	store.CallState
	Position int64 // position at which the call was created; zero means that the call does not exist
	Trimmed  bool  // the call has only a tombstone

	row *Row // the row that the plan writes for the call
}

// Admit returns an error when a change must not commit. s is the state of its call. decided reports whether a decision with the same id is
// stored. now is the store's clock. If there are several reasons, the first one is returned: a repeated decision gives ErrDecisionExists
// even after NotAfter.
func Admit(c *store.Change, s *State, decided bool, now call.Stamp) error {
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
	if err := c.Follows(s.CallState); err != nil {
		return err
	}
	switch {
	case c.NotAfter != 0 && now >= c.NotAfter:
		return store.ErrExpired
	case now < c.NotBefore:
		return store.ErrTooEarly
	}
	return nil
}
