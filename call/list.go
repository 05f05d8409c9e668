package call

import (
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Query selects calls. Empty fields match all.
type Query struct {
	Namespace     string
	Caller        string // subject of the caller
	Statuses      []Status
	Run, Thread   string
	ParentCall    string
	Batch         string
	Tools         []string  // tool ids
	Action        string    // action of the open suspension
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive
	OldestFirst   bool
	// The following conditions need the record of a call: see [Query.Holds].
	Executed []Executed
	Errors   []tool.Code       // code of the result's error
	Labels   map[string]string // the run has all of these labels
	Text     string            // part of the tool id or of the title; upper and lower case are the same
	// After is the position of the last call of the previous page. Zero begins at the first page.
	After int64
	Limit int // 0 means 50

	// ExpiresFirst orders suspended calls by the expiry of their open question. AfterExpiry is [Page.NextExpiry] of the previous page.
	ExpiresFirst bool
	AfterExpiry  Stamp
}

// Waits reports whether the query selects a suspended call. It ignores the position of the page.
func (q *Query) Waits(c *Call) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	s := c.Open()
	return s != nil && is(q.Action, s.Action) && is(q.Caller, c.Caller.Subject) && is(q.Run, c.Run.ID) && is(q.Thread, c.Run.Thread) &&
		is(q.ParentCall, c.Run.ParentCall) && is(q.Batch, c.BatchID) && (len(q.Tools) == 0 || slices.Contains(q.Tools, c.Tool)) && q.Holds(c) &&
		(q.CreatedAfter.IsZero() || !c.Created.Before(q.CreatedAfter)) && (q.CreatedBefore.IsZero() || c.Created.Before(q.CreatedBefore))
}

// MaxScan is the maximum number of calls that a store reads for one page without selecting them. A store reads calls in list order from one
// index. It counts the calls that fail a condition outside this index.
const MaxScan = 2000

// WaitsInThread reports whether the query selects suspended calls of a thread, for which stores have an index.
func (q *Query) WaitsInThread() bool {
	return q.Run == "" && q.Thread != "" && len(q.Statuses) == 1 && q.Statuses[0] == Suspended
}

// NeedsRecord reports whether the query has conditions for [Query.Holds].
func (q *Query) NeedsRecord() bool {
	return len(q.Executed)+len(q.Errors)+len(q.Labels) > 0 || q.Text != ""
}

// Holds reports whether a call meets the conditions that need its record.
func (q *Query) Holds(c *Call) bool {
	if len(q.Executed) > 0 && !slices.Contains(q.Executed, c.Executed) {
		return false
	}
	if len(q.Errors) > 0 && (c.Result == nil || c.Result.Error == nil || !slices.Contains(q.Errors, c.Result.Error.Code)) {
		return false
	}
	for key, want := range q.Labels {
		if have, ok := c.Run.Labels[key]; !ok || have != want {
			return false
		}
	}
	if q.Text == "" {
		return true
	}
	text := strings.ToLower(q.Text)
	return strings.Contains(strings.ToLower(c.Tool), text) || strings.Contains(strings.ToLower(c.Description.Title), text)
}

// A Page has calls in the order of their creation, newest first unless the query says otherwise. Callers must not modify the calls, because
// several pages may share them.
type Page struct {
	Calls     []*Call
	Positions []int64 // positions of Calls, set by the store; a query continues after a call when After is the position of the call
	Next      int64   // 0 on the last page; a page with too few calls, or none, need not be the last
	// Partial means that the store stopped after [MaxScan] calls. Skipped is the number of calls that did not match.
	Partial bool
	Skipped int
	// NextExpiry is the expiry that belongs to the position Next. It is set when the query orders by expiry.
	NextExpiry Stamp
	// Corrupt names calls that were left out because their row is damaged.
	Corrupt []Key
}

// Counts are numbers of calls.
type Counts struct {
	Statuses map[Status]int // calls that are not terminal
	Actions  map[string]int // open questions
	AtLeast  bool           // the numbers are lower bounds
}

// RunState is the state of a run. A run that is neither BLOCKED nor ENDED is WAITING if one of its calls is suspended; otherwise it is
// OPEN.
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
	Reason    string    // why the run was blocked or ended
	BlockedBy string    // the call that blocked the run
	Changed   time.Time // when the run was blocked or ended
	Mode      string    // permission mode that a client chose; empty when no client chose one
	Counts    map[Status]int
	Owner     string // subject of the caller
	RunActivity
	Children []ChildRun // set only when one run is read
}

// A RunActivity says when a run or thread was active, and what it waits for.
type RunActivity struct {
	First  time.Time // when the oldest stored call was accepted; zero when no call is stored
	Newest *Call     // the newest stored call, or nil
	Waits  []*Call   // suspended calls that the principal may see, oldest first, at most [MaxWaits]
}

// A ChildRun is a run that a call of another run started.
type ChildRun struct{ ID, ParentCall, Agent string }

// A ThreadSummary is a thread with its permission mode.
type ThreadSummary struct {
	ID    string
	Mode  string
	Owner string
	RunActivity
}

// The maximum numbers of entries in a RunSummary.
const (
	MaxWaits    = 20
	MaxChildren = 100
)

// A RunQuery selects runs or threads by their newest call. Empty fields match all.
type RunQuery struct {
	States            []RunState // applies only to runs
	Waiting           bool       // selects only entries with a suspended call, by their newest suspended call
	Thread, ParentRun string     // apply only to runs
	Agent, Caller     string
	Labels            map[string]string
	// After is the position of the last call that the previous page read. Zero begins at the first page.
	After int64
	Limit int
}
