package decision

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// tally is the votes of a round with one answer more.
type tally struct {
	votes    []tool.Vote // that count
	proposed string      // arguments that the edited ones of them are for
	same     int         // votes that say what this answer says, itself included
	decided  bool
}

// count adds an answer to the votes of a round. A person has one vote: a new one replaces it. People who voted before an edit saw
// something else: the edit voids their votes, except those for the same arguments. When the votes decide, d gets the votes that
// agree.
func count(round *call.Round, d *tool.Decision) (tally, error) {
	t := tally{votes: slices.Clone(round.Votes), proposed: round.Proposed, same: 1}
	needed := votesNeeded(&round.Suspension)
	if needed == 1 || d.Action == tool.Cancel {
		t.decided = true
		return t, nil
	}
	vote := tool.Vote{DecisionID: d.ID, Action: d.Action, Voter: d.DecidedBy, Time: d.Time, Edited: d.Arguments != "", Says: says(d)}
	for _, v := range t.votes {
		if v.Voter.Subject == vote.Voter.Subject && v.Says == vote.Says {
			refusal := call.Refuse(call.FailedPrecondition, "ALREADY_VOTED", "%s has said so already; somebody else has to agree", v.Voter.Subject)
			refusal.Metadata = map[string]string{"decision_id": v.DecisionID}
			return t, refusal
		}
	}
	t.votes = slices.DeleteFunc(t.votes, func(v tool.Vote) bool {
		return v.Voter.Subject == vote.Voter.Subject || vote.Edited && v.Says != vote.Says
	})
	t.votes = append(t.votes, vote)
	if vote.Edited {
		t.proposed = d.Arguments
	}
	agreed := slices.DeleteFunc(slices.Clone(t.votes), func(v tool.Vote) bool { return v.Says != vote.Says })
	if t.same = len(agreed); t.same >= needed {
		t.decided, d.Votes = true, agreed
	}
	return t, nil
}

// votesNeeded returns how many people must agree.
func votesNeeded(s *call.Suspension) int {
	if s.Approvers == nil {
		return 1
	}
	return max(s.Approvers.Count, 1)
}

// says returns a digest of what an answer counts for.
func says(d *tool.Decision) string {
	result, _ := call.ParseJSON(d.Result, 0) // it was checked; an empty one is null
	content := []any{string(d.Action), d.AppliesTo, result}
	if d.Arguments != "" { // AppliesTo does not name them when the ticket no longer holds
		arguments, _ := call.ParseJSON(d.Arguments, 0)
		content = append(content, arguments)
	}
	sum := sha256.Sum256(call.AppendCanonical([]byte("toold.vote.v1"), content))
	return hex.EncodeToString(sum[:])
}
