package lifecycle

import (
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

var (
	errIllegal = errors.New("illegal transition")
	errEnded   = errors.New("the call is over")
	// errJournal is the cancellation cause of calls when the journal has failed. The end of such a call is not stored.
	errJournal = errors.New("the journal failed")
)

// rejectsContent reports whether the journal refused a change because of its content.
func rejectsContent(err error) bool {
	if err == nil || errors.As(err, new(*call.Refusal)) {
		return false
	}
	for _, other := range [...]error{store.ErrFull, store.ErrBusy, store.ErrFatal, store.ErrClosed, store.ErrExpired, store.ErrTooEarly, errIllegal} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}
