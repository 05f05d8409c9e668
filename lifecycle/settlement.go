package lifecycle

import (
	"errors"

	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
)

// A settlement says what the journal did with the end of a pipeline run. The zero value is committed.
type settlement struct {
	is  settled
	err error // for clients; nil when committed
}

// settled is the kind of a settlement.
type settled int

const (
	committed settled = iota // stored, or there was nothing to store
	// retryable means that the journal refused the end of the pipeline run but still works. If nothing of the call was ever stored, the
	// client may send the call again. Otherwise the call has no owner until [Engine.CheckOwners] or the next start recovers it.
	retryable
	fatal // the journal has failed: only the next daemon can find out what it contains
)

// settle returns the settlement of a pipeline run. err is the error that the journal returned for the end of the pipeline run, and id is
// the id of the call.
func settle(err error, id string) settlement {
	switch {
	case err == nil:
		return settlement{}
	case errors.Is(err, store.ErrFatal), errors.Is(err, store.ErrClosed):
		return settlement{fatal, refusal.OfCall(err, id)}
	}
	return settlement{retryable, refusal.OfCall(err, id)}
}

// stops returns why a recovery must not continue with further calls, or nil while the journal works.
func (s settlement) stops() error {
	if s.is == fatal {
		return s.err
	}
	return nil
}

// lose records that the journal did not store the end of a pipeline run. The watchers of the call then end. The call does not change again
// before it is recovered.
func (l *activeCall) lose(err error) settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settlement.is == committed { // An earlier settlement that is not committed stays: it has the first error.
		l.settlement = settle(err, l.key.ID)
	}
	l.log.Wake()
	if !l.stored {
		l.e.owners.Unopened(l.reopen)
		l.e.forget(l)
	}
	return l.settlement
}

// settled returns the settlement of the newest pipeline run.
func (l *activeCall) settled() settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settlement
}

// forgive lets the call continue after a settlement that was not committed, and returns that settlement.
func (l *activeCall) forgive() settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.settlement
	l.settlement = settlement{}
	return s
}
