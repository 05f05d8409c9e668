package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
)

// An offered tool is one definition of a tool that workers serve or have served. offer never changes; the hub's lock guards the other
// fields.
type offered struct {
	hub        *Hub
	offer      link.Tool
	definition string

	serving map[*Session]struct{}
	away    bool        // Tool lists omit the tool.
	leaving *time.Timer // timer after which tool lists omit the tool, because it has no workers
	seen    time.Time   // time of the last offer, as Memory has it
}

// Variants of a tool that implement [tool.Reconciler], [tool.Poller] or both. The offer determines which variant is used.
type (
	reconciling        struct{ *offered }
	polling            struct{ *offered }
	reconcilingPolling struct{ *offered }
)

var (
	_ tool.Tool       = (*offered)(nil)
	_ tool.Abandoner  = (*offered)(nil)
	_ tool.Validator  = (*offered)(nil)
	_ tool.Assessor   = (*offered)(nil)
	_ tool.Describer  = (*offered)(nil)
	_ tool.Reconciler = reconciling{}
	_ tool.Reconciler = reconcilingPolling{}
	_ tool.Poller     = polling{}
	_ tool.Poller     = reconcilingPolling{}
)

// offeredOf makes a tool from an offer. It returns an error when the offer is invalid.
func (h *Hub) offeredOf(source string, o link.Tool) (*offered, error) {
	o.Descriptor.Source = source
	if err := checkTool(&o); err != nil {
		return nil, err
	}
	agreed, err := definition(&o)
	if err != nil {
		return nil, err
	}
	return &offered{hub: h, offer: o, definition: agreed, serving: map[*Session]struct{}{}}, nil
}

func (t *offered) asTool() tool.Tool {
	switch {
	case t.offer.Reconciles && t.offer.Polls:
		return reconcilingPolling{t}
	case t.offer.Reconciles:
		return reconciling{t}
	case t.offer.Polls:
		return polling{t}
	}
	return t
}

// Descriptor implements [tool.Tool].
func (t *offered) Descriptor() tool.Descriptor { return t.offer.Descriptor }

// Execute implements [tool.Tool]. When a worker ignores a cancel, Execute waits for the worker until the engine abandons the call.
func (t *offered) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	l, err := t.start(ctx, Execute, c)
	if err != nil {
		return nil, err
	}
	return t.await(ctx, l)
}

// await waits for the end of a lease and returns its outcome.
func (t *offered) await(ctx context.Context, l *lease) (*tool.Result, error) {
	defer t.hub.hangUp(l)
	select {
	case <-l.done:
	case <-ctx.Done():
		t.hub.cancel(l, context.Cause(ctx))
		<-l.done
	}
	return l.result, l.err
}

// Reconcile implements [tool.Reconciler].
func (t reconciling) Reconcile(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return t.ask(ctx, Reconcile, c)
}

// Reconcile implements [tool.Reconciler].
func (t reconcilingPolling) Reconcile(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return t.ask(ctx, Reconcile, c)
}

// Poll implements [tool.Poller].
func (t polling) Poll(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return t.ask(ctx, Poll, c)
}

// Poll implements [tool.Poller].
func (t reconcilingPolling) Poll(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return t.ask(ctx, Poll, c)
}

// Abandon implements [tool.Abandoner].
func (t *offered) Abandon(ctx context.Context, c *tool.Call) {
	if t.offer.Abandons {
		_, _ = t.ask(ctx, Abandon, c) // An error is ignored, because the worker need not get the notice.
	}
}

// ask executes work that is not an attempt: RECONCILE, ABANDON or POLL. It ends the lease when the worker has not answered before ctx is
// done.
func (t *offered) ask(ctx context.Context, kind string, c *tool.Call) (*tool.Result, error) {
	l, err := t.start(ctx, kind, c)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		t.hub.drop(l, context.Cause(ctx))
	}
	return l.result, l.err
}

// start gives work to a worker and tells the worker to start.
func (t *offered) start(ctx context.Context, kind string, c *tool.Call) (*lease, error) {
	documents, err := t.documents(c)
	if err != nil {
		return nil, err
	}
	for {
		l := newLease(t, kind, c)
		if err := t.hub.assign(ctx, l); err != nil {
			return nil, err
		}
		t.hub.mu.Lock()
		s := l.session
		if kind == Execute {
			t.hub.attempts[attemptOf(c)] = l
		}
		t.hub.mu.Unlock()
		if s != nil {
			if err := t.mayStart(ctx, kind); err != nil { // Checked again, because the call may have waited a long time for a worker.
				t.hub.drop(l, err)
				return nil, fmt.Errorf("%w: %w", tool.ErrNotRun, err)
			}
			s.line.Start(l.id, kind, c, documents)
			return l, nil
		}
		t.hub.drop(l, tool.ErrNotRun) // The worker disconnected before it got the message, so the work has not begun.
	}
}

// mayStart returns an error when a worker must not start work of this kind. Polls and reconciliations change nothing, so they are always
// permitted.
func (t *offered) mayStart(ctx context.Context, kind string) error {
	if kind == Execute || kind == Abandon {
		return t.hub.cfg.Own(ctx)
	}
	return nil
}

// documents returns the documents that the worker gets with a call of the tool.
func (t *offered) documents(c *tool.Call) ([]tool.Document, error) {
	if c.Documents == nil {
		return nil, nil
	}
	var found []tool.Document
	for _, k := range t.offer.Documents {
		d, ok, err := c.Documents.Get(k.Scope, k.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: document %q: %w", tool.ErrNotRun, k.Key, err)
		}
		if ok {
			found = append(found, d)
		}
	}
	return found, nil
}

// joinLocked adds the session to those that serve the tool. It reports whether tool lists omitted the tool before.
func (t *offered) joinLocked(s *Session) (back bool) {
	if t.leaving != nil {
		t.leaving.Stop()
		t.leaving = nil
	}
	back, t.away = t.away, false
	t.serving[s] = struct{}{}
	s.tools[t.offer.Descriptor.ID] = t
	return back
}

// leftLocked starts the timer after which tool lists omit a tool without workers.
func (t *offered) leftLocked() {
	if len(t.serving) > 0 || t.hub.closed || t.away {
		return
	}
	t.leaving = time.AfterFunc(t.hub.cfg.Away, func() {
		t.hub.mu.Lock()
		away := len(t.serving) == 0 && !t.hub.closed
		t.away = t.away || away
		t.hub.mu.Unlock()
		if away {
			t.hub.cfg.Registry.Refresh()
		}
	})
}
