package ledger

import (
	"maps"
	"slices"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Voted records that the daemon accepted an answer to a question that needs several votes. The answer may be a vote or the decision.
func (c *Call) Voted(suspension, decision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sync = true
	c.noteLocked("vote %s taken", decision)
	r := c.roundLocked(suspension)
	if r.taken == nil {
		r.taken = map[string]bool{}
	}
	r.taken[decision] = true
}

// VotedBefore records that a vote was refused because the same person had already voted the same way.
func (c *Call) VotedBefore(suspension, decision, earlier string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("vote %s refused, %s says so already", decision, earlier)
	r := c.roundLocked(suspension)
	switch {
	case r.taken[decision]:
		c.breakLocked("P2", "vote %s was taken and is refused now, in favour of %s", decision, earlier)
	case !r.sentBy(earlier):
		c.breakLocked("P2", "vote %s is refused in favour of %s, which nobody sent", decision, earlier)
	}
}

func (r *Round) sentBy(decision string) bool {
	return slices.ContainsFunc(r.sent, func(s Sent) bool { return s.Decision.GetDecisionId() == decision })
}

// A ballot holds the votes for one question, by event number, and the decision.
type ballot struct {
	votes   map[int64]*tooldv1.VoteRecorded
	decided *tooldv1.Decision
}

func (c *Call) ballotLocked(suspension string) *ballot {
	b := c.ballots[suspension]
	if b == nil {
		b = &ballot{votes: map[int64]*tooldv1.VoteRecorded{}}
		if c.ballots == nil {
			c.ballots = map[string]*ballot{}
		}
		c.ballots[suspension] = b
	}
	return b
}

// count adds a vote by the rules of the contract. Each person has one vote. A vote with edited arguments voids the votes without edits.
func count(votes []*tooldv1.Vote, v *tooldv1.Vote) []*tooldv1.Vote {
	votes = slices.DeleteFunc(slices.Clone(votes), func(other *tooldv1.Vote) bool {
		return other.GetVoter().GetSubject() == v.GetVoter().GetSubject() || v.GetEdited() && !other.GetEdited()
	})
	return append(votes, v)
}

// agreeing returns the ids of the votes for the same arguments. In these tests each call has only one possible edit.
func agreeing(votes []*tooldv1.Vote, edited bool) (ids []string) {
	for _, v := range votes {
		if v.GetEdited() == edited {
			ids = append(ids, v.GetDecisionId())
		}
	}
	return ids
}

func idsOf(votes []*tooldv1.Vote) (ids []string) {
	for _, v := range votes {
		ids = append(ids, v.GetDecisionId())
	}
	return ids
}

// CountVotes counts the votes of each question again after the whole log was read. No accepted vote may be lost or counted twice, and the
// decision must have exactly the required number of votes.
func (c *Call) CountVotes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rounds {
		needed := int(r.Suspension.GetApprovers().GetCount())
		if needed < 2 {
			continue
		}
		b := c.ballotLocked(r.Suspension.GetSuspensionId())
		var votes []*tooldv1.Vote
		seen := map[string]bool{}
		for _, n := range slices.Sorted(maps.Keys(b.votes)) {
			published := b.votes[n]
			v := published.GetVote()
			votes = count(votes, v)
			same := len(agreeing(votes, v.GetEdited()))
			switch id := v.GetDecisionId(); {
			case seen[id]:
				c.breakLocked("P2", "vote %s is counted twice", id)
			case !r.sentBy(id):
				c.breakLocked("P2", "vote %s counts, and nobody sent it", id)
			case int(published.GetVotes()) != same || int(published.GetNeeded()) != needed:
				c.breakLocked("P2", "vote %s is published as %d of %d, and counts as %d of %d", id, published.GetVotes(), published.GetNeeded(), same, needed)
			case same >= needed:
				c.breakLocked("P2", "vote %s is the last that it takes, and the question stayed open", id)
			}
			seen[v.GetDecisionId()] = true
		}
		c.decidedLocked(b.decided, votes, needed)
		for id := range r.taken {
			if !seen[id] && r.winner != id {
				c.breakLocked("P2", "vote %s was taken, and its log does not have it", id)
			}
		}
	}
}

// decidedLocked compares an approval with the votes recorded before it.
func (c *Call) decidedLocked(d *tooldv1.Decision, votes []*tooldv1.Vote, needed int) {
	if d == nil || d.GetAction() != tooldv1.DecisionAction_DECISION_ACTION_RESUME {
		return
	}
	edited := d.GetArguments() != ""
	last := &tooldv1.Vote{DecisionId: d.GetDecisionId(), Voter: d.GetDecidedBy(), Edited: edited}
	want := agreeing(count(votes, last), edited)
	if got := idsOf(d.GetVotes()); !slices.Equal(got, want) || len(want) != needed {
		c.breakLocked("P2", "decision %s was made by the votes %v; %v were there, and it takes %d", d.GetDecisionId(), got, want, needed)
	}
}

// openLocked compares the votes of an open question with the log. It does nothing if events up to until are missing.
func (c *Call) openLocked(open *tooldv1.Suspension, until int64) {
	for n := range until {
		if _, known := c.events[n+1]; !known {
			return
		}
	}
	b := c.ballotLocked(open.GetSuspensionId())
	var votes []*tooldv1.Vote
	for _, n := range slices.Sorted(maps.Keys(b.votes)) {
		if n <= until {
			votes = count(votes, b.votes[n].GetVote())
		}
	}
	if got, want := idsOf(open.GetVotes()), idsOf(votes); !slices.Equal(got, want) {
		c.breakLocked("P2", "question %s has the votes %v; its log says %v", open.GetSuspensionId(), got, want)
	}
}
