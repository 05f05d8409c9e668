package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// commitTrim moves the clock to now and trims everything that ended before.
func (f *fixture) commitTrim(now call.Stamp) []string {
	f.t.Helper()
	f.clock.move(now.Sub(f.clock.Now()))
	keys, err := f.Trim(f.t.Context(), now, 0, 0, 100)
	if err != nil {
		f.t.Fatalf("Trim = %v", err)
	}
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	slices.Sort(ids)
	return ids
}

func testTrim(t *testing.T, f *fixture) {
	for _, id := range []string{"a", "b", "running"} {
		c := f.create(id, func(c *call.Call) { c.Run.ID = "r" })
		f.step(c, call.Running)
		if id != "running" {
			c.Ended = start.Time()
			f.step(c, call.Succeeded)
		}
	}
	if keys, err := f.Trim(t.Context(), start, start, start, 100); err != nil || len(keys) != 0 {
		t.Fatalf("Trim of what ended at the bound = %v, %v, want nothing", keys, err)
	}
	keys, err := f.Trim(t.Context(), start.Add(time.Second), 0, 0, 1)
	if err != nil || len(keys) != 1 {
		t.Fatalf("Trim(1) = %v, %v", keys, err)
	}
	if got := f.commitTrim(start.Add(time.Hour)); len(got) != 1 {
		t.Fatalf("second Trim = %v", got)
	}
	if err := f.Commit(t.Context(), creation(newCall("a"))); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("create under a new tombstone = %v, want ErrTrimmed", err)
	}
	f.reopen()
	if _, err := f.Call(t.Context(), ns("a")); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("Call = %v, want ErrTrimmed", err)
	}
	if _, _, err := f.Events(t.Context(), ns("a"), 0, 10); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("Events = %v, want ErrTrimmed", err)
	}
	if err := f.Commit(t.Context(), creation(newCall("a"))); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("create under a tombstone = %v, want ErrTrimmed", err)
	}
	if got, _ := f.follow(store.Feed{Namespace: "ns", Run: "r"}, 0, 10); !same(got, []string{"running:1-1", "running:2-2"}) {
		t.Errorf("feed after the trim: %v", got)
	}
	if got := f.all(call.Query{Namespace: "ns"}); !same(got, []string{"running"}) {
		t.Errorf("Calls after the trim: %v", got)
	}
	if _, err := f.Trim(t.Context(), 0, start.Add(2*time.Hour), 0, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Call(t.Context(), ns("a")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Call = %v, want ErrNotFound: the tombstone is forgotten", err)
	}
	f.create("a") // The id can be used again only now.
}

// testTrimThreads checks that a finished call stays while its thread has an open suspension.
func testTrimThreads(t *testing.T, f *fixture) {
	inThread := func(id string) func(*call.Call) { return func(c *call.Call) { c.Run.Thread = id } }
	for _, thread := range []string{"waits", "quiet", ""} {
		c := f.create("c-"+thread, inThread(thread))
		f.step(c, call.Running)
		f.step(c, call.Succeeded)
	}
	waiting := f.suspended("s", start.Add(time.Hour), inThread("waits"))
	if got := f.commitTrim(start.Add(time.Hour)); !same(got, []string{"c-", "c-quiet"}) {
		t.Errorf("Trim = %v", got)
	}
	f.step(waiting, call.Cancelled)
	if got := f.commitTrim(start.Add(2 * time.Hour)); !same(got, []string{"c-waits", "s"}) {
		t.Errorf("Trim after the suspension = %v", got)
	}
	if _, err := f.CallBySuspension(t.Context(), "ns", "s-s"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("CallBySuspension of a trimmed call = %v, want ErrNotFound", err)
	}
}

// testTrimPacked checks calls that were created in their final state. Such a call is trimmed like all others, when it was stored long
// enough ago. Calls stay when they are too young, unfinished, or in a thread with an open suspension. The test uses small pages and
// restarts.
func testTrimPacked(t *testing.T, f *fixture) {
	packed := func(id, thread string, ended call.Stamp) {
		f.create(id, func(c *call.Call) {
			c.Status, c.Ended, c.Created, c.Run.Thread, c.Class = call.Succeeded, ended.Time(), f.clock.machine(), thread, call.Behind
			if strings.HasPrefix(id, "f") {
				c.Status = call.Failed
			}
		})
	}
	waiting := f.suspended("waiting", start.Add(1000*time.Hour), func(c *call.Call) { c.Run.Thread = "waits" })
	f.create("new", func(c *call.Call) { c.Created = start.Add(10_000 * time.Hour).Time() }) // A creation time of the machine's clock, which may be ahead, must not count.
	for i := range 5 {
		packed(fmt.Sprint("s", i), "quiet", 0)
		packed(fmt.Sprint("f", i), "", f.clock.Now())
		packed(fmt.Sprint("w", i), "waits", f.clock.Now())
		f.clock.move(time.Minute)
	}
	packed("late", "", start.Add(100*time.Hour)) // The end in a record is a time of the machine's clock, and does not count.
	packed("early", "", start.Add(-100*time.Hour))
	trim := func(before call.Stamp, limit int) (trimmed []string) {
		t.Helper()
		for {
			keys, err := f.Trim(t.Context(), before, 0, 0, limit)
			if err != nil || len(keys) > limit {
				t.Fatalf("Trim = %v, %v", keys, err)
			}
			for _, k := range keys {
				trimmed = append(trimmed, k.ID)
			}
			if len(keys) < limit {
				slices.Sort(trimmed)
				return trimmed
			}
		}
	}
	if got := trim(start, 2); len(got) > 0 {
		t.Errorf("Trim before the start = %v", got)
	}
	if got := trim(start.Add(2*time.Minute), 2); !same(got, []string{"f0", "f1", "s0", "s1"}) {
		t.Errorf("Trim of the first two minutes = %v", got)
	}
	f.reopen()
	packed("next", "waits", 0)
	f.clock.move(2 * time.Hour)
	if got := trim(start.Add(2*time.Hour), 3); !same(got, []string{"early", "f2", "f3", "f4", "late", "s2", "s3", "s4"}) {
		t.Errorf("Trim of the rest = %v", got)
	}
	f.step(waiting, call.Cancelled)
	if got := trim(start.Add(3*time.Hour), 100); !same(got, []string{"next", "w0", "w1", "w2", "w3", "w4", "waiting"}) {
		t.Errorf("Trim after the suspension = %v", got)
	}
	if got := f.all(call.Query{Namespace: "ns"}); !same(got, []string{"new"}) {
		t.Errorf("Calls after the trim: %v", got)
	}
	if _, err := f.Call(t.Context(), ns("s0")); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("Call = %v, want ErrTrimmed", err)
	}
}

func testReopen(t *testing.T, f *fixture) {
	before := f.Identity()
	if before.Epoch != 1 || before.StoreID == "" || before.Moved {
		t.Errorf("Identity of a new store = %+v", before)
	}
	c := f.suspended("c1", start.Add(time.Hour))
	f.commit(decide(c, "d", "x"))
	f.commit(progress(c, 3))
	want := f.get("c1")
	_, cursor := f.follow(store.Feed{Namespace: "ns"}, 0, 10)
	f.reopen()
	if got := f.Identity(); got.Epoch != 2 || got.StoreID != before.StoreID || !got.Clean || got.Moved {
		t.Errorf("Identity = %+v, before %+v", got, before)
	}
	if diff := cmp.Diff(want, f.get("c1")); diff != "" {
		t.Errorf("call differs (-want +got):\n%s", diff)
	}
	f.step(c, call.Running)
	if got, _ := f.follow(store.Feed{Namespace: "ns"}, cursor, 10); !same(got, []string{"c1:7-7"}) {
		t.Errorf("feed from the old cursor = %v", got)
	}
}

func testCrash(t *testing.T, f *fixture) {
	c := f.suspended("c1", start.Add(time.Hour))
	f.commit(decide(c, "d", "x"))
	f.commit(progress(c, 3)) // Normal changes survive a crash, too.
	want := f.get("c1")
	for epoch := int64(2); epoch < 5; epoch++ {
		f.crash()
		if got := f.Identity(); got.Epoch != epoch || got.Clean {
			t.Errorf("Identity = %+v, want epoch %d, not clean", got, epoch)
		}
		if diff := cmp.Diff(want, f.get("c1")); diff != "" {
			t.Errorf("call differs (-want +got):\n%s", diff)
		}
		if log, _, err := f.Events(t.Context(), c.Key(), 0, 10); err != nil || len(log) != 6 {
			t.Errorf("log has %d events, %v", len(log), err)
		}
	}
}

func testUnfinished(t *testing.T, f *fixture) {
	f.create("new")
	f.step(f.create("running", func(c *call.Call) { c.Namespace = "other" }), call.Running)
	f.suspended("suspended", start.Add(time.Hour))
	f.commit(decide(f.suspended("resuming", start.Add(time.Hour)), "d", "x"))
	ended := f.create("ended")
	f.step(ended, call.Cancelled)
	want := []string{"new", "running", "resuming"}
	visit := func(stop error) (seen []string, err error) {
		err = f.Unfinished(t.Context(), func(key call.Key, c *call.Call, err error) error {
			if err != nil || c.Key() != key {
				t.Errorf("visit(%v, %v, %v)", key, c, err)
			}
			seen = append(seen, key.ID)
			if stop == nil && c.Status == call.Running { // visit may write.
				f.step(c, call.Failed)
			}
			return stop
		})
		return seen, err
	}
	enough := errors.New("enough")
	if got, err := visit(enough); !errors.Is(err, enough) || len(got) != 1 {
		t.Errorf("visit that stops: %v, %v", got, err)
	}
	if got, err := visit(nil); err != nil || !same(got, want) {
		t.Errorf("Unfinished = %v, %v, want %v", got, err, want)
	}
	if got, err := visit(nil); err != nil || !same(got, []string{"new", "resuming"}) {
		t.Errorf("Unfinished again = %v, %v", got, err)
	}
	for i := range 300 {
		f.create(fmt.Sprintf("n%03d", i))
	}
	if got, err := visit(nil); err != nil || len(got) != 302 || !slices.IsSorted(got[2:]) {
		t.Errorf("Unfinished = %d calls, %v", len(got), err)
	}
}

func testClosed(t *testing.T, f *fixture) {
	f.create("c1")
	if err := f.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	ctx := t.Context()
	checks := map[string]func() error{
		"Commit":  func() error { return f.Commit(ctx, creation(newCall("c2"))) },
		"Call":    func() error { _, err := f.Call(ctx, ns("c1")); return err },
		"Events":  func() error { _, _, err := f.Events(ctx, ns("c1"), 0, 1); return err },
		"Calls":   func() error { _, err := f.Calls(ctx, call.Query{}); return err },
		"Feed":    func() error { _, _, err := f.Feed(ctx, store.Feed{}, 0, 1); return err },
		"Due":     func() error { _, err := f.Due(ctx, "ns", 1); return err },
		"Records": func() error { return f.PutRecord(ctx, "ns", store.Record{Kind: "k"}) },
		"Trim":    func() error { _, err := f.Trim(ctx, start, start, start, 1); return err },
		"Purge":   func() error { return f.Purge(ctx, ns("c1"), call.Purge{}) },
		"Shred":   func() error { return f.Shred(ctx, store.Shredding{Namespace: "ns"}) },
		"Spool":   func() error { _, err := f.Spool().Append(ns("c1"), "", "s", []byte("x")); return err },
	}
	for name, check := range checks {
		if err := check(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", name, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
}

func testContext(t *testing.T, f *fixture) {
	f.create("c1")
	in(t.Context(), func(ctx context.Context) {
		if _, err := f.Call(ctx, ns("c1")); !errors.Is(err, context.Canceled) {
			t.Errorf("Call = %v, want context.Canceled", err)
		}
		if _, err := f.Calls(ctx, call.Query{Namespace: "ns"}); !errors.Is(err, context.Canceled) {
			t.Errorf("Calls = %v, want context.Canceled", err)
		}
		if err := f.Commit(ctx, creation(newCall("c2"))); !errors.Is(err, context.Canceled) {
			t.Errorf("Commit = %v, want context.Canceled", err)
		}
	})
	f.get("c1")
}

// testModel applies random operations to the store and to a map, and compares the two after each crash.
func testModel(t *testing.T, f *fixture) {
	random := newRandom(t)
	model := map[string]*call.Call{}
	next := map[call.Status][]call.Status{
		call.New:       {call.Running, call.Suspended, call.Failed},
		call.Running:   {call.Suspended, call.Succeeded, call.Failed},
		call.Suspended: {call.Resuming, call.Cancelled},
		call.Resuming:  {call.Running, call.Cancelled},
	}
	for i := range 400 {
		id := fmt.Sprint("c", random.IntN(20))
		c := model[id]
		switch {
		case c == nil:
			model[id] = f.create(id)
		case c.Status.Terminal():
			if err := f.Commit(t.Context(), creation(newCall(id))); !errors.Is(err, store.ErrExists) {
				t.Fatalf("create of %s = %v", id, err)
			}
		case random.IntN(3) == 0:
			f.commit(progress(c, 1+random.IntN(3)))
		default:
			choices := next[c.Status]
			switch to := choices[random.IntN(len(choices))]; to {
			case call.Suspended:
				f.commit(suspend(c, fmt.Sprint("s", i), "approval", start.Add(time.Hour)))
			case call.Resuming:
				f.commit(decide(c, fmt.Sprint("d", i), "x"))
			default:
				f.step(c, to)
			}
		}
		if random.IntN(50) == 0 {
			f.crash()
			f.compare(model)
		}
	}
	f.compare(model)
}

func (f *fixture) compare(model map[string]*call.Call) {
	f.t.Helper()
	waiting := 0
	for id, want := range model {
		got := f.get(id)
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Fatalf("%s differs (-want +got):\n%s", id, diff)
		}
		log, _, err := f.Events(f.t.Context(), ns(id), 0, 1000)
		if err != nil || int64(len(log)) != want.LastSequence {
			f.t.Fatalf("%s: %d events, %v, want %d", id, len(log), err, want.LastSequence)
		}
		if open := want.Open(); open != nil {
			waiting++
			if by, err := f.CallBySuspension(f.t.Context(), "ns", open.ID); err != nil || by.ID != id {
				f.t.Fatalf("CallBySuspension(%s) = %v, %v", open.ID, by, err)
			}
		}
	}
	if got := f.all(call.Query{Namespace: "ns", Statuses: []call.Status{call.Suspended}}); len(got) != waiting {
		f.t.Fatalf("%d wait, want %d", len(got), waiting)
	}
	if counts, err := f.Counts(f.t.Context()); err != nil || counts[call.Suspended] != waiting {
		f.t.Fatalf("Counts = %v, %v, want %d suspended", counts, err, waiting)
	}
}
