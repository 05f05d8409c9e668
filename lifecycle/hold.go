package lifecycle

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/custody"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
)

// hold contains the calls that another daemon may still run, and recovers them when the hold is over.
type hold struct {
	custody.Hold
	store store.Owned // nil when no other daemon can take over the journal
	calls []*activeCall
}

func (h *hold) begin(s store.Store) {
	if h.store, _ = s.(store.Owned); h.store != nil {
		h.Hold = custody.NewHold(h.store.Hold())
	}
}

// keep adds a call to the hold and reports whether it did. It adds only a call without an operation whose newest attempt has no known end.
// The hold then owns the caller's reference to the call.
func (h *hold) keep(l *activeCall) bool {
	c := l.record()
	if !h.Began() || !began(c) || c.Operation() != nil {
		return false
	}
	h.Keep(c)
	h.calls = append(h.calls, l)
	return true
}

// await starts a goroutine that recovers the calls of the hold when the hold is over. If the daemon ends before, the next daemon recovers
// them.
func (h *hold) await(e *Engine) {
	if !h.Began() {
		return
	}
	if len(h.calls) > 0 {
		e.log.Warn("calls of the earlier owner of the store may still run; they are recovered when the hold is over", zap.Int("calls", len(h.calls)), zap.Duration("hold", h.store.Hold()))
	}
	go func() {
		select {
		case <-h.Over():
		case <-e.drain.Closed():
			return
		}
		if !e.drain.Admit() {
			return // The daemon is stopping, so the next daemon recovers the calls.
		}
		defer e.drain.Leave()
		r := recovery{e: e}
		for _, l := range h.calls {
			if err := r.recoverCall(context.Background(), l); err != nil {
				e.log.Error("call not recovered; the next start tries again", zap.String("call_id", l.key.ID), zap.Error(err))
			}
			l.release()
		}
		h.End()
		r.end()
		e.log.Info("calls of the earlier owner recovered", zap.Any("found", r.found))
	}()
}

// awaitThread waits until no earlier call of the thread is in the hold. Only then does the queue timeout begin.
func (c *capacity) awaitThread(ctx context.Context) outcome.Conclusion {
	p := c.p
	if !p.l.e.hold.Holds(p.l.peek()) {
		return nil
	}
	defer p.l.e.limits.Slots.WaitElsewhere(c.demand())()
	out := c.waitFor(ctx, p.l.e.hold.Free(), func() {}, p.l.e.hold.store.Hold()+c.queueLimit(), &call.Queued{Reason: "HOLD"})
	c.queued = time.Now()
	return out
}

// own returns an outcome when the effect of the pipeline run may not start, because another daemon may own the journal. For a BEHIND call
// it always returns nil.
func (p *pipeline) own(ctx context.Context) outcome.Conclusion {
	if p.l.peek().Class == call.Behind {
		return nil
	}
	err := p.l.e.Own(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return outcome.StoppedBy(context.Cause(ctx), p.beforeAttempt())
	}
	return outcome.Unaccepted{Err: err}
}

// Own returns an error when no effect may start, because another daemon may own the journal.
func (e *Engine) Own(ctx context.Context) error {
	if e.hold.store == nil {
		return nil
	}
	err := e.hold.store.Own(ctx)
	if errors.Is(err, store.ErrFatal) {
		e.fatal(err)
	}
	return err
}

// Epoch returns the number of daemon starts on the journal, including this start.
func (e *Engine) Epoch() int64 { return e.epoch }
