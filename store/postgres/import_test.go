package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

// fill writes data of every kind to a store.
func fill(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	commit := func(c *store.Change) {
		t.Helper()
		if err := s.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	old := newCall("trimmed")
	commit(creation(old))
	commit(step(old, call.Running))
	commit(step(old, call.Succeeded))
	if trimmed, err := s.Trim(ctx, s.Now().Add(time.Hour), 0, 0, 10); err != nil || len(trimmed) != 1 {
		t.Fatalf("Trim = %v, %v", trimmed, err)
	}
	odd := newCall("odd")
	odd.Requested, odd.Run = "{\"nul\":\"\x00\",\"bad\":\"\xff\"}", tool.Run{ID: "run \x01 ü", Thread: "thread"}
	change := creation(odd)
	change.Records = []store.Record{{Kind: "audit", Key: "k", Bytes: []byte("one")}, {Kind: "audit", Key: "empty"}}
	change.Policies = []store.Policy{{Namespace: "ns", Kind: "rule", Key: "r", Scope: tool.ThreadScope, ScopeID: "thread", Value: []byte("{}")}}
	change.Documents = []store.DocumentChange{
		{ScopeID: "thread", Command: tool.Command{Op: tool.OpSet, Scope: tool.ThreadScope, Key: "todo", Value: `{"a":1}`}},
		{ScopeID: "thread", Command: tool.Command{Op: tool.OpSet, Scope: tool.ThreadScope, Key: "gone", Value: "1"}},
		{ScopeID: "thread", Command: tool.Command{Op: tool.OpDelete, Scope: tool.ThreadScope, Key: "gone"}},
	}
	change.Run = &store.Run{Namespace: "ns", ID: odd.Run.ID, Owner: "ann", State: call.RunBlocked, Reason: "policy", CallID: "odd", Changed: s.Now()}
	commit(change)
	odd.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s", Round: 1, Action: "approval", ExpiresAt: s.Now().Add(time.Hour)}}}
	commit(step(odd, call.Suspended))
	answered := newCall("answered")
	answered.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s2", Round: 1, Action: "input"}}}
	answered.Status = call.Suspended
	commit(creation(answered))
	change = step(answered, call.Resuming)
	change.Decision = &store.Decision{Namespace: "ns", ID: "d", CallID: "answered", SuspensionID: "s2", Content: "x", Decision: tool.Decision{ID: "d", Action: tool.Resume, Result: "yes"}}
	commit(change)
	actor := newCall("actor")
	change = creation(actor)
	change.Actions = []store.Action{
		{Namespace: "ns", ID: "a", CallID: "actor", Caller: "ann", Round: 1, State: store.ActionPending, Created: s.Now(), Due: s.Now(), Action: tool.Action{Handler: "h", Phase: tool.AfterCommit, Payload: `{}`}},
	}
	commit(change)
	b := &call.Batch{Namespace: "ns", ID: "batch", Caller: "ann", Digest: "x", Calls: []string{"in-batch"}, Created: s.Now()}
	in := newCall("in-batch")
	in.BatchID = b.ID
	if err := s.CreateBatch(ctx, b, []*store.Change{creation(in)}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 40)
	for i := range 40 { // SQLite stores this group as packs.
		c := newCall(fmt.Sprintf("packed-%02d", i))
		c.Class, c.Status, c.Ended, c.Created, c.Run.ID = call.Behind, call.Succeeded, s.Now().Time(), s.Now().Time(), "packed"
		change := creation(c)
		s.Submit(change, func(err error) { done <- err })
	}
	for range 40 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// look reads all data that fill has written.
func look(t *testing.T, s store.Store) map[string]any {
	t.Helper()
	ctx, seen := t.Context(), map[string]any{}
	note := func(what string, v any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		seen[what] = v
	}
	for _, q := range []call.Query{{}, {Namespace: "ns", Run: "packed"}, {Namespace: "ns", Thread: "thread"}, {Namespace: "ns", Batch: "batch"}, {Namespace: "ns", Action: "approval"}, {Statuses: []call.Status{call.Suspended, call.Resuming}}} {
		q.OldestFirst, q.Limit = true, 100
		page, err := s.Calls(ctx, q)
		page.Skipped = 0 // Skipped depends on the indexes of the store.
		note(fmt.Sprintf("calls %+v", q), page, err)
		for _, c := range page.Calls {
			events, first, err := s.Events(ctx, c.Key(), 0, 0)
			note("events of "+c.ID, []any{events, first}, err)
		}
	}
	entries, newest, err := s.Feed(ctx, store.Feed{Namespace: "ns"}, 0, 1000)
	note("feed", []any{entries, newest}, err)
	d, err := s.Decision(ctx, "ns", "d")
	note("decision", d, err)
	docs, err := s.Documents(ctx, "ns", store.DocumentScope{Scope: tool.ThreadScope, ID: "thread"})
	note("documents", docs, err)
	records, err := s.(store.RecordReader).Records(ctx, "ns", "audit", 0, 10)
	note("records", records, err)
	run, err := s.Run(ctx, "ns", "run \x01 ü")
	note("run", run, err)
	next, err := s.NextExpiry(ctx)
	note("expiry", next, err)
	var policies []store.Policy
	err = s.Policies(ctx, func(p store.Policy, err error) error { policies = append(policies, p); return err })
	note("policies", policies, err)
	actions, err := s.Actions(ctx, store.ActionQuery{})
	note("actions", actions, err)
	batch, err := s.Batch(ctx, call.Key{Namespace: "ns", ID: "batch"})
	note("batch", batch, err)
	counts, err := s.RunCounts(ctx, "ns", "packed")
	note("counts", counts, err)
	_, err = s.Call(ctx, key("trimmed"))
	note("trimmed", errors.Is(err, store.ErrTrimmed), nil)
	return seen
}

// broken is a store whose reads fail after a number of rows.
type broken struct {
	rows.Tables
	left int
}

var errUnreadable = errors.New("unreadable")

func (b *broken) Table(ctx context.Context, name string, columns []string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for values, err := range b.Tables.Table(ctx, name, columns) {
			if b.left--; b.left < 0 {
				yield(nil, errUnreadable)
				return
			}
			if !yield(values, err) {
				return
			}
		}
	}
}

// TestImport copies a store from SQLite and compares all data.
func TestImport(t *testing.T) {
	dir, url := filepath.Join(t.TempDir(), "data"), freshURL(t)
	from, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, from)
	if _, err := sqlite.OpenRows(dir); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("OpenRows of a store in use = %v", err)
	}
	want, was := look(t, from), from.Identity()
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := sqlite.OpenRows(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	for left := range 50 { // left is the number of rows after which reading fails. Wherever the copy stops, nothing may be stored.
		if left%7 > 0 {
			continue
		}
		if _, err := postgres.Import(t.Context(), url, &broken{tables, left}); !errors.Is(err, errUnreadable) {
			t.Fatalf("Import of a store that breaks off after %d rows = %v", left, err)
		}
	}
	done, err := postgres.Import(t.Context(), url, tables)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ran: %v", done)
	if _, err := postgres.Import(t.Context(), url, tables); !errors.Is(err, rows.ErrHasStore) {
		t.Errorf("second Import = %v, want ErrHasStore", err)
	}
	to := open(t, postgres.Config{URL: url})
	if is := to.Identity(); is.StoreID != was.StoreID || is.Epoch < time.Now().Unix()-3600 || !is.Moved || is.Clean {
		t.Errorf("Identity = %+v, was %+v", is, was)
	}
	if diff := cmp.Diff(want, look(t, to)); diff != "" {
		t.Errorf("the copy differs (-want +got):\n%s", diff)
	}
	if _, err := postgres.Import(t.Context(), url, tables); !errors.Is(err, postgres.ErrInUse) {
		t.Errorf("Import into a store in use = %v, want ErrInUse", err)
	}
	c := newCall("later")
	if err := to.Commit(t.Context(), creation(c)); err != nil {
		t.Fatal(err)
	}
	entries, _, err := to.Feed(t.Context(), store.Feed{Namespace: "ns"}, want["feed"].([]any)[1].(int64), 10)
	if err != nil || len(entries) != 1 || entries[0].Key.ID != "later" {
		t.Errorf("feed behind the old end = %+v, %v", entries, err)
	}
}

// TestCopyThereAndBack copies a store from SQLite to PostgreSQL, back, and to PostgreSQL again. Each copy has all data of the first store.
func TestCopyThereAndBack(t *testing.T) {
	ctx, first, url := t.Context(), filepath.Join(t.TempDir(), "data"), freshURL(t)
	from, err := sqlite.Open(ctx, sqlite.Config{Dir: first})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, from)
	want, was := look(t, from), from.Identity()
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	into := func(url, dir string) {
		t.Helper()
		tables, err := sqlite.OpenRows(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer tables.Close()
		if _, err := postgres.Import(ctx, url, tables); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := postgres.OpenRows(ctx, url); !errors.Is(err, postgres.ErrNoStore) {
		t.Errorf("OpenRows of an empty schema = %v, want ErrNoStore", err)
	}
	if _, err := postgres.Inspect(ctx, url); !errors.Is(err, postgres.ErrNoStore) {
		t.Errorf("Inspect of an empty schema = %v, want ErrNoStore", err)
	}
	into(url, first)
	s := open(t, postgres.Config{URL: url})
	if diff := cmp.Diff(want, look(t, s)); diff != "" {
		t.Errorf("the copy differs (-want +got):\n%s", diff)
	}
	if tables, err := postgres.OpenRows(ctx, url); !errors.Is(err, postgres.ErrInUse) {
		t.Errorf("OpenRows of a store in use = %v, %v", tables, err)
	}
	if v, err := postgres.Inspect(ctx, url); !errors.Is(err, postgres.ErrInUse) || v.Found == 0 || v.Found != v.Latest {
		t.Errorf("Inspect of a store in use = %v, %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if v, err := postgres.Inspect(ctx, url); err != nil || v.Found != v.Latest {
		t.Errorf("Inspect of a closed store = %v, %v", v, err)
	}
	tables, err := postgres.OpenRows(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "back")
	for left := range 60 { // left is the number of rows after which reading fails. Wherever the copy stops, nothing may be stored.
		if left%7 > 0 {
			continue
		}
		if _, err := sqlite.Import(ctx, dir, &broken{tables, left}); !errors.Is(err, errUnreadable) {
			t.Fatalf("Import of a store that breaks off after %d rows = %v", left, err)
		}
	}
	if _, err := sqlite.Import(ctx, dir, tables); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Import(ctx, dir, tables); !errors.Is(err, rows.ErrHasStore) {
		t.Errorf("second Import = %v, want ErrHasStore", err)
	}
	if err := tables.Close(); err != nil {
		t.Error(err)
	}
	again := freshURL(t)
	into(again, dir)
	back, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if is := back.Identity(); is.StoreID != was.StoreID || is.Epoch < time.Now().Unix()-3600 || !is.Moved || is.Clean {
		t.Errorf("Identity = %+v, was %+v", is, was)
	}
	for name, s := range map[string]store.Store{"back": back, "there again": open(t, postgres.Config{URL: again})} {
		if diff := cmp.Diff(want, look(t, s)); diff != "" {
			t.Errorf("the copy %s differs (-want +got):\n%s", name, diff)
		}
	}
	if err := back.Commit(ctx, creation(newCall("odd"))); !errors.Is(err, store.ErrExists) {
		t.Errorf("Commit of a call that is there = %v", err)
	}
	if err := back.Commit(ctx, creation(newCall("trimmed"))); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("Commit of a call that was trimmed = %v", err)
	}
	if err := back.Commit(ctx, creation(newCall("later"))); err != nil {
		t.Error(err)
	}
	entries, _, err := back.Feed(ctx, store.Feed{Namespace: "ns"}, want["feed"].([]any)[1].(int64), 10)
	if err != nil || len(entries) != 1 || entries[0].Key.ID != "later" {
		t.Errorf("feed behind the old end = %+v, %v", entries, err)
	}
}

func diffOf(want, got any) string { return cmp.Diff(want, got) }
