package lifecycle

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/purge"
	"github.com/toold-dev/toold/store"
)

// erase erases the content of one ended call, and reports whether there was content to erase.
func (e *Engine) erase(ctx context.Context, key call.Key, by call.Purge) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	l, err := e.acquire(ctx, key)
	if errors.Is(err, store.ErrTrimmed) {
		return false, e.output.Spool.Remove(key)
	}
	if err != nil {
		return false, err
	}
	defer l.release()
	l.slot.Take()
	defer l.unslot()
	c := l.record()
	if err := purge.RefuseOpen(c); err != nil {
		return false, err
	}
	if c.Purge == nil {
		if err := e.store.Purge(ctx, key, by); err != nil {
			return false, err
		}
		e.cfg.FailPoint("purging")
		left, err := e.store.Call(ctx, key)
		if err != nil {
			return false, err
		}
		l.purged(left)
	}
	return c.Purge == nil, e.output.Spool.Remove(key)
}

// purged replaces the record of a call in memory by the record without content, and drops the events from memory.
func (l *activeCall) purged(left *call.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c = left
	l.log.Forget()
	l.shared.Store(nil)
}
