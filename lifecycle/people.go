package lifecycle

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Rights returns what a principal may do with a suspension now. Resume makes the same checks.
func (e *Engine) Rights(ctx context.Context, p tool.Principal, suspensionID string) (call.TicketRights, error) {
	if !e.drain.Admit() {
		return call.NoRights(suspensionID, refusal.Draining()), nil
	}
	defer e.drain.Leave()
	l, err := e.decisions.acquire(ctx, p.Namespace, &call.ResumeRequest{SuspensionID: suspensionID})
	if _, refused := errors.AsType[*call.Refusal](err); refused { // For example, the record is damaged. The other suspensions of a request still get their rights.
		return call.NoRights(suspensionID, err), nil
	}
	if err != nil {
		return call.TicketRights{}, err
	}
	defer l.release()
	return e.decisions.check.Rights(l.record(), p, suspensionID), nil
}

// Claim claims a suspension or releases the claim. It returns the current claim, or nil. Watchers of the call see the change. A claim does
// not prevent other people from deciding.
func (e *Engine) Claim(ctx context.Context, p tool.Principal, r call.ClaimRequest) (*call.Claim, error) {
	if !e.drain.Admit() {
		return nil, refusal.Draining()
	}
	defer e.drain.Leave()
	l, err := e.decisions.acquire(ctx, p.Namespace, &call.ResumeRequest{SuspensionID: r.SuspensionID})
	if err != nil {
		return nil, err
	}
	defer l.release()
	l.slot.Take()
	defer l.unslot()
	c := l.record()
	round, err := decision.Find(c, p, r.SuspensionID)
	if err != nil {
		return nil, err
	}
	claim, changed, err := e.decisions.check.Claim(c, round, p, &r)
	if err != nil || !changed {
		return claim, err
	}
	ev, apply := decision.Claimed(r.SuspensionID, claim)
	if err := l.commitSlotted(step{durability: store.Normal, events: []call.Event{ev}, apply: apply}); err != nil {
		return nil, refusal.OfCall(err, l.key.ID)
	}
	return claim, nil
}
