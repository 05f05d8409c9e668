package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// finished makes a call a read-only call that was finished when it was created. SQLite packs such calls.
func finished(c *call.Call) {
	c.Class, c.Status, c.Executed = call.Behind, call.Succeeded, call.Finished
	c.Result = &tool.Result{Status: tool.StatusSuccess, Data: `"done"`}
}

func testRecordFilters(t *testing.T, f *fixture) {
	f.create("a", finished, func(c *call.Call) {
		c.Run.Labels, c.Description.Title = map[string]string{"env": "prod", "team": "edge"}, "Read CONFIG/deploy.yaml"
	})
	f.create("b", func(c *call.Call) {
		c.Status, c.Executed, c.Tool, c.Run.Labels = call.Failed, call.ExecutedUnknown, "refund", map[string]string{"env": "prod"}
		c.Result = &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.InDoubt}}
	})
	f.create("c", func(c *call.Call) {
		c.Status, c.Run.Labels, c.Description.Title = call.Failed, map[string]string{"env": ""}, "Übersicht"
		c.Result = &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.Timeout}}
	})
	f.create("d", finished, func(c *call.Call) { c.Tool = "read_config" })
	tests := []struct {
		q    call.Query
		want string
	}{
		{call.Query{Labels: map[string]string{"env": "prod"}}, "b a"},
		{call.Query{Labels: map[string]string{"env": "prod", "team": "edge"}}, "a"},
		{call.Query{Labels: map[string]string{"env": ""}}, "c"}, // an absent label is not an empty one
		{call.Query{Labels: map[string]string{"env": "prod"}, Statuses: []call.Status{call.Failed}}, "b"},
		{call.Query{Errors: []tool.Code{tool.Timeout}}, "c"},
		{call.Query{Errors: []tool.Code{tool.Timeout, tool.InDoubt}}, "c b"},
		{call.Query{Executed: []call.Executed{call.ExecutedUnknown}}, "b"},
		{call.Query{Executed: []call.Executed{call.Finished, call.NotStarted}}, "d c a"},
		{call.Query{Text: "config"}, "d a"},
		{call.Query{Text: "ÜBERS"}, "c"},
		{call.Query{Text: "config", Tools: []string{"read_config", "refund"}}, "d"},
		{call.Query{Text: "nothing"}, ""},
	}
	for _, tt := range tests {
		for _, tt.q.Limit = range []int{1, 50} {
			tt.q.Namespace = "ns"
			if got := fmt.Sprint(f.all(tt.q)); got != "["+tt.want+"]" {
				t.Errorf("Calls(%+v) = %v, want [%s]", tt.q, got, tt.want)
			}
		}
	}
}

// testRecordScan checks a query that needs the records of calls. One page looks at a limited number of calls, and the next pages continue
// the search.
func testRecordScan(t *testing.T, f *fixture) {
	labels := func(c *call.Call) { c.Run.Labels = map[string]string{"env": "prod"} }
	f.create("first", labels)
	var all sync.WaitGroup
	for i := range call.MaxScan + 100 {
		all.Go(func() {
			c := newCall(fmt.Sprint("other", i))
			if i%2 == 0 {
				finished(c)
			}
			if err := f.Commit(t.Context(), creation(c)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f.create("last", labels)
	q := call.Query{Namespace: "ns", Labels: map[string]string{"env": "prod"}}
	page, err := f.Calls(t.Context(), q)
	if err != nil || fmt.Sprint(ids(page.Calls)) != "[last]" || page.Next == 0 {
		t.Fatalf("first page: %v, next %d, %v; want [last] and a next page", ids(page.Calls), page.Next, err)
	}
	for _, q.Limit = range []int{1, 50} {
		if got := fmt.Sprint(f.all(q)); got != "[last first]" {
			t.Errorf("all pages of %d calls: %s", q.Limit, got)
		}
	}
	q.OldestFirst = true
	if page, err := f.Calls(t.Context(), q); err != nil || !page.Partial || fmt.Sprint(ids(page.Calls)) != "[first]" {
		t.Errorf("first page, oldest first: %v, partial %t, %v", ids(page.Calls), page.Partial, err)
	}
	if got := fmt.Sprint(f.all(q)); got != "[first last]" {
		t.Errorf("all pages, oldest first: %s", got)
	}
	for _, q := range []call.Query{{Tools: []string{"none"}}, {CreatedBefore: start.Time()}, {CreatedAfter: start.Add(time.Second).Time()}} {
		if q.Namespace = "ns"; len(f.all(q)) > 0 {
			t.Errorf("Calls(%+v) found a call", q)
		}
	}
}

// RunBounds checks that one page of a list looks at a limited number of calls, whatever the query is. It is for stores with indexes.
func RunBounds(t *testing.T, s store.Store) {
	f := &fixture{t: t, Store: s}
	var all sync.WaitGroup
	create := func(id string, edit ...func(*call.Call)) {
		all.Go(func() {
			c := newCall(id, append([]func(*call.Call){func(c *call.Call) { c.Run.ID, c.Run.Thread = "run", "thread" }}, edit...)...)
			if err := f.Commit(t.Context(), creation(c)); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range call.MaxScan + 10 {
		create(fmt.Sprint("done", i), finished)
		create(fmt.Sprint("failed", i), func(c *call.Call) {
			c.Status, c.Result = call.Failed, &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.Timeout}}
		})
		create(fmt.Sprint("asks", i), func(c *call.Call) {
			c.Status, c.Rounds = call.Suspended, []call.Round{{Suspension: call.Suspension{ID: fmt.Sprint("s", i), Round: 1, Action: "approve", Origin: "approval", Message: "may it?"}}}
		})
	}
	create("other", finished, func(c *call.Call) { c.Run.ID = "other" })
	all.Wait()
	tests := []call.Query{
		{Tools: []string{"none"}},
		{Tools: []string{"none"}, Statuses: []call.Status{call.Failed}},
		{CreatedAfter: start.Add(time.Hour).Time()},
		{CreatedBefore: start.Time(), Tools: []string{"noop"}},
		{Text: "nothing has this"},
		{Statuses: []call.Status{call.Succeeded, call.Cancelled}, Caller: "ann", Tools: []string{"none"}},
		{Statuses: []call.Status{call.Failed}, Caller: "bob"},
		{Statuses: []call.Status{call.Suspended}, Caller: "bob"},
		{Statuses: []call.Status{call.Cancelled}, Run: "run"},
		{Statuses: []call.Status{call.Suspended}, Thread: "thread", Caller: "bob"},
		{Run: "run", Caller: "bob"},
		{Thread: "thread", Caller: "bob"},
		{Action: "approve", Run: "other"},
		{Action: "approve", Tools: []string{"none"}},
	}
	for _, q := range tests {
		for _, q.OldestFirst = range []bool{false, true} {
			q.Namespace = "ns"
			page, err := s.Calls(t.Context(), q)
			if err != nil || len(page.Calls) > 0 || !page.Partial || page.Next == 0 {
				t.Errorf("Calls(%+v): %d calls, partial %t, next %d, %v; want an empty, partial page", q, len(page.Calls), page.Partial, page.Next, err)
			}
			if found := f.all(q); len(found) > 0 {
				t.Errorf("all pages of Calls(%+v): %v", q, found)
			}
		}
	}
}
