package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Resume applies a decision and returns a watcher of what follows. The first committed decision wins; the same one again
// replays its outcome.
func (e *Engine) Resume(ctx context.Context, p tool.Principal, r call.ResumeRequest) (call.Watcher, error) {
	if err := checkDecision(&r); err != nil {
		return nil, err
	}
	if !e.drain.Admit() {
		return nil, refuseDraining()
	}
	defer e.drain.Leave()
	l, err := e.acquireAsked(ctx, p.Namespace, &r)
	if err != nil {
		return nil, err
	}
	w, err := e.decide(ctx, l, p, &r)
	if err != nil {
		l.release()
		return nil, err
	}
	w.as = &p
	return w, nil
}

// acquireAsked finds the call that a decision is for.
func (e *Engine) acquireAsked(ctx context.Context, namespace string, r *call.ResumeRequest) (*activeCall, error) {
	q := question{namespace, r.SuspensionID}
	found := e.recent.find(q)
	if found == nil {
		var err error
		if found, err = e.store.CallBySuspension(ctx, namespace, r.SuspensionID); err != nil {
			return nil, suspensionRefusal(err, r.SuspensionID)
		}
	}
	if r.CallID != "" && r.CallID != found.ID {
		return nil, unknownSuspension(r.SuspensionID)
	}
	l, fill := e.reference(found.Key())
	if fill {
		if c := e.recent.find(q); c != nil { // still, and until it is filled nobody changes it
			l.fill(c, nil)
		} else {
			l.load(ctx)
		}
	}
	l.ready.wait()
	if l.loadErr != nil {
		defer l.release()
		return nil, storeRefusal(l.loadErr, found.ID)
	}
	return l, nil
}

func checkDecision(r *call.ResumeRequest) error {
	if r.SuspensionID == "" {
		return call.InvalidField("suspension_id", "is required; ListCalls of status SUSPENDED lists what waits")
	}
	d := &r.Decision
	if err := checkID("decision.decision_id", d.ID, 16); err != nil {
		return err
	}
	switch d.Action {
	case tool.Resume:
	case tool.Cancel:
		if d.Arguments != "" || d.Result != "" {
			return call.InvalidField("decision", "a CANCEL carries neither arguments nor a result")
		}
	default:
		return call.InvalidField("decision.action", "is %q; want RESUME or CANCEL", d.Action)
	}
	if len(d.Result) > 1<<20 || len(d.Reason) > 1<<10 || len(d.Arguments) > 1<<20 {
		return call.InvalidField("decision", "is too large: a result and arguments have at most 1 MiB, a reason 1 KiB")
	}
	return nil
}

func unknownSuspension(id string) error {
	return call.Refuse(call.NotFound, "SUSPENSION_NOT_FOUND", "no suspension %q here; ListCalls of status SUSPENDED lists what waits", id)
}

func suspensionRefusal(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrTrimmed) {
		return unknownSuspension(id)
	}
	return storeRefusal(err, id)
}

// decide checks an answer against the call as it stands and stores it: one compare-and-set, from SUSPENDED to RESUMING
// when nobody else has to say the same.
func (e *Engine) decide(ctx context.Context, l *activeCall, p tool.Principal, r *call.ResumeRequest) (*callWatcher, error) {
	l.slot.take()
	slotted := true
	defer func() {
		if slotted {
			l.unslot()
		}
	}()
	c := l.record()
	a, err := e.consider(ctx, l, c, p, r)
	if err != nil {
		var replay *replayed
		if errors.As(err, &replay) {
			l.unslot()
			slotted = false
			return e.rewatch(ctx, l, r)
		}
		return nil, err
	}
	from := cursor{e.epoch, c.LastSequence}.String() // what follows the decision is what is asked for
	if err := l.storeAnswer(&a, &r.Decision); err != nil {
		return nil, e.lostDecision(ctx, l, a.to, r, err)
	}
	l.unslot()
	slotted = false
	w, err := newWatcher(l, call.ExecuteOptions{Cursor: or(r.Cursor, from), WaitForDecision: r.WaitForDecision}, true)
	if a.decided {
		l.resumeRun(ctx, a.decision)
	}
	return w, err
}

// rewatch returns the watcher of a decision that was stored before: it sees what the first one saw, from the decision on. Of
// a log without it, which retention trimmed or which was erased, it gets a snapshot.
func (e *Engine) rewatch(ctx context.Context, l *activeCall, r *call.ResumeRequest) (*callWatcher, error) {
	from := r.Cursor
	if from == "" {
		at, err := e.decidedAt(ctx, l, r.Decision.ID)
		if err != nil {
			return nil, err
		}
		if at > 0 {
			from = cursor{l.epochOf(at), at - 1}.String()
		}
	}
	return newWatcher(l, call.ExecuteOptions{Cursor: from, WaitForDecision: r.WaitForDecision}, true)
}

// decidedAt returns the number of the event that published a decision or a vote; 0 when the log does not have it.
func (e *Engine) decidedAt(ctx context.Context, l *activeCall, decisionID string) (int64, error) {
	for after := int64(0); ; {
		page, _, err := e.store.Events(ctx, l.key, after, readAhead)
		if err != nil {
			return 0, storeRefusal(err, l.key.ID)
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

// A considered is an answer that may be stored.
type considered struct {
	tally

	to       *call.Suspension
	decision tool.Decision
	rule     *call.Rule // that the answer is kept as, if any
}

// consider checks an answer. That its id is new is looked up first when there may be an answer already that this one
// repeats; else the journal says so in the transaction that stores it, and what is wrong with the answer is told only of
// an id that is new.
func (e *Engine) consider(ctx context.Context, l *activeCall, c *call.Call, p tool.Principal, r *call.ResumeRequest) (a considered, err error) {
	round, err := roundFor(c, p, r.SuspensionID)
	if err != nil {
		return a, err
	}
	unanswered := c.Open() == &round.Suspension && len(round.Votes) == 0
	if !unanswered {
		if err := e.replay(ctx, p, r); err != nil {
			return a, err
		}
	}
	if a, err = e.checked(l, c, round, p, r); err != nil && unanswered {
		if earlier := e.replay(ctx, p, r); earlier != nil {
			err = earlier
		}
	}
	return a, err
}

func (e *Engine) checked(l *activeCall, c *call.Call, round *call.Round, p tool.Principal, r *call.ResumeRequest) (a considered, err error) {
	if a.to, err = e.answerable(c, round, r); err != nil {
		return a, err
	}
	if a.decision, err = e.applied(c, a.to, p, &r.Decision); err != nil {
		return a, err
	}
	if err = l.checkCursor(r.Cursor); err != nil {
		return a, err // before anything is stored
	}
	if a.tally, err = count(c.LastRound(), &a.decision); err != nil {
		return a, err
	}
	a.rule, err = e.cfg.Policies.Remember(c, a.to, p, &a.decision)
	return a, err
}

// replayed says that the same decision was committed before.
type replayed struct{}

func (*replayed) Error() string { return "decision replayed" }

// roundFor finds the round of a suspension that the principal may answer.
func roundFor(c *call.Call, p tool.Principal, suspensionID string) (*call.Round, error) {
	i := slices.IndexFunc(c.Rounds, func(round call.Round) bool { return round.Suspension.ID == suspensionID })
	if i < 0 {
		return nil, unknownSuspension(suspensionID)
	}
	return &c.Rounds[i], mayDecide(p, c, &c.Rounds[i].Suspension)
}

// answerable returns the open suspension that a decision is for, or why it cannot be answered so.
func (e *Engine) answerable(c *call.Call, round *call.Round, r *call.ResumeRequest) (*call.Suspension, error) {
	open := c.Open()
	switch {
	case round.Expired:
		return nil, call.Refuse(call.FailedPrecondition, "SUSPENSION_EXPIRED", "the question expired at %s without an answer", call.FormatTime(round.Suspension.ExpiresAt))
	case open == nil || open.ID != r.SuspensionID:
		return nil, alreadyDecided(round, c)
	case e.held.Holds(c):
		return nil, errHeld
	case r.Decision.ExpectedDigest != "" && r.Decision.ExpectedDigest != open.Digest:
		return nil, call.Refuse(call.FailedPrecondition, "DIGEST_MISMATCH", "the decision is for digest %s; the ticket has %s: look at the call again", r.Decision.ExpectedDigest, open.Digest)
	case r.Decision.ExpectedDigest == "" && open.Approvers != nil:
		return nil, call.InvalidField("decision.expected_digest", "is required for this ticket: the digest that was shown")
	}
	return open, nil
}

// replay finds a decision with this id: the same content is told as replayed, another is refused.
func (e *Engine) replay(ctx context.Context, p tool.Principal, r *call.ResumeRequest) error {
	earlier, err := e.store.Decision(ctx, p.Namespace, r.Decision.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return storeRefusal(err, r.CallID)
	case earlier.Content != decisionContent(r.SuspensionID, &r.Decision) || earlier.Decision.DecidedBy.Subject != p.Subject:
		return call.Refuse(call.AlreadyExists, "DECISION_ID_REUSED", "decision_id %q was used for another decision", r.Decision.ID)
	}
	return &replayed{}
}

// mayDecide checks who answers. A ticket without approvers is for whoever may act for the caller.
func mayDecide(p tool.Principal, c *call.Call, s *call.Suspension) error {
	if s.Approvers == nil {
		if view.Owns(p, c) || p.HasRole("approver") || p.HasRole("operator") {
			return nil
		}
		return unknownSuspension(s.ID)
	}
	if !slices.ContainsFunc(s.Approvers.Roles, p.HasRole) {
		if !view.Sees(p, c) {
			return unknownSuspension(s.ID)
		}
		return call.Refuse(call.PermissionDenied, "NOT_AN_APPROVER", "this ticket needs one of the roles %v", s.Approvers.Roles)
	}
	if s.Approvers.DistinctFromCaller && (p.Subject == c.Caller.Subject || p.Subject == c.OnBehalfOf || p.Subject == "") {
		return call.Refuse(call.PermissionDenied, "FOUR_EYES", "somebody other than the caller must answer this")
	}
	return nil
}

// applied checks what the decision brings and returns it as it will be stored.
func (e *Engine) applied(c *call.Call, s *call.Suspension, p tool.Principal, d *tool.Decision) (tool.Decision, error) {
	out := *d
	out.DecidedBy, out.Time, out.AppliesTo = p, e.store.Now(), s.Digest
	if d.Action == tool.Cancel {
		return out, nil
	}
	if err := e.checkAnswer(s, d.Result); err != nil {
		return out, err
	}
	if s.Origin == call.OriginDoubt {
		return out, e.checkDoubt(c, d)
	}
	text, field := d.Arguments, "decision.arguments"
	if s.ResumeMode == tool.PassDecisionToTool {
		if d.Arguments != "" {
			return out, call.InvalidField(field, "this ticket takes the new arguments as its result")
		}
		text, field = d.Result, "decision.result"
	}
	if s.ResumeMode == tool.UseDecisionAsToolResult && d.Arguments != "" {
		return out, call.InvalidField(field, "this ticket's answer is the result; there is nothing to edit")
	}
	if text == "" {
		return out, nil
	}
	args, def, err := e.editedArguments(c, text, field)
	if err != nil {
		return out, err
	}
	basis := gating.NewBasis(def.Digest, def.Descriptor, args)
	switch {
	case !basis.Shown(c, s, def.Descriptor.MaxArguments): // the ticket's digest, which does not hold: the call asks again
	case s.ResumeMode == tool.PassDecisionToTool && s.Approvers == nil:
		out.AppliesTo = ""
	default:
		out.AppliesTo = basis.Digest(c, s)
	}
	return out, nil
}

// editedArguments checks arguments that a decision brings: what breaks the schema leaves the question open.
func (e *Engine) editedArguments(c *call.Call, text, field string) (tool.Arguments, *Definition, error) {
	def, ok := e.lookup(c)
	if !ok {
		return tool.Arguments{}, nil, call.Refuse(call.FailedPrecondition, "TOOL_GONE", "the tool %q is not there any more; decline the call", c.Tool)
	}
	args, err := call.Parse(text).Arguments(def.Descriptor.MaxArguments)
	if err == nil {
		err = (&pipeline{def: def}).valid(context.Background(), args)
	}
	if err == nil {
		return args, def, nil
	}
	refusal := call.InvalidField(field, "%s", tool.AsError(err).Message)
	if v := tool.AsError(err).Violations; len(v) > 0 {
		refusal.Violations = v
	}
	return args, def, refusal
}

// checkAnswer holds an answer to the ticket's schema.
func (e *Engine) checkAnswer(s *call.Suspension, result string) error {
	if result == "" {
		if len(s.ResponseSchema) > 0 || s.ResumeMode != tool.ReplayToolCall {
			return call.InvalidField("decision.result", "is required: this ticket asks for an answer")
		}
		return nil
	}
	v, err := call.ParseJSON(result, 0)
	if err != nil {
		return call.InvalidField("decision.result", "is not valid JSON: %s", err)
	}
	if v != nil && takesNoResult(s) {
		return call.InvalidField("decision.result", "must be empty: this ticket asks for yes or no; send the action RESUME without a result for yes, CANCEL for no")
	}
	if len(s.ResponseSchema) == 0 {
		return nil
	}
	violations, err := e.cfg.Answers.Validate(s.ResponseSchema, v)
	if err != nil {
		return err
	}
	if len(violations) > 0 {
		refusal := call.Refuse(call.InvalidArgument, "ANSWER_INVALID", "the answer does not meet the ticket's response_schema; the question stays open")
		for _, v := range violations {
			if v.Field != "" {
				v.Field = "." + v.Field
			}
			refusal.Violations = append(refusal.Violations, tool.Violation{Field: "decision.result" + v.Field, Description: v.Description})
		}
		return refusal
	}
	return nil
}

// takesNoResult reports whether a ticket asks for yes or no alone. Gates do not read a result without a schema, so a no
// inside it would count as a yes; a tool reads what it asked for.
func takesNoResult(s *call.Suspension) bool {
	return len(s.ResponseSchema) == 0 && s.ResumeMode == tool.ReplayToolCall && (s.Origin != call.OriginTool || s.Action == gating.ActionApproval)
}

// lostDecision says why the journal did not take a decision.
func (e *Engine) lostDecision(ctx context.Context, l *activeCall, s *call.Suspension, r *call.ResumeRequest, err error) error {
	switch {
	case errors.Is(err, store.ErrExpired):
		return call.Refuse(call.FailedPrecondition, "SUSPENSION_EXPIRED", "the question expired at %s", call.FormatTime(s.ExpiresAt))
	case errors.Is(err, store.ErrDecisionExists):
		return call.Refuse(call.AlreadyExists, "DECISION_ID_REUSED", "decision_id %q was used for another decision", r.Decision.ID)
	case errors.Is(err, store.ErrConflict):
		if c, err := e.store.Call(ctx, l.key); err == nil {
			for i := range c.Rounds {
				if c.Rounds[i].Suspension.ID == s.ID {
					return alreadyDecided(&c.Rounds[i], c)
				}
			}
		}
	}
	return storeRefusal(err, l.key.ID)
}

// alreadyDecided names the winner.
func alreadyDecided(round *call.Round, c *call.Call) error {
	refusal := call.Refuse(call.FailedPrecondition, "ALREADY_DECIDED", "the question is closed")
	refusal.Metadata = map[string]string{"call_id": c.ID, "status": string(c.Status)}
	if d := round.Decision; d != nil {
		refusal.Message = "another decision was first: " + string(d.Action) + " by " + d.DecidedBy.Subject
		refusal.Metadata["decision_id"], refusal.Metadata["action"], refusal.Metadata["decided_by"] = d.ID, string(d.Action), d.DecidedBy.Subject
	} else if c.Cancel != nil {
		refusal.Message = "the call was cancelled"
	}
	return refusal
}

// decisionContent is the digest of what a client sent: it tells a repeat from a reuse of the id.
func decisionContent(suspensionID string, d *tool.Decision) string {
	content := []any{suspensionID, string(d.Action), d.Result, d.Arguments, d.Reason, d.ExpectedDigest}
	if m := d.Remember; m != nil {
		content = append(content, m.Option, string(m.Scope), call.FormatTime(m.Until))
	}
	sum := sha256.Sum256(call.AppendCanonical([]byte("toold.decision.v1"), content))
	return hex.EncodeToString(sum[:])
}
