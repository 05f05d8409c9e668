package call

// AcceptedAs is what the first event of a call says of it.
func AcceptedAs(c *Call) Accepted {
	a := Accepted{
		Tool: c.Tool, ToolDigest: c.ToolDigest, Class: c.Class, Run: c.Run.ID, Thread: c.Run.Thread, ModelCallID: c.ModelCallID,
		BatchID: c.BatchID, BatchPosition: c.BatchPosition,
	}
	a.Describe(&c.Description, c.Assessment)
	return a
}

// Implies reports whether the record of a call says all that is in its log, because it was allowed, ran once and told nothing
// meanwhile. Then [ImpliedEvents] returns the log. The outcome has to have the very result of the record.
func Implies(c *Call, events []Event) bool {
	if len(events) != 3 || len(c.Attempts) != 1 {
		return false
	}
	accepted, outcome := events[0].Accepted, events[2].Outcome
	if accepted == nil || *accepted != AcceptedAs(c) || outcome == nil || *outcome != outcomeOf(c) {
		return false
	}
	for i, want := range impliedLog(c, accepted, outcome) {
		if !events[i].Time.Equal(want.Time) {
			return false
		}
		want.Time = events[i].Time
		if events[i] != want {
			return false
		}
	}
	return true
}

// ImpliedEvents returns the log of a call that its record implies; nil when there can be none.
func ImpliedEvents(c *Call) []Event {
	if len(c.Attempts) != 1 {
		return nil
	}
	accepted, outcome := AcceptedAs(c), outcomeOf(c)
	log := impliedLog(c, &accepted, &outcome)
	return log[:]
}

func outcomeOf(c *Call) Outcome {
	return Outcome{Status: c.Status, Executed: c.Executed, Result: c.Result}
}

func impliedLog(c *Call, accepted *Accepted, outcome *Outcome) [3]Event {
	attempt := &c.Attempts[0]
	return [3]Event{
		{Sequence: 1, Time: c.Created, Type: EventAccepted, Accepted: accepted},
		{Sequence: 2, Time: attempt.Started, Type: EventAttemptStarted, Attempt: attempt.Number},
		{Sequence: 3, Time: c.Ended, Type: EventFinished, Outcome: outcome},
	}
}
