package call

import (
	"slices"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Purge names the principal that erased the content of a call, and the time.
type Purge struct {
	By   tool.Principal `json:"by"`
	Time time.Time      `json:"time"`
}

// Purged returns a finished call without its content. It keeps the id, tool, caller, outcome, times and deciders. It removes everything
// that a person, a model or a tool wrote. It builds a new record from the fields to keep. A field that is added to Call later is therefore
// removed, unless Purged is changed too.
func (c *Call) Purged(p Purge) *Call {
	out := &Call{
		Namespace: c.Namespace, ID: c.ID, Tool: c.Tool, ToolDigest: c.ToolDigest, RetryOf: c.RetryOf,
		Run: tool.Run{
			ID: c.Run.ID, Thread: c.Run.Thread, ParentRun: c.Run.ParentRun, ParentThread: c.Run.ParentThread, ParentCall: c.Run.ParentCall,
			Unattended: c.Run.Unattended,
		},
		Caller: c.Caller, OnBehalfOf: c.OnBehalfOf, RequestDigest: c.RequestDigest, Detached: c.Detached,
		Class: c.Class, Status: c.Status, Executed: c.Executed, Assessment: c.Assessment, Attempts: purgedAttempts(c.Attempts), Isolation: c.Isolation,
		BatchID: c.BatchID, BatchPosition: c.BatchPosition,
		Created: c.Created, Started: c.Started, Ended: c.Ended, Revision: c.Revision, LastSequence: c.LastSequence, Epochs: c.Epochs,
		Result: purgedResult(c.Result), Purge: &p,
	}
	out.Assessment.Resources = nil
	for _, v := range c.Verdicts {
		v.Reason = ""
		out.Verdicts = append(out.Verdicts, v)
	}
	for i := range c.Rounds {
		out.Rounds = append(out.Rounds, purgedRound(&c.Rounds[i]))
	}
	if r := c.Cancel; r != nil {
		out.Cancel = &CancelRequest{By: r.By, Cause: r.Cause, Time: r.Time}
	}
	return out
}

// purgedText replaces a result that a model or a person would read.
const purgedText = "The content of this call was erased."

func purgedResult(r *tool.Result) *tool.Result {
	if r == nil {
		return nil
	}
	out := &tool.Result{ToolName: r.ToolName, Status: r.Status, Message: purgedText, Duration: r.Duration}
	if e := r.Error; e != nil {
		out.Message = ""
		out.Error = &tool.Error{Code: e.Code, Message: purgedText, Aborted: e.Aborted, TerminateRun: e.TerminateRun}
	}
	return out
}

func purgedRound(r *Round) Round {
	s := &r.Suspension
	out := Round{
		Suspension: Suspension{
			ID: s.ID, Round: s.Round, Origin: s.Origin, Action: s.Action, ResumeMode: s.ResumeMode, Approvers: s.Approvers,
			Digest: s.Digest, Created: s.Created, ExpiresAt: s.ExpiresAt,
		},
		Votes: slices.Clone(r.Votes), Expired: r.Expired, Closed: r.Closed,
	}
	if r.Decision != nil {
		d := PurgedDecision(r.Decision)
		out.Decision = &d
	}
	return out
}

// PurgedDecision returns a decision without its content. It keeps the person, the action, the time, and the id. By the id, a repeated
// decision is recognized.
func PurgedDecision(d *tool.Decision) tool.Decision {
	return tool.Decision{ID: d.ID, Action: d.Action, DecidedBy: d.DecidedBy, Time: d.Time, AppliesTo: d.AppliesTo, Votes: slices.Clone(d.Votes)}
}

// purgedAttempts leaves out the ids of operations, because tools choose them.
func purgedAttempts(attempts []Attempt) []Attempt {
	out := slices.Clone(attempts)
	for i := range out {
		out[i].Operation = nil
	}
	return out
}
