package lifecycle

import (
	"errors"
	"fmt"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

var (
	errIllegal = errors.New("illegal transition")
	errEnded   = errors.New("the call is over")
	// errJournal is the cause with which calls end when the journal failed; nothing is stored of that end.
	errJournal = errors.New("the journal failed")
)

// errHeld refuses what would carry on a call of a store that is a copy: the original may carry it on too.
var errHeld = call.Refuse(call.FailedPrecondition, "CALL_HELD", "the store was copied or restored: an operator releases or ends the call (toold release), or starts the daemon with --moved when the file was only moved")

// unknownCall is the one answer for a call that does not exist and for one that the principal may not see.
func unknownCall(id string) error {
	return call.Refuse(call.NotFound, "CALL_NOT_FOUND", "no call %q here; ListCalls lists what you can see", id)
}

// transient reports whether the journal may take later what it refused with err.
func transient(err error) bool {
	return !errors.Is(err, store.ErrFatal) && (errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy))
}

// storeRefusal turns what a store found into what a door may answer.
func storeRefusal(err error, id string) error {
	switch {
	case errors.Is(err, store.ErrFatal), errors.Is(err, store.ErrClosed):
		return call.Refuse(call.Unavailable, "JOURNAL_FAILED", "the journal is not available; the daemon is stopping")
	case errors.Is(err, store.ErrNotFound):
		return unknownCall(id)
	case errors.Is(err, store.ErrTrimmed):
		return call.Refuse(call.FailedPrecondition, "CALL_EXPIRED", "call %q ended long ago and its record is gone; use a new call_id", id)
	case errors.Is(err, store.ErrCorrupt):
		return call.Refuse(call.DataLoss, "CALL_CORRUPT", "the stored record of call %q is damaged; other calls are not affected", id)
	case errors.Is(err, store.ErrFull):
		return call.Refuse(call.ResourceExhausted, "STORAGE_FULL", "the disk of the journal is full; nothing was stored, try again when there is space")
	case errors.Is(err, store.ErrBusy):
		return &call.Refusal{Kind: call.Unavailable, Reason: "JOURNAL_BUSY", RetryAfter: time.Second, Message: "the journal did not take this now; nothing was stored, send it again"}
	}
	return fmt.Errorf("call %s: %w", id, err)
}

// rejectsContent reports whether the journal refused a change for what is in it.
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
