package call

import (
	"maps"
	"slices"
)

// Status is the state of a call. docs/reference/states.md has the state diagram.
type Status string

// The statuses. A terminal status never changes.
const (
	New       Status = "NEW"
	Running   Status = "RUNNING" // always has an attempt
	Suspended Status = "SUSPENDED"
	Resuming  Status = "RESUMING"
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	Cancelled Status = "CANCELLED"
)

// transitions lists, for each status, the statuses that can follow. A decision is a separate step, from Suspended to Resuming.
var transitions = map[Status][]Status{
	New:       {Running, Suspended, Succeeded, Failed, Cancelled},
	Running:   {Suspended, Succeeded, Failed, Cancelled},
	Suspended: {Resuming, Cancelled},
	Resuming:  {Running, Suspended, Succeeded, Failed, Cancelled},
}

// Terminal reports whether a call with this status has ended.
func (s Status) Terminal() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Unfinished returns the statuses that are not terminal.
func Unfinished() []Status { return slices.Sorted(maps.Keys(transitions)) }

// Valid reports whether s is one of the statuses.
func (s Status) Valid() bool { return s.Terminal() || transitions[s] != nil }

// CanBecome reports whether the step from s to next is legal. A step to the same status is legal and changes nothing, even for a terminal
// status.
func (s Status) CanBecome(next Status) bool {
	return s == next && s.Valid() || slices.Contains(transitions[s], next)
}

// Executed says how far the execution of the tool got.
type Executed string

// Started means that the tool began and was stopped, and that its end was observed. Unknown means that its end was not observed.
const (
	NotStarted      Executed = "NOT_STARTED"
	Started         Executed = "STARTED"
	Finished        Executed = "FINISHED"
	ExecutedUnknown Executed = "UNKNOWN"
)

// Class says what the journal promises for a call.
type Class string

// A crash may lose Behind calls, which are read-only. It loses no Sync calls.
const (
	Sync   Class = "SYNC"
	Behind Class = "BEHIND"
)
