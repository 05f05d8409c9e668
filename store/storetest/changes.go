package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

func testCreate(t *testing.T, f *fixture) {
	if _, err := f.Call(t.Context(), ns("c1")); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Call before = %v, want ErrNotFound", err)
	}
	c := f.create("c1", func(c *call.Call) { c.Run = tool.Run{ID: "r", Labels: map[string]string{"k": "v"}} })
	if diff := cmp.Diff(c, f.get("c1")); diff != "" {
		t.Errorf("stored call differs (-want +got):\n%s", diff)
	}
	// In another namespace, the same id names a different call.
	if _, err := f.Call(t.Context(), call.Key{Namespace: "other", ID: "c1"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Call in another namespace = %v, want ErrNotFound", err)
	}
	f.create("c1", func(c *call.Call) { c.Namespace = "other" })
}

// testVerbatim checks that the store returns bytes unchanged. Digests cover these bytes, and a decision is valid only for its digest.
func testVerbatim(t *testing.T, f *fixture) {
	odd := "{ \"html\" : \"<b>&\",\n \"n\": 1e0, \"bad\": \"\xff\" }"
	c := newCall("c1", func(c *call.Call) { c.Requested, c.Effective = odd, odd })
	c.Status = call.Suspended
	c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s", Parameters: json.RawMessage(odd), ResponseSchema: json.RawMessage(odd)}}}
	change := creation(c)
	change.Events[0].Suspension = &c.Rounds[0].Suspension
	f.commit(change)
	f.reopen()
	got := f.get("c1")
	log, _, err := f.Events(t.Context(), c.Key(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"requested": got.Requested, "effective": got.Effective, "parameters": string(got.Open().Parameters),
		"schema": string(got.Open().ResponseSchema), "parameters of the event": string(log[0].Suspension.Parameters)} {
		if text != odd {
			t.Errorf("%s came back as %q", name, text)
		}
	}
}

func testCreateTwice(t *testing.T, f *fixture) {
	f.create("c1")
	again := newCall("c1", func(c *call.Call) { c.Tool = "another" })
	if err := f.Commit(t.Context(), creation(again)); !errors.Is(err, store.ErrExists) {
		t.Fatalf("second create = %v, want ErrExists", err)
	}
	if got := f.get("c1").Tool; got != "noop" {
		t.Errorf("the loser overwrote the call: tool %q", got)
	}
	missing := newCall("c2")
	if err := f.Commit(t.Context(), step(missing, call.Running)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("change of an unknown call = %v, want ErrNotFound", err)
	}
	if err := f.Commit(t.Context(), progress(newCall("c2"), 1)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("events of an unknown call = %v, want ErrNotFound", err)
	}
}

func testCreateRace(t *testing.T, f *fixture) {
	won := race(100, func(i int) error {
		return f.Commit(t.Context(), creation(newCall("c1", func(c *call.Call) { c.Tool = fmt.Sprint("t", i) })))
	}, func(err error) bool { return errors.Is(err, store.ErrExists) }, t)
	if got := f.get("c1").Tool; got != fmt.Sprint("t", won) {
		t.Errorf("stored tool %q, winner %d", got, won)
	}
}

// race invokes f n times concurrently. Exactly one call must succeed, and lost must return true for the errors of the others. race returns
// the index of the call that succeeded.
func race(n int, f func(i int) error, lost func(error) bool, t *testing.T) int {
	t.Helper()
	var wg sync.WaitGroup
	var wins, winner atomic.Int64
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			switch err := f(i); {
			case err == nil:
				wins.Add(1)
				winner.Store(int64(i))
			case !lost(err):
				t.Errorf("loser %d: %v", i, err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if wins.Load() != 1 {
		t.Fatalf("%d of %d won, want one", wins.Load(), n)
	}
	return int(winner.Load())
}

func testRevisionConflict(t *testing.T, f *fixture) {
	c := f.create("c1")
	stale := *c
	f.step(c, call.Running)
	if err := f.Commit(t.Context(), step(&stale, call.Cancelled)); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("change from an old revision = %v, want ErrConflict", err)
	}
	ahead := *c
	ahead.Revision += 5
	if err := f.Commit(t.Context(), step(&ahead, call.Succeeded)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("change from a revision that is not there yet = %v, want ErrConflict", err)
	}
	if got := f.get("c1"); got.Status != call.Running || got.Revision != 2 || got.LastSequence != 2 {
		t.Errorf("after losers: %s revision %d sequence %d", got.Status, got.Revision, got.LastSequence)
	}
}

func testLogConflict(t *testing.T, f *fixture) {
	c := f.create("c1")
	f.step(c, call.Running)
	f.commit(progress(c, 3))
	if got := f.get("c1").LastSequence; got != 5 {
		t.Errorf("LastSequence after events alone = %d, want 5", got)
	}
	for name, first := range map[string]int{"gap": 7, "repeat": 5} {
		err := f.Commit(t.Context(), &store.Change{Key: c.Key(), Events: events(first, first)})
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s = %v, want ErrConflict", name, err)
		}
	}
	stale := *c
	stale.LastSequence = 4 // This change was made before the last event.
	stale.Revision++
	if err := f.Commit(t.Context(), &store.Change{Call: &stale}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("record that does not know the last event = %v, want ErrConflict", err)
	}
	c.Revision++
	f.commit(&store.Change{Call: c}) // A record without events.
	if got := f.get("c1"); got.LastSequence != 5 || got.Revision != 3 {
		t.Errorf("after a record alone: sequence %d revision %d, want 5 and 3", got.LastSequence, got.Revision)
	}
}

func testIllegalSteps(t *testing.T, f *fixture) {
	c := f.create("c1")
	f.step(c, call.Running)
	illegal := *c
	if err := f.Commit(t.Context(), step(&illegal, call.Resuming)); !errors.Is(err, store.ErrTransition) {
		t.Errorf("RUNNING to RESUMING = %v, want ErrTransition", err)
	}
	f.step(c, call.Succeeded)
	after := *c
	if err := f.Commit(t.Context(), progress(&after, 1)); !errors.Is(err, store.ErrTransition) {
		t.Errorf("event after the end = %v, want ErrTransition", err)
	}
	after = *c
	if err := f.Commit(t.Context(), step(&after, call.Cancelled)); !errors.Is(err, store.ErrTransition) {
		t.Errorf("SUCCEEDED to CANCELLED = %v, want ErrTransition", err)
	}
	// A record may change after the call has ended, as long as its status stays the same.
	c.Checkpoint = []byte("late")
	c.Revision++
	f.commit(&store.Change{Call: c})
	if got := f.get("c1"); got.Status != call.Succeeded || string(got.Checkpoint) != "late" {
		t.Errorf("the later record is not stored: %+v", got)
	}
}

func testMalformed(t *testing.T, f *fixture) {
	f.create("c1")
	two := newCall("c2")
	two.Revision = 2
	long := newCall("c2")
	long.LastSequence = 9
	odd := newCall("c2")
	odd.Status = "ODD"
	tests := map[string]*store.Change{
		"nothing":             {Key: ns("c1")},
		"no call":             {Events: events(1, 1)},
		"create at 2":         {Call: two, Create: true, Events: events(1, 1)},
		"revision 1 again":    {Call: newCall("c1")},
		"gap in the events":   {Key: ns("c1"), Events: append(events(2, 2), events(4, 4)...)},
		"record beyond":       {Call: long, Create: true, Events: events(1, 1)},
		"unknown status":      {Call: odd, Create: true, Events: events(1, 1)},
		"log from 2":          {Call: newCall("c2", func(c *call.Call) { c.LastSequence = 2 }), Create: true, Events: events(2, 2)},
		"unknown document op": {Key: ns("c1"), Documents: []store.DocumentChange{{ScopeID: "r", Command: tool.Command{Op: "odd"}}}},
	}
	for name, c := range tests {
		if err := f.Commit(t.Context(), c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := f.Call(t.Context(), ns("c2")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a refused change left something: %v", err)
	}
}

func testNoSharedPointers(t *testing.T, f *fixture) {
	c := newCall("c1", func(c *call.Call) { c.Run.Labels = map[string]string{"k": "v"} })
	change := creation(c)
	f.commit(change)
	c.Run.Labels["k"] = "changed by the writer"
	change.Events[0].Progress.Message = "changed"
	f.get("c1").Run.Labels["k"] = "changed by a reader"
	if got := f.get("c1").Run.Labels["k"]; got != "v" {
		t.Errorf("label is %q, want v", got)
	}
	got, _, err := f.Events(t.Context(), ns("c1"), 0, 10)
	if err != nil || got[0].Progress.Message != "event 1" {
		t.Errorf("events %v, %v", got, err)
	}
}

// testLoserHarmsNobody checks changes that are submitted together and therefore written together. A refused change must not affect the
// others.
func testLoserHarmsNobody(t *testing.T, f *fixture) {
	f.create("known")
	const n = 200
	results := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		id := fmt.Sprint("c", i)
		if i%3 == 0 {
			id = "known"
		}
		wg.Add(1)
		f.Submit(creation(newCall(id)), func(err error) { results[i] = err; wg.Done() })
	}
	wg.Wait()
	for i, err := range results {
		if want := i%3 == 0; errors.Is(err, store.ErrExists) != want || !want && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
		if i%3 != 0 {
			f.get(fmt.Sprint("c", i))
		}
	}
}

// testDurabilityKeepsOrder checks that changes of one durability keep the order in which they were submitted. A log can then be written without
// waiting for each event.
func testDurabilityKeepsOrder(t *testing.T, f *fixture) {
	c := f.create("c1")
	f.step(c, call.Running)
	var wg sync.WaitGroup
	for range 2000 {
		wg.Add(1)
		f.Submit(progress(c, 1), func(err error) {
			if err != nil {
				t.Errorf("progress: %v", err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	if got := f.get("c1").LastSequence; got != 2002 {
		t.Errorf("LastSequence %d, want 2002", got)
	}
}
