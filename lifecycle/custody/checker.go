package custody

import (
	"context"
	"sync"

	"github.com/toold-dev/toold/call"
)

// A Journal reads the calls and batches that a Checker checks.
type Journal interface {
	Unfinished(ctx context.Context, visit func(key call.Key, c *call.Call, err error) error) error
	Batch(ctx context.Context, key call.Key) (*call.Batch, error)
	Call(ctx context.Context, key call.Key) (*call.Call, error)
}

// A Checker finds calls that should make progress, but that no part of this daemon works on. Such a call is NEW, RUNNING or RESUMING and
// has no pipeline run, batch, operation or hold. A correct engine never loses a call. Each call that the Checker finds therefore shows
// a bug of the engine.
type Checker struct {
	Journal Journal
	// Owned reports whether a part of this daemon works on the call, or whether the call needs no work. c is the stored record.
	Owned func(key call.Key, c *call.Call) bool
	// Moves reports whether a call of the batch makes progress.
	Moves func(batch call.Key) bool
	// Adopt resumes a call without an owner. It first checks again that the call has no owner.
	Adopt func(ctx context.Context, key call.Key) error

	mu       sync.Mutex         // held during a check
	suspects map[call.Key]int64 // calls that had no owner at the last check, with their revisions
}

// Check adopts each call that had no owner at this check and at the previous one, and that did not change in between. A call without an
// owner at only one check may just be between two owners.
func (k *Checker) Check(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, err := k.unowned(ctx)
	if err != nil {
		return err
	}
	before := k.suspects
	k.suspects = found
	for key, revision := range found {
		if known, ok := before[key]; ok && known == revision {
			delete(found, key)
			if err := k.Adopt(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// unowned returns the calls that have no owner, with their revisions.
func (k *Checker) unowned(ctx context.Context) (map[call.Key]int64, error) {
	found := map[call.Key]int64{}
	waiting := map[call.Key][]call.Key{} // by batch: unfinished calls that the batch must start or resume
	err := k.Journal.Unfinished(ctx, func(key call.Key, c *call.Call, err error) error {
		if err != nil || k.Owned(key, c) {
			return ctx.Err()
		}
		if c.BatchID != "" && c.Status != call.Running {
			batch := call.Key{Namespace: key.Namespace, ID: c.BatchID}
			waiting[batch] = append(waiting[batch], key)
		}
		found[key] = c.Revision
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	for batch, keys := range waiting {
		idle, err := k.idle(ctx, batch)
		if err != nil {
			return nil, err
		}
		if idle || k.Moves(batch) {
			for _, key := range keys {
				delete(found, key)
			}
		}
	}
	return found, nil
}

// idle reports whether a batch waits for a decision or for a running call.
func (k *Checker) idle(ctx context.Context, batch call.Key) (bool, error) {
	b, err := k.Journal.Batch(ctx, batch)
	if err != nil {
		return false, err
	}
	for _, id := range b.Calls {
		c, err := k.Journal.Call(ctx, call.Key{Namespace: batch.Namespace, ID: id})
		if err == nil && (c.Status == call.Suspended || c.Status == call.Running) {
			return true, nil
		}
	}
	return false, ctx.Err()
}
