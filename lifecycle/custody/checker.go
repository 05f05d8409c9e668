package custody

import (
	"context"
	"sync"

	"github.com/toold-dev/toold/call"
)

// A Journal has the calls and batches that a Checker looks at.
type Journal interface {
	Unfinished(ctx context.Context, visit func(key call.Key, c *call.Call, err error) error) error
	Batch(ctx context.Context, key call.Key) (*call.Batch, error)
	Call(ctx context.Context, key call.Key) (*call.Call, error)
}

// A Checker looks for calls that are NEW, RUNNING or RESUMING and that nothing in this daemon carries on: no pipeline run, batch,
// operation or hold. A correct engine never loses a call, so each is a bug.
type Checker struct {
	Journal Journal
	// Owned reports whether something in this daemon carries on a call with this stored record, or the call needs nothing.
	Owned func(key call.Key, c *call.Call) bool
	// Moves reports whether something of a batch moves.
	Moves func(batch call.Key) bool
	// Adopt takes up a call. It looks for an owner again first.
	Adopt func(ctx context.Context, key call.Key) error

	mu       sync.Mutex         // held during a check
	suspects map[call.Key]int64 // the calls that had no owner at the last check, with their revisions
}

// Check takes up each call that had no owner at this check, nor at the one before.
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
	waiting := map[call.Key][]call.Key{} // by batch: calls that have to be begun or resumed
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
		rests, err := k.rests(ctx, batch)
		if err != nil {
			return nil, err
		}
		if rests || k.Moves(batch) {
			for _, key := range keys {
				delete(found, key)
			}
		}
	}
	return found, nil
}

// rests reports whether a batch waits for a decision or for a call that runs.
func (k *Checker) rests(ctx context.Context, batch call.Key) (bool, error) {
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
