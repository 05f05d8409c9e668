package decision

import (
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/tool"
)

// Rights returns what p may do with a suspension of c now.
func (k *Checker) Rights(c *call.Call, p tool.Principal, suspensionID string) call.TicketRights {
	round, err := Find(c, p, suspensionID)
	var s *call.Suspension
	if err == nil {
		s, err = k.open(c, round)
	}
	r := call.NoRights(suspensionID, err)
	if refused, ok := err.(*call.Refusal); !ok || refused.Kind != call.NotFound { //nolint:errorlint // Find returns the refusal itself.
		r.CallID = c.ID
	}
	if err != nil {
		return r
	}
	r.Approve, r.Edit, r.ResultInstead = k.mayApprove(c, round, p), k.mayEdit(c, s), k.mayAnswerInstead(c, s, p)
	r.Scopes, r.Remember = k.Scopes(c, s, p)
	return r
}

// mayApprove refuses a person who has already approved. If the ticket accepts a result, the same person may vote again for another result.
func (k *Checker) mayApprove(c *call.Call, round *call.Round, p tool.Principal) error {
	s := &round.Suspension
	switch {
	case s.ResumeMode == tool.PassDecisionToTool && k.Tool(c) == nil: // Without the tool, nothing can check the new arguments.
		return toolGone(c)
	case votesNeeded(s) == 1 || !takesNoResult(s):
		return nil
	}
	vote := tool.Decision{Action: tool.Resume, AppliesTo: s.Digest}
	return votedBefore(round.Votes, p, digest(&vote))
}

// mayEdit refuses edited arguments where the ticket accepts none.
func (k *Checker) mayEdit(c *call.Call, s *call.Suspension) error {
	const field = "decision.arguments"
	switch {
	case s.Origin == call.OriginDoubt:
		return call.InvalidField(field, "the attempt has already started with its arguments, so they cannot change")
	case s.ResumeMode == tool.PassDecisionToTool:
		return call.InvalidField(field, "this ticket asks for the new arguments as decision.result")
	case s.ResumeMode == tool.UseDecisionAsToolResult:
		return call.InvalidField(field, "the answer to this ticket becomes the result of the call, so its arguments cannot change")
	case k.Tool(c) == nil:
		return toolGone(c)
	}
	return nil
}

// mayAnswerInstead refuses a result in the tool's place where the ticket gives p no right to it.
func (k *Checker) mayAnswerInstead(c *call.Call, s *call.Suspension, p tool.Principal) error {
	if s.Approvers == nil || !s.Approvers.ResultInstead {
		return call.Refuse(call.PermissionDenied, "RESULT_INSTEAD_NOT_ALLOWED", "this ticket gives no right to answer in the tool's place; approve or decline the call")
	}
	if isCaller(p, c) {
		return call.Refuse(call.PermissionDenied, "FOUR_EYES", "the caller cannot answer in the place of the tool that it called; another approver must")
	}
	def := k.Tool(c)
	switch {
	case def == nil:
		return toolGone(c)
	case !gating.NewBasis(def.Digest, def.Descriptor, tool.Arguments{}).Shown(c, s, def.Descriptor.MaxArguments):
		return call.Refuse(call.FailedPrecondition, "TOOL_CHANGED", "the tool %q has changed since the question, so nobody can answer in its place; approve or decline the call", c.Tool)
	}
	return nil
}

// votedBefore refuses a vote of a person who has sent the same vote before.
func votedBefore(votes []tool.Vote, p tool.Principal, digest string) error {
	i := slices.IndexFunc(votes, func(v tool.Vote) bool { return v.Voter.Subject == p.Subject && v.Digest == digest })
	if i < 0 {
		return nil
	}
	refusal := call.Refuse(call.FailedPrecondition, "ALREADY_VOTED", "%s has already sent this vote; another approver must vote", p.Subject)
	refusal.Metadata = map[string]string{"decision_id": votes[i].DecisionID}
	return refusal
}
