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
	// The following conditions need the record of a call, because no index covers them: see [Query.Holds]. A store reads at most
	// [MaxScan] records for one page of such a query.
	Executed []Executed
	Errors   []tool.Code       // code of the result's error
	Labels   map[string]string // the run has all of these
	Text     string            // part of the tool id or of the title, in any case
	// After is the position of the last call of the previous page. Zero begins at the first page.
	After int64
	Limit int // 0 means 50
}

// MaxScan is the maximum number of records that a store reads for one page of a query that needs them.
const MaxScan = 2000

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
	Calls []*Call
	Next  int64 // 0 on the last page; a page with fewer calls than the limit, or none, need not be the last one
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
