package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// documentPromises returns the tests of documents and actions.
func documentPromises() []promise {
	return []promise{
		{"Documents", testDocuments},
		{"DocumentConflict", testDocumentConflict},
		{"DocumentConflictWithoutCallback", testDocumentConflictWithoutCallback},
		{"DocumentAgain", testDocumentAgain},
		{"DocumentScopes", testDocumentScopes},
		{"DocumentCommands", testDocumentCommands},
		{"DocumentClaims", testDocumentClaims},
		{"DocumentLimits", testDocumentLimits},
		{"DocumentSnapshot", testDocumentSnapshot},
		{"DocumentNamespace", testDocumentNamespace},
		{"Actions", testActions},
		{"Amend", testAmend},
		{"Queues", testQueues},
		{"ActionsGo", testActionsGo},
	}
}

func command(op tool.CommandOp, key, value string) store.DocumentChange {
	d := set(key, value)
	d.Command.Op = op
	return d
}

// apply commits commands of a call. It returns the notice of each command: its new revision, or why it was dropped.
func (f *fixture) apply(edit func(*store.Change), commands ...store.DocumentChange) string {
	f.t.Helper()
	var outcomes []string
	c := &store.Change{Key: ns("c1"), Documents: commands, OnDocuments: func(notices []call.DocumentNotice) {
		for _, n := range notices {
			if n.Conflict != "" {
				outcomes = append(outcomes, fmt.Sprintf("%s@%d", n.Conflict, n.Revision))
			} else {
				outcomes = append(outcomes, fmt.Sprint(n.Revision))
			}
		}
	}}
	if edit != nil {
		edit(c)
	}
	f.commit(c)
	return strings.Join(outcomes, " ")
}

func (f *fixture) wantNotices(got, want string) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("notices %q, want %q", got, want)
	}
}

func testDocumentCommands(t *testing.T, f *fixture) {
	f.create("c1")
	f.wantNotices(f.apply(nil,
		command(tool.OpAdd, "n", "9007199254740993"), command(tool.OpAdd, "n", "1"), command(tool.OpAdd, "n", "0.5"),
		command(tool.OpAppend, "list", `"a"`), command(tool.OpAppend, "list", `{"b":1}`),
		command(tool.OpMerge, "o", `{"x":1,"y":{"z":null,"a":2}}`), command(tool.OpMerge, "o", `{"x":null,"y":{"b":3.10}}`)),
		"1 2 3 1 2 1 2")
	f.wantValues(`list=["a",{"b":1}]@2`, "n=9007199254740994.5@3", `o={"y":{"a":2,"b":3.10}}@2`)
	f.reopen()
	f.wantNotices(f.apply(nil,
		command(tool.OpAdd, "list", "1"), command(tool.OpAppend, "n", "1"), command(tool.OpAdd, "n", "-0.5"),
		command(tool.OpAppend, "list", "null"), command(tool.OpMerge, "list", `{"now":"an object"}`), set("n", "1", 3)),
		"TYPE@2 TYPE@3 4 3 4 REVISION@4")
	f.wantValues(`list={"now":"an object"}@4`, "n=9007199254740994@4", `o={"y":{"a":2,"b":3.10}}@2`)
	// After a deletion, add and merge start from an empty value.
	f.wantNotices(f.apply(nil, del("n"), command(tool.OpAdd, "n", "1"), del("o"), command(tool.OpMerge, "o", `{"new":true}`)), "5 6 3 4")
	f.wantValues(`list={"now":"an object"}@4`, "n=1@6", `o={"new":true}@4`)
}

// testDocumentClaims checks the calls of a parallel group. The first call that sets, merges or deletes a document claims it. Other calls of
// the group may then only add or append.
func testDocumentClaims(t *testing.T, f *fixture) {
	for _, id := range []string{"c1", "c2", "c3"} {
		f.create(id)
	}
	of := func(id, group string) func(*store.Change) {
		return func(c *store.Change) { c.Key, c.Group = ns(id), group }
	}
	f.wantNotices(f.apply(of("c1", "g"), set("a", "1"), set("a", "2"), command(tool.OpAdd, "n", "1")), "1 2 1")
	f.wantNotices(f.apply(of("c2", "g"), set("a", "3"), command(tool.OpMerge, "a", "{}"), del("a"), command(tool.OpAdd, "a", "5"), command(tool.OpAdd, "n", "1"), set("b", "1")),
		"CLAIMED@2 CLAIMED@2 CLAIMED@2 3 2 1")
	f.wantNotices(f.apply(of("c1", "g"), set("a", "4"), set("b", "2")), "4 CLAIMED@1") // Call c1 has claimed document a, so it may set a again.
	f.reopen()
	f.wantNotices(f.apply(of("c3", "g"), set("a", "5"), set("c", "1")), "CLAIMED@4 1")
	f.wantNotices(f.apply(of("c3", ""), set("a", "6")), "5")          // This call is in no group.
	f.wantNotices(f.apply(of("c2", "g"), set("a", "7")), "CLAIMED@5") // The claim of c1 still counts.
	f.wantNotices(f.apply(of("c2", "h"), set("a", "8"), del("c")), "6 2")
	f.wantNotices(f.apply(of("c3", "h"), set("c", "9")), "CLAIMED@0") // The claim counts for a deleted document, too.
	f.wantValues("a=8@6", "b=1@1", "n=2@2")
}

func testDocumentLimits(t *testing.T, f *fixture) {
	f.create("c1")
	limited := func(c *store.Change) { c.Limits = store.DocumentLimits{Size: 10, Count: 3, Total: 20} }
	f.wantNotices(f.apply(limited, set("a", `"12345678"`), set("b", `"123456789"`), command(tool.OpAppend, "b", "1")), "1 SIZE@0 1")
	f.wantNotices(f.apply(limited, command(tool.OpAppend, "b", "12345"), command(tool.OpAppend, "b", "6"), command(tool.OpMerge, "a", `{"a":12345}`)), "2 SIZE@2 SIZE@1")
	f.wantNotices(f.apply(limited, set("c", "1"), set("d", "2"), set("a", "1"), set("d", "2"), del("a"), set("d", "12")), "1 ROOM@0 2 ROOM@0 3 1")
	f.wantNotices(f.apply(limited, set("b", `"12345678"`), set("c", "123456789"), set("c", "12345678")), "3 ROOM@1 2")
	f.wantValues(`b="12345678"@3`, "c=12345678@2", "d=12@1")
	// If a limit was lowered, a document above it may only shrink or stay unchanged.
	lower := func(c *store.Change) { c.Limits = store.DocumentLimits{Size: 4, Count: 1, Total: 4} }
	f.wantNotices(f.apply(lower, set("b", `"1234567"`), set("b", `"7654321"`), set("b", `"87654321"`), set("e", "1")), "4 5 SIZE@5 ROOM@0")
	// Deleted documents still have a row, and the number of these rows is limited.
	one := func(c *store.Change) { c.Limits = store.DocumentLimits{Count: 1} }
	f.apply(nil, del("b"), del("c"), del("d"))
	var notices string
	for i := range 40 {
		if notices = f.apply(one, set(fmt.Sprint("k", i), "1"), del(fmt.Sprint("k", i))); strings.HasPrefix(notices, "ROOM") {
			break
		}
	}
	f.wantNotices(notices, "ROOM@0 0")
	f.wantNotices(f.apply(one, set("b", "1")), "7") // Recreating a deleted document is allowed.
}

// testDocumentSnapshot checks that documents of several scopes that are read together are from the same moment.
func testDocumentSnapshot(t *testing.T, f *fixture) {
	c := f.create("c1")
	scopes := []store.DocumentScope{{Scope: tool.NamespaceScope}, {Scope: tool.RunScope, ID: "r"}, {Scope: tool.ThreadScope, ID: "r"}}
	moves := func(i int) *store.Change {
		change := &store.Change{Key: c.Key()}
		for _, s := range scopes {
			d := set("k", fmt.Sprint(i))
			d.ScopeID, d.Command.Scope = s.ID, s.Scope
			change.Documents = append(change.Documents, d)
		}
		return change
	}
	f.commit(moves(0))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := f.Commit(t.Context(), moves(i)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 200 {
		docs, err := f.Documents(t.Context(), "ns", scopes...)
		if err != nil || len(docs) != 3 || docs[0].Scope != tool.NamespaceScope || docs[2].Scope != tool.ThreadScope {
			t.Errorf("documents %v, %v", docs, err)
			break
		}
		if docs[0].Value != docs[1].Value || docs[1].Value != docs[2].Value {
			t.Errorf("documents of several moments: %v", docs)
			break
		}
	}
	close(stop)
	<-stopped
}

// testDocumentNamespace checks that the documents of a namespace belong to no run or thread, and are not visible in other namespaces.
func testDocumentNamespace(t *testing.T, f *fixture) {
	c := f.create("c1", func(c *call.Call) { c.Run.ID, c.Run.Thread = "r", "t" })
	d := set("a", "1")
	d.ScopeID, d.Command.Scope = "", tool.NamespaceScope
	f.commit(&store.Change{Key: c.Key(), Documents: []store.DocumentChange{d}})
	f.step(c, call.Running)
	f.step(c, call.Succeeded)
	if err := f.EndRun(t.Context(), store.Run{Namespace: "ns", ID: "r", State: call.RunEnded}); err != nil {
		t.Fatal(err)
	}
	f.clock.move(1000 * 24 * 3600e9)
	if _, err := f.Trim(t.Context(), f.Now(), f.Now(), f.Now(), 100); err != nil {
		t.Fatal(err)
	}
	f.reopen()
	if docs := f.docs(tool.NamespaceScope, ""); len(docs) != 1 || docs[0].Value != "1" {
		t.Errorf("documents %v", docs)
	}
	if docs, err := f.Documents(t.Context(), "other", store.DocumentScope{Scope: tool.NamespaceScope}); err != nil || len(docs) != 0 {
		t.Errorf("another namespace has %v, %v", docs, err)
	}
}
