package ledger

import (
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Stream is one reading of a call's log.
type Stream struct {
	c    *Call
	name string
	life int64
	next int64 // the next expected event number; 0 accepts any
	// from is the position at which the reading began. It may come from an earlier life.
	from Mark
	gap  bool // the stream reported a gap, so the older tail of the log is lost
	view View
}

// Open begins a reading of the log. With a mark, the reading continues after this position. Without a mark, it starts at any event.
func (c *Call) Open(name string, life int64, from *Mark) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Stream{c: c, name: name, life: life, view: c.viewLocked()}
	if from != nil {
		s.from, s.next = *from, from.Sequence+1
		c.noteLocked("%s from %d on in life %d", name, s.next, life)
	} else {
		c.noteLocked("%s in life %d", name, life)
	}
	return s
}

// Frame processes the next frame.
func (s *Stream) Frame(f *tooldv1.Frame) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch control := f.GetControl().(type) {
	case *tooldv1.Frame_Snapshot:
		call := control.Snapshot
		c.recordLocked(call, s.life, s.view)
		s.next = call.GetLastSequence() + 1
		c.markLocked(f.GetCursor(), call.GetLastSequence())
	case *tooldv1.Frame_Gap:
		s.gapLocked(control.Gap)
	case nil:
		if len(f.GetEvents()) == 0 {
			c.breakLocked("P4", "%s: a frame without events and without control", s.name)
			return
		}
		for _, e := range f.GetEvents() {
			s.eventLocked(e, f.GetCursor())
		}
		c.markLocked(f.GetCursor(), s.next-1)
	}
}

// End records a regular end of the stream.
func (s *Stream) End() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.noteLocked("%s ended before %d", s.name, s.next)
	s.firmLocked()
}

// firmLocked marks the events up to the cursor as durable, if the cursor is from an earlier life of the daemon and the stream had no gap. The
// daemon of this life can know these events only from the journal.
func (s *Stream) firmLocked() {
	c := s.c
	if s.from.Sequence > 0 && !s.gap && s.life > epochOf(s.from.Cursor) && epochOf(s.from.Cursor) > 0 {
		c.firm = max(c.firm, min(s.from.Sequence, c.last))
	}
}

func (s *Stream) gapLocked(g *tooldv1.Gap) {
	c := s.c
	c.noteLocked("%s: gap %v, first kept %d, epoch %d", s.name, g.GetReason(), g.GetFirstKept(), g.GetEpoch())
	switch {
	case g.GetReason() != tooldv1.GapReason_GAP_REASON_LOST_TAIL:
		c.breakLocked("P4", "%s: gap %v although nothing was trimmed", s.name, g.GetReason())
	case c.sync:
		c.breakLocked("P4", "%s: the tail of a call that is written before it is told was lost", s.name)
	case g.GetFirstKept() <= c.firm || g.GetFirstKept() > s.from.Sequence:
		c.breakLocked("P4", "%s: a tail lost from %d on; the cursor stood at %d, and %d events were written", s.name, g.GetFirstKept(), s.from.Sequence, c.firm)
	case s.life <= epochOf(s.from.Cursor) || g.GetEpoch() <= epochOf(s.from.Cursor):
		c.breakLocked("P4", "%s: a tail of epoch %d lost in life %d, under epoch %d", s.name, epochOf(s.from.Cursor), s.life, g.GetEpoch())
	}
	s.next, s.gap = g.GetFirstKept(), true
	if c.life < s.life { // Otherwise another reading of this life has already handled the gap.
		c.forgetLocked(s.next)
		c.life = s.life
		c.firm = max(c.firm, s.next-1)
	}
}

func (s *Stream) eventLocked(e *tooldv1.CallEvent, cursor string) {
	c := s.c
	if e.GetCallId() != c.ID {
		c.breakLocked("P4", "%s: an event of call %q", s.name, e.GetCallId())
		return
	}
	n := e.GetSequence()
	switch {
	case s.next == 0, n == s.next:
	case n == 1 && c.firm == 0 && !c.sync && epochOf(cursor) > epochOf(s.from.Cursor) && e.GetAccepted() != nil:
		if c.life < s.life {
			c.noteLocked("%s: forgotten, and run again under epoch %d", s.name, epochOf(cursor))
			c.forgetLocked(1)
		}
	default:
		c.breakLocked("P4", "%s: event %d (%s) where %d has to come", s.name, n, kindOf(e), s.next)
	}
	s.firmLocked()
	s.next = n + 1
	c.tellLocked(s.name, s.life, e)
}

// tellLocked processes a published event.
func (c *Call) tellLocked(by string, life int64, e *tooldv1.CallEvent) {
	n, now := e.GetSequence(), contentOfEvent(e)
	if o := e.GetOutput(); o != nil {
		c.outputLocked(o.GetStream(), o.GetOffset(), o.GetData())
	}
	if known, ok := c.events[n]; ok {
		if known != now {
			c.breakLocked("P4", "%s: another event under number %d: now %s", by, n, kindOf(e))
		}
		c.life = max(c.life, life)
		return
	}
	if kind := by + kindOf(e); kind != c.kind { // Record only the first of several similar events.
		c.noteLocked("%s: %d %s%s", by, n, kindOf(e), detailOf(e))
		c.kind = kind
	}
	if c.end != nil && c.end.sequence > 0 && n > c.end.sequence {
		c.breakLocked("P4", "%s: event %d (%s) after the terminal event %d", by, n, kindOf(e), c.end.sequence)
	}
	c.events[n] = now
	c.last, c.life = max(c.last, n), max(c.life, life)
	c.meaningLocked(by, life, e)
	if c.sync {
		c.firm = c.last
	}
}

func (c *Call) meaningLocked(by string, life int64, e *tooldv1.CallEvent) {
	switch {
	case e.GetAccepted() != nil:
		if e.GetSequence() != 1 {
			c.breakLocked("P4", "%s: accepted is event %d", by, e.GetSequence())
		}
		c.sync = c.sync || e.GetAccepted().GetDurability() == tooldv1.Durability_DURABILITY_SYNC
	case e.GetSuspended() != nil:
		c.sync = true // The daemon writes all earlier events together with the question.
		c.suspendedLocked(e.GetSuspended().GetSuspension(), e.GetSequence())
	case e.GetResumed() != nil:
		c.sync = true
		c.resumedLocked(e.GetResumed().GetDecision(), e.GetSequence())
	case e.GetVoteRecorded() != nil:
		c.sync = true
		c.ballotLocked(e.GetVoteRecorded().GetSuspensionId()).votes[e.GetSequence()] = e.GetVoteRecorded()
	case e.GetCancelRequested() != nil:
		c.sync, c.granted = true, true
	case e.GetDocumentChanged() != nil:
		c.sync = true
	case e.GetFinished() != nil:
		f := e.GetFinished()
		c.endLocked(by, f.GetStatus(), f.GetExecuted(), f.GetResult(), e.GetSequence(), life)
	}
}

// endLocked processes the end of a call, from its finished event or, with sequence 0, from its record.
func (c *Call) endLocked(by string, status tooldv1.CallStatus, executed tooldv1.Executed, result *tooldv1.ToolResult, sequence, life int64) {
	now := End{
		Status: status, Executed: executed, Code: result.GetError().GetCode(), Reason: result.GetError().GetReason(),
		sequence: sequence, life: life, result: contentOf(result),
	}
	if sequence > 0 && c.last > sequence {
		c.breakLocked("P4", "%s: finished is event %d; %d was told before", by, sequence, c.last)
	}
	before := c.end
	if before != nil && before.sequence == 0 && before.life < life && !c.sync {
		before = nil // Only a record showed the earlier end. A crash may have lost this end without a gap.
	}
	if before != nil {
		if before.Status != status || before.Executed != executed || before.result != now.result {
			c.breakLocked("P3", "%s: ended %v, %v %s; told before was %v, %v %s, and the results differ", by,
				status, executed, now.Reason, before.Status, before.Executed, before.Reason)
		}
		if sequence > 0 && before.sequence > 0 && before.sequence != sequence {
			c.breakLocked("P4", "%s: finished is event %d and was event %d", by, sequence, before.sequence)
		}
		now.sequence = max(sequence, before.sequence)
	}
	c.end = &now
}

// detailOf returns the details of an event that help a reader of a history.
func detailOf(e *tooldv1.CallEvent) string {
	switch {
	case e.GetFinished() != nil:
		f := e.GetFinished()
		return " " + f.GetStatus().String() + " " + f.GetExecuted().String() + " " + f.GetResult().GetError().GetReason() + " " + f.GetResult().GetError().GetMessage()
	case e.GetSuspended() != nil:
		return " " + e.GetSuspended().GetSuspension().GetSuspensionId()
	case e.GetResumed() != nil:
		return " " + e.GetResumed().GetDecision().GetDecisionId()
	}
	return ""
}
