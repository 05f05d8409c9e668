package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

func newBatch(id string, calls ...string) *call.Batch {
	return &call.Batch{Namespace: "ns", ID: id, Caller: "ann", Digest: "digest-" + id, Calls: calls, Created: start,
		BatchOptions: call.BatchOptions{Strategy: call.Auto, MaxParallel: 3, FailFast: true, Replay: call.AllDecided}}
}

func creations(b *call.Batch) (changes []*store.Change) {
	for i, id := range b.Calls {
		changes = append(changes, creation(newCall(id, func(c *call.Call) { c.BatchID, c.BatchPosition, c.Created = b.ID, i+1, b.Created.Time() })))
	}
	return changes
}

func (f *fixture) createBatch(id string, calls ...string) *call.Batch {
	f.t.Helper()
	b := newBatch(id, calls...)
	b.Created = f.clock.Now()
	if err := f.CreateBatch(f.t.Context(), b, creations(b)); err != nil {
		f.t.Fatalf("CreateBatch(%s) = %v", id, err)
	}
	return b
}

func (f *fixture) openBatches() (open []string) {
	f.t.Helper()
	err := f.OpenBatches(f.t.Context(), func(key call.Key, b *call.Batch, err error) error {
		if err != nil || b.Key() != key {
			f.t.Errorf("open batch %v: %+v, %v", key, b, err)
		}
		open = append(open, key.ID)
		return nil
	})
	if err != nil {
		f.t.Fatalf("OpenBatches = %v", err)
	}
	return open
}

// testBatches checks that a batch is stored with all of its calls, also after a crash, and stays open until it has ended.
func testBatches(t *testing.T, f *fixture) {
	if _, err := f.Batch(t.Context(), ns("b1")); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Batch before = %v, want ErrNotFound", err)
	}
	b := f.createBatch("b1", "c1", "c2", "c3")
	f.createBatch("b2", "d1")
	f.crash()
	got, err := f.Batch(t.Context(), ns("b1"))
	if diff := cmp.Diff(b, got); diff != "" || err != nil {
		t.Errorf("stored batch differs (-want +got), %v:\n%s", err, diff)
	}
	if got := fmt.Sprint(f.all(call.Query{Namespace: "ns", Batch: "b1", OldestFirst: true})); got != "[c1 c2 c3]" {
		t.Errorf("calls of the batch: %s", got)
	}
	if c := f.get("c2"); c.BatchPosition != 2 || c.Status != call.New {
		t.Errorf("second call: %+v", c)
	}
	if _, err := f.Batch(t.Context(), call.Key{Namespace: "other", ID: "b1"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Batch in another namespace = %v, want ErrNotFound", err)
	}
	if got := len(f.openBatches()); got != 2 {
		t.Errorf("%d batches are open, want 2", got)
	}
	for range 2 { // The first end time stays.
		f.clock.move(time.Minute)
		if err := f.EndBatch(t.Context(), ns("b1")); err != nil {
			t.Fatal(err)
		}
	}
	f.reopen()
	if got := fmt.Sprint(f.openBatches()); got != "[b2]" {
		t.Errorf("open after the end of b1: %s", got)
	}
	if got, err := f.Batch(t.Context(), ns("b1")); err != nil || got.Ended != start.Add(time.Minute) {
		t.Errorf("ended %+v, %v", got, err)
	}
	if err := f.EndBatch(t.Context(), ns("none")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("end of an unknown batch = %v, want ErrNotFound", err)
	}
}

// testBatchWhole checks that a batch is stored completely or not at all.
func testBatchWhole(t *testing.T, f *fixture) {
	f.create("known")
	b := newBatch("b1", "c1", "known", "c2")
	if err := f.CreateBatch(t.Context(), b, creations(b)); !errors.Is(err, store.ErrExists) {
		t.Fatalf("batch with a call that is known = %v, want ErrExists", err)
	}
	if _, err := f.Batch(t.Context(), ns("b1")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the batch is there: %v", err)
	}
	for _, id := range []string{"c1", "c2"} {
		if _, err := f.Call(t.Context(), ns(id)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("call %s is there: %v", id, err)
		}
	}
	f.createBatch("b1", "c1", "c2") // These ids can still be used, because the refused batch stored nothing.
	again := newBatch("b1", "c3")
	if err := f.CreateBatch(t.Context(), again, creations(again)); !errors.Is(err, store.ErrExists) {
		t.Errorf("the same batch again = %v, want ErrExists", err)
	}
	if _, err := f.Call(t.Context(), ns("c3")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("call of a refused batch is there: %v", err)
	}
	if got := f.get("known").BatchID; got != "" {
		t.Errorf("the known call is in batch %q now", got)
	}
}

func testBatchFeed(t *testing.T, f *fixture) {
	f.create("before")
	b := f.createBatch("b1", "c1", "c2")
	f.createBatch("b2", "d1")
	second := f.get("c2")
	f.step(second, call.Running)
	for i := range 600 { // These are more events than a feed scans for the next event of a batch.
		f.create(fmt.Sprint("other", i))
	}
	f.step(second, call.Succeeded)
	var got []string
	for after := int64(0); ; {
		entries, newest, err := f.Feed(t.Context(), store.Feed{Namespace: "ns", Batch: b.ID}, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			if after > newest {
				t.Errorf("position %d beyond the newest %d", after, newest)
			}
			break
		}
		after = entries[0].Position
		got = append(got, fmt.Sprint(entries[0].Key.ID, ":", entries[0].Events[0].Sequence))
	}
	if want := "[c1:1 c2:1 c2:2 c2:3]"; fmt.Sprint(got) != want {
		t.Errorf("feed of the batch %v, want %s", got, want)
	}
	if entries, _, err := f.Feed(t.Context(), store.Feed{Namespace: "ns", Batch: b.ID, Caller: "bob"}, 0, 10); err != nil || len(entries) > 0 {
		t.Errorf("somebody else's feed has %d entries, %v", len(entries), err)
	}
}

// testBatchTrim checks that calls of an open batch are not trimmed, and that a trimmed batch leaves a tombstone, which is removed later.
func testBatchTrim(t *testing.T, f *fixture) {
	b := f.createBatch("b1", "c1", "c2")
	for _, id := range b.Calls {
		c := f.get(id)
		f.step(c, call.Running)
		f.step(c, call.Succeeded)
	}
	trim := func() int {
		t.Helper()
		now := f.clock.Now()
		trimmed, err := f.Trim(t.Context(), now.Add(-time.Hour), now.Add(-24*time.Hour), now.Add(-time.Hour), 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(trimmed)
	}
	f.clock.move(2 * time.Hour)
	if n := trim(); n != 0 {
		t.Errorf("%d calls of an open batch were trimmed", n)
	}
	if err := f.EndBatch(t.Context(), b.Key()); err != nil {
		t.Fatal(err)
	}
	if n := trim(); n != 2 {
		t.Errorf("%d calls of an ended batch were trimmed, want 2", n)
	}
	if _, err := f.Batch(t.Context(), b.Key()); err != nil {
		t.Errorf("batch that ended now is gone: %v", err)
	}
	f.clock.move(2 * time.Hour)
	trim()
	if _, err := f.Batch(t.Context(), b.Key()); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("batch without calls = %v, want ErrTrimmed", err)
	}
	again := newBatch("b1", "c9")
	if err := f.CreateBatch(t.Context(), again, creations(again)); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("trimmed batch made again = %v, want ErrTrimmed", err)
	}
	f.reopen()
	if got := f.openBatches(); len(got) > 0 {
		t.Errorf("open after trim: %v", got)
	}
	f.clock.move(48 * time.Hour)
	trim()
	if _, err := f.Batch(t.Context(), b.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("tombstone of long ago = %v, want ErrNotFound", err)
	}
}
