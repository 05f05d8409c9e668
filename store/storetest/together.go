package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// submit submits changes as one group: the others wait while the store writes the first. It returns the outcome of each.
func (f *fixture) submit(changes []*store.Change) []error {
	errs := make([]error, len(changes))
	var all sync.WaitGroup
	all.Add(len(changes))
	begun, there := make(chan struct{}), make(chan struct{})
	submit := func(i int) {
		f.Submit(changes[i], func(err error) {
			if i == 0 {
				close(begun)
				<-there
			}
			errs[i] = err
			all.Done()
		})
	}
	go submit(0) // A store that writes during Submit returns from this call only after the other changes are submitted.
	<-begun
	for i := range changes[1:] {
		submit(i + 1)
	}
	close(there)
	all.Wait()
	return errs
}

// assorted returns a new call with random fields. Most are finished, like read-only calls of the BEHIND class.
func assorted(random *rand.Rand, n int) *call.Call {
	one := func(words ...string) string { return words[random.IntN(len(words))] }
	return newCall(fmt.Sprintf("call-%03d", n), func(c *call.Call) {
		c.Namespace, c.Tool, c.Caller.Subject = one("ns", "ns", "ns", "other"), one("a", "b"), one("ann", "bob")
		c.Run.ID, c.Run.Thread = one("", "r1", "r2", "r11"), one("", "th1", "th2")
		c.Created = start.Add(time.Duration(n) * 10 * time.Second).Time()
		c.Requested = fmt.Sprintf("%q", string(slices.Repeat([]byte("r1 "), random.IntN(2000))))
		c.Class, c.LastSequence = call.Behind, int64(1+random.IntN(3))
		switch c.Status = call.Succeeded; random.IntN(12) {
		case 0:
			c.Status = call.Failed
		case 1:
			c.Status, c.LastSequence = call.New, 1
		case 2:
			c.Status = call.Suspended
			c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s-" + c.ID, Round: 1, Action: "approval", ExpiresAt: start.Add(time.Hour)}}}
		case 3:
			c.Run.ParentCall = "parent"
		case 4:
			c.BatchID = "batch"
		}
		if c.Status.Terminal() {
			c.Result = &tool.Result{Status: tool.StatusSuccess, Data: fmt.Sprint(n)}
		}
	})
}

// logOf returns the events with which an assorted call is created.
func logOf(c *call.Call) []call.Event { return events(1, int(c.LastSequence)) }

// testTogether checks that calls that are written in one group behave as if each had been written alone.
func testTogether(t *testing.T, f *fixture) {
	random := newRandom(t)
	model := map[string]*call.Call{}
	for n := 0; n < 300; {
		var group []*store.Change
		for range 1 + random.IntN(60) {
			c := assorted(random, n)
			model[c.ID] = c
			change := creation(c)
			change.Events, change.Durability = logOf(c), store.Normal
			group = append(group, change)
			n++
		}
		again := *group[random.IntN(len(group))]
		errs := f.submit(append(group, &again))
		if err := errs[len(group)]; !errors.Is(err, store.ErrExists) {
			t.Errorf("the second creation of %s = %v", again.Call.ID, err)
		}
		if err := errors.Join(errs[:len(group)]...); err != nil {
			t.Fatal(err)
		}
	}
	f.compareTogether(model)
	purged := map[string]bool{}
	for id, c := range model {
		if !c.Status.Terminal() || c.Namespace != "ns" {
			continue
		}
		next, same := *c, *c
		for _, change := range []*store.Change{step(&next, call.Running), progress(&same, 1)} {
			if err := f.Commit(t.Context(), change); !errors.Is(err, store.ErrTransition) {
				t.Errorf("change of %s, which is %s: %v", id, c.Status, err)
			}
		}
		if purged[id] = random.IntN(20) == 0; purged[id] {
			f.purge(id)
			f.wantPurged(c)
			model[id] = f.get(id)
		}
	}
	f.compareTogether(model)
	f.crash()
	f.compareTogether(model)
	f.trimTogether(random, model)
}

// trimTogether trims with many different limits. After each trim it compares the remaining calls with those in the map model.
func (f *fixture) trimTogether(random *rand.Rand, model map[string]*call.Call) {
	f.t.Helper()
	f.clock.move(time.Hour)
	for limit := 1; ; limit = 1 + random.IntN(30) {
		trimmed, err := f.Trim(f.t.Context(), start.Add(time.Minute), 0, 0, limit)
		if err != nil || len(trimmed) > limit {
			f.t.Fatalf("Trim = %v, %v", trimmed, err)
		}
		for _, k := range trimmed {
			if _, err := f.Call(f.t.Context(), k); !errors.Is(err, store.ErrTrimmed) || !model[k.ID].Status.Terminal() {
				f.t.Fatalf("Call(%s) = %v after the trim", k.ID, err)
			}
			delete(model, k.ID)
		}
		f.compareTogether(model)
		if len(trimmed) < limit {
			break
		}
	}
	for id, c := range model {
		if c.Status.Terminal() && (c.Run.Thread == "" || !waits(model, c)) {
			f.t.Errorf("%s is left, which is %s", id, c.Status)
		}
	}
}

func waits(model map[string]*call.Call, c *call.Call) bool {
	for _, other := range model {
		if other.Status == call.Suspended && other.Namespace == c.Namespace && other.Run.Thread == c.Run.Thread {
			return true
		}
	}
	return false
}

// compareTogether compares the results of every kind of read with the calls in the map model. The calls have no events except those of
// their creation.
func (f *fixture) compareTogether(model map[string]*call.Call) {
	f.t.Helper()
	for _, want := range model {
		got, err := f.Call(f.t.Context(), want.Key())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			f.t.Fatalf("%s, %v (-want +got):\n%s", want.ID, err, diff)
		}
		for after := range want.LastSequence + 1 {
			log, first, err := f.Events(f.t.Context(), want.Key(), after, 10)
			if kept := want.LastSequence - after; err != nil || want.Purge == nil && (int64(len(log)) != kept || first != 1) {
				f.t.Fatalf("%s: %d events after %d from %d, %v", want.ID, len(log), after, first, err)
			}
			if want.Purge == nil && len(log) > 0 {
				if diff := cmp.Diff(logOf(want)[after:], log); diff != "" {
					f.t.Fatalf("%s: events after %d (-want +got):\n%s", want.ID, after, diff)
				}
			}
		}
	}
	order := f.all(call.Query{OldestFirst: true, Limit: 1000})
	if len(order) != len(model) {
		f.t.Fatalf("%d calls in all, want %d", len(order), len(model))
	}
	for _, q := range []call.Query{
		{}, {Tools: []string{"a"}}, {Run: "r1", Caller: "ann"},
		{Namespace: "ns"}, {Namespace: "other"}, {Namespace: "ns", Run: "r1"}, {Namespace: "ns", Thread: "th1"}, {Namespace: "ns", Caller: "bob"},
		{Namespace: "ns", Tools: []string{"b"}, Run: "r1"}, {Namespace: "ns", Statuses: []call.Status{call.Succeeded}},
		{Namespace: "ns", Run: "r2", Statuses: []call.Status{call.Succeeded, call.Suspended}}, {Namespace: "ns", Statuses: []call.Status{call.Failed, call.New}},
		{Namespace: "ns", CreatedAfter: start.Add(10 * time.Minute).Time(), CreatedBefore: start.Add(30 * time.Minute).Time()},
		{Namespace: "ns", ParentCall: "parent"}, {Namespace: "ns", Batch: "batch"},
	} {
		for _, q.OldestFirst = range []bool{true, false} {
			for _, q.Limit = range []int{7, 1000} {
				if want, got := selected(model, order, q), f.all(q); !same(got, want) {
					f.t.Fatalf("Calls(%+v):\n got %v\nwant %v", q, got, want)
				}
			}
		}
		if q.Namespace == "" || q.ParentCall+q.Batch != "" || len(q.Statuses)+len(q.Tools) > 0 || !q.CreatedAfter.IsZero() {
			continue
		}
		q.OldestFirst = true
		var want []string
		for _, id := range selected(model, order, q) {
			if c := model[id]; c.Purge == nil {
				want = append(want, fmt.Sprintf("%s:1-%d", id, c.LastSequence))
			}
		}
		for _, limit := range []int{3, 1000} {
			if got, _ := f.follow(store.Feed{Namespace: q.Namespace, Run: q.Run, Thread: q.Thread, Caller: q.Caller}, 0, limit); !same(got, want) {
				f.t.Fatalf("feed of %+v by %d:\n got %v\nwant %v", q, limit, got, want)
			}
		}
	}
	counts, err := f.RunCounts(f.t.Context(), "ns", "r1")
	for _, s := range []call.Status{call.Succeeded, call.Failed, call.New, call.Suspended} {
		if want := len(selected(model, order, call.Query{Namespace: "ns", Run: "r1", Statuses: []call.Status{s}})); err != nil || counts[s] != want {
			f.t.Fatalf("RunCounts = %v, %v, want %d that are %s", counts, err, want, s)
		}
	}
}

// selected returns the ids of the calls in the map model that a query must find.
func selected(model map[string]*call.Call, order []string, q call.Query) (ids []string) {
	is := func(want, have string) bool { return want == "" || want == have }
	for _, id := range order {
		c := model[id]
		if is(q.Namespace, c.Namespace) && (len(q.Tools) == 0 || slices.Contains(q.Tools, c.Tool)) && is(q.Caller, c.Caller.Subject) && is(q.Run, c.Run.ID) && is(q.Thread, c.Run.Thread) &&
			is(q.ParentCall, c.Run.ParentCall) && is(q.Batch, c.BatchID) && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.Status)) &&
			!c.Created.Before(q.CreatedAfter) && (q.CreatedBefore.IsZero() || c.Created.Before(q.CreatedBefore)) {
			ids = append(ids, id)
		}
	}
	if !q.OldestFirst {
		slices.Reverse(ids)
	}
	return ids
}
