package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

func same[T comparable](a, b []T) bool { return slices.Equal(a, b) }

func testQueries(t *testing.T, f *fixture) {
	a := f.create("a", func(c *call.Call) { c.Run.ID, c.Run.Thread, c.Tool, c.BatchID = "r1", "t1", "read", "b1" })
	f.create("b", func(c *call.Call) {
		c.Run.ID, c.Run.Thread, c.Run.ParentCall, c.Created = "r1", "t2", "a", start.Add(time.Minute).Time()
	})
	c := f.create("c", func(c *call.Call) {
		c.Run.Thread, c.Caller.Subject, c.Created, c.BatchID = "t1", "bob", start.Add(2*time.Minute).Time(), "b1"
	})
	f.create("d", func(c *call.Call) { c.Namespace, c.Run.ID = "other", "r1" })
	f.step(a, call.Running)
	f.step(a, call.Succeeded)
	f.commit(suspend(c, "s", "approval", start.Add(time.Hour)))
	tests := []struct {
		q    call.Query
		want string // expected ids, newest first
	}{
		{call.Query{}, "d c b a"},
		{call.Query{Namespace: "ns"}, "c b a"},
		{call.Query{Namespace: "other"}, "d"},
		{call.Query{Namespace: "ns", Statuses: []call.Status{call.New}}, "b"},
		{call.Query{Statuses: []call.Status{call.New}}, "d b"},
		{call.Query{Namespace: "ns", Statuses: []call.Status{call.New, call.Suspended, call.Failed}}, "c b"},
		{call.Query{Namespace: "ns", Statuses: []call.Status{call.Failed}}, ""},
		{call.Query{Namespace: "ns", Run: "r1"}, "b a"},
		{call.Query{Namespace: "ns", Run: "r1", Statuses: []call.Status{call.Succeeded}}, "a"},
		{call.Query{Namespace: "ns", Thread: "t1"}, "c a"},
		{call.Query{Namespace: "ns", Thread: "t1", Run: "r1"}, "a"},
		{call.Query{Namespace: "ns", ParentCall: "a"}, "b"},
		{call.Query{Namespace: "ns", Batch: "b1"}, "c a"},
		{call.Query{Namespace: "ns", Tools: []string{"read"}}, "a"},
		{call.Query{Namespace: "ns", Tools: []string{"read", "no"}}, "a"},
		{call.Query{Namespace: "ns", Caller: "bob"}, "c"},
		{call.Query{Namespace: "ns", Caller: "bob", Run: "r1"}, ""},
		{call.Query{Namespace: "ns", Action: "approval"}, "c"},
		{call.Query{Action: "approval"}, "c"},
		{call.Query{Namespace: "ns", Action: "input"}, ""},
		{call.Query{Namespace: "ns", Statuses: []call.Status{call.Suspended}, Action: "approval", Thread: "t1"}, "c"},
		{call.Query{Namespace: "ns", Statuses: []call.Status{call.Suspended}, Thread: "t1"}, "c"},
		{call.Query{Namespace: "ns", Statuses: []call.Status{call.Suspended}, Thread: "t1", Caller: "ann"}, ""},
		{call.Query{Namespace: "ns", CreatedAfter: start.Add(time.Minute).Time()}, "c b"},
		{call.Query{Namespace: "ns", CreatedBefore: start.Add(time.Minute).Time()}, "a"},
		{call.Query{Namespace: "ns", Run: "r1", CreatedBefore: start.Add(time.Minute).Time()}, "a"},
	}
	for _, tt := range tests {
		for _, oldest := range []bool{false, true} {
			for _, limit := range []int{1, 2, 50} {
				q := tt.q
				q.OldestFirst, q.Limit = oldest, limit
				got := f.all(q)
				if oldest {
					slices.Reverse(got)
				}
				if fmt.Sprint(got) != "["+tt.want+"]" {
					t.Errorf("Calls(%+v) = %v, want [%s]", q, got, tt.want)
				}
			}
		}
	}
}

// testQueriesOfMany makes many calls with interleaved changes. It compares the results of queries with a selection from a list.
func testQueriesOfMany(t *testing.T, f *fixture) {
	random := newRandom(t)
	pick := func(of string, n int) string { return fmt.Sprint(of, random.IntN(n)) }
	var calls []*call.Call
	for i := range 400 {
		c := newCall(fmt.Sprint("c", i), func(c *call.Call) {
			c.Namespace, c.Caller.Subject = pick("ns", 2), pick("caller", 3)
			if c.Run.ID = pick("run", 20); c.Run.ID == "run0" {
				c.Run.ID = ""
			}
			if c.Run.Thread = pick("thread", 5); c.Run.Thread == "thread0" {
				c.Run.Thread = ""
			}
			if random.IntN(2) == 0 {
				c.Status = call.Succeeded
			}
		})
		calls = append(calls, c)
		f.commit(creation(c))
		for range random.IntN(5) {
			if o := calls[random.IntN(len(calls))]; o.Status == call.New {
				f.commit(progress(o, 1))
			}
		}
		if i == 200 {
			f.reopen()
		}
	}
	matches := func(q call.Query, c *call.Call) bool {
		is := func(want, have string) bool { return want == "" || want == have }
		return is(q.Namespace, c.Namespace) && is(q.Caller, c.Caller.Subject) && is(q.Run, c.Run.ID) && is(q.Thread, c.Run.Thread) &&
			(len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.Status))
	}
	for range 150 {
		q := call.Query{Namespace: pick("ns", 2), OldestFirst: random.IntN(2) == 0, Limit: 1 + random.IntN(30)}
		for _, field := range []*string{&q.Caller, &q.Run, &q.Thread} {
			if random.IntN(2) == 0 {
				*field = map[*string]string{&q.Caller: pick("caller", 4), &q.Run: pick("run", 21), &q.Thread: pick("thread", 6)}[field]
			}
		}
		if random.IntN(3) == 0 {
			q.Statuses = [][]call.Status{{call.Succeeded}, {call.New}, {call.New, call.Succeeded}}[random.IntN(3)]
		}
		var want []string
		for _, c := range calls {
			if matches(q, c) {
				want = append(want, c.ID)
			}
		}
		if !q.OldestFirst {
			slices.Reverse(want)
		}
		if got := f.all(q); !same(got, want) {
			t.Errorf("Calls(%+v) = %v, want %v", q, got, want)
		}
	}
}

// all returns the results of all pages of a query.
func (f *fixture) all(q call.Query) (seen []string) {
	f.t.Helper()
	for {
		page, err := f.Calls(f.t.Context(), q)
		if err != nil {
			f.t.Fatalf("Calls(%+v) = %v", q, err)
		}
		if len(page.Corrupt) > 0 {
			f.t.Fatalf("Calls(%+v): corrupt %v", q, page.Corrupt)
		}
		seen = append(seen, ids(page.Calls)...)
		if page.Next == 0 {
			return seen
		}
		q.After = page.Next
	}
}

func testPaging(t *testing.T, f *fixture) {
	for i := range 60 {
		f.create(fmt.Sprint(i))
	}
	page, err := f.Calls(t.Context(), call.Query{Namespace: "ns"})
	if err != nil || len(page.Calls) != 50 || page.Next == 0 || page.Calls[0].ID != "59" {
		t.Fatalf("first page: %d calls, next %d, %v", len(page.Calls), page.Next, err)
	}
	page, err = f.Calls(t.Context(), call.Query{Namespace: "ns", After: page.Next})
	if err != nil || len(page.Calls) != 10 || page.Next != 0 || page.Calls[9].ID != "0" {
		t.Fatalf("second page: %d calls, next %d, %v", len(page.Calls), page.Next, err)
	}
	// A full page that reaches the end of the list must be the last page.
	if page, err = f.Calls(t.Context(), call.Query{Namespace: "ns", Limit: 60}); err != nil || len(page.Calls) != 60 || page.Next != 0 {
		t.Errorf("full page: %d calls, next %d, %v", len(page.Calls), page.Next, err)
	}
}

// testPagingStable checks a client that reads page by page while calls are created and end. It must see each call that existed at the first
// page exactly once.
func testPagingStable(t *testing.T, f *fixture) {
	var want []string
	for i := range 20 {
		f.create(fmt.Sprintf("old%02d", i))
		want = append(want, fmt.Sprintf("old%02d", i))
	}
	slices.Reverse(want)
	q := call.Query{Namespace: "ns", Limit: 3}
	var got []string
	for i := 0; ; i++ {
		page, err := f.Calls(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ids(page.Calls)...)
		f.create(fmt.Sprint("new", i))
		c := f.get(want[(i*3+7)%20])
		if c.Status == call.New {
			f.step(c, call.Running)
		}
		if q.After = page.Next; q.After == 0 {
			break
		}
	}
	if !same(got, want) {
		t.Errorf("saw %v, want %v", got, want)
	}
}

func testChildren(t *testing.T, f *fixture) {
	child := func(id, run, parent string) {
		f.create(id, func(c *call.Call) { c.Run.ID, c.Run.ParentCall = run, parent })
	}
	f.create("p1", finished)
	f.create("p2")
	child("a1", "a", "p2")
	child("b1", "b", "p1")
	child("c1", "c", "p3")
	child("a2", "a", "p2")
	child("d1", "d", "p2")
	f.create("e1", func(c *call.Call) { c.Namespace, c.Run.ID, c.Run.ParentCall = "other", "e", "p1" })
	for i := range call.MaxChildren {
		child(fmt.Sprint("more", i), "b", "p1")
	}
	tests := []struct {
		parents []string
		want    string
	}{
		{nil, ""},
		{[]string{"p2"}, "a1 d1"},
		{[]string{"p3", "p2", "none", "p2"}, "a1 c1 d1"},
	}
	for _, tt := range tests {
		found, err := f.Children(t.Context(), "ns", tt.parents)
		if got := fmt.Sprint(ids(found)); err != nil || got != "["+tt.want+"]" {
			t.Errorf("Children(%v) = %v, %v; want [%s]", tt.parents, got, err, tt.want)
		}
	}
	if found, err := f.Children(t.Context(), "ns", []string{"p1"}); err != nil || len(found) != 1 || found[0].Run.ID != "b" {
		t.Errorf("Children(p1) = %v, %v; want one call of the run b", ids(found), err)
	}
}

// testExpiring lists the suspended calls of a namespace in the order of their expiry, page by page while calls are decided, and counts them.
func testExpiring(t *testing.T, f *fixture) {
	var want []string
	for i := range 9 {
		id := fmt.Sprint("c", i)
		f.suspended(id, start.Add(time.Duration(10-i/2)*time.Hour)) // Each two calls expire at the same time. The older of the two comes first in the list.
		want = append(want, id)
	}
	want = []string{want[8], want[6], want[7], want[4], want[5], want[2], want[3], want[0], want[1]}
	f.suspended("other", start.Add(time.Hour), func(c *call.Call) { c.Namespace = "other" })
	f.create("fresh")
	statuses, actions, err := f.CountsOf(t.Context(), "ns")
	if err != nil || fmt.Sprint(statuses) != "map[NEW:1 SUSPENDED:9]" || fmt.Sprint(actions) != "map[approval:9]" {
		t.Errorf("CountsOf = %v, %v, %v", statuses, actions, err)
	}
	if statuses, actions, err = f.CountsOf(t.Context(), "nobody"); err != nil || len(statuses)+len(actions) > 0 {
		t.Errorf("CountsOf of an unknown namespace = %v, %v, %v", statuses, actions, err)
	}
	f.reopen()
	q := call.Query{Namespace: "ns", Limit: 2}
	var got []string
	for {
		page, err := f.Expiring(t.Context(), q)
		if err != nil || len(page.Corrupt) > 0 {
			t.Fatal(page.Corrupt, err)
		}
		got = append(got, ids(page.Calls)...)
		if q.After, q.AfterExpiry = page.Next, page.NextExpiry; q.After == 0 {
			break
		}
		if len(got) == 2 { // The next page must begin at the right place, even when the last call of this page is no longer suspended.
			f.step(f.get(got[1]), call.Cancelled)
		}
	}
	if !same(got, want) {
		t.Errorf("saw %v, want %v", got, want)
	}
	if page, err := f.Expiring(t.Context(), call.Query{Namespace: "ns", Limit: 8}); err != nil || len(page.Calls) != 8 || page.Next != 0 {
		t.Errorf("full last page: %v, next %d, %v", ids(page.Calls), page.Next, err)
	}
}

func testRuns(t *testing.T, f *fixture) {
	a := f.create("a", func(c *call.Call) { c.Run.ID = "r1" })
	b := f.create("b", func(c *call.Call) { c.Run.ID = "r1" })
	f.create("c", func(c *call.Call) { c.Run.ID = "r2" })
	f.suspended("d", start.Add(time.Hour), func(c *call.Call) { c.Namespace, c.Run.ID = "other", "r1" })
	f.step(a, call.Running)
	f.step(b, call.Running)
	f.step(b, call.Succeeded)
	counts, err := f.RunCounts(t.Context(), "ns", "r1")
	if err != nil || fmt.Sprint(counts) != "map[RUNNING:1 SUCCEEDED:1]" {
		t.Errorf("RunCounts = %v, %v", counts, err)
	}
	if counts, err = f.RunCounts(t.Context(), "ns", "unknown"); err != nil || len(counts) != 0 {
		t.Errorf("RunCounts of an unknown run = %v, %v", counts, err)
	}
	if counts, err = f.Counts(t.Context()); err != nil || fmt.Sprint(counts) != "map[NEW:1 RUNNING:1 SUSPENDED:1]" {
		t.Errorf("Counts = %v, %v", counts, err)
	}
	if _, err := f.Run(t.Context(), "ns", "r1"); err != store.ErrNotFound {
		t.Errorf("Run that was never closed = %v, want ErrNotFound", err)
	}
	blocked := store.Run{Namespace: "ns", ID: "r1", State: call.RunBlocked, Reason: "policy", CallID: "a"}
	change := step(a, call.Failed)
	change.Run = &blocked
	f.commit(change)
	f.commit(&store.Change{Key: ns("c"), Run: &store.Run{Namespace: "ns", ID: "r2", State: call.RunEnded}})
	f.reopen()
	blocked.Owner = "alice"
	f.commit(&store.Change{Key: ns("c"), Run: &blocked})
	if r, err := f.Run(t.Context(), "ns", "r1"); err != nil || *r != blocked {
		t.Errorf("Run = %+v, %v, want %+v", r, err, blocked)
	}
	if got := f.blockedRuns(); got != "[r1 alice]" {
		t.Errorf("BlockedRuns = %s", got)
	}
	f.commit(&store.Change{Key: ns("c"), Run: &store.Run{Namespace: "ns", ID: "r2", State: call.RunOpen}})
	f.commit(&store.Change{Key: ns("c"), Run: &store.Run{Namespace: "ns", ID: "r1", State: call.RunOpen}})
	if r, err := f.Run(t.Context(), "ns", "r1"); err != nil || r.State != call.RunBlocked {
		t.Errorf("blocked run that a late call opens = %+v, %v", r, err)
	}
	if r, err := f.Run(t.Context(), "ns", "r2"); err != nil || r.State != call.RunOpen {
		t.Errorf("Run that was opened anew = %+v, %v", r, err)
	}
}

// testEndRun checks that a blocked run stays when its calls are trimmed, and can be ended without a call. A blocked run without calls is
// trimmed at the same time as tombstones.
func testEndRun(t *testing.T, f *fixture) {
	c := f.create("a", func(c *call.Call) { c.Run.ID = "r" })
	f.step(c, call.Running)
	change := step(c, call.Failed)
	blocked := store.Run{Namespace: "ns", ID: "r", Owner: "alice", State: call.RunBlocked, CallID: "a"}
	change.Run = &blocked
	f.commit(change)
	if trimmed := f.commitTrim(start.Add(time.Hour)); !same(trimmed, []string{"a"}) {
		t.Fatalf("Trim = %v", trimmed)
	}
	f.reopen()
	if r, err := f.Run(t.Context(), "ns", "r"); err != nil || *r != blocked {
		t.Fatalf("Run = %+v, %v, want %+v", r, err, blocked)
	}
	ended := store.Run{Namespace: "ns", ID: "r", Owner: "alice", State: call.RunEnded}
	if err := f.EndRun(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	ended.Changed = f.clock.Now()
	if r, err := f.Run(t.Context(), "ns", "r"); err != nil || *r != ended {
		t.Fatalf("Run = %+v, %v, want %+v", r, err, ended)
	}
	f.commitTrim(start.Add(2 * time.Hour))
	if r, err := f.Run(t.Context(), "ns", "r"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Run = %+v, %v, want nothing to be left of it", r, err)
	}
	if err := f.EndRun(t.Context(), blocked); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tombstones call.Stamp
		kept       bool
	}{{f.clock.Now(), true}, {f.clock.Now().Add(time.Second), false}} {
		if _, err := f.Trim(t.Context(), start, tt.tombstones, start, 10); err != nil {
			t.Fatal(err)
		}
		if r, err := f.Run(t.Context(), "ns", "r"); (err == nil) != tt.kept || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("blocked run, tombstones before %v: %+v, %v", tt.tombstones, r, err)
		}
	}
}

func (f *fixture) blockedRuns() string {
	f.t.Helper()
	var seen []string
	err := f.BlockedRuns(f.t.Context(), func(r store.Run) error {
		seen = append(seen, r.ID+" "+r.Owner)
		return nil
	})
	if err != nil {
		f.t.Fatalf("BlockedRuns = %v", err)
	}
	slices.Sort(seen)
	return fmt.Sprint(seen)
}

func testRecords(t *testing.T, f *fixture) {
	if _, ok := f.Store.(store.RecordReader); !ok {
		t.Fatal("the store does not read back records")
	}
	change := creation(newCall("a"))
	change.Records = []store.Record{{Kind: "note", Key: "k1", Bytes: []byte("one")}, {Kind: "rule", Key: "k", Bytes: []byte("r")}, {Kind: "note", Key: "k1", Bytes: []byte("two")}}
	f.commit(change)
	if err := f.PutRecord(t.Context(), "ns", store.Record{Kind: "note", Key: "k2", Bytes: []byte("three")}); err != nil {
		t.Fatal(err)
	}
	if err := f.PutRecord(t.Context(), "other", store.Record{Kind: "note", Key: "k2"}); err != nil {
		t.Fatal(err)
	}
	// A refused change stores no record.
	change = creation(newCall("a"))
	change.Records = []store.Record{{Kind: "note", Key: "lost"}}
	if err := f.Commit(t.Context(), change); err == nil {
		t.Fatal("second create accepted")
	}
	f.clock.move(time.Hour)
	f.reopen()
	reader := f.Store.(store.RecordReader)
	var got []string
	for after := int64(0); ; {
		records, err := reader.Records(t.Context(), "ns", "note", after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			break
		}
		r := records[0]
		got = append(got, fmt.Sprintf("%s %s %s", r.Key, r.CallID, r.Bytes))
		if r.Time != start {
			t.Errorf("time %v, want %v", r.Time, start)
		}
		after = r.Position
	}
	if want := []string{"k1 a one", "k1 a two", "k2  three"}; !same(got, want) {
		t.Errorf("Records = %q, want %q", got, want)
	}
}
