package call

import "time"

// A Query selects calls. Empty fields match all.
type Query struct {
	Namespace     string
	Caller        string // subject of the caller
	Statuses      []Status
	Run, Thread   string
	ParentCall    string
	Batch         string
	Tool          string
	Action        string    // action of the open suspension
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive
	OldestFirst   bool
	// After is the position of the last call of the previous page. Zero begins at the first page.
	After int64
	Limit int // 0 means 50
}

// A Page has calls in the order of their creation, newest first unless the query says otherwise. Callers must not modify the calls, because
// several pages may share them.
type Page struct {
	Calls []*Call
	Next  int64 // 0 on the last page
	// Corrupt names calls that were left out because their row is damaged.
	Corrupt []Key
}

// RunState is the state of a run. The store does not store OPEN and WAITING: they follow from the calls of the run.
type RunState string

// The states of a run.
const (
	RunOpen    RunState = "OPEN"
	RunWaiting RunState = "WAITING"
	RunBlocked RunState = "BLOCKED"
	RunEnded   RunState = "ENDED"
)

// A RunSummary is a run with its state and the number of its calls.
type RunSummary struct {
	ID        string
	State     RunState
	Reason    string    // why the run is blocked
	BlockedBy string    // the call that blocked the run
	Changed   time.Time // when the run was blocked or ended
	Mode      string    // permission mode that a client chose; empty when no client chose one
	Counts    map[Status]int
}
