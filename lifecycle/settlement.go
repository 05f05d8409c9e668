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
	// retryable means that the journal did not take the end and works. A call that was never stored may be sent again. Another call has no
	// owner: [Engine.CheckOwners] or the next start takes it up.
	retryable
	fatal // the journal has ended: only the next daemon knows what it contains
)

// settle returns the settlement of the call id whose end the journal answered with err.
func settle(err error, id string) settlement {
	switch {
	case err == nil:
		return settlement{}
	case errors.Is(err, store.ErrFatal), errors.Is(err, store.ErrClosed):
		return settlement{fatal, refusal.OfCall(err, id)}
	}
	return settlement{retryable, refusal.OfCall(err, id)}
}

// stops returns why a recovery takes up no further call; nil while the journal works.
func (s settlement) stops() error {
	if s.is == fatal {
		return s.err
	}
	return nil
}

// lose records that the journal did not take the end of a pipeline run, which ends the watchers of the call. The call changes no
// more until it is taken up.
func (l *activeCall) lose(err error) settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settlement.is == committed { // else err is the error of the earlier settlement
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
