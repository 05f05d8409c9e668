// Package decision checks the answers to the questions of suspended calls.
//
//   - [CheckRequest] checks a request alone, without its call.
//   - [Find] returns the round of a question if the principal may answer it.
//   - [Checker.Check] checks an answer against its ticket and counts the votes of the round. A ticket may need several people.
//   - [Answer] is a checked answer that may be stored.
//
// The package stores nothing and resumes nothing: the engine does.
package decision

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/tool"
)

// CheckRequest returns an error for a request that no ticket can accept.
func CheckRequest(r *call.ResumeRequest) error {
	if r.SuspensionID == "" {
		return call.InvalidField("suspension_id", "is required; ListCalls of status SUSPENDED lists what waits")
	}
	d := &r.Decision
	if err := call.CheckID("decision.decision_id", d.ID, 16); err != nil {
		return err
	}
	switch d.Action {
	case tool.Resume:
	case tool.Cancel:
		if d.Arguments != "" || d.Result != "" || d.ResultInstead != nil {
			return call.InvalidField("decision", "a CANCEL carries neither arguments nor a result")
		}
	default:
		return call.InvalidField("decision.action", "is %q; want RESUME or CANCEL", d.Action)
	}
	if len(d.Result)+d.ResultInstead.Size() > 1<<20 || len(d.Reason) > 1<<10 || len(d.Arguments) > 1<<20 {
		return call.InvalidField("decision", "is too large: a result and arguments have at most 1 MiB, a reason 1 KiB")
	}
	return nil
}

// Unknown returns the refusal "not found". It is the same for a suspension that does not exist and for one that the principal may not see.
func Unknown(id string) error {
	return call.Refuse(call.NotFound, "SUSPENSION_NOT_FOUND", "no suspension %q here; ListCalls of status SUSPENDED lists what waits", id)
}

// Find returns the round of a suspension, or an error when the principal may not answer it.
func Find(c *call.Call, p tool.Principal, suspensionID string) (*call.Round, error) {
	i := slices.IndexFunc(c.Rounds, func(round call.Round) bool { return round.Suspension.ID == suspensionID })
	if i < 0 {
		return nil, Unknown(suspensionID)
	}
	return &c.Rounds[i], mayAnswer(p, c, &c.Rounds[i].Suspension)
}

// mayAnswer checks whether p may answer s. Without approvers in the ticket, the caller of the call, approvers and operators may answer.
func mayAnswer(p tool.Principal, c *call.Call, s *call.Suspension) error {
	if s.Approvers == nil {
		if view.Owns(p, c) || p.HasRole("approver") || p.HasRole("operator") {
			return nil
		}
		return Unknown(s.ID)
	}
	if !s.Approvers.Admit(p) {
		if !view.Sees(p, c) {
			return Unknown(s.ID)
		}
		return notAnApprover(s.Approvers)
	}
	if s.Approvers.DistinctFromCaller && isCaller(p, c) {
		return call.Refuse(call.PermissionDenied, "FOUR_EYES", "the caller cannot answer this ticket; another approver must")
	}
	return nil
}

func notAnApprover(a *tool.Approvers) error {
	if len(a.Groups) > 0 {
		return call.Refuse(call.PermissionDenied, "NOT_AN_APPROVER", "this ticket needs one of the roles %v in one of the groups %v", a.Roles, a.Groups)
	}
	return call.Refuse(call.PermissionDenied, "NOT_AN_APPROVER", "this ticket needs one of the roles %v", a.Roles)
}

// isCaller reports whether p is the caller of c or the subject on whose behalf it acts. A principal without a subject counts as the caller.
func isCaller(p tool.Principal, c *call.Call) bool {
	return p.Subject == c.Caller.Subject || p.Subject == c.OnBehalfOf || p.Subject == ""
}

// Decided returns the error for an answer to a closed question. It names the decision that closed the question, if there is one.
func Decided(round *call.Round, c *call.Call) error {
	refusal := call.Refuse(call.FailedPrecondition, "ALREADY_DECIDED", "the question is closed")
	refusal.Metadata = map[string]string{"call_id": c.ID, "status": string(c.Status)}
	if d := round.Decision; d != nil {
		refusal.Message = "another decision was committed first: " + string(d.Action) + " by " + d.DecidedBy.Subject
		refusal.Metadata["decision_id"], refusal.Metadata["action"], refusal.Metadata["decided_by"] = d.ID, string(d.Action), d.DecidedBy.Subject
	} else if c.Cancel != nil {
		refusal.Message = "the call was cancelled"
	}
	return refusal
}

// Content returns a digest of a client's decision. The same decision id with the same digest is a repeated request; with another digest it
// is an error of the client.
func Content(suspensionID string, d *tool.Decision) string {
	content := []any{suspensionID, string(d.Action), d.Result, d.Arguments, d.Reason, d.ExpectedDigest}
	if m := d.Remember; m != nil {
		content = append(content, m.Option, string(m.Scope), call.FormatTime(m.Until))
	}
	if r := d.ResultInstead; r != nil {
		content = append(content, []any{r.Data, r.Message, r.Error})
	}
	sum := sha256.Sum256(call.AppendCanonical([]byte("toold.decision.v1"), content))
	return hex.EncodeToString(sum[:])
}
