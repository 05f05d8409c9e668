// Package storetest tests the promises of a journal. Each store calls [Run], and [RunSpool] for its spool.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Options are the options with which a test opens a store.
type Options struct {
	Now func() time.Time // the clock of the machine, which may jump
}

// A Harness opens, reopens and crashes stores.
type Harness struct {
	// Open returns an empty store. The harness closes it at the end of the test.
	Open func(t *testing.T, o Options) store.Store
	// Reopen closes s and returns the store that the next daemon opens.
	Reopen func(t *testing.T, s store.Store, o Options) store.Store
	// Crash ends s without warning and returns the store that the next daemon opens.
	Crash func(t *testing.T, s store.Store, o Options) store.Store
}

// Run runs all tests of a store.
func Run(t *testing.T, h Harness) {
	for _, tt := range slices.Concat(promises(), listPromises(), documentPromises()) {
		t.Run(tt.name, func(t *testing.T) {
			clock := newClock()
			f := &fixture{t: t, h: h, clock: clock, Store: h.Open(t, Options{Now: clock.machine})}
			tt.test(t, f)
		})
	}
}

// A promise is one test of a store.
type promise struct {
	name string
	test func(*testing.T, *fixture)
}

// listPromises returns the tests of lists and counts.
func listPromises() []promise {
	return []promise{
		{"Queries", testQueries},
		{"QueriesOfMany", testQueriesOfMany},
		{"Paging", testPaging},
		{"PagingUnderInserts", testPagingStable},
		{"RunsAndCounts", testRuns},
		{"Expiring", testExpiring},
	}
}

func promises() []promise {
	return []promise{
		{"Create", testCreate},
		{"Verbatim", testVerbatim},
		{"CreateTwice", testCreateTwice},
		{"CreateRace", testCreateRace},
		{"RevisionConflict", testRevisionConflict},
		{"LogConflict", testLogConflict},
		{"IllegalSteps", testIllegalSteps},
		{"Malformed", testMalformed},
		{"NoSharedPointers", testNoSharedPointers},
		{"LoserHarmsNobody", testLoserHarmsNobody},
		{"DurabilityKeepsOrder", testDurabilityKeepsOrder},
		{"DecideOnce", testDecideOnce},
		{"DecisionReplay", testDecisionReplay},
		{"DecisionIDsByNamespace", testDecisionNamespaces},
		{"NotAfter", testNotAfter},
		{"ClockNeverBack", testClockNeverBack},
		{"ClockAdvances", testClockAdvances},
		{"DueAndNextExpiry", testDue},
		{"CallBySuspension", testCallBySuspension},
		{"Events", testEvents},
		{"FeedSelects", testFeedSelects},
		{"FeedFromFarBehind", testFeedBehind},
		{"FeedOrder", testFeedOrder},
		{"RecordFilters", testRecordFilters},
		{"RecordScan", testRecordScan},
		{"Children", testChildren},
		{"EndRun", testEndRun},
		{"Records", testRecords},
		{"Chain", testChain},
		{"Policies", testPolicies},
		{"PoliciesEnd", testPoliciesEnd},
		{"Batches", testBatches},
		{"BatchWholeOrNot", testBatchWhole},
		{"BatchFeed", testBatchFeed},
		{"BatchTrim", testBatchTrim},
		{"Trim", testTrim},
		{"TrimKeepsWaitingThreads", testTrimThreads},
		{"TrimPacked", testTrimPacked},
		{"TrimDocuments", testTrimDocuments},
		{"TrimLastCall", testTrimLastCall},
		{"TrimRuns", testTrimRuns},
		{"TrimChain", testTrimChain},
		{"Purge", testPurge},
		{"PurgePacked", testPurgePacked},
		{"PurgeRefused", testPurgeRefused},
		{"Shred", testShred},
		{"Reopen", testReopen}, {"Crash", testCrash},
		{"Unfinished", testUnfinished},
		{"Closed", testClosed}, {"CancelledContext", testContext},
		{"Model", testModel},
		{"Together", testTogether},
		{"Moves", testMoves},
	}
}

// A fixture is a store under test with helper methods.
type fixture struct {
	store.Store
	t     *testing.T
	h     Harness
	clock *clock
}

func (f *fixture) reopen() { f.Store = f.h.Reopen(f.t, f.Store, Options{Now: f.clock.machine}) }
func (f *fixture) crash()  { f.Store = f.h.Crash(f.t, f.Store, Options{Now: f.clock.machine}) }

// commit commits a change and fails the test on an error.
func (f *fixture) commit(c *store.Change) {
	f.t.Helper()
	if err := f.Commit(f.t.Context(), c); err != nil {
		f.t.Fatalf("Commit(%s) = %v", c.Name().ID, err)
	}
}

// get returns a call and fails the test when it does not exist.
func (f *fixture) get(id string) *call.Call {
	f.t.Helper()
	c, err := f.Call(f.t.Context(), call.Key{Namespace: "ns", ID: id})
	if err != nil {
		f.t.Fatalf("Call(%s) = %v", id, err)
	}
	return c
}

// create commits a new call with one event.
func (f *fixture) create(id string, edit ...func(*call.Call)) *call.Call {
	f.t.Helper()
	c := newCall(id, edit...)
	f.commit(creation(c))
	return c
}

// step commits the next revision of c with this status and one event.
func (f *fixture) step(c *call.Call, to call.Status) {
	f.t.Helper()
	f.commit(step(c, to))
}

func newCall(id string, edit ...func(*call.Call)) *call.Call {
	c := &call.Call{Namespace: "ns", ID: id, Tool: "noop", Requested: `{"a":1}`, RequestDigest: "digest-" + id,
		Caller: tool.Principal{Subject: "ann"}, Class: call.Sync, Status: call.New, Executed: call.NotStarted,
		Created: start.Time(), Revision: 1, LastSequence: 1, Epochs: []call.EpochStart{{Epoch: 1, First: 1}}}
	for _, e := range edit {
		e(c)
	}
	return c
}

func creation(c *call.Call) *store.Change {
	return &store.Change{Call: c, Create: true, Events: events(1, int(c.LastSequence))}
}

// step updates c to the next revision and returns the change for it.
func step(c *call.Call, to call.Status) *store.Change {
	c.Revision++
	c.LastSequence++
	if c.Status = to; to.Terminal() {
		c.Ended = start.Time()
		c.Result = &tool.Result{Status: tool.StatusSuccess, Data: `"done"`}
	}
	return &store.Change{Call: c, Events: events(int(c.LastSequence), int(c.LastSequence))}
}

// suspend returns the step to SUSPENDED with a ticket.
func suspend(c *call.Call, id, action string, expires call.Stamp) *store.Change {
	c.Rounds = append(c.Rounds, call.Round{Suspension: call.Suspension{ID: id, Round: len(c.Rounds) + 1, Action: action,
		Origin: "approval", Message: "may it?", ExpiresAt: expires}})
	return step(c, call.Suspended)
}

// progress returns a change that only appends events.
func progress(c *call.Call, n int) *store.Change {
	first := int(c.LastSequence) + 1
	c.LastSequence += int64(n)
	return &store.Change{Key: c.Key(), Events: events(first, first+n-1), Durability: store.Normal}
}

func events(first, last int) []call.Event {
	var events []call.Event
	for n := first; n <= last; n++ {
		events = append(events, call.Event{Sequence: int64(n), Time: start.Time(), Type: call.EventProgress,
			Progress: &tool.Progress{Message: fmt.Sprint("event ", n)}})
	}
	return events
}

var start = call.StampOf(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))

// A clock replaces the machine's clock in tests. It changes only when a test moves it, forwards or backwards.
type clock struct {
	mu sync.Mutex
	t  call.Stamp
}

func newClock() *clock { return &clock{t: start} }

// Now returns the current time of the clock.
func (c *clock) Now() call.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) machine() time.Time { return c.Now().Time() }

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func ns(id string) call.Key { return call.Key{Namespace: "ns", ID: id} }

func in(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	f(ctx)
}
