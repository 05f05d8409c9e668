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

// hold has the calls that are left alone while another daemon may still run them.
type hold struct {
	custody.Hold
	store store.Owned // nil: no other daemon can take the journal
	calls []*activeCall
}

func (h *hold) begin(s store.Store) {
	if h.store, _ = s.(store.Owned); h.store != nil {
		h.Hold = custody.NewHold(h.store.Hold())
	}
}

// keep leaves a call alone and reports whether there is reason to: its newest attempt is one of an earlier epoch, and nobody
// saw its end. The caller has a reference, which is kept.
func (h *hold) keep(l *activeCall) bool {
	c := l.record()
	if !h.Began() || !began(c) || c.Operation() != nil {
		return false
	}
	h.Keep(c)
	h.calls = append(h.calls, l)
	return true
}

// await recovers the calls that were left alone, when the hold is over. A daemon that ends earlier leaves them to the next one.
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
			return // it drains
		}
		defer e.drain.Leave()
		r := recovery{e: e}
		for _, l := range h.calls {
			if err := r.takeUp(context.Background(), l); err != nil {
				e.log.Error("call not recovered; the next start tries again", zap.String("call_id", l.key.ID), zap.Error(err))
			}
			l.release()
		}
		h.End()
		r.end()
		e.log.Info("calls of the earlier owner recovered", zap.Any("found", r.found))
	}()
}

// awaitThread waits until a call may start in a thread in which an earlier call is left alone. The queue timeout counts from
// then on.
func (c *capacity) awaitThread(ctx context.Context) outcome.Conclusion {
	p := c.p
	if !p.l.e.hold.Holds(p.l.record()) {
		return nil
	}
	defer p.l.e.limits.Slots.WaitElsewhere(c.demand())()
	out := c.waitFor(ctx, p.l.e.hold.Free(), func() {}, p.l.e.hold.store.Hold()+c.queueLimit())
	c.queued = time.Now()
	return out
}

// own returns the end of a pipeline run whose effect may not start, because another daemon may own the journal; nil when it may. A
// read-only effect always may.
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

// Own returns why nothing may start, because another daemon may own the journal.
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

// Epoch counts the daemons that had the journal.
func (e *Engine) Epoch() int64 { return e.epoch }
