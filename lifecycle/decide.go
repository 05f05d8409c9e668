package lifecycle

import (
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// decisions finds the calls that answers belong to, and stores the answers.
type decisions struct {
	e      *Engine
	check  decision.Checker
	recent decision.Recent
}

// Resume stores a decision and returns a watcher of the events that follow. When a question gets several decisions, the decision that is
// committed first wins. A repeated request with the winning decision returns the same outcome.
func (e *Engine) Resume(ctx context.Context, p tool.Principal, r call.ResumeRequest) (call.Watcher, error) {
	if err := decision.CheckRequest(&r); err != nil {
		return nil, err
	}
	if !e.drain.Admit() {
		return nil, refusal.Draining()
	}
	defer e.drain.Leave()
	l, err := e.decisions.acquire(ctx, p.Namespace, &r)
	if err != nil {
		return nil, err
	}
	w, err := e.decisions.decide(ctx, l, p, &r)
	if err != nil {
		l.release()
		return nil, err
	}
	return w, nil
}

// acquire returns the call whose question the request answers.
func (d *decisions) acquire(ctx context.Context, namespace string, r *call.ResumeRequest) (*activeCall, error) {
	q := decision.Question{Namespace: namespace, ID: r.SuspensionID}
	found := d.recent.Find(q)
	if found == nil {
		var err error
		if found, err = d.e.store.CallBySuspension(ctx, namespace, r.SuspensionID); err != nil {
			return nil, suspensionRefusal(err, r.SuspensionID)
		}
	}
	if r.CallID != "" && r.CallID != found.ID {
		return nil, decision.Unknown(r.SuspensionID)
	}
	l, fill := d.e.reference(found.Key())
	if fill {
		if c := d.recent.Find(q); c != nil { // The cached record is current: no goroutine can change the call before fill.
			l.fill(c, nil)
		} else {
			l.load(ctx)
		}
	}
	l.ready.Wait()
	if l.loadErr != nil {
		defer l.release()
		return nil, refusal.OfCall(l.loadErr, found.ID)
	}
	return l, nil
}

func suspensionRefusal(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrTrimmed) {
		return decision.Unknown(id)
	}
	return refusal.OfCall(err, id)
}

// decide checks an answer against the state of the call and stores it. If the answer needs no further votes, it changes the call from
// SUSPENDED to RESUMING with one compare-and-set.
func (d *decisions) decide(ctx context.Context, l *activeCall, p tool.Principal, r *call.ResumeRequest) (*watch.CallWatcher, error) {
	l.slot.Take()
	slotted := true
	defer func() {
		if slotted {
			l.unslot()
		}
	}()
	c := l.record()
	a, rule, err := d.consider(ctx, l, c, p, r)
	if err != nil {
		var replay *replayed
		if errors.As(err, &replay) {
			l.unslot()
			slotted = false
			return d.rewatch(ctx, l, p, r)
		}
		return nil, err
	}
	from := watch.Cursor{Epoch: d.e.epoch, Sequence: c.LastSequence}.String() // The client asked only for the events after the decision.
	if err := d.store(l, a, rule, &r.Decision); err != nil {
		return nil, d.lostDecision(ctx, l, a.Suspension, r, err)
	}
	l.unslot()
	slotted = false
	w, err := newWatcher(l, &p, call.ExecuteOptions{Cursor: or(r.Cursor, from), WaitForDecision: r.WaitForDecision}, true)
	if a.Decides() {
		l.resumeRun(ctx, a.Decision)
	}
	return w, err
}

// rewatch returns a watcher for a decision that was stored before. The watcher gets the events from the decision on, like the watcher that
// the first request received. If that part of the log was trimmed or purged, the watcher begins with a snapshot.
func (d *decisions) rewatch(ctx context.Context, l *activeCall, p tool.Principal, r *call.ResumeRequest) (*watch.CallWatcher, error) {
	from := r.Cursor
	if from == "" {
		at, err := d.decidedAt(ctx, l, r.Decision.ID)
		if err != nil {
			return nil, err
		}
		if at > 0 {
			from = watch.Cursor{Epoch: l.epochOf(at), Sequence: at - 1}.String()
		}
	}
	return newWatcher(l, &p, call.ExecuteOptions{Cursor: from, WaitForDecision: r.WaitForDecision}, true)
}

// decidedAt returns the sequence of the event that reported a decision or a vote, or 0 when the log does not contain the event.
func (d *decisions) decidedAt(ctx context.Context, l *activeCall, decisionID string) (int64, error) {
	for after := int64(0); ; {
		page, _, err := d.e.store.Events(ctx, l.key, after, watch.ReadAhead)
		if err != nil {
			return 0, refusal.OfCall(err, l.key.ID)
		}
		if len(page) == 0 {
			return 0, nil
		}
		for i := range page {
			ev := &page[i]
			if ev.Decision != nil && ev.Decision.ID == decisionID || ev.Vote != nil && ev.Vote.Vote.DecisionID == decisionID {
				return ev.Sequence, nil
			}
		}
		after = page[len(page)-1].Sequence
	}
}

// consider checks an answer. It also looks for an earlier decision with the same id. If that decision has the same content, the request is
// a repetition, and consider accepts it even if it would be invalid now. If the question has no answer and no vote yet, consider looks for
// the id only after an error. Without an error, the transaction that stores the answer detects a used id.
func (d *decisions) consider(ctx context.Context, l *activeCall, c *call.Call, p tool.Principal, r *call.ResumeRequest) (a *decision.Answer, rule *call.Rule, err error) {
	round, err := decision.Find(c, p, r.SuspensionID)
	if err != nil {
		return nil, nil, err
	}
	unanswered := c.Open() == &round.Suspension && len(round.Votes) == 0
	if !unanswered {
		if err := d.replay(ctx, p, r); err != nil {
			return nil, nil, err
		}
	}
	if a, err = d.check.Check(c, round, p, r); err == nil {
		err = l.checkCursor(r.Cursor) // Checked before anything is stored.
	}
	if err == nil {
		rule, err = d.e.cfg.Policies.Remember(c, a.Suspension, p, &a.Decision)
	}
	if err != nil && unanswered {
		if earlier := d.replay(ctx, p, r); earlier != nil {
			err = earlier
		}
	}
	return a, rule, err
}

// replayed is the error for a decision that was committed before. The caller then returns the earlier outcome.
type replayed struct{}

func (*replayed) Error() string { return "decision replayed" }

// replay looks for a stored decision with this id. It returns replayed for the same content, and a refusal for different content.
func (d *decisions) replay(ctx context.Context, p tool.Principal, r *call.ResumeRequest) error {
	earlier, err := d.e.store.Decision(ctx, p.Namespace, r.Decision.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return refusal.OfCall(err, r.CallID)
	case earlier.Content != decision.Content(r.SuspensionID, &r.Decision) || earlier.Decision.DecidedBy.Subject != p.Subject:
		return call.Refuse(call.AlreadyExists, "DECISION_ID_REUSED", "decision_id %q was used for another decision", r.Decision.ID)
	}
	return &replayed{}
}

// lostDecision converts the error of the journal for a decision into the error for the client.
func (d *decisions) lostDecision(ctx context.Context, l *activeCall, s *call.Suspension, r *call.ResumeRequest, err error) error {
	switch {
	case errors.Is(err, store.ErrExpired):
		return decision.Expired(s)
	case errors.Is(err, store.ErrDecisionExists):
		return call.Refuse(call.AlreadyExists, "DECISION_ID_REUSED", "decision_id %q was used for another decision", r.Decision.ID)
	case errors.Is(err, store.ErrConflict):
		if c, err := d.e.store.Call(ctx, l.key); err == nil {
			for i := range c.Rounds {
				if c.Rounds[i].Suspension.ID == s.ID {
					return decision.Decided(&c.Rounds[i], c)
				}
			}
		}
	}
	return refusal.OfCall(err, l.key.ID)
}

// store stores an answer with a compare-and-set on the call. The caller holds the slot. sent is the decision as the client sent it.
func (d *decisions) store(l *activeCall, a *decision.Answer, rule *call.Rule, sent *tool.Decision) error {
	var kept []store.Policy
	if rule != nil {
		p, err := policy.Stored(rule)
		if err != nil {
			return err
		}
		kept = append(kept, p)
	}
	s := d.step(l, a, sent)
	s.notAfter, s.rule, s.policies = a.Suspension.ExpiresAt, rule, kept
	return l.commitSlotted(s)
}

// step returns the step of an answer, from a person or from an expiry.
func (d *decisions) step(l *activeCall, a *decision.Answer, sent *tool.Decision) step {
	id := a.Suspension.ID
	return step{
		durability: store.Full, events: []call.Event{a.Event()}, apply: a.Apply,
		decision: &store.Decision{
			Namespace: l.key.Namespace, ID: a.Decision.ID, CallID: l.key.ID, SuspensionID: id, Content: decision.Content(id, sent), Decision: a.Decision,
		},
	}
}
