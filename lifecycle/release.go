package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Release continues held calls as a normal start would. If end is true, it cancels them instead, as [Engine.Cancel] does. It returns how
// many calls it processed, and how many are still held in the namespace. It skips calls that are not held, so an interrupted release can be
// repeated. When no call is held any more, the daemon treats the store as its own again.
func (e *Engine) Release(ctx context.Context, p tool.Principal, which call.HeldSelector, end bool, reason string) (released, left int, err error) {
	if !e.drain.Admit() {
		return 0, 0, refusal.Draining()
	}
	defer e.drain.Leave()
	keys, err := heldKeys(ctx, e, p, which)
	if err != nil {
		return 0, 0, err
	}
	r := releasing{recovery: recovery{e: e}, still: map[call.Key]func(){}}
	if end {
		r.end = &call.CancelRequest{By: p, Reason: reason, Cause: "CLIENT", Time: time.Now()}
	}
	defer r.close()
	for _, key := range keys {
		if err = ctx.Err(); err != nil {
			return released, 0, err
		}
		took, err := r.call(ctx, key)
		if err != nil {
			return released, 0, refusal.OfCall(err, key.ID)
		}
		if took {
			released++
		}
		e.cfg.FailPoint("released")
	}
	left, err = r.settle(ctx, p.Namespace)
	return released, left, err
}

// heldKeys returns the ids of the selected calls. If a requested id is unknown, it returns an error, and no call is released.
func heldKeys(ctx context.Context, e *Engine, p tool.Principal, which call.HeldSelector) (keys []call.Key, err error) {
	for _, id := range which.IDs {
		l, err := e.acquireVisible(ctx, p, id)
		if err != nil {
			return nil, err
		}
		keys = append(keys, l.key)
		l.release()
	}
	if len(which.IDs) > 0 || !which.All && which.Run == "" && which.Thread == "" {
		return keys, nil
	}
	err = e.held.Each(ctx, call.Query{Namespace: p.Namespace, Run: which.Run, Thread: which.Thread}, func(c *call.Call) { keys = append(keys, c.Key()) })
	return keys, err
}

// releasing releases held calls, or ends them.
type releasing struct {
	recovery
	end   *call.CancelRequest // the request with which the calls are cancelled; nil when they continue
	still map[call.Key]func() // functions that release the holds of batches; called after all selected calls were processed
}

func (r *releasing) close() {
	for _, release := range r.still {
		release()
	}
	r.recovery.end()
}

// call releases or ends one call, and reports whether the call was held. Until [releasing.close], the batch of the call is held, so that it
// begins no call.
func (r *releasing) call(ctx context.Context, key call.Key) (bool, error) {
	l, err := r.e.acquire(ctx, key)
	if err != nil {
		return false, err
	}
	defer l.release()
	batch := call.Key{Namespace: key.Namespace, ID: l.record().BatchID}
	if batch.ID != "" && r.still[batch] == nil {
		r.still[batch] = r.e.batches.Hold(batch)
	}
	switch {
	case !l.heldBack():
		return false, nil
	case r.end != nil:
		if err := findTail(ctx, l); err != nil {
			return false, err
		}
		err := r.e.cancelTree(ctx, l, *r.end)
		return err == nil, err
	case !r.e.held.MarkReleased(key):
		return false, nil
	}
	if l.record().Status == call.Suspended {
		return true, nil
	}
	if err := r.take(ctx, key); err != nil {
		r.e.held.UnmarkReleased(key)
		return false, err
	}
	return true, nil
}

// settle returns the number of held calls of a namespace. When no call is held in any namespace, it marks the store as this daemon's own.
func (r *releasing) settle(ctx context.Context, namespace string) (left int, err error) {
	e := r.e
	others := 0
	err = e.held.Each(ctx, call.Query{}, func(c *call.Call) {
		if c.Namespace == namespace {
			left++
		} else {
			others++
		}
	})
	if err != nil || left+others > 0 || !e.held.Any() {
		return left, err
	}
	if e.cfg.Released != nil {
		if err := e.cfg.Released(); err != nil {
			if errors.Is(err, store.ErrFatal) {
				e.fatal(err)
			}
			return 0, refusal.OfCall(err, "")
		}
	}
	e.held.End()
	e.outbox.Wake()
	return 0, e.batches.Recover(ctx) // Recover also finds batches whose calls have all ended but whose end was not stored.
}
