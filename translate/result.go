package translate

import (
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// FromResult translates a result. It sets the model text only for an error. For other results, the model text is the message or the data.
func FromResult(r *tool.Result) *tooldv1.ToolResult {
	if r == nil {
		return nil
	}
	out := &tooldv1.ToolResult{
		Status: fromResultStatus(r.Status), Data: r.Data, Message: r.Message, ToolName: r.ToolName, Truncated: r.Truncated,
		Metadata: r.Metadata, DisplayPreference: fromDisplay(r.Display), Content: Each(r.Content, FromContent),
		Artifacts: Each(r.Artifacts, func(a *tool.Artifact) *tooldv1.Artifact {
			return &tooldv1.Artifact{Name: a.Name, MimeType: a.MIMEType, Size: a.Size}
		}),
		Duration: durationpb.New(r.Duration),
	}
	if r.Error != nil {
		out.Error = FromToolError(r.Error)
	}
	if r.Error != nil || r.Status == tool.StatusError {
		out.ModelText = r.ModelText()
	}
	if r.Process != nil {
		out.Processes = FromProcesses(r.Process)
	}
	return out
}

func FromToolError(e *tool.Error) *tooldv1.ToolError {
	return &tooldv1.ToolError{
		Code: FromErrorCode(e.Code), Reason: e.Reason, Message: e.Message, Aborted: e.Aborted, Retryable: e.Retryable,
		RetryAfter: fromDuration(e.RetryAfter), DeveloperMessage: e.DeveloperMessage, TerminateRun: e.TerminateRun,
		FieldViolations: Each(e.Violations, func(v *tool.Violation) *tooldv1.FieldViolation {
			return &tooldv1.FieldViolation{Field: v.Field, Description: v.Description}
		}),
	}
}

func FromProcesses(p *tool.ProcessReport) *tooldv1.ProcessReport {
	out := &tooldv1.ProcessReport{KillUnverified: len(p.KillUnverified) > 0}
	unverified := make(map[int]bool, len(p.KillUnverified))
	for _, pid := range p.KillUnverified {
		unverified[pid] = true
		out.Killed = append(out.Killed, &tooldv1.KilledProcess{ProcessId: int64(pid)})
	}
	for _, pid := range p.Killed {
		if !unverified[pid] {
			out.Killed = append(out.Killed, &tooldv1.KilledProcess{ProcessId: int64(pid), ConfirmedAt: FromTime(p.ConfirmedAt)})
		}
	}
	return out
}

func FromSuspension(s *call.Suspension) *tooldv1.Suspension {
	out := &tooldv1.Suspension{
		SuspensionId: s.ID, Round: int32(s.Round), Action: s.Action, Message: s.Message, Parameters: string(s.Parameters),
		ResponseSchema: string(s.ResponseSchema), ResumeMode: fromResumeMode(s.ResumeMode), Digest: s.Digest, ExpiresAt: FromTime(s.ExpiresAt.Time()),
		Description: FromDescription(&s.Description), Origin: s.Origin, CreatedAt: FromTime(s.Created.Time()), DefaultResult: s.DefaultResult,
		OnExpiry: tooldv1.ExpiryAction_EXPIRY_ACTION_CANCEL, PolicyVersion: s.Policy, Rule: s.Rule, Reason: s.Reason,
		Pending: &tooldv1.PendingCall{Id: s.Pending.ID, Name: s.Pending.Name, Arguments: s.Pending.Arguments},
		RememberOptions: Each(s.RememberOptions, func(o *tool.RememberOption) *tooldv1.RememberOption {
			return &tooldv1.RememberOption{Option: o.Option, Title: o.Title}
		}),
	}
	if s.DefaultResult != "" {
		out.OnExpiry = tooldv1.ExpiryAction_EXPIRY_ACTION_DEFAULT_RESULT
	}
	out.Approvers = fromApprovers(s.Approvers)
	return out
}

// fromApprovers returns nil for nil.
func fromApprovers(a *tool.Approvers) *tooldv1.Approvers {
	if a == nil {
		return nil
	}
	return &tooldv1.Approvers{Roles: fromRoles(a.Roles), DistinctFromCaller: a.DistinctFromCaller, Count: int32(a.Count), ResultInstead: a.ResultInstead, Groups: a.Groups}
}

// FromClaim translates the claim of a suspension, or nil.
func FromClaim(c *call.Claim) *tooldv1.Claim {
	if c == nil {
		return nil
	}
	out := &tooldv1.Claim{ClaimedBy: FromPrincipal(&c.By), ClaimedAt: FromTime(c.Since.Time()), Until: FromTime(c.Until.Time())}
	if c.HandedBy != nil {
		out.HandedOverBy = FromPrincipal(c.HandedBy)
	}
	return out
}

// FromRights translates what a principal may do with a suspension.
func FromRights(r *call.TicketRights) *tooldv1.TicketRights {
	return &tooldv1.TicketRights{
		SuspensionId: r.SuspensionID, CallId: r.CallID, Approve: fromRight(r.Approve), Decline: fromRight(r.Decline), Edit: fromRight(r.Edit),
		ResultInstead: fromRight(r.ResultInstead), Remember: fromRight(r.Remember),
		RememberScopes: Each(r.Scopes, func(s *tool.Scope) tooldv1.RememberScope { return fromRememberScope(*s) }),
	}
}

func fromRight(err error) *tooldv1.Right {
	if err == nil {
		return &tooldv1.Right{Allowed: true}
	}
	right := &tooldv1.Right{Message: err.Error()}
	if r, ok := errors.AsType[*call.Refusal](err); ok {
		right.Reason, right.Message = r.Reason, r.Message
		if len(r.Violations) == 1 {
			right.Message = r.Violations[0].Description // the description alone, without the name of the field
		}
	}
	return right
}

// FromDecision translates the decision of a suspension. It returns nil when there is no decision. If s is nil, the message does not name
// the suspension.
func FromDecision(d *tool.Decision, s *call.Suspension) *tooldv1.Decision {
	if d == nil {
		return nil
	}
	out := &tooldv1.Decision{
		DecisionId: d.ID, Action: fromAction(d.Action), Result: d.Result, Arguments: d.Arguments, Reason: d.Reason,
		ExpectedDigest: d.ExpectedDigest, DecidedBy: FromPrincipal(&d.DecidedBy), Time: FromTime(d.Time), AppliesTo: d.AppliesTo,
	}
	out.Votes, out.Remember = Each(d.Votes, fromVote), fromRemember(d.Remember)
	if r := d.ResultInstead; r != nil {
		out.ResultInstead = &tooldv1.ResultInstead{Data: r.Data, Message: r.Message, Error: r.Error}
	}
	if s != nil {
		out.SuspensionId, out.Round = s.ID, int32(s.Round)
	}
	return out
}

func fromVote(v *tool.Vote) *tooldv1.Vote {
	return &tooldv1.Vote{DecisionId: v.DecisionID, Action: fromAction(v.Action), Voter: FromPrincipal(&v.Voter), Time: FromTime(v.Time), Edited: v.Edited}
}

// openVotes returns the votes on an open suspension. A vote has the edited arguments that the voter approved.
func openVotes(r *call.Round) []*tooldv1.Vote {
	votes := Each(r.Votes, fromVote)
	for _, v := range votes {
		if v.Edited {
			v.Arguments = r.Proposed
		}
	}
	return votes
}
