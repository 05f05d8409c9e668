package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// purging is what a purge is about.
type purging struct {
	keys          []call.Key
	runs, threads []string
}

// Purge erases the content of calls that have ended, from the journal, its files and the spool, and returns when it is gone.
// What stays says which call it was, how it ended, who decided and when. Nothing is erased when one of the calls is
// unknown or has not ended. Of a purge that was cut off, calls are whole or purged; the same purge again completes it.
// It returns how many calls had content, and how many had none any more.
func (e *Engine) Purge(ctx context.Context, p tool.Principal, which call.PurgeSelector) (purged, before int, err error) {
	if e.Draining() {
		return 0, 0, refuseDraining()
	}
	select { // one after the other: each writes the journal anew
	case e.purging <- struct{}{}:
		defer func() { <-e.purging }()
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	e.settle()
	found, err := e.purgeable(ctx, p, which)
	if err != nil {
		return 0, 0, err
	}
	by := call.Purge{By: p, Time: e.store.Now()}
	for _, key := range found.keys {
		if err := ctx.Err(); err != nil {
			return purged, before, err
		}
		had, err := e.purgeCall(ctx, key, by)
		if err != nil {
			return purged, before, e.purgeRefusal(err, key.ID)
		}
		if had {
			purged++
		} else {
			before++
		}
		e.cfg.FailPoint("purged")
	}
	if err := e.shred(ctx, p.Namespace, found); err != nil {
		return purged, before, e.purgeRefusal(err, "")
	}
	e.log.Info("content purged", zap.String("by", p.Subject), zap.String("namespace", p.Namespace), zap.Int("calls", purged), zap.Int("without_content", before),
		zap.Strings("runs", found.runs), zap.Strings("threads", found.threads))
	return purged, before, nil
}

func (e *Engine) purgeRefusal(err error, id string) error {
	var refusal *call.Refusal
	switch {
	case errors.As(err, &refusal):
		return err
	case errors.Is(err, store.ErrFull):
		return call.Refuse(call.ResourceExhausted, "STORAGE_FULL", "the disk of the journal is full; purge again when there is space, what was not erased yet is still there")
	}
	return e.refused(err, id)
}

// purgeable finds the calls that are meant, or why they cannot be purged.
func (e *Engine) purgeable(ctx context.Context, p tool.Principal, which call.PurgeSelector) (*purging, error) {
	found := &purging{}
	switch {
	case which.Run != "":
		found.runs = []string{which.Run}
		if _, err := e.owners.Find(ctx, policy.Run(p.Namespace, which.Run)); err != nil {
			return nil, err
		}
		return found, e.purgeableOf(ctx, found, call.Query{Namespace: p.Namespace, Run: which.Run}, nil)
	case which.Thread != "":
		found.threads = []string{which.Thread}
		if _, err := e.owners.Find(ctx, policy.Thread(p.Namespace, which.Thread)); err != nil {
			return nil, err
		}
		runs := map[string]bool{}
		if err := e.purgeableOf(ctx, found, call.Query{Namespace: p.Namespace, Thread: which.Thread}, runs); err != nil {
			return nil, err
		}
		found.runs = slices.Sorted(maps.Keys(runs))
		return found, e.ended(ctx, p.Namespace, found.runs)
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(which.IDs))) {
		key := call.Key{Namespace: p.Namespace, ID: id}
		c, err := e.store.Call(ctx, key)
		if err == nil {
			err = refuseOpen(c)
		}
		if err != nil && !errors.Is(err, store.ErrTrimmed) { // its decisions may be there still
			return nil, e.purgeRefusal(err, id)
		}
		found.keys = append(found.keys, key)
	}
	return found, nil
}

// purgeableOf adds the calls that a query selects, and the runs that they belong to.
func (e *Engine) purgeableOf(ctx context.Context, found *purging, q call.Query, runs map[string]bool) error {
	q.Limit, q.OldestFirst = 500, true
	for {
		page, err := e.store.Calls(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Corrupt) > 0 {
			return storeRefusal(store.ErrCorrupt, page.Corrupt[0].ID)
		}
		for _, c := range page.Calls {
			if err := refuseOpen(c); err != nil {
				return err
			}
			found.keys = append(found.keys, c.Key())
			if runs != nil && c.Run.ID != "" {
				runs[c.Run.ID] = true
			}
		}
		if q.After = page.Next; q.After == 0 {
			return nil
		}
	}
}

func refuseOpen(c *call.Call) error {
	if c.Status.Terminal() {
		return nil
	}
	refusal := call.Refuse(call.FailedPrecondition, "CALL_NOT_ENDED", "call %q is %s; end it first (CancelCall, toold cancel), nothing was purged", c.ID, c.Status)
	refusal.Metadata = map[string]string{"call_id": c.ID, "status": string(c.Status)}
	return refusal
}

// ended refuses runs of a thread that go on in another one: their documents are in use.
func (e *Engine) ended(ctx context.Context, namespace string, runs []string) error {
	for _, run := range runs {
		counts, err := e.store.RunCounts(ctx, namespace, run)
		if err != nil {
			return err
		}
		for status, n := range counts {
			if !status.Terminal() && n > 0 {
				return call.Refuse(call.FailedPrecondition, "CALL_NOT_ENDED",
					"run %q has %d calls that are %s outside of the thread; end it first (EndRun, toold cancel --run), nothing was purged", run, n, status)
			}
		}
	}
	return nil
}

// purgeCall erases the content of one call. It reports whether there was any.
func (e *Engine) purgeCall(ctx context.Context, key call.Key, by call.Purge) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	l, err := e.acquire(ctx, key)
	if errors.Is(err, store.ErrTrimmed) {
		return false, e.spool.Remove(key)
	}
	if err != nil {
		return false, err
	}
	defer l.release()
	l.slot.take()
	defer l.unslot()
	c := l.record()
	if err := refuseOpen(c); err != nil {
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
	return c.Purge == nil, e.spool.Remove(key)
}

// purged forgets what memory has of a call whose content is gone.
func (l *live) purged(left *call.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c = left
	l.log.Forget()
	l.shared.Store(nil)
}

// shred erases what is kept beside the calls, and the bytes of all.
func (e *Engine) shred(ctx context.Context, namespace string, found *purging) error {
	s := store.Shredding{Namespace: namespace, Runs: found.runs, Threads: found.threads, PolicyKind: policy.KindRule}
	for _, key := range found.keys {
		s.Calls = append(s.Calls, key.ID)
	}
	for _, k := range append(keepers[hook.CallKeeper](&e.hooks.Load().Set), beside[hook.CallKeeper](e.cfg.Keepers)...) {
		k.PurgeCalls(namespace, s.Calls)
	}
	if err := e.store.Shred(ctx, s); err != nil {
		return fmt.Errorf("shred: %w", err)
	}
	return e.policies.Load(ctx)
}
