// Package refusal converts errors of the journal into errors for clients.
//
// A [*call.Refusal] has the kind and the reason that an endpoint returns to its client. An error that the package does not know gets the id
// of the record as a prefix.
package refusal

import (
	"errors"
	"fmt"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// Held refuses to continue a call of a store that may be a copy. The daemon of the original store may continue the same call.
var Held = call.Refuse(call.FailedPrecondition, "CALL_HELD", "the call is held: an operator releases or cancels it with toold release. The store was copied or restored; if it was only moved and nothing else uses the original, restart the daemon with --moved")

// Draining returns the refusal of a new call while the daemon is stopping.
func Draining() error {
	return &call.Refusal{Kind: call.Unavailable, Reason: "DRAINING", RetryAfter: time.Second,
		Message: "the daemon is stopping; send the request again to the next daemon"}
}

// UnknownCall returns the refusal "not found". It is the same for a call that does not exist and for one that the principal may not see.
func UnknownCall(id string) error {
	return call.Refuse(call.NotFound, "CALL_NOT_FOUND", "no call %q here; ListCalls lists what you can see", id)
}

// OfCall converts an error about a call into the error for the client.
func OfCall(err error, id string) error {
	switch {
	case errors.Is(err, store.ErrFatal), errors.Is(err, store.ErrClosed):
		return call.Refuse(call.Unavailable, "JOURNAL_FAILED", "the journal is not available; the daemon is stopping")
	case errors.Is(err, store.ErrNotFound):
		return UnknownCall(id)
	case errors.Is(err, store.ErrTrimmed):
		return call.Refuse(call.FailedPrecondition, "CALL_EXPIRED", "call %q ended long ago and its record is gone; use a new call_id", id)
	case errors.Is(err, store.ErrCorrupt):
		return call.Refuse(call.DataLoss, "CALL_CORRUPT", "the stored record of call %q is damaged; other calls are not affected", id)
	case errors.Is(err, store.ErrFull):
		return call.Refuse(call.ResourceExhausted, "STORAGE_FULL", "the disk of the journal is full; nothing was stored, try again when there is space")
	case errors.Is(err, store.ErrBusy):
		return &call.Refusal{Kind: call.Unavailable, Reason: "JOURNAL_BUSY", RetryAfter: time.Second, Message: "the journal is busy; nothing was stored, send the request again"}
	}
	return fmt.Errorf("call %s: %w", id, err)
}

// OfBatch converts an error about a batch into the error for the client.
func OfBatch(err error, id string) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return call.Refuse(call.NotFound, "BATCH_NOT_FOUND", "no batch %q here", id)
	case errors.Is(err, store.ErrTrimmed):
		return call.Refuse(call.FailedPrecondition, "BATCH_EXPIRED", "batch %q ended long ago and its record is gone; use a new batch_id", id)
	case errors.Is(err, store.ErrCorrupt):
		return call.Refuse(call.DataLoss, "BATCH_CORRUPT", "the stored record of batch %q is damaged; other batches are not affected", id)
	}
	return OfCall(err, id)
}

// Transient reports whether the journal may accept the same change when it is sent again later.
func Transient(err error) bool {
	return !errors.Is(err, store.ErrFatal) && (errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy))
}
