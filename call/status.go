package call

import "slices"

// Status is where a call stands; docs/reference/states.md draws it.
type Status string

// The statuses. A terminal one never changes again.
const (
	New       Status = "NEW"
	Running   Status = "RUNNING" // always has an attempt
	Suspended Status = "SUSPENDED"
	Resuming  Status = "RESUMING"
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	Cancelled Status = "CANCELLED"
)

// transitions holds every step that is not a step to the same status. Suspended to Running, Suspended to Succeeded and
// Running to Resuming are missing on purpose: a decision is a step of its own.
var transitions = map[Status][]Status{
	New:       {Running, Suspended, Succeeded, Failed, Cancelled},
	Running:   {Suspended, Succeeded, Failed, Cancelled},
	Suspended: {Resuming, Cancelled},
	Resuming:  {Running, Suspended, Succeeded, Failed, Cancelled},
}

// Terminal reports whether a call with this status has ended.
func (s Status) Terminal() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Valid reports whether s is one of the statuses.
func (s Status) Valid() bool { return s.Terminal() || transitions[s] != nil }

// CanBecome reports whether the step from s to next is legal. A status may be written again as itself, a terminal one
// too: that changes nothing.
func (s Status) CanBecome(next Status) bool {
	return s == next && s.Valid() || slices.Contains(transitions[s], next)
}

// Executed says how far the tool got.
type Executed string

// Started means that the tool began, was stopped and is dead; Unknown that nobody saw its end.
const (
	NotStarted      Executed = "NOT_STARTED"
	Started         Executed = "STARTED"
	Finished        Executed = "FINISHED"
	ExecutedUnknown Executed = "UNKNOWN"
)

// Class says what the journal promises of a call.
type Class string

// Behind calls (read-only ones) may be forgotten by a crash; Sync calls may not.
const (
	Sync   Class = "SYNC"
	Behind Class = "BEHIND"
)
