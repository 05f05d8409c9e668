package decision

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// tally holds the votes of a round, including the new answer.
type tally struct {
	votes    []tool.Vote // votes that are valid
	proposed string      // the edited arguments that the votes with edits approve
	same     int         // number of votes that agree with the new answer, including the answer
	decided  bool
}

// count adds an answer to the votes of a round. Each person has one vote, and a new vote of a person replaces the earlier one. An edit
// voids the votes of others that approve different arguments, because these people saw other arguments. When enough votes agree, count sets
// decided, and d gets the agreeing votes.
func count(round *call.Round, d *tool.Decision) (tally, error) {
	t := tally{votes: slices.Clone(round.Votes), proposed: round.Proposed, same: 1}
	needed := votesNeeded(&round.Suspension)
	if needed == 1 || d.Action == tool.Cancel {
		t.decided = true
		return t, nil
	}
	vote := tool.Vote{DecisionID: d.ID, Action: d.Action, Voter: d.DecidedBy, Time: d.Time, Edited: d.Arguments != "", Digest: digest(d)}
	if err := votedBefore(t.votes, vote.Voter, vote.Digest); err != nil {
		return t, err
	}
	t.votes = slices.DeleteFunc(t.votes, func(v tool.Vote) bool {
		return v.Voter.Subject == vote.Voter.Subject || vote.Edited && v.Digest != vote.Digest
	})
	t.votes = append(t.votes, vote)
	if vote.Edited {
		t.proposed = d.Arguments
	}
	agreed := slices.DeleteFunc(slices.Clone(t.votes), func(v tool.Vote) bool { return v.Digest != vote.Digest })
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

// digest returns a digest of the content of a vote. Two votes agree when their digests are equal.
func digest(d *tool.Decision) string {
	result, _ := call.ParseJSON(d.Result, 0) // The result was validated before, so there is no error. An empty result is treated as null.
	content := []any{string(d.Action), d.AppliesTo, result}
	if d.Arguments != "" { // The arguments must be part of the digest: AppliesTo does not cover them when the ticket no longer matches.
		arguments, _ := call.ParseJSON(d.Arguments, 0)
		content = append(content, arguments)
	}
	if r := d.ResultInstead; r != nil {
		data, _ := call.ParseJSON(r.Data, 0)
		content = append(content, []any{"result_instead", data, r.Message, r.Error})
	}
	sum := sha256.Sum256(call.AppendCanonical([]byte("toold.vote.v1"), content))
	return hex.EncodeToString(sum[:])
}
