package lifecycle

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Run returns where a run stands. A run that no call has named is not found.
func (e *Engine) Run(ctx context.Context, p tool.Principal, id string) (*call.RunSummary, error) {
	e.settle()
	if _, err := e.seeRun(ctx, p, id); err != nil {
		return nil, err
	}
	counts, err := e.store.RunCounts(ctx, p.Namespace, id)
	if err != nil {
		return nil, err
	}
	info := &call.RunSummary{ID: id, State: call.RunOpen, Counts: counts}
	info.Mode, _ = e.policies.Modes(p.Namespace, id, "")
	if counts[call.Suspended] > 0 {
		info.State = call.RunWaiting
	}
	stored, err := e.store.Run(ctx, p.Namespace, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, err
	case stored.State != call.RunOpen:
		info.State, info.Reason, info.BlockedBy, info.Changed = stored.State, stored.Reason, stored.CallID, stored.Changed
	}
	return info, nil
}

// seeRun refuses a run that nobody began or that the principal may not see, and returns who began it.
func (e *Engine) seeRun(ctx context.Context, p tool.Principal, id string) (owner string, err error) {
	owner, err = e.ownerOf(ctx, belonging{namespace: p.Namespace, run: id}, "")
	if err != nil {
		return "", err
	}
	if owner == "" || owner != p.Subject && !p.HasRole("viewer") && !p.HasRole("operator") {
		return "", call.Refuse(call.NotFound, "RUN_NOT_FOUND", "no run %q here", id)
	}
	return owner, nil
}

// EndRun cancels what still runs or waits in a run, waits for that, removes its documents, and lifts its block: a later call opens it
// anew. It returns the ids of the calls that it cancelled. With supersededBy another run, that of the new turn, takes its
// place.
func (e *Engine) EndRun(ctx context.Context, p tool.Principal, id, reason, supersededBy string) ([]string, error) {
	if supersededBy != "" && id == supersededBy {
		return nil, errSelfSuperseded
	}
	e.settle()
	owner, err := e.seeRun(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if owner != p.Subject && !p.HasRole("operator") {
		return nil, call.Refuse(call.PermissionDenied, "NOT_YOUR_RUN", "only its caller or an operator may end run %q", id)
	}
	now := time.Now()
	r := call.CancelRequest{By: p, Reason: or(reason, "the run ended"), Cause: "RUN_ENDED", Time: now}
	if supersededBy != "" {
		r.Reason = reason
	}
	ids, err := e.cancelWhere(ctx, p, call.Query{Namespace: p.Namespace, Run: id}, superseded(r, supersededBy), "")
	if err != nil {
		return ids, err
	}
	e.awaitEnds(ctx, p.Namespace, id)
	if err := ctx.Err(); err != nil {
		return ids, err // what it waits for goes on ending
	}
	if err := e.outbox.EndRun(ctx, p.Namespace, id); err != nil {
		return ids, storeRefusal(err, id)
	}
	ended := store.Run{Namespace: p.Namespace, ID: id, Owner: owner, State: call.RunEnded, Reason: reason, Changed: now}
	err = e.store.EndRun(ctx, ended)
	if errors.Is(err, store.ErrFatal) {
		e.fatal(err)
	}
	if err != nil {
		return ids, storeRefusal(err, id)
	}
	e.noteRun(&ended)
	e.policies.dropRun(p.Namespace, id)
	for _, k := range append(keepers[hook.RunKeeper](&e.hooks.Load().Set), beside[hook.RunKeeper](e.cfg.Keepers)...) {
		k.EndRun(p.Namespace, id)
	}
	return ids, nil
}

// awaitEnds waits until the calls of a run that were cancelled have ended, as far as that is soon: what they write at their
// end belongs to the run, and goes with it.
func (e *Engine) awaitEnds(ctx context.Context, namespace, run string) {
	until := time.Now().Add(e.stopMost() + endingTime)
	for _, c := range e.living(func(c *call.Call) bool { return c.Namespace == namespace && c.Run.ID == run && c.Cancel != nil }) {
		l, err := e.acquire(ctx, c.Key())
		if err != nil {
			continue
		}
		l.waitTerminal(ctx, time.Until(until))
		l.release()
	}
}

// endingTime is what a call may take to its end beyond the grace period of its tool.
const endingTime = 2 * time.Second

// noteRun remembers what the journal knows of a run that was blocked or ended: for the fence, and for the call that opens
// it anew.
func (e *Engine) noteRun(r *store.Run) {
	key := call.Key{Namespace: r.Namespace, ID: r.ID}
	e.mu.Lock()
	if r.State == call.RunBlocked {
		e.blocked[key] = blockedRun{r.Owner, r.Changed.UnixNano()}
	} else {
		delete(e.blocked, key)
	}
	e.mu.Unlock()
	if r.State == call.RunEnded {
		e.owners.ended(belonging{namespace: r.Namespace, run: r.ID})
	}
}

// blockedRun is what memory has of a run that is blocked.
type blockedRun struct {
	owner string
	since int64 // Unix nanoseconds: a run that was blocked anew is another one
}

// ForgetRuns forgets the blocked runs that the journal has trimmed.
func (e *Engine) ForgetRuns(ctx context.Context) error {
	e.mu.Lock()
	gone := maps.Clone(e.blocked)
	e.mu.Unlock()
	err := e.store.BlockedRuns(ctx, func(r store.Run) error {
		delete(gone, call.Key{Namespace: r.Namespace, ID: r.ID})
		return nil
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, run := range gone {
		if e.blocked[key] == run {
			delete(e.blocked, key)
		}
	}
	return nil
}

// openRun notes that a run goes on, and returns what has to be stored when it had ended.
func (e *Engine) openRun(c *call.Call) *store.Run {
	if !e.owners.reopen(belonging{namespace: c.Namespace, run: c.Run.ID}) {
		return nil
	}
	return &store.Run{Namespace: c.Namespace, ID: c.Run.ID, Owner: c.Caller.Subject, State: call.RunOpen, Changed: c.Created}
}
