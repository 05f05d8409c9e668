package translate

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// An eventBlock holds all messages that every event needs, so that they take only one allocation.
type eventBlock struct {
	event tooldv1.CallEvent
	time  timestamppb.Timestamp
}

// FromFrame translates a frame. The message contains its events as encoded bytes.
func FromFrame(f *call.Frame) *tooldv1.Frame {
	if len(f.Events) == 0 {
		return controlFrame(f)
	}
	if out := encodedFrame(f); out != nil {
		return out
	}
	return plainFrame(f) // The events cannot be encoded. Sending the plain frame fails too, and that error contains the reason.
}

// controlFrame translates a frame without events.
func controlFrame(f *call.Frame) *tooldv1.Frame {
	if f.Snapshot != nil {
		return snapshotFrame(f)
	}
	out := &tooldv1.Frame{Cursor: f.Cursor}
	switch {
	case f.Gap != nil:
		out.Control = &tooldv1.Frame_Gap{Gap: fromGap(f.Key.ID, f.Gap)}
	case f.CaughtUp:
		out.Control = &tooldv1.Frame_CaughtUp{CaughtUp: &tooldv1.CaughtUp{}}
	case f.Closing:
		return Closing(tooldv1.ClosingReason_CLOSING_REASON_DRAIN, f.Cursor)
	case f.BatchFinished != nil:
		out.Control = &tooldv1.Frame_BatchFinished{BatchFinished: fromBatchFinished(f.BatchFinished)}
	case f.Heartbeat:
		out.Cursor = ""
		out.Control = &tooldv1.Frame_Heartbeat{Heartbeat: &tooldv1.Heartbeat{Time: timestamppb.Now()}}
	default:
		turnFrame(out, f)
	}
	return out
}

// plainFrame translates a frame of events without encoding them.
func plainFrame(f *call.Frame) *tooldv1.Frame {
	out := &tooldv1.Frame{Cursor: f.Cursor, Events: make([]*tooldv1.CallEvent, len(f.Events))}
	blocks := make([]eventBlock, len(f.Events))
	for i := range f.Events {
		fillEvent(&blocks[i], f.Key.ID, &f.Events[i])
		out.Events[i] = &blocks[i].event
	}
	return out
}

func fromGap(callID string, g *call.Gap) *tooldv1.Gap {
	out := &tooldv1.Gap{Reason: tooldv1.GapReason_GAP_REASON_TRIMMED, CallId: callID, FirstKept: g.FirstKept, Epoch: g.Epoch}
	switch {
	case g.LostTail:
		out.Reason = tooldv1.GapReason_GAP_REASON_LOST_TAIL
	case g.Corrupt:
		out.Reason = tooldv1.GapReason_GAP_REASON_CORRUPT
	}
	return out
}

// FromEvent translates an event.
func FromEvent(callID string, e *call.Event) *tooldv1.CallEvent {
	b := &eventBlock{}
	fillEvent(b, callID, e)
	return &b.event
}

func fillEvent(b *eventBlock, callID string, e *call.Event) {
	b.event.CallId, b.event.Sequence = callID, e.Sequence
	b.time.Seconds, b.time.Nanos = e.Time.Unix(), int32(e.Time.Nanosecond())
	b.event.Time = &b.time
	switch e.Type {
	case call.EventAccepted:
		b.event.Event = &tooldv1.CallEvent_Accepted{Accepted: fromAccepted(e.Accepted)}
	case call.EventAttemptStarted:
		b.event.Event = &tooldv1.CallEvent_AttemptStarted{AttemptStarted: &tooldv1.AttemptStarted{Attempt: int32(e.Attempt)}}
	case call.EventFinished:
		b.event.Event = &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{
			Status: FromStatus(e.Outcome.Status), Executed: FromExecuted(e.Outcome.Executed), Result: FromResult(e.Outcome.Result),
		}}
	case call.EventOutput:
		b.event.Event = &tooldv1.CallEvent_Output{Output: &tooldv1.Output{
			Stream: e.Output.Stream, Offset: e.Output.Offset, Data: e.Output.Bytes, Length: int64(e.Output.Length),
		}}
	case call.EventProgress:
		b.event.Event = &tooldv1.CallEvent_Progress{Progress: &tooldv1.Progress{
			Status: fromProgressStatus(e.Progress.Status), Fraction: e.Progress.Fraction, Message: e.Progress.Message,
			Loaded: e.Progress.Loaded, Total: e.Progress.Total,
		}}
	case call.EventQueued:
		b.event.Event = &tooldv1.CallEvent_Queued{Queued: fromQueued(e.Queued)}
	default:
		fillRareEvent(b, e)
	}
}

// fromQueued translates what a call waits for. q is nil in events of earlier versions.
func fromQueued(q *call.Queued) *tooldv1.CallQueued {
	if q == nil {
		return &tooldv1.CallQueued{}
	}
	return &tooldv1.CallQueued{Reason: fromQueueReason(q.Reason), Ahead: int32(q.Ahead), Limit: int32(q.Limit)}
}

func fillRareEvent(b *eventBlock, e *call.Event) {
	switch e.Type {
	case call.EventStatusChanged:
		b.event.Event = &tooldv1.CallEvent_StatusChanged{StatusChanged: &tooldv1.StatusChanged{Status: FromStatus(e.Status)}}
	case call.EventGateDecided:
		b.event.Event = &tooldv1.CallEvent_GateDecided{GateDecided: &tooldv1.GateDecided{Verdict: fromVerdict(e.Verdict)}}
	case call.EventActivitySnapshot:
		b.event.Event = &tooldv1.CallEvent_ActivitySnapshot{ActivitySnapshot: &tooldv1.ActivitySnapshot{
			ActivityId: e.Activity.ID, ActivityType: e.Activity.Type, Content: e.Activity.Content,
		}}
	case call.EventActivityDelta:
		b.event.Event = &tooldv1.CallEvent_ActivityDelta{ActivityDelta: &tooldv1.ActivityDelta{ActivityId: e.Activity.ID, Patch: e.Activity.Patch}}
	case call.EventSuspended:
		b.event.Event = &tooldv1.CallEvent_Suspended{Suspended: &tooldv1.CallSuspended{Suspension: FromSuspension(e.Suspension)}}
	case call.EventVoteRecorded:
		b.event.Event = &tooldv1.CallEvent_VoteRecorded{VoteRecorded: &tooldv1.VoteRecorded{
			SuspensionId: e.Vote.SuspensionID, Vote: fromVote(&e.Vote.Vote), Votes: int32(e.Vote.Votes), Needed: int32(e.Vote.Needed),
		}}
	case call.EventClaimed:
		b.event.Event = &tooldv1.CallEvent_Claimed{Claimed: &tooldv1.SuspensionClaimed{SuspensionId: e.Claim.SuspensionID, Claim: FromClaim(e.Claim.Claim)}}
	case call.EventResumed:
		b.event.Event = &tooldv1.CallEvent_Resumed{Resumed: &tooldv1.CallResumed{Decision: FromDecision(e.Decision, e.Suspension)}}
	case call.EventCancelRequested:
		b.event.Event = &tooldv1.CallEvent_CancelRequested{CancelRequested: &tooldv1.CancelRequested{Request: fromCancel(e.Cancel)}}
	case call.EventDocumentChanged:
		d := e.Document
		b.event.Event = &tooldv1.CallEvent_DocumentChanged{DocumentChanged: &tooldv1.DocumentChanged{
			Scope: FromScope(d.Scope), ScopeId: d.ScopeID, Key: d.Key, Revision: d.Revision,
		}}
	case call.EventStateConflict:
		d := e.Document
		b.event.Event = &tooldv1.CallEvent_StateConflict{StateConflict: &tooldv1.StateConflict{
			Scope: FromScope(d.Scope), ScopeId: d.ScopeID, Key: d.Key, ExpectedRevision: d.Expected, FoundRevision: d.Revision,
			Reason: tooldv1.StateConflictReason(tooldv1.StateConflictReason_value["STATE_CONFLICT_REASON_"+string(d.Conflict)]),
		}}
	}
	// For an event of another type, the message has only its sequence, so that the log has no gaps.
}

func fromAccepted(a *call.Accepted) *tooldv1.CallAccepted {
	out := &tooldv1.CallAccepted{
		Tool: a.Tool, ToolDigest: a.ToolDigest, Durability: fromClass(a.Class), RunId: a.Run, ThreadId: a.Thread, ModelCallId: a.ModelCallID,
		BatchId: a.BatchID, BatchPosition: int32(a.BatchPosition),
	}
	if a.Kind != "" {
		out.Description, out.Assessment = FromDescription(describedIn(a)), FromEffects(a.Assessment)
	}
	return out
}

// describedIn returns the description in the first event of a call.
func describedIn(a *call.Accepted) *tool.Description {
	return &tool.Description{Kind: a.Kind, Title: a.Title, Degraded: a.Degraded}
}

// Closing returns the last frame of a stream whose call continues. The client reconnects with the cursor.
func Closing(reason tooldv1.ClosingReason, cursor string) *tooldv1.Frame {
	return &tooldv1.Frame{Cursor: cursor, Control: &tooldv1.Frame_Closing{Closing: &tooldv1.Closing{Reason: reason}}}
}
