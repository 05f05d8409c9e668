package call

import "time"

// A Query selects calls. Empty fields select all.
type Query struct {
	Namespace     string
	Caller        string // subject
	Statuses      []Status
	Run, Thread   string
	ParentCall    string
	Batch         string
	Tool          string
	Action        string    // of the open suspension
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive
	OldestFirst   bool
	// After is the position of the last call of the page before; 0 starts.
	After int64
	Limit int // 0 means 50
}

// A Page is calls in the order of their creation, the newest first unless the query says otherwise. Callers must not change
// the calls: several pages may share them.
type Page struct {
	Calls []*Call
	Next  int64 // 0 when this was the last page
	// Corrupt names calls that were left out because their row is damaged.
	Corrupt []Key
}

// RunState is the state of a run. OPEN and WAITING are not stored: they follow from the calls of the run.
type RunState string

// The states of a run.
const (
	RunOpen    RunState = "OPEN"
	RunWaiting RunState = "WAITING"
	RunBlocked RunState = "BLOCKED"
	RunEnded   RunState = "ENDED"
)

// A RunSummary is a run with its state and how many calls it has.
type RunSummary struct {
	ID        string
	State     RunState
	Reason    string    // why it is blocked
	BlockedBy string    // the call that blocked it
	Changed   time.Time // when it was blocked or ended
	Mode      string    // the permission mode that a client chose; empty when none was
	Counts    map[Status]int
}
