package show

import (
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Event formats one event as a line of progress. It returns "" for output events, which are not progress.
func (v View) Event(e *tooldv1.CallEvent) string {
	say := func(word, color, rest string) string {
		if rest == "" {
			return v.paint(color, word) + "\n"
		}
		return v.paint(color, fmt.Sprintf("%-10s", word)) + " " + strings.TrimRight(rest, " ") + "\n"
	}
	switch {
	case e.GetAccepted() != nil:
		a := e.GetAccepted()
		return say("accepted", dim, v.paint(bold, Line(a.GetTool()))+"  "+cut(Line(a.GetDescription().GetTitle()), tableWidth))
	case e.GetQueued() != nil:
		return say("queued", dim, Waits(e.GetQueued()))
	case e.GetAttemptStarted() != nil:
		return say("running", accent, fmt.Sprintf("attempt %d", e.GetAttemptStarted().GetAttempt()))
	case e.GetStatusChanged() != nil:
		s := e.GetStatusChanged().GetStatus()
		return say(strings.ToLower(Status(s)), statusColor(s), "")
	case e.GetGateDecided() != nil:
		return say("gate", waits, verdict(e.GetGateDecided().GetVerdict()))
	case e.GetProgress() != nil:
		return say("progress", accent, Progress(e.GetProgress()))
	case e.GetActivitySnapshot() != nil:
		a := e.GetActivitySnapshot()
		return say("activity", dim, cut(Line(a.GetActivityId()+" "+a.GetActivityType()+" "+a.GetContent()), tableWidth))
	case e.GetActivityDelta() != nil:
		a := e.GetActivityDelta()
		return say("activity", dim, cut(Line(a.GetActivityId()+" "+a.GetPatch()), tableWidth))
	case e.GetSuspended() != nil:
		s := e.GetSuspended().GetSuspension()
		return say("suspended", waits, Line(s.GetAction())+quoted(s.GetMessage())) + say("", "", v.answerCommand(s))
	case e.GetVoteRecorded() != nil:
		w := e.GetVoteRecorded()
		return say("vote", waits, fmt.Sprintf("%s by %s, %d of %d", name(w.GetVote().GetAction()), principal(w.GetVote().GetVoter()), w.GetVotes(), w.GetNeeded()))
	case e.GetClaimed() != nil:
		if c := e.GetClaimed().GetClaim(); c != nil {
			return say("claimed", waits, "by "+principal(c.GetClaimedBy())+", until "+v.clock(c.GetUntil()))
		}
		return say("released", waits, "nobody claims the question now")
	case e.GetResumed() != nil:
		return say("decided", good, v.decision(e.GetResumed().GetDecision(), false))
	case e.GetCancelRequested() != nil:
		r := e.GetCancelRequested().GetRequest()
		return say("cancel", waits, cause(r.GetCause())+" by "+principal(r.GetRequestedBy())+quoted(r.GetReason()))
	case e.GetDocumentChanged() != nil:
		d := e.GetDocumentChanged()
		return say("document", dim, fmt.Sprintf("%s %s, revision %d", strings.ToLower(name(d.GetScope())), Line(d.GetKey()), d.GetRevision()))
	case e.GetStateConflict() != nil:
		d := e.GetStateConflict()
		return say("conflict", waits, fmt.Sprintf("%s %s %s; the command is dropped", strings.ToLower(name(d.GetScope())), Line(d.GetKey()), conflict(d.GetReason())))
	case e.GetFinished() != nil:
		return v.Finished(e.GetFinished())
	}
	return ""
}

// Progress formats how far a tool has come.
func Progress(p *tooldv1.Progress) string {
	var parts []string
	switch {
	case p.GetTotal() > 0:
		parts = append(parts, fmt.Sprintf("%s of %s", Number(p.GetLoaded()), Number(p.GetTotal())))
	case p.GetFraction() > 0:
		parts = append(parts, fmt.Sprintf("%.0f %%", 100*min(max(p.GetFraction(), 0), 1)))
	}
	if s := p.GetStatus(); s != tooldv1.ProgressStatus_PROGRESS_STATUS_RUNNING && s != 0 {
		parts = append(parts, strings.ToLower(name(s)))
	}
	if m := p.GetMessage(); m != "" {
		parts = append(parts, cut(Line(m), tableWidth))
	}
	return strings.Join(parts, "  ")
}

// Finished formats the end of a call on one line, and its error and killed processes on further lines. The result text is not included,
// because it is data.
func (v View) Finished(f *tooldv1.CallFinished) string {
	r := f.GetResult()
	rest := ""
	if d := r.GetDuration(); d.AsDuration() > 0 {
		rest = "in " + Duration(d.AsDuration())
	}
	if x := f.GetExecuted(); r.GetError() != nil && x != tooldv1.Executed_EXECUTED_FINISHED && x != 0 {
		rest = strings.TrimPrefix(rest+", "+strings.ToLower(strings.ReplaceAll(name(x), "_", " ")), ", ")
	}
	if how := BadExit(r); how != "" {
		rest = strings.TrimPrefix(rest+", "+v.paint(bad, how), ", ")
	}
	text := v.paint(statusColor(f.GetStatus()), fmt.Sprintf("%-10s", strings.ToLower(Status(f.GetStatus())))) + " " + rest
	text = strings.TrimRight(text, " ") + "\n"
	if e := r.GetError(); e != nil {
		text += indent(v.Error(e))
	}
	return text + indent(v.Processes(r.GetProcesses()))
}

// Control formats a control frame that matters to a person. It returns "" for other frames.
func (v View) Control(f *tooldv1.Frame) string {
	switch {
	case f.GetGap() != nil:
		g := f.GetGap()
		why := "the beginning of the log was trimmed"
		switch g.GetReason() {
		case tooldv1.GapReason_GAP_REASON_LOST_TAIL:
			why = "a crash lost published events; the log continues"
		case tooldv1.GapReason_GAP_REASON_CORRUPT:
			why = "stored events of call " + Line(g.GetCallId()) + " are damaged; the log continues after them"
		}
		return v.paint(waits, "gap") + fmt.Sprintf("        %s at event %d, epoch %d\n", why, g.GetFirstKept(), g.GetEpoch())
	case f.GetLagged() != nil:
		return v.paint(waits, "lagged") + "     this watcher was too slow and was cut off\n"
	case f.GetClosing().GetReason() == tooldv1.ClosingReason_CLOSING_REASON_DRAIN:
		return v.paint(waits, "closing") + "    the daemon is stopping\n"
	case f.GetSnapshot() != nil:
		c := f.GetSnapshot()
		return v.paint(dim, "snapshot") + "   " + v.paint(bold, Line(c.GetTool())) + "  " + v.paint(statusColor(c.GetStatus()), Status(c.GetStatus())) +
			fmt.Sprintf(", %d events so far\n", c.GetLastSequence())
	}
	return ""
}

func conflict(r tooldv1.StateConflictReason) string {
	switch r {
	case tooldv1.StateConflictReason_STATE_CONFLICT_REASON_TYPE:
		return "has a value of another type"
	case tooldv1.StateConflictReason_STATE_CONFLICT_REASON_RANGE:
		return "would have too many digits"
	case tooldv1.StateConflictReason_STATE_CONFLICT_REASON_SIZE:
		return "would be too large"
	case tooldv1.StateConflictReason_STATE_CONFLICT_REASON_ROOM:
		return "does not fit into its scope"
	case tooldv1.StateConflictReason_STATE_CONFLICT_REASON_SCOPE:
		return "may not be written by this tool"
	case tooldv1.StateConflictReason_STATE_CONFLICT_REASON_BROKEN:
		return "is damaged"
	case tooldv1.StateConflictReason_STATE_CONFLICT_REASON_JOURNAL:
		return "was not accepted by the journal"
	}
	return "was changed by another call or person"
}

// Waits says in one line what a queued call waits for.
func Waits(q *tooldv1.CallQueued) string {
	ahead := ""
	if n := q.GetAhead(); n > 0 {
		ahead = fmt.Sprintf(", %s ahead", Number(int64(n)))
	}
	limit := Number(int64(q.GetLimit()))
	switch q.GetReason() {
	case tooldv1.QueueReason_QUEUE_REASON_THREAD:
		return "waits for earlier calls of its thread" + ahead
	case tooldv1.QueueReason_QUEUE_REASON_DAEMON:
		return "waits for a slot: all " + limit + " of the daemon are taken" + ahead
	case tooldv1.QueueReason_QUEUE_REASON_NAMESPACE:
		return "waits for a slot: all " + limit + " of the namespace are taken" + ahead
	case tooldv1.QueueReason_QUEUE_REASON_PRINCIPAL:
		return "waits for a slot: all " + limit + " of the caller are taken" + ahead
	case tooldv1.QueueReason_QUEUE_REASON_TOOL:
		return "waits for a slot: all " + limit + " of the tool are taken" + ahead
	case tooldv1.QueueReason_QUEUE_REASON_HOLD:
		return "waits for the hold after a failover: the earlier daemon may still run calls"
	}
	return "waits for a slot"
}
