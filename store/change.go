package store

import (
	"fmt"

	"github.com/toold-dev/toold/call"
)

// Name returns the key of the changed call.
func (c *Change) Name() call.Key {
	if c.Call != nil {
		return c.Call.Key()
	}
	return c.Key
}

// Validate returns an error for a change that would be wrong in every state of the journal. Such a change is a bug of the code that made
// it.
func (c *Change) Validate() error {
	key := c.Name()
	if key.Namespace == "" || key.ID == "" {
		return fmt.Errorf("change without a call: %q in namespace %q", key.ID, key.Namespace)
	}
	for i := 1; i < len(c.Events); i++ {
		if c.Events[i].Sequence != c.Events[i-1].Sequence+1 {
			return fmt.Errorf("change of %s: event %d follows %d", key.ID, c.Events[i].Sequence, c.Events[i-1].Sequence)
		}
	}
	if n := len(c.Events); n > 0 && c.Call != nil && c.Call.LastSequence != c.Events[n-1].Sequence {
		return fmt.Errorf("change of %s: record ends at event %d, its events at %d", key.ID, c.Call.LastSequence, c.Events[n-1].Sequence)
	}
	if err := validateActions(key.Namespace, c.Actions); err != nil {
		return fmt.Errorf("change of %s: %w", key.ID, err)
	}
	if c.Call == nil {
		if c.Create || len(c.Events) == 0 && c.Decision == nil && len(c.Documents) == 0 && c.Run == nil && len(c.Records) == 0 && len(c.Policies) == 0 && len(c.Actions) == 0 {
			return fmt.Errorf("change of %s has nothing to write", key.ID)
		}
		return nil
	}
	if !c.Call.Status.Valid() {
		return fmt.Errorf("change of %s: status %q", key.ID, c.Call.Status)
	}
	if c.Create != (c.Call.Revision == 1) {
		return fmt.Errorf("change of %s: revision %d, create %t", key.ID, c.Call.Revision, c.Create)
	}
	return nil
}

// CallState is the stored state of a call before a change.
type CallState struct {
	Status       call.Status
	Revision     int64
	LastSequence int64
}

// Follows checks that the change continues a call in this state. It returns ErrConflict when the call has changed since it was read, and
// ErrTransition when the status does not allow the step.
func (c *Change) Follows(s CallState) error {
	last := s.LastSequence
	if len(c.Events) > 0 {
		last = c.Events[0].Sequence - 1
	} else if c.Call != nil {
		last = c.Call.LastSequence
	}
	if c.Call != nil && c.Call.Revision != s.Revision+1 || last != s.LastSequence {
		return ErrConflict
	}
	if c.Create {
		return nil
	}
	if c.Call != nil && !s.Status.CanBecome(c.Call.Status) {
		return fmt.Errorf("%w: %s to %s", ErrTransition, s.Status, c.Call.Status)
	}
	if s.Status.Terminal() && len(c.Events) > 0 {
		return fmt.Errorf("%w: events after the end of a call that is %s", ErrTransition, s.Status)
	}
	return nil
}
