package lifecycle

import (
	"context"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// EndRun cancels the unfinished calls of a run, waits for their end, removes the documents of the run, and lifts its block. It returns the
// ids of the cancelled calls. supersededBy names the run of a new turn that replaces this run, if any. A later call reopens the run.
func (e *Engine) EndRun(ctx context.Context, p tool.Principal, id, reason, supersededBy string) ([]string, error) {
	if supersededBy != "" && id == supersededBy {
		return nil, errSelfSuperseded
	}
	e.behind.Settle()
	owner, err := e.owners.See(ctx, p, tool.RunScope, id)
	if err != nil {
		return nil, err
	}
	if owner != p.Subject && !p.HasRole("operator") {
		return nil, call.Refuse(call.PermissionDenied, "NOT_YOUR_RUN", "only its caller or an operator may end run %q", id)
	}
	r := call.CancelRequest{By: p, Reason: or(reason, "the run ended"), Cause: "RUN_ENDED", Time: time.Now()}
	if supersededBy != "" {
		r.Reason = reason
	}
	ids, err := e.cancelWhere(ctx, p, call.Query{Namespace: p.Namespace, Run: id}, superseded(r, supersededBy), "")
	if err != nil {
		return ids, err
	}
	e.awaitEnds(ctx, p.Namespace, id)
	if err := ctx.Err(); err != nil {
		return ids, err // Some of the cancelled calls may not have ended yet. They end in the background.
	}
	if err := e.outbox.EndRun(ctx, p.Namespace, id); err != nil {
		return ids, refusal.OfCall(err, id)
	}
	ended := store.Run{Namespace: p.Namespace, ID: id, Owner: owner, State: call.RunEnded, Reason: reason}
	if err := e.store.EndRun(ctx, ended); err != nil {
		return ids, e.refused(err, id)
	}
	e.owners.Note(&ended)
	e.cfg.Policies.DropRun(p.Namespace, id)
	for _, k := range append(hooks.Implementers[hook.RunDataOwner](&e.hooks.Load().Set), hooks.OfType[hook.RunDataOwner](e.cfg.DataOwners)...) {
		k.EndRun(p.Namespace, id)
	}
	return ids, nil
}

// awaitEnds waits for a limited time until the cancelled calls of a run have ended. Only then can the documents of the run be removed,
// because the calls may write documents at their end.
func (e *Engine) awaitEnds(ctx context.Context, namespace, run string) {
	until := time.Now().Add(stopMost(e.cfg.Grace) + endingTime)
	for _, c := range e.unfinished(func(c *call.Call) bool { return c.Namespace == namespace && c.Run.ID == run && c.Cancel != nil }) {
		l, err := e.acquire(ctx, c.Key())
		if err != nil {
			continue
		}
		l.waitTerminal(ctx, time.Until(until))
		l.release()
	}
}

// endingTime is the time that a call may need to end, in addition to the grace period of its tool.
const endingTime = 2 * time.Second
