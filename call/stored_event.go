package call

import "github.com/toold-dev/toold/tool"

// eventSequence is the number of the first field of an event. DecodeEventsAfter relies on it.
const eventSequence = 1

func eventFields(w *wire, e *Event) {
	integer(w, eventSequence, &e.Sequence)
	instant(w, 2, &e.Time)
	text(w, 3, &e.Type)
	pointer(w, 4, &e.Accepted, acceptedFields)
	integer(w, 5, &e.Attempt)
	text(w, 6, &e.Status)
	pointer(w, 7, &e.Verdict, verdictFields)
	pointer(w, 8, &e.Progress, progressFields)
	pointer(w, 9, &e.Activity, activityFields)
	pointer(w, 10, &e.Output, outputFields)
	pointer(w, 11, &e.Suspension, suspensionFields)
	pointer(w, 12, &e.Decision, decisionFields)
	pointer(w, 13, &e.Cancel, cancelFields)
	pointer(w, 14, &e.Document, documentFields)
	pointer(w, 15, &e.Outcome, outcomeFields)
	pointer(w, 16, &e.Vote, voteRecordedFields)
	pointer(w, 64, &e.Claim, claimChangedFields)
	pointer(w, 66, &e.Queued, queuedFields)
}

func queuedFields(w *wire, q *Queued) {
	text(w, 1, &q.Reason)
	integer(w, 2, &q.Ahead)
	integer(w, 3, &q.Limit)
}

func voteRecordedFields(w *wire, v *VoteRecorded) {
	text(w, 1, &v.SuspensionID)
	part(w, 2, &v.Vote, voteFields)
	integer(w, 3, &v.Votes)
	integer(w, 4, &v.Needed)
}

func acceptedFields(w *wire, a *Accepted) {
	text(w, 1, &a.Tool)
	text(w, 2, &a.ToolDigest)
	text(w, 3, &a.Class)
	text(w, 4, &a.Run)
	text(w, 5, &a.Thread)
	text(w, 6, &a.ModelCallID)
	text(w, 7, &a.BatchID)
	integer(w, 8, &a.BatchPosition)
	text(w, 9, &a.Kind)
	text(w, 10, &a.Title)
	flag(w, 11, &a.Degraded)
	part(w, 12, &a.Assessment, effectsFields)
}

func progressFields(w *wire, p *tool.Progress) {
	text(w, 1, &p.Status)
	fraction(w, 2, &p.Fraction)
	text(w, 3, &p.Message)
	integer(w, 4, &p.Loaded)
	integer(w, 5, &p.Total)
}

func activityFields(w *wire, a *Activity) {
	text(w, 1, &a.ID)
	text(w, 2, &a.Type)
	text(w, 3, &a.Content)
	text(w, 4, &a.Patch)
}

// outputFields leaves out Bytes, because the spool has these bytes.
func outputFields(w *wire, o *Output) {
	text(w, 1, &o.Stream)
	integer(w, 2, &o.Offset)
	integer(w, 3, &o.Length)
}

func documentFields(w *wire, d *DocumentNotice) {
	text(w, 1, &d.Scope)
	text(w, 2, &d.ScopeID)
	text(w, 3, &d.Key)
	integer(w, 4, &d.Revision)
	optional(w, 5, &d.Expected)
	text(w, 6, &d.Conflict)
}

func outcomeFields(w *wire, o *Outcome) {
	text(w, 1, &o.Status)
	text(w, 2, &o.Executed)
	pointer(w, 3, &o.Result, resultFields)
}
