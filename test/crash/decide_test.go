package crash_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

func duration(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// decision returns a random answer to a question of the call.
func (l *life) decision(it *item, open *tooldv1.Suspension, rng *rand.Rand) *tooldv1.Decision {
	d := &tooldv1.Decision{
		DecisionId:     fmt.Sprintf("decision-%s-%06d", l.tag, l.decisionNumber.Add(1)),
		Action:         tooldv1.DecisionAction_DECISION_ACTION_RESUME,
		ExpectedDigest: open.GetDigest(),
	}
	switch n := rng.IntN(10); {
	case n < 2:
		d.Action, d.Reason = tooldv1.DecisionAction_DECISION_ACTION_CANCEL, "not today"
	case it.kind.answer != nil:
		d.Result = jsonText(it.kind.answer)
	case n < 5 && it.kind.edited != nil:
		d.Arguments = jsonText(it.kind.edited(it.ID))
	}
	return d
}

// decide answers the open question of a call. Sometimes two approvers answer at the same time.
func (l *life) decide(it *item, rng *rand.Rand) {
	open, _ := it.Waiting()
	if open == nil {
		return
	}
	first := l.decision(it, open, rng)
	if rng.IntN(5) > 0 {
		l.answer(it, open.GetSuspensionId(), first, rng.IntN(6) == 0)
		return
	}
	second := l.decision(it, open, rng)
	var both sync.WaitGroup
	for _, d := range []*tooldv1.Decision{first, second} {
		both.Go(func() { l.answer(it, open.GetSuspensionId(), d, false) })
	}
	both.Wait()
}

// decider returns the principal that sends a decision. For a question that needs two approvers, the decision's id selects one of them, so
// that a repeat comes from the same principal.
func decider(it *item, d *tooldv1.Decision) string {
	id := d.GetDecisionId()
	switch {
	case it.kind.answer != nil:
		return it.kind.caller // A question of the tool itself is answered by the caller.
	case it.kind.caller == council && id[len(id)-1]%2 == 0:
		return second
	}
	return approver
}

// answer sends a decision and records the daemon's reply. It may be called several times with the same decision. If hurry is set, the
// client disconnects after the first frame.
func (l *life) answer(it *item, suspension string, d *tooldv1.Decision, hurry bool) {
	it.Send(suspension, d)
	sent := &l.decisions
	if it.kind.caller == council {
		sent = &l.votes
	}
	sent.Add(1)
	ctx, cancel := as(l.ctx, decider(it, d))
	defer cancel()
	taken := it.Applied
	if it.kind.caller == council {
		taken = it.Voted
	}
	reading := it.Open("resume", l.epoch, nil)
	applied := false
	s, err := l.resume(ctx, suspension, d)
	if err == nil {
		err = l.follow(it, s, reading, func(*tooldv1.Frame) bool {
			if !applied {
				applied = true
				taken(suspension, d.GetDecisionId())
			}
			return hurry
		})
	}
	if err == nil && !applied {
		taken(suspension, d.GetDecisionId())
	}
	code, reason, more := refusal(err)
	if code == codes.FailedPrecondition && reason == "ALREADY_DECIDED" && !applied {
		it.Refused(suspension, d.GetDecisionId(), more["decision_id"])
		return
	}
	if code == codes.FailedPrecondition && reason == "ALREADY_VOTED" && !applied {
		it.VotedBefore(suspension, d.GetDecisionId(), more["decision_id"])
		return
	}
	l.unexpected(it, "resume with "+d.GetDecisionId(), err)
}

// replay sends an earlier decision again. The decision may be from an earlier life.
func (l *life) replay(it *item, rng *rand.Rand) {
	if sent := it.Sent(); len(sent) > 0 {
		s := sent[rng.IntN(len(sent))]
		l.replays.Add(1)
		l.answer(it, s.SuspensionID, s.Decision, rng.IntN(2) == 0)
	}
}

// contest sends one decision that the daemon must refuse. It is either a new decision for an answered question, or it has the id of the
// winning decision but different content.
func (l *life) contest(it *item, rng *rand.Rand) {
	won := ledger.Sent{}
	for _, s := range it.Sent() {
		if s.Won {
			won = s
		}
	}
	if won.Decision == nil {
		return
	}
	d := proto.CloneOf(won.Decision)
	want, wantReason := codes.AlreadyExists, "DECISION_ID_REUSED"
	if rng.IntN(2) == 0 {
		d.DecisionId = fmt.Sprintf("decision-%s-late-%06d", l.tag, l.decisionNumber.Add(1))
		want, wantReason = codes.FailedPrecondition, "ALREADY_DECIDED"
	}
	d.Reason = "something else"
	ctx, cancel := as(l.ctx, decider(it, d))
	defer cancel()
	it.Note("contest with %s", d.GetDecisionId())
	s, err := l.resume(ctx, won.SuspensionID, d)
	if err == nil {
		_, err = s.next()
	}
	code, reason, more := refusal(err)
	switch {
	case code == want && reason == wantReason:
		if winner := more["decision_id"]; want == codes.FailedPrecondition && winner != won.Decision.GetDecisionId() {
			it.Break("P2", "the winner is %q; decision %s was applied", winner, won.Decision.GetDecisionId())
		}
	case err == nil:
		it.Break("P2", "decision %s was taken after %s", d.GetDecisionId(), won.Decision.GetDecisionId())
	case !l.lost("contest", err):
		it.Break("P2", "decision %s after %s: %v %s, want %v %s", d.GetDecisionId(), won.Decision.GetDecisionId(), code, reason, want, wantReason)
	}
}

// cancel cancels a call and records the daemon's reply.
func (l *life) cancel(it *item, wait time.Duration) error {
	it.Cancel()
	since := it.View()
	l.cancels.Add(1)
	ctx, stop := as(l.ctx, it.kind.caller)
	defer stop()
	answer, err := l.calls.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: it.ID, Reason: "crash test", Wait: duration(wait)})
	if err == nil {
		it.Cancelled(answer.GetCall(), l.epoch, since)
	}
	return err
}
