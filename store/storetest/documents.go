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

func set(key, value string, expected ...int64) store.DocumentChange {
	c := tool.Command{Op: tool.OpSet, Scope: tool.RunScope, Key: key, Value: value}
	if len(expected) > 0 {
		c.Expected = &expected[0]
	}
	return store.DocumentChange{ScopeID: "r", Command: c}
}

func del(key string, expected ...int64) store.DocumentChange {
	d := set(key, "", expected...)
	d.Command.Op = tool.OpDelete
	return d
}

func (f *fixture) docs(scope tool.Scope, id string) []tool.Document {
	f.t.Helper()
	docs, err := f.Documents(f.t.Context(), "ns", store.DocumentScope{Scope: scope, ID: id})
	if err != nil {
		f.t.Fatalf("Documents = %v", err)
	}
	return docs
}

// values returns key=value@revision for each document of run r.
func (f *fixture) values() []string {
	f.t.Helper()
	var values []string
	for _, d := range f.docs(tool.RunScope, "r") {
		values = append(values, fmt.Sprintf("%s=%s@%d", d.Key, d.Value, d.Revision))
	}
	return values
}

func (f *fixture) wantValues(want ...string) {
	f.t.Helper()
	if got := f.values(); !same(got, want) {
		f.t.Errorf("documents %v, want %v", got, want)
	}
}

func testDocuments(t *testing.T, f *fixture) {
	c := f.create("c1")
	change := step(c, call.Running)
	change.Documents = []store.DocumentChange{set("b", "1"), set("a", `{"x":1}`, 0), set("b", "2")}
	var applied []call.DocumentNotice
	change.OnDocuments = func(notices []call.DocumentNotice) { applied = notices }
	f.commit(change)
	f.wantValues(`a={"x":1}@1`, "b=2@2")
	zero := int64(0)
	want := []call.DocumentNotice{
		{Scope: tool.RunScope, ScopeID: "r", Key: "b", Revision: 1},
		{Scope: tool.RunScope, ScopeID: "r", Key: "a", Revision: 1, Expected: &zero},
		{Scope: tool.RunScope, ScopeID: "r", Key: "b", Revision: 2},
	}
	if diff := cmp.Diff(want, applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	f.reopen()
	f.wantValues(`a={"x":1}@1`, "b=2@2")
	change = step(c, call.Succeeded)
	change.Documents = []store.DocumentChange{del("a", 1), del("gone")}
	change.OnDocuments = func(notices []call.DocumentNotice) {
		if len(notices) != 2 || notices[0].Revision != 2 || notices[0].Conflict != "" || notices[1].Revision != 0 || notices[1].Conflict != "" {
			t.Errorf("notices %+v; nothing is there to delete in the second", notices)
		}
	}
	f.commit(change)
	f.wantValues("b=2@2")
}

// testDocumentConflict checks that a document conflict never fails a call: the command is reported as a conflict, and the rest of the
// change commits.
func testDocumentConflict(t *testing.T, f *fixture) {
	c := f.create("c1")
	change := step(c, call.Running)
	change.Documents = []store.DocumentChange{set("a", "1"), set("b", "1")}
	f.commit(change)
	change = step(c, call.Succeeded)
	change.Documents = []store.DocumentChange{set("a", "2", 7), set("b", "2", 1), del("c", 3), set("b", "3", 1)}
	calls := 0
	change.OnDocuments = func(notices []call.DocumentNotice) {
		calls++
		for _, l := range notices {
			if l.Conflict == "" {
				continue
			}
			c.LastSequence++
			change.Events = append(change.Events, call.Event{Sequence: c.LastSequence, Type: call.EventStateConflict, Document: &l})
		}
		c.Checkpoint = []byte("published")
	}
	f.commit(change)
	f.wantValues("a=1@1", "b=2@2")
	if calls != 1 {
		t.Errorf("OnDocuments called %d times, want once", calls)
	}
	got := f.get("c1")
	if got.Status != call.Succeeded || got.LastSequence != 6 || string(got.Checkpoint) != "published" {
		t.Errorf("call is %s at %d with checkpoint %q", got.Status, got.LastSequence, got.Checkpoint)
	}
	log, _, err := f.Events(t.Context(), c.Key(), 3, 10)
	if err != nil || len(log) != 3 {
		t.Fatalf("Events = %v, %v", log, err)
	}
	for i, want := range []string{"a@1", "c@0", "b@2"} { // key and current revision of each document
		if got := fmt.Sprintf("%s@%d", log[i].Document.Key, log[i].Document.Revision); got != want {
			t.Errorf("conflict %d is %s, want %s", i, got, want)
		}
	}
}

func testDocumentConflictWithoutCallback(t *testing.T, f *fixture) {
	c := f.create("c1")
	change := step(c, call.Running)
	change.Documents = []store.DocumentChange{set("a", "1", 4)}
	f.commit(change)
	f.wantValues()
}

// testDocumentAgain checks that a document that is created again does not reuse revisions. Otherwise an old expected revision could match a
// new value.
func testDocumentAgain(t *testing.T, f *fixture) {
	c := f.create("c1")
	for _, d := range []store.DocumentChange{set("a", "old"), del("a"), set("a", "new", 0)} {
		f.commit(&store.Change{Key: c.Key(), Documents: []store.DocumentChange{d}})
	}
	f.wantValues("a=new@3")
	f.commit(&store.Change{Key: c.Key(), Documents: []store.DocumentChange{set("a", "stale", 1)}})
	f.wantValues("a=new@3")
}

func testDocumentScopes(t *testing.T, f *fixture) {
	c := f.create("c1")
	thread := set("a", `"thread"`)
	thread.Command.Scope = tool.ThreadScope
	elsewhere := set("a", `"elsewhere"`)
	elsewhere.ScopeID = "r2"
	f.commit(&store.Change{Key: c.Key(), Documents: []store.DocumentChange{set("a", `"run"`), thread, elsewhere}})
	f.wantValues(`a="run"@1`)
	if docs := f.docs(tool.ThreadScope, "r"); len(docs) != 1 || docs[0].Value != `"thread"` {
		t.Errorf("thread documents %v", docs)
	}
	if docs, err := f.Documents(t.Context(), "other", store.DocumentScope{Scope: tool.RunScope, ID: "r"}); err != nil || len(docs) != 0 {
		t.Errorf("documents of another namespace %v, %v", docs, err)
	}
	if err := f.EndRun(t.Context(), store.Run{Namespace: "ns", ID: "r", State: call.RunEnded}); err != nil {
		t.Fatal(err)
	}
	f.wantValues()
	if len(f.docs(tool.ThreadScope, "r")) != 1 || len(f.docs(tool.RunScope, "r2")) != 1 {
		t.Error("EndRun took documents of others")
	}
}

func testTrimDocuments(t *testing.T, f *fixture) {
	thread := set("a", "1")
	thread.Command.Scope = tool.ThreadScope
	c := f.create("c1", func(c *call.Call) { c.Run.ID, c.Run.Thread = "r", "r" })
	f.commit(&store.Change{Key: c.Key(), Documents: []store.DocumentChange{set("a", "1"), thread}})
	trim := func() {
		t.Helper()
		if _, err := f.Trim(t.Context(), 0, 0, f.Now().Add(-24*time.Hour), 100); err != nil {
			t.Fatalf("Trim = %v", err)
		}
	}
	f.clock.move(100 * time.Hour)
	trim()
	f.wantValues("a=1@1") // The call that made the document has not ended.
	f.step(c, call.Running)
	f.step(c, call.Succeeded)
	f.clock.move(23 * time.Hour)
	trim()
	f.wantValues("a=1@1")
	f.clock.move(2 * time.Hour)
	trim()
	f.wantValues()
	if len(f.docs(tool.ThreadScope, "r")) != 1 {
		t.Error("Trim took a document of a thread")
	}
}

// testTrimRuns checks a trim of many runs. It must remove the state and documents of an ended run without calls. It must keep the state of
// blocked runs, and runs with calls.
func testTrimRuns(t *testing.T, f *fixture) {
	for i := range 600 {
		if err := f.EndRun(t.Context(), store.Run{Namespace: "ns", ID: fmt.Sprintf("r%03d", i), State: call.RunEnded}); err != nil {
			t.Fatal(err)
		}
	}
	f.create("c", func(c *call.Call) { c.Run.ID = "r300" })
	blocked := store.Run{Namespace: "ns", ID: "r301", State: call.RunBlocked}
	change := &store.Change{Key: ns("c"), Run: &blocked}
	for i := range 600 {
		d := set("a", "1")
		d.ScopeID = fmt.Sprintf("r%03d", i)
		change.Documents = append(change.Documents, d)
	}
	f.commit(change)
	if _, err := f.Trim(t.Context(), 0, 0, 0, 10); err != nil {
		t.Fatal(err)
	}
	var left []string
	for i := range 600 {
		id := fmt.Sprintf("r%03d", i)
		if _, err := f.Run(t.Context(), "ns", id); err == nil {
			left = append(left, id)
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if !same(left, []string{"r300", "r301"}) {
		t.Errorf("runs after the trim: %v", left)
	}
	var documents []string
	for i := range 600 {
		if id := fmt.Sprintf("r%03d", i); len(f.docs(tool.RunScope, id)) > 0 {
			documents = append(documents, id)
		}
	}
	if !same(documents, []string{"r300"}) {
		t.Errorf("runs with documents after the trim: %v", documents)
	}
}

// testTrimLastCall checks that the documents of a run or thread are removed with its last call. Only the calls tell who owns the run or
// thread. Without this, the next caller that uses the id could read the documents.
func testTrimLastCall(t *testing.T, f *fixture) {
	thread := set("a", "1")
	thread.Command.Scope = tool.ThreadScope
	for _, id := range []string{"c1", "c2"} {
		c := f.create(id, func(c *call.Call) { c.Run.ID, c.Run.Thread = "r", "r" })
		f.step(c, call.Running)
		change := step(c, call.Succeeded)
		change.Documents = []store.DocumentChange{set("a", "1"), thread}
		f.commit(change)
	}
	f.clock.move(time.Hour)
	for _, want := range []int{1, 0} {
		if _, err := f.Trim(t.Context(), f.Now(), 0, 0, 1); err != nil {
			t.Fatal(err)
		}
		if run, thread := len(f.docs(tool.RunScope, "r")), len(f.docs(tool.ThreadScope, "r")); run != want || thread != want {
			t.Errorf("%d documents of the run and %d of the thread, want %d", run, thread, want)
		}
	}
}
