package lifecycle

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/expiry"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Sweep expires suspensions whose time is over. It blocks until ctx is done.
func (e *Engine) Sweep(ctx context.Context) error {
	e.expiry.Run(ctx)
	return nil
}

// ExpireDue expires everything that is due by the store's clock, and returns when the results are stored.
func (e *Engine) ExpireDue(ctx context.Context) error { return e.expiry.Once(ctx) }

func newExpiry(e *Engine) *expiry.Sweeper {
	return expiry.New(e.cfg.Store, e.held, e.log, func(ctx context.Context, key call.Key) bool {
		if !e.drain.Admit() {
			return false // The daemon stops. The next daemon will expire the question.
		}
		defer e.drain.Leave()
		l, err := e.acquire(ctx, key)
		if err != nil {
			return false
		}
		defer l.release()
		return expire(ctx, l)
	})
}

// expire ends the open suspension of a call, and reports whether it did.
func expire(ctx context.Context, l *activeCall) bool {
	l.slot.Take()
	open := l.record().Open()
	if open == nil {
		l.unslot()
		return false
	}
	asked := *open
	var err error
	if asked.DefaultResult != "" {
		// The id contains spaces. Client ids cannot contain spaces, so no client decision has the same id.
		d := tool.Decision{ID: "expiry of " + asked.ID, Action: tool.Resume, Result: asked.DefaultResult, Reason: "expired; the default answer applies", Time: l.e.store.Now().Time(), DecidedBy: tool.Principal{Namespace: l.key.Namespace, Subject: "toold", Method: "expiry"}}
		final := l.e.decisions.step(l, decision.Expiry(d, l.record().LastRound()), &d)
		final.notBefore = asked.ExpiresAt
		err = l.commitSlotted(final)
		l.unslot()
		if err == nil {
			l.resumeRun(ctx, d)
		}
	} else {
		err = storeExpired(l, &asked)
		l.unslot()
		if err == nil {
			p := lookupPipeline(l)
			p.abandoned(&asked)
		}
	}
	if err != nil && !errors.Is(err, store.ErrTooEarly) && !errors.Is(err, store.ErrConflict) {
		l.e.log.Warn("expiry not stored", zap.String("call_id", l.key.ID), zap.Error(err))
	}
	return err == nil
}

// storeExpired ends the call. The transaction also checks that the question has expired. The caller holds the slot.
func storeExpired(l *activeCall, s *call.Suspension) error {
	p := lookupPipeline(l)
	out := outcome.Expired(s.ExpiresAt.Sub(s.Created))
	records := p.after(context.Background(), out)
	final := p.finalStep(out)
	final.notBefore, final.records = s.ExpiresAt, records
	apply := final.apply
	final.apply = func(c *call.Call) {
		apply(c)
		c.Rounds = slices.Clone(c.Rounds)
		c.Rounds[len(c.Rounds)-1].Expired = true
	}
	err := l.commitSlotted(final)
	if err != nil {
		l.intake.reset()
	}
	return err
}
