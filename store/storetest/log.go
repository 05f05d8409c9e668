package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

func testEvents(t *testing.T, f *fixture) {
	c := f.create("c1", func(c *call.Call) { c.LastSequence = 3 })
	f.step(c, call.Running)
	f.commit(progress(c, 10))
	f.step(c, call.Succeeded) // The chunks have the events 1-3, 4, 5-14 and 15.
	for after := range int64(16) {
		for _, limit := range []int{1, 2, 5, 100} {
			got, first, err := f.Events(t.Context(), c.Key(), after, limit)
			if err != nil || first != 1 {
				t.Fatalf("Events(%d, %d) = first %d, %v", after, limit, first, err)
			}
			if want := min(limit, int(15-after)); len(got) != want {
				t.Errorf("Events(%d, %d) has %d events, want %d", after, limit, len(got), want)
			}
			for i, e := range got {
				want := after + 1 + int64(i)
				if e.Sequence != want || e.Progress.Message != fmt.Sprint("event ", want) {
					t.Errorf("Events(%d, %d)[%d] = %d %q", after, limit, i, e.Sequence, e.Progress.Message)
				}
			}
		}
	}
	if _, _, err := f.Events(t.Context(), ns("unknown"), 0, 10); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Events of an unknown call = %v, want ErrNotFound", err)
	}
	f.commit(&store.Change{Call: newCall("empty", func(c *call.Call) { c.LastSequence = 0 }), Create: true})
	if got, _, err := f.Events(t.Context(), ns("empty"), 0, 10); err != nil || len(got) != 0 {
		t.Errorf("Events of a call without events = %v, %v", got, err)
	}
	empty := f.get("empty")
	f.step(empty, call.Running)
	if got, _, err := f.Events(t.Context(), ns("empty"), 0, 10); err != nil || len(got) != 1 {
		t.Errorf("Events = %v, %v, want the first", got, err)
	}
}

// follow reads a feed to its end in steps. It returns call:first-last for each entry.
func (f *fixture) follow(feed store.Feed, after int64, limit int) (seen []string, cursor int64) {
	f.t.Helper()
	for {
		entries, newest, err := f.Feed(f.t.Context(), feed, after, limit)
		if err != nil {
			f.t.Fatalf("Feed = %v", err)
		}
		for _, e := range entries {
			if e.Position <= after || e.Position > newest {
				f.t.Fatalf("position %d after %d, newest %d", e.Position, after, newest)
			}
			after = e.Position
			seen = append(seen, fmt.Sprintf("%s:%d-%d", e.Key.ID, e.Events[0].Sequence, e.Events[len(e.Events)-1].Sequence))
		}
		if len(entries) < limit {
			return seen, newest
		}
	}
}

func testFeedSelects(t *testing.T, f *fixture) {
	inRun := func(run, thread string) func(*call.Call) {
		return func(c *call.Call) { c.Run.ID, c.Run.Thread = run, thread }
	}
	a := f.create("a", inRun("r1", "t1"))
	b := f.create("b", inRun("r2", "t1"))
	f.create("other", func(c *call.Call) { c.Namespace = "other" })
	f.create("bobs", func(c *call.Call) { c.Caller.Subject = "bob" })
	f.step(b, call.Running)
	f.step(a, call.Running)
	f.commit(progress(a, 2))
	tests := []struct {
		feed store.Feed
		want []string
	}{
		{store.Feed{Namespace: "ns"}, []string{"a:1-1", "b:1-1", "bobs:1-1", "b:2-2", "a:2-2", "a:3-4"}},
		{store.Feed{Namespace: "ns", Run: "r1"}, []string{"a:1-1", "a:2-2", "a:3-4"}},
		{store.Feed{Namespace: "ns", Thread: "t1"}, []string{"a:1-1", "b:1-1", "b:2-2", "a:2-2", "a:3-4"}},
		{store.Feed{Namespace: "ns", Run: "r2", Thread: "t1"}, []string{"b:1-1", "b:2-2"}},
		{store.Feed{Namespace: "ns", Caller: "bob"}, []string{"bobs:1-1"}},
		{store.Feed{Namespace: "ns", Run: "r1", Caller: "bob"}, nil},
		{store.Feed{Namespace: "other"}, []string{"other:1-1"}},
		{store.Feed{Namespace: "nobody"}, nil},
	}
	for _, tt := range tests {
		for _, limit := range []int{1, 2, 100} {
			got, cursor := f.follow(tt.feed, 0, limit)
			if !same(got, tt.want) {
				t.Errorf("Feed(%+v) by %d = %v, want %v", tt.feed, limit, got, tt.want)
			}
			if more, _ := f.follow(tt.feed, cursor, limit); len(more) != 0 {
				t.Errorf("Feed(%+v) after the newest position = %v", tt.feed, more)
			}
		}
	}
	entries, _, err := f.Feed(t.Context(), store.Feed{Namespace: "ns"}, 0, 1)
	if err != nil || entries[0].Epoch != 1 {
		t.Errorf("first entry %+v, %v, want epoch 1", entries, err)
	}
}

// testFeedBehind checks that a reader of a quiet run finds the next change of the run after many changes elsewhere.
func testFeedBehind(t *testing.T, f *fixture) {
	quiet := f.create("quiet", func(c *call.Call) { c.Run.ID = "quiet" })
	busy := f.create("busy", func(c *call.Call) { c.Run.ID = "busy" })
	f.step(busy, call.Running)
	elsewhere := f.create("elsewhere", func(c *call.Call) { c.Namespace = "other" })
	var wg sync.WaitGroup
	for range 3000 {
		wg.Add(1)
		f.Submit(progress(busy, 1), func(error) { wg.Done() })
	}
	wg.Wait()
	f.step(quiet, call.Running)
	f.commit(progress(quiet, 2))
	for _, limit := range []int{1, 2, 10} {
		if got, _ := f.follow(store.Feed{Namespace: "ns", Run: "quiet"}, 0, limit); !same(got, []string{"quiet:1-1", "quiet:2-2", "quiet:3-4"}) {
			t.Errorf("quiet run by %d: %v", limit, got)
		}
	}
	f.step(elsewhere, call.Running)
	if got, _ := f.follow(store.Feed{Namespace: "other"}, 0, 1); !same(got, []string{"elsewhere:1-1", "elsewhere:2-2"}) {
		t.Errorf("quiet namespace: %v", got)
	}
	if got, _ := f.follow(store.Feed{Namespace: "ns", Run: "busy"}, 0, 100); len(got) != 3002 {
		t.Errorf("busy run has %d entries, want 3002", len(got))
	}
}

// testFeedOrder checks a reader that follows a feed during concurrent writes. It must see each event once, and the events of each call in
// order. No entry may appear later at a position that the reader has already passed.
func testFeedOrder(t *testing.T, f *fixture) {
	const writers, each = 8, 60
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			c := newCall(fmt.Sprint("w", w))
			if err := f.Commit(t.Context(), creation(c)); err != nil {
				t.Error(err)
			}
			for i := range each - 1 {
				change := progress(c, 1)
				if i%4 == 0 {
					change.Durability = store.Full
				}
				if err := f.Commit(t.Context(), change); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	next := map[string]int64{}
	var cursor, total int64
	for last := false; ; {
		select {
		case <-done:
			last = true
		default:
		}
		entries, newest, err := f.Feed(t.Context(), store.Feed{Namespace: "ns"}, cursor, 16)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			for _, ev := range e.Events {
				if next[e.Key.ID]++; ev.Sequence != next[e.Key.ID] {
					t.Fatalf("%s: event %d, want %d", e.Key.ID, ev.Sequence, next[e.Key.ID])
				}
				total++
			}
			cursor = e.Position
		}
		if len(entries) < 16 {
			cursor = newest
			if last {
				break
			}
		}
	}
	if total != writers*each {
		t.Errorf("saw %d events, want %d", total, writers*each)
	}
}
