package ledger

import (
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A View is the state of a call that was known when a request was sent. The answer to the request may be older than other answers that have
// arrived meanwhile. It must not be older than the View.
type View struct {
	firm    int64
	ended   bool
	winners map[string]string // by suspension id; "" means that the question is open
}

// View returns what is known now.
func (c *Call) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.viewLocked()
}

func (c *Call) viewLocked() View {
	v := View{firm: c.firm, ended: c.end != nil, winners: map[string]string{}}
	for _, r := range c.rounds {
		v.winners[r.Suspension.GetSuspensionId()] = r.winner
	}
	return v
}

// Record checks a record of the call that the daemon returned in this life. The caller must have read the log in this life before. since is
// the View from before the request.
func (c *Call) Record(record *tooldv1.Call, cursor string, life int64, since View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLocked("record: %v after %d events, %d attempts", record.GetStatus(), record.GetLastSequence(), len(record.GetAttempts()))
	c.recordLocked(record, life, since)
	c.markLocked(cursor, record.GetLastSequence())
}

func terminal(s tooldv1.CallStatus) bool {
	return s == tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || s == tooldv1.CallStatus_CALL_STATUS_FAILED || s == tooldv1.CallStatus_CALL_STATUS_CANCELLED
}

func (c *Call) recordLocked(record *tooldv1.Call, life int64, since View) {
	if record.GetCallId() != c.ID {
		c.breakLocked("P4", "the record is that of call %q", record.GetCallId())
		return
	}
	c.sync = c.sync || record.GetDurability() == tooldv1.Durability_DURABILITY_SYNC
	if c.sync {
		c.firm = c.last
	}
	c.life = max(c.life, life)
	if record.GetLastSequence() < since.firm {
		c.breakLocked("P4", "the record knows %d events; %d were told for good", record.GetLastSequence(), since.firm)
	}
	if c.Once && len(record.GetAttempts()) > 1 {
		c.breakLocked("P3", "%d attempts of a tool that may run once", len(record.GetAttempts()))
	}
	switch status := record.GetStatus(); {
	case terminal(status):
		c.endLocked("the record", status, record.GetExecuted(), record.GetResult(), 0, life)
	case since.ended:
		c.breakLocked("P3", "the record is %v; the call had ended %v", status, c.end.Status)
	}
	c.questionsLocked(record, since)
}

// questionsLocked checks the open question and the decisions of a record.
func (c *Call) questionsLocked(record *tooldv1.Call, since View) {
	open := record.GetSuspension()
	suspended := record.GetStatus() == tooldv1.CallStatus_CALL_STATUS_SUSPENDED
	if suspended != (open != nil) {
		c.breakLocked("P1", "the record is %v with the question %q", record.GetStatus(), open.GetSuspensionId())
	}
	if open != nil {
		if winner := since.winners[open.GetSuspensionId()]; winner != "" {
			c.breakLocked("P2", "question %s is open; decision %s was told to count", open.GetSuspensionId(), winner)
		}
		c.suspendedLocked(open, 0)
		c.openLocked(open, record.GetLastSequence())
	}
	if n := len(c.rounds); n > 0 && open.GetSuspensionId() != c.rounds[n-1].Suspension.GetSuspensionId() {
		r := c.rounds[n-1]
		_, known := since.winners[r.Suspension.GetSuspensionId()]
		if known && r.winner == "" && len(r.sent) == 0 && !c.cancel {
			c.breakLocked("P1", "question %s was told and nobody answered it; the record is %v with the question %q",
				r.Suspension.GetSuspensionId(), record.GetStatus(), open.GetSuspensionId())
		}
	}
	applied := map[string]string{}
	for _, d := range record.GetDecisions() {
		if other, ok := applied[d.GetSuspensionId()]; ok {
			c.breakLocked("P2", "question %s has the answers %s and %s", d.GetSuspensionId(), other, d.GetDecisionId())
		}
		applied[d.GetSuspensionId()] = d.GetDecisionId()
		if r := c.roundLocked(d.GetSuspensionId()); r != nil {
			c.wonLocked(r, d.GetDecisionId(), "the record")
		}
	}
	for id, winner := range since.winners {
		if winner != "" && applied[id] == "" {
			c.breakLocked("P2", "decision %s was told to count for question %s; the record does not have it", winner, id)
		}
	}
}

// Listed compares an inbox with the questions that stayed open during the request. open holds the questions that were open before the
// request, by call id. list is the content of the inbox.
func (l *Ledger) Listed(calls map[string]*Call, open map[string]*tooldv1.Suspension, list []*tooldv1.Call) {
	held := make(map[string]*tooldv1.Suspension, len(list))
	for _, record := range list {
		if held[record.GetCallId()] != nil {
			l.Break("P1", "call %s is in the inbox twice", record.GetCallId())
		}
		held[record.GetCallId()] = record.GetSuspension()
	}
	for id, want := range open {
		c, have := calls[id], held[id]
		if now, untouched := c.Waiting(); !untouched || now.GetSuspensionId() != want.GetSuspensionId() {
			continue // The question was answered during the request.
		}
		switch {
		case have == nil:
			c.Break("P1", "question %s was told, nobody answered it, and the inbox of %d does not have it", want.GetSuspensionId(), len(list))
		case have.GetSuspensionId() != want.GetSuspensionId() || have.GetDigest() != want.GetDigest():
			c.Break("P1", "the inbox has question %s with digest %s in place of %s with digest %s",
				have.GetSuspensionId(), have.GetDigest(), want.GetSuspensionId(), want.GetDigest())
		}
	}
}
