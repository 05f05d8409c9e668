package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
)

// An offered tool is one definition that workers serve or served. The offer never changes; the rest is guarded by the hub.
type offered struct {
	hub        *Hub
	offer      link.Tool
	definition string

	serving map[*Session]struct{}
	away    bool        // lists leave it out
	leaving *time.Timer // until then it is in lists without workers
	seen    time.Time   // as the memory has it
}

// What the workers of a tool can say beside: what became of an attempt, how far an operation is, or both.
type (
	reconciling struct{ *offered }
	polling     struct{ *offered }
	telling     struct{ *offered }
)

var (
	_ tool.Tool       = (*offered)(nil)
	_ tool.Abandoner  = (*offered)(nil)
	_ tool.Validator  = (*offered)(nil)
	_ tool.Assessor   = (*offered)(nil)
	_ tool.Describer  = (*offered)(nil)
	_ tool.Reconciler = reconciling{}
	_ tool.Reconciler = telling{}
	_ tool.Poller     = polling{}
	_ tool.Poller     = telling{}
)

// offeredOf makes a tool of an offer; an error says what is wrong with it.
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
		return telling{t}
	case t.offer.Reconciles:
		return reconciling{t}
	case t.offer.Polls:
		return polling{t}
	}
	return t
}

// Descriptor implements [tool.Tool].
func (t *offered) Descriptor() tool.Descriptor { return t.offer.Descriptor }

// Execute implements [tool.Tool]. A worker that does not heed a cancellation keeps its lease, and the engine gives the call up.
func (t *offered) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	l, err := t.start(ctx, Execute, c)
	if err != nil {
		return nil, err
	}
	return t.await(ctx, l)
}

// await returns how the work of a lease ended.
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
func (t telling) Reconcile(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return t.ask(ctx, Reconcile, c)
}

// Poll implements [tool.Poller].
func (t polling) Poll(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return t.ask(ctx, Poll, c)
}

// Poll implements [tool.Poller].
func (t telling) Poll(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return t.ask(ctx, Poll, c)
}

// Abandon implements [tool.Abandoner].
func (t *offered) Abandon(ctx context.Context, c *tool.Call) {
	if t.offer.Abandons {
		_, _ = t.ask(ctx, Abandon, c) // nobody could do anything about it
	}
}

// ask puts a question to a worker that it may leave unanswered.
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

// start has a worker begin.
func (t *offered) start(ctx context.Context, kind string, c *tool.Call) (*lease, error) {
	documents, err := t.documents(c)
	if err != nil {
		return nil, err
	}
	for {
		l := newLease(t, kind, c)
		if err := t.hub.place(ctx, l); err != nil {
			return nil, err
		}
		t.hub.mu.Lock()
		s := l.session
		if kind == Execute {
			t.hub.attempts[attemptOf(c)] = l
		}
		t.hub.mu.Unlock()
		if s != nil {
			if err := t.mayStart(ctx, kind); err != nil { // it may have waited long
				t.hub.drop(l, err)
				return nil, fmt.Errorf("%w: %w", tool.ErrNotRun, err)
			}
			s.line.Start(l.id, kind, c, documents)
			return l, nil
		}
		t.hub.drop(l, tool.ErrNotRun) // its worker went before it heard of it
	}
}

// mayStart returns why a worker may not begin. A question changes nothing.
func (t *offered) mayStart(ctx context.Context, kind string) error {
	if kind == Execute || kind == Abandon {
		return t.hub.cfg.Own(ctx)
	}
	return nil
}

// documents reads those that the tool's calls get.
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

// joinLocked makes a session one of those that serve the tool. It reports whether lists get it back.
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

// leftLocked begins the time for which a tool that nobody serves stays in lists.
func (t *offered) leftLocked() {
	if len(t.serving) > 0 || t.hub.closed || t.away {
		return
	}
	t.leaving = time.AfterFunc(t.hub.cfg.Away, func() {
		t.hub.mu.Lock()
		gone := len(t.serving) == 0 && !t.hub.closed
		t.away = t.away || gone
		t.hub.mu.Unlock()
		if gone {
			t.hub.cfg.Registry.Refresh()
		}
	})
}
