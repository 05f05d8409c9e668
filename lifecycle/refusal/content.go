package refusal

import (
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// ErrIllegal means that the engine refused a transition, so that the journal never saw the change.
var ErrIllegal = errors.New("illegal transition")

// RejectsContent reports whether the journal refused a change because of its content.
func RejectsContent(err error) bool {
	if err == nil || errors.As(err, new(*call.Refusal)) {
		return false
	}
	for _, other := range [...]error{store.ErrFull, store.ErrBusy, store.ErrFatal, store.ErrClosed, store.ErrExpired, store.ErrTooEarly, ErrIllegal} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}
