package lifecycle

import "errors"

var (
	errEnded = errors.New("the call is over")
	// errJournal is the cancellation cause of calls when the journal has failed. The end of such a call is not stored.
	errJournal = errors.New("the journal failed")
)
