// Package purge erases the content of ended calls from the journal, including its files on disk, and from the spool.
//
// After a purge, the record still contains the identity of the call, its outcome, the approvers and the times. A purge erases nothing when
// one of the selected calls is unknown or has not ended. After an interrupted purge, each call is either unchanged or completely purged.
// Repeating the same purge completes it.
package purge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A Store is the part of the journal that a purge needs.
type Store interface {
	Now() call.Stamp
	Call(ctx context.Context, key call.Key) (*call.Call, error)
	Calls(ctx context.Context, q call.Query) (call.Page, error)
	RunCounts(ctx context.Context, namespace, run string) (map[call.Status]int, error)
	// Shred erases the data that is stored beside the calls, and overwrites the bytes that the purged content occupied.
	Shred(ctx context.Context, s store.Shredding) error
}

// Owners finds the owners of runs and threads.
type Owners interface {
	// Find returns an error for a run or thread that no caller has begun.
	Find(ctx context.Context, namespace string, scope tool.Scope, id string) (owner string, err error)
}

// A Config holds the dependencies of a Purger. All fields are required.
type Config struct {
	Store  Store
	Owners Owners
	Log    *zap.Logger
	// PolicyKind is the kind of the policies that are erased together with their run or thread.
	PolicyKind string
	// Admit returns an error when the daemon is stopping.
	Admit func() error
	// Settle waits until the store has all events that were published earlier.
	Settle func()
	// Erase erases the content of one call in the journal, the spool and memory. It reports whether the call had content. For a call that
	// has not ended, it returns the error of [RefuseOpen].
	Erase func(ctx context.Context, key call.Key, by call.Purge) (bool, error)
	// DataOwners returns the hooks that keep data of calls outside the journal.
	DataOwners func() []hook.CallDataOwner
	// Shredded is called when the journal no longer contains content of the calls.
	Shredded func(ctx context.Context) error
	// Refused converts an error of the store into the error for the client.
	Refused   func(err error, id string) error
	FailPoint func(name string)
}

// A Purger purges calls. It handles one request at a time.
type Purger struct {
	cfg  Config
	turn chan struct{} // Capacity 1, because each purge rewrites the journal.
}

// New returns a Purger.
func New(c Config) *Purger { return &Purger{c, make(chan struct{}, 1)} }

// selection lists what a purge erases.
type selection struct {
	keys          []call.Key
	runs, threads []string
}

// Purge erases the content of the selected calls. When it returns without an error, the content is gone. purged is the number of calls that
// had content; before is the number of calls whose content was already gone.
func (u *Purger) Purge(ctx context.Context, p tool.Principal, which call.PurgeSelector) (purged, before int, err error) {
	if err := u.cfg.Admit(); err != nil {
		return 0, 0, err
	}
	select {
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	u.cfg.Settle()
	found, err := u.find(ctx, p.Namespace, which)
	if err != nil {
		return 0, 0, err
	}
	by := call.Purge{By: p, Time: u.cfg.Store.Now().Time()}
	for _, key := range found.keys {
		if err := ctx.Err(); err != nil {
			return purged, before, err
		}
		had, err := u.cfg.Erase(ctx, key, by)
		if err != nil {
			return purged, before, u.refused(err, key.ID)
		}
		if had {
			purged++
		} else {
			before++
		}
		u.cfg.FailPoint("purged")
	}
	if err := u.shred(ctx, p.Namespace, found); err != nil {
		return purged, before, u.refused(err, "")
	}
	u.cfg.Log.Info("content purged", zap.String("by", p.Subject), zap.String("namespace", p.Namespace), zap.Int("calls", purged), zap.Int("without_content", before),
		zap.Strings("runs", found.runs), zap.Strings("threads", found.threads))
	return purged, before, nil
}

func (u *Purger) refused(err error, id string) error {
	var refusal *call.Refusal
	switch {
	case errors.As(err, &refusal):
		return err
	case errors.Is(err, store.ErrFull):
		return call.Refuse(call.ResourceExhausted, "STORAGE_FULL", "the disk of the journal is full; the purge is not complete; purge again when there is space")
	}
	return u.cfg.Refused(err, id)
}

// find returns what the request selects. It returns an error when the selected calls cannot be purged.
func (u *Purger) find(ctx context.Context, namespace string, which call.PurgeSelector) (*selection, error) {
	found := &selection{}
	switch {
	case which.Run != "":
		found.runs = []string{which.Run}
		if _, err := u.cfg.Owners.Find(ctx, namespace, tool.RunScope, which.Run); err != nil {
			return nil, err
		}
		return found, u.add(ctx, found, call.Query{Namespace: namespace, Run: which.Run}, nil)
	case which.Thread != "":
		found.threads = []string{which.Thread}
		if _, err := u.cfg.Owners.Find(ctx, namespace, tool.ThreadScope, which.Thread); err != nil {
			return nil, err
		}
		runs := map[string]bool{}
		if err := u.add(ctx, found, call.Query{Namespace: namespace, Thread: which.Thread}, runs); err != nil {
			return nil, err
		}
		found.runs = slices.Sorted(maps.Keys(runs))
		return found, u.ended(ctx, namespace, found.runs)
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(which.IDs))) {
		key := call.Key{Namespace: namespace, ID: id}
		c, err := u.cfg.Store.Call(ctx, key)
		if err == nil {
			err = RefuseOpen(c)
		}
		if err != nil && !errors.Is(err, store.ErrTrimmed) { // A trimmed call has no record any more, but may still have stored decisions.
			return nil, u.refused(err, id)
		}
		found.keys = append(found.keys, key)
	}
	return found, nil
}

// add adds the calls that q selects to found, and their runs to runs.
func (u *Purger) add(ctx context.Context, found *selection, q call.Query, runs map[string]bool) error {
	q.Limit, q.OldestFirst = 500, true
	for {
		page, err := u.cfg.Store.Calls(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Corrupt) > 0 {
			return u.cfg.Refused(store.ErrCorrupt, page.Corrupt[0].ID)
		}
		for _, c := range page.Calls {
			if err := RefuseOpen(c); err != nil {
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

// RefuseOpen returns an error for a call that has not ended.
func RefuseOpen(c *call.Call) error {
	if c.Status.Terminal() {
		return nil
	}
	refusal := call.Refuse(call.FailedPrecondition, "CALL_NOT_ENDED", "call %q is %s; end it first (CancelCall, toold cancel), nothing was purged", c.ID, c.Status)
	refusal.Metadata = map[string]string{"call_id": c.ID, "status": string(c.Status)}
	return refusal
}

// ended returns an error when a run has open calls in another thread. These calls use the documents of the run, which the purge would
// erase.
func (u *Purger) ended(ctx context.Context, namespace string, runs []string) error {
	for _, run := range runs {
		counts, err := u.cfg.Store.RunCounts(ctx, namespace, run)
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

// shred erases the data that is stored beside the calls, and then the bytes of all erased content.
func (u *Purger) shred(ctx context.Context, namespace string, found *selection) error {
	s := store.Shredding{Namespace: namespace, Runs: found.runs, Threads: found.threads, PolicyKind: u.cfg.PolicyKind}
	for _, key := range found.keys {
		s.Calls = append(s.Calls, key.ID)
	}
	for _, k := range u.cfg.DataOwners() {
		k.PurgeCalls(namespace, s.Calls)
	}
	if err := u.cfg.Store.Shred(ctx, s); err != nil {
		return fmt.Errorf("shred: %w", err)
	}
	return u.cfg.Shredded(ctx)
}
