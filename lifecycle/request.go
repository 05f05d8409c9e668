package lifecycle

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/limit"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// An admission checks whether new calls of one principal may begin, and which limits they count against.
type admission struct {
	e  *Engine
	as tool.Principal
}

// checkCapacity returns an error when the daemon accepts no new calls of the run now. n is the number of calls that may wait at the same
// time. On success the calls count as a pipeline run, so that a drain does not end before the calls start. The caller must then start them
// or call Leave.
func (a *admission) checkCapacity(l *activeCall, run *tool.Run, d limit.Demand, n int) error {
	blocked := a.e.owners.Blocked(l.key.Namespace, run.ID)
	admitted := a.e.drain.Admit()
	a.e.mu.Lock()
	l.claims = claims{run.ID, run.Thread}
	a.e.mu.Unlock()
	err := a.refusal(run.ID, l.key.Namespace, d, n, !admitted, blocked)
	if err != nil && admitted {
		a.e.drain.Leave()
	}
	return err
}

func (a *admission) refusal(run, namespace string, d limit.Demand, n int, draining, blocked bool) (err error) {
	failed := a.e.drain.Err()
	switch {
	case failed != nil:
		return refusal.OfCall(failed, "")
	case draining:
		return refusal.Draining()
	case blocked:
		return call.Refuse(call.FailedPrecondition, "RUN_BLOCKED", "run %q is blocked by a gate; EndRun ends the run, and the next call starts it again", run)
	case a.e.cfg.Full():
		return refusal.OfCall(store.ErrFull, "")
	case a.e.limits.Storage.Full(namespace):
		return a.e.limits.Storage.Refusal()
	case a.e.behind.Full():
		err = limit.QueueFull("too many calls are waiting for the journal; send the call again later")
	default:
		err = a.e.limits.Slots.Full(d, n)
	}
	if err != nil {
		a.e.stats.queueRefused.Add(1)
	}
	return err
}

// demand returns the limits that a new call would count against.
func (a *admission) demand(spec *call.Spec) limit.Demand {
	d := &tool.Descriptor{ID: spec.Tool}
	if a.e.limits.Slots.LimitsTools() {
		if def, ok := a.e.cfg.Tools.Lookup(a.as.Namespace, spec.Tool); ok {
			d = def.Descriptor // Even for a request with an alias, the descriptor has the id of the tool.
		}
	}
	return a.e.limits.Slots.Demand(&a.as, d)
}

// refuseLender returns an error for a new call of a tool with nested calls, when too many such calls have lent their slots. The limit for
// nested calls is higher: if they could not start, the calls that wait for them would never continue.
func (a *admission) refuseLender(spec *call.Spec) error {
	full := a.e.limits.Slots.LendersFull(&a.as, spec.Run.ParentCall != "")
	if full == nil {
		return nil
	}
	def, ok := a.e.cfg.Tools.Lookup(a.as.Namespace, spec.Tool)
	if !ok {
		return nil
	}
	if _, ok := def.Tool.(tool.Stopper); !ok {
		return nil
	}
	a.e.stats.queueRefused.Add(1)
	return full
}

// mayEnd reports whether a principal may cancel a call.
func mayEnd(p tool.Principal, c *call.Call) bool {
	return view.Owns(p, c) || p.Namespace == c.Namespace && p.HasRole("operator")
}
