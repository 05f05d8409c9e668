package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

func (f *fixture) purge(id string) {
	f.t.Helper()
	by := call.Purge{By: tool.Principal{Subject: "oscar"}, Time: start.Add(time.Minute).Time()}
	if err := f.Purge(f.t.Context(), ns(id), by); err != nil {
		f.t.Fatalf("Purge(%s) = %v", id, err)
	}
}

// wantPurged checks what Call and Events return for a purged call.
func (f *fixture) wantPurged(was *call.Call) {
	f.t.Helper()
	want := was.Purged(call.Purge{By: tool.Principal{Subject: "oscar"}, Time: start.Add(time.Minute).Time()})
	want.Revision++
	got := f.get(was.ID)
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("what is left of %s (-want +got):\n%s", was.ID, diff)
	}
	for after := int64(0); after <= want.LastSequence; after++ {
		events, first, err := f.Events(f.t.Context(), want.Key(), after, 10)
		if err != nil || len(events) != 0 || first != want.LastSequence+1 {
			f.t.Errorf("Events(%s) after %d = %v from %d, %v", was.ID, after, events, first, err)
		}
	}
}

func testPurge(t *testing.T, f *fixture) {
	of := func(c *call.Call) {
		c.Run.ID, c.Run.Thread, c.Run.Labels = "r", "th", map[string]string{"mood": "secret"}
	}
	c := f.suspended("c1", start.Add(time.Hour), of)
	f.commit(decide(c, "d1", "secret"))
	f.step(c, call.Running)
	f.commit(progress(c, 3))
	ending := step(c, call.Failed)
	ending.Run = &store.Run{Namespace: "ns", ID: "r", Owner: "ann", State: call.RunBlocked, Reason: "secret", CallID: "c1", Changed: start}
	f.commit(ending)
	other := f.create("c2", of)
	f.purge("c1")
	f.wantPurged(c)
	f.purge("c1") // Purging again changes nothing.
	f.reopen()
	f.wantPurged(c)
	if seen, _ := f.follow(store.Feed{Namespace: "ns", Run: "r"}, 0, 100); !same(seen, []string{"c2:1-1"}) {
		t.Errorf("feed %q", seen)
	}
	if by, err := f.CallBySuspension(t.Context(), "ns", "s-c1"); err != nil || by.ID != "c1" {
		t.Errorf("CallBySuspension = %v, %v", by, err)
	}
	if run, err := f.Run(t.Context(), "ns", "r"); err != nil || run.State != call.RunBlocked || run.Reason != "" || run.Owner != "ann" {
		t.Errorf("run %+v, %v", run, err)
	}
	if got := f.all(call.Query{Namespace: "ns", Thread: "th", Statuses: []call.Status{call.Failed}}); !same(got, []string{"c1"}) {
		t.Errorf("Calls = %q", got)
	}
	stale := *c
	if err := f.Commit(t.Context(), progress(&stale, 1)); !errors.Is(err, store.ErrTransition) {
		t.Errorf("events after the purge = %v", err)
	}
	f.step(other, call.Failed)
	if trimmed := f.commitTrim(start.Add(time.Hour)); !same(trimmed, []string{"c1", "c2"}) {
		t.Errorf("Trim = %q", trimmed)
	}
	if _, err := f.CallBySuspension(t.Context(), "ns", "s-c1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("CallBySuspension after Trim = %v", err)
	}
}

// testPurgePacked checks a call whose record and log were written with one change. It can be purged like any other call, and is trimmed at
// the same time as without the purge.
func testPurgePacked(t *testing.T, f *fixture) {
	var all []*call.Call
	for i := range 3 {
		c := newCall(fmt.Sprint("p", i), func(c *call.Call) {
			c.Status, c.LastSequence, c.Ended = call.Succeeded, 3, start.Time()
			c.Result = &tool.Result{Status: tool.StatusSuccess, Message: "secret"}
		})
		f.commit(creation(c))
		all = append(all, c)
	}
	f.clock.move(time.Hour)
	f.purge("p1")
	f.crash()
	f.wantPurged(all[1])
	for _, id := range []string{"p0", "p2"} {
		if log, first, err := f.Events(t.Context(), ns(id), 0, 10); err != nil || len(log) != 3 || first != 1 {
			t.Errorf("Events(%s) = %d from %d, %v", id, len(log), first, err)
		}
	}
	if trimmed := f.commitTrim(start.Add(time.Minute)); !same(trimmed, []string{"p0", "p1", "p2"}) {
		t.Errorf("Trim = %q", trimmed)
	}
	if err := f.Purge(t.Context(), ns("p1"), call.Purge{}); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("Purge of a tombstone = %v, want ErrTrimmed", err)
	}
}

func testPurgeRefused(t *testing.T, f *fixture) {
	if err := f.Purge(t.Context(), ns("unknown"), call.Purge{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Purge of an unknown call = %v, want ErrNotFound", err)
	}
	c := f.suspended("c1", start.Add(time.Hour))
	if err := f.Purge(t.Context(), ns("c1"), call.Purge{}); !errors.Is(err, store.ErrTransition) {
		t.Errorf("Purge of a call that waits = %v, want ErrTransition", err)
	}
	if diff := cmp.Diff(c, f.get("c1")); diff != "" {
		t.Errorf("it has changed (-want +got):\n%s", diff)
	}
	f.commit(decide(c, "d1", "yes"))
}

func testShred(t *testing.T, f *fixture) {
	ctx := t.Context()
	var last *call.Call
	for _, id := range []string{"trimmed", "mine", "other"} {
		c := f.suspended(id, start.Add(time.Hour), func(c *call.Call) { c.Run.ID, c.Run.Thread = "r-"+id, "th-"+id })
		f.commit(decide(c, "d-"+id, "secret"))
		f.step(c, call.Running)
		ending := step(c, call.Succeeded)
		ending.Records = []store.Record{{Kind: "note", Key: "k", Bytes: []byte(id)}, {Kind: "audit", Chained: true, Key: "k", Bytes: []byte(id)}}
		ending.Documents = []store.DocumentChange{set("todo", `"`+id+`"`)}
		ending.Documents[0].ScopeID, ending.Documents[0].Command.Scope = c.Run.Thread, tool.ThreadScope
		ending.Policies = []store.Policy{
			{Namespace: "ns", Kind: "rule", Key: id, Scope: tool.ThreadScope, ScopeID: c.Run.Thread, Value: []byte("1")},
			{Namespace: "ns", Kind: "mode", Key: id, Scope: tool.ThreadScope, ScopeID: c.Run.Thread, Value: []byte("1")},
		}
		f.commit(ending)
		if err := f.PutRecord(ctx, "ns", store.Record{Kind: "late", Key: id, Bytes: []byte(id)}); err != nil {
			t.Fatal(err)
		}
		if id == "trimmed" {
			f.clock.move(time.Second)
			if trimmed := f.commitTrim(start.Add(time.Second)); !same(trimmed, []string{"trimmed"}) {
				t.Fatalf("Trim = %q", trimmed)
			}
		}
		last = c
	}
	f.purge("other")
	for range 2 {
		if err := f.Shred(ctx, store.Shredding{Namespace: "ns", Calls: []string{"trimmed", "other"}, Threads: []string{"th-other"}, PolicyKind: "rule"}); err != nil {
			t.Fatalf("Shred = %v", err)
		}
		f.crash()
	}
	f.wantPurged(last)
	for id, kept := range map[string]string{"mine": "secret", "trimmed": "", "other": ""} {
		d, err := f.Decision(ctx, "ns", "d-"+id)
		if err != nil || d.Content != "secret" || d.Decision.Result != kept || d.Decision.DecidedBy.Subject != "bob" || d.Decision.Time.IsZero() {
			t.Errorf("decision of %s = %+v, %v", id, d, err)
		}
	}
	if chained, err := f.Store.(store.RecordReader).Records(ctx, "ns", "audit", 0, 10); err != nil || len(chained) != 3 {
		t.Errorf("%d chained records are left, %v; want all 3", len(chained), err)
	}
	for _, kind := range []string{"note", "late"} {
		records, err := f.Store.(store.RecordReader).Records(ctx, "ns", kind, 0, 10)
		if err != nil || len(records) != 1 || string(records[0].Bytes) != "mine" {
			t.Errorf("records %s = %v, %v", kind, records, err)
		}
	}
	if docs := f.docs(tool.ThreadScope, "th-other"); len(docs) != 0 {
		t.Errorf("documents %v", docs)
	}
	if docs := f.docs(tool.ThreadScope, "th-mine"); len(docs) != 1 {
		t.Errorf("documents of another thread %v", docs)
	}
	if got, want := f.policies(), []string{"ns mode mine=1", "ns mode other=1", "ns rule mine=1"}; !same(got, want) {
		t.Errorf("policies %q, want %q", got, want)
	}
}
