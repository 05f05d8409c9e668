package ledger

import (
	"slices"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Round is a question of a call and the answers that were sent.
type Round struct {
	Suspension *tooldv1.Suspension

	ticket   content
	sequence int64 // number of the suspended event; 0 when only the record was seen
	resumed  int64 // number of the resumed event
	winner   string
	sent     []Sent
	taken    map[string]bool // votes that the daemon has accepted, including the vote that decided
}

// Sent is an answer that a client sent. Its outcome may never become known.
type Sent struct {
	SuspensionID string
	Decision     *tooldv1.Decision
	Won          bool // this answer is known to have decided the question
	Lost         bool // another answer is known to have decided
}

func (c *Call) suspendedLocked(s *tooldv1.Suspension, sequence int64) {
	r := c.roundLocked(s.GetSuspensionId())
	if r == nil {
		r = &Round{Suspension: proto.CloneOf(s), ticket: contentOfTicket(s)}
		c.rounds = append(c.rounds, r)
	} else if r.ticket != contentOfTicket(s) {
		c.breakLocked("P1", "question %s changed: its digest was %s and is %s", s.GetSuspensionId(), r.Suspension.GetDigest(), s.GetDigest())
	}
	if sequence > 0 && r.sequence > 0 && r.sequence != sequence {
		c.breakLocked("P4", "question %s was asked by event %d and by event %d", s.GetSuspensionId(), r.sequence, sequence)
	}
	r.sequence = max(r.sequence, sequence)
}

func (c *Call) resumedLocked(d *tooldv1.Decision, sequence int64) {
	c.ballotLocked(d.GetSuspensionId()).decided = d
	r := c.roundLocked(d.GetSuspensionId())
	if r == nil {
		return // The question was not seen in the log. The record will contain it.
	}
	if r.resumed > 0 && r.resumed != sequence {
		c.breakLocked("P2", "question %s was answered by event %d and by event %d", d.GetSuspensionId(), r.resumed, sequence)
	}
	r.resumed = sequence
	c.wonLocked(r, d.GetDecisionId(), "its log")
}

func (c *Call) wonLocked(r *Round, decision, by string) {
	if r.winner != "" && r.winner != decision {
		c.breakLocked("P2", "%s says that decision %s counts; decision %s was told to", by, decision, r.winner)
		return
	}
	r.winner = decision
}

func (c *Call) roundLocked(id string) *Round {
	for _, r := range c.rounds {
		if r.Suspension.GetSuspensionId() == id {
			return r
		}
	}
	return nil
}

// Waiting returns the question that is known to be open. untouched is true if no client has tried to answer the question or to cancel the
// call.
func (c *Call) Waiting() (open *tooldv1.Suspension, untouched bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rounds) == 0 || c.end != nil {
		return nil, false
	}
	r := c.rounds[len(c.rounds)-1]
	if r.winner != "" {
		return nil, false
	}
	return r.Suspension, len(r.sent) == 0 && !c.cancel
}

// Send records that an answer is being sent.
func (c *Call) Send(suspension string, d *tooldv1.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.roundLocked(suspension)
	if r == nil {
		c.breakLocked("P1", "an answer to question %s, which was never told", suspension) // This is a bug in the test.
		return
	}
	c.noteLocked("send %v %s to %s", d.GetAction(), d.GetDecisionId(), suspension)
	known := slices.ContainsFunc(r.sent, func(s Sent) bool { return s.Decision.GetDecisionId() == d.GetDecisionId() })
	if !known {
		r.sent = append(r.sent, Sent{SuspensionID: suspension, Decision: d})
	}
}

// Applied records that the daemon has applied an answer.
func (c *Call) Applied(suspension, decision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sync = true
	c.noteLocked("%s applied", decision)
	c.wonLocked(c.roundLocked(suspension), decision, "the daemon's answer")
}

// Refused records that the daemon refused an answer because the question was closed. winner is empty when the call ended without an answer.
func (c *Call) Refused(suspension, decision, winner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("%s refused, the winner is %q", decision, winner)
	r := c.roundLocked(suspension)
	switch {
	case r.taken[decision]:
		c.breakLocked("P2", "vote %s was taken and is refused now, in favour of %q", decision, winner)
	case r.winner == decision:
		c.breakLocked("P2", "decision %s was applied and is refused now, in favour of %q", decision, winner)
	case winner != "":
		c.wonLocked(r, winner, "a refusal")
	case r.winner != "":
		c.breakLocked("P2", "a refusal names no winner; decision %s was applied", r.winner)
	case !c.cancel:
		c.breakLocked("P2", "decision %s is refused without a winner, and nobody cancelled the call", decision)
	}
}

// Sent returns the answers that were sent, oldest first.
func (c *Call) Sent() []Sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Sent
	for _, r := range c.rounds {
		for _, s := range r.sent {
			s.Won = r.winner == s.Decision.GetDecisionId()
			s.Lost = r.winner != "" && !s.Won
			all = append(all, s)
		}
	}
	return all
}

// Rounds returns how many questions were seen.
func (c *Call) Rounds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.rounds)
}

// Winner returns the deciding answer to the newest question, or nil when it is unknown.
func (c *Call) Winner() *tooldv1.Decision {
	for _, s := range slices.Backward(c.Sent()) {
		if s.Won {
			return s.Decision
		}
	}
	return nil
}

// Cancel records that a cancel request is being sent.
func (c *Call) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("cancel")
	c.cancel = true
}

// Cancelled records the daemon's answer to a cancel request. since is the View from before the request.
func (c *Call) Cancelled(record *tooldv1.Call, life int64, since View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("cancel answered: %v", record.GetStatus())
	c.recordLocked(record, life, since)
	if terminal(record.GetStatus()) {
		return
	}
	c.granted, c.sync = true, true
	if record.GetCancelRequest() == nil {
		c.breakLocked("P3", "the answer to a cancel has no cancel_request: %v", record.GetStatus())
	}
}

// Granted reports whether the daemon has said, in its log or its answer, that a cancel request is stored.
func (c *Call) Granted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}
