package audit

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
)

// A Query selects records. Empty fields select all.
type Query struct {
	Principal     string // subject that called, decided, voted, cancelled or requested
	CallID        string
	Kinds         []string  // values of [Entry.Event]
	After, Before time.Time // stored at or after After, and before Before
}

// Kinds returns the kinds of records.
func Kinds() []string {
	return []string{
		string(call.EventAccepted), string(call.EventAttemptStarted), string(call.EventGateDecided), string(call.EventSuspended), string(call.EventVoteRecorded),
		string(call.EventResumed), string(call.EventCancelRequested), string(call.EventFinished), string(EventOperation),
	}
}

// All reports whether the query selects every record.
func (q *Query) All() bool {
	return q.Principal == "" && q.CallID == "" && len(q.Kinds) == 0 && q.After.IsZero() && q.Before.IsZero()
}

// Match reports whether the query selects a record.
func (q *Query) Match(r *call.ChainRecord) bool {
	if !q.After.IsZero() && r.Time.Before(q.After) || !q.Before.IsZero() && !r.Time.Before(q.Before) {
		return false
	}
	if q.Principal == "" && q.CallID == "" && len(q.Kinds) == 0 {
		return true
	}
	var e Entry
	if json.Unmarshal(r.Record, &e) != nil {
		return false // The record was changed. Verification reports it.
	}
	subject := ""
	switch {
	case e.By != nil:
		subject = e.By.Subject
	case e.Caller != nil:
		subject = e.Caller.Subject
	}
	return (q.Principal == "" || q.Principal == subject) &&
		(q.CallID == "" || q.CallID == r.Key || q.CallID == r.CallID || q.CallID == e.Of["call_id"]) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, string(e.Event)))
}

// Passed reports whether r is already beyond the times of the query, so that no later record can match. newestFirst is the order of
// reading.
func (q *Query) Passed(r *call.ChainRecord, newestFirst bool) bool {
	if newestFirst {
		return r.Time.Before(q.After)
	}
	return !q.Before.IsZero() && !r.Time.Before(q.Before)
}
