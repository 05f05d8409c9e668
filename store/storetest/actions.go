package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// action returns an action that is due, or that waits for the end of batch b or run r.
func action(id string, phase tool.Phase) store.Action {
	a := store.Action{Namespace: "ns", ID: id, CallID: "c1", Run: "r", Thread: "t", Batch: "b", Caller: "ann", Round: 1, State: store.ActionPending, Created: start,
		Action: tool.Action{Handler: "h", Phase: phase, Payload: `{"big":9007199254740993}`}}
	if phase == tool.AfterCommit {
		a.Due = start
	}
	return a
}

// actions returns the ids of the actions that a query selects.
func (f *fixture) actions(q store.ActionQuery) string {
	f.t.Helper()
	list, err := f.Actions(f.t.Context(), q)
	if err != nil {
		f.t.Fatalf("Actions(%+v) = %v", q, err)
	}
	var ids []string
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return strings.Join(ids, " ")
}

func (f *fixture) wantActions(q store.ActionQuery, want string) {
	f.t.Helper()
	if got := f.actions(q); got != want {
		f.t.Errorf("actions of %+v: %q, want %q", q, got, want)
	}
}

func (f *fixture) amend(a store.Amendment) []call.DocumentNotice {
	f.t.Helper()
	a.Namespace = "ns"
	notices, err := f.Amend(f.t.Context(), &a)
	if err != nil {
		f.t.Fatalf("Amend = %v", err)
	}
	return notices
}

func testActions(t *testing.T, f *fixture) {
	c := f.create("c1")
	change := step(c, call.Running)
	later := action("later", tool.AfterCommit)
	later.Due = start.Add(time.Minute)
	change.Actions = []store.Action{action("a", tool.AfterCommit), action("batch", tool.BatchEnd), action("run", tool.RunEnd), later}
	f.commit(change)
	f.reopen()
	got, err := f.Actions(t.Context(), store.ActionQuery{Namespace: "ns", ID: "a"})
	if err != nil || len(got) != 1 {
		t.Fatalf("Actions = %v, %v", got, err)
	}
	want := action("a", tool.AfterCommit)
	want.Position = got[0].Position
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("action (-want +got):\n%s", diff)
	}
	f.wantActions(store.ActionQuery{}, "a batch run later")
	f.wantActions(store.ActionQuery{Namespace: "other"}, "")
	f.wantActions(store.ActionQuery{Namespace: "other", ID: "a"}, "")
	f.wantActions(store.ActionQuery{Due: true}, "a")
	f.wantActions(store.ActionQuery{After: got[0].Position, Limit: 2}, "batch run")
	f.clock.move(time.Minute)
	f.wantActions(store.ActionQuery{Due: true}, "a later")
	f.wantActions(store.ActionQuery{Namespace: "ns", Phase: tool.BatchEnd, End: "b"}, "batch")
	f.wantActions(store.ActionQuery{Namespace: "ns", Phase: tool.RunEnd, End: "b"}, "")
	f.amend(store.Amendment{Ended: "b", EndPhase: tool.BatchEnd})
	f.amend(store.Amendment{Ended: "r", EndPhase: tool.BatchEnd})
	f.wantActions(store.ActionQuery{Due: true}, "a batch later")
	f.amend(store.Amendment{Ended: "r", EndPhase: tool.RunEnd})
	f.wantActions(store.ActionQuery{Due: true}, "a batch run later")
	f.crash()
	f.wantActions(store.ActionQuery{Due: true}, "a batch run later")
	if err := f.Commit(t.Context(), &store.Change{Key: c.Key(), Actions: []store.Action{{Namespace: "ns", ID: "x"}}}); err == nil {
		t.Error("an action without a state was taken")
	}
}

// testAmend checks that the removal of an action and the results of the action commit together.
func testAmend(t *testing.T, f *fixture) {
	f.create("c1")
	f.commit(&store.Change{Key: ns("c1"), Actions: []store.Action{action("a", tool.AfterCommit), action("b", tool.AfterCommit)}})
	seven := int64(7)
	stale := set("y", "1")
	stale.Command.Expected = &seven
	notices := f.amend(store.Amendment{Done: "a", Documents: []store.DocumentChange{set("x", "1"), stale}, Actions: []store.Action{action("next", tool.RunEnd)},
		Limits: store.DocumentLimits{Count: 1}})
	if len(notices) != 2 || notices[0].Revision != 1 || notices[1].Conflict != call.ConflictRevision {
		t.Errorf("notices %+v", notices)
	}
	f.wantValues("x=1@1")
	f.wantActions(store.ActionQuery{}, "b next")
	for name, a := range map[string]*store.Amendment{
		"gone":              {Namespace: "ns", Done: "a", Documents: []store.DocumentChange{set("x", "2")}, Actions: []store.Action{action("twice", tool.AfterCommit)}},
		"another namespace": {Namespace: "other", Done: "b"},
	} {
		if _, err := f.Amend(t.Context(), a); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	f.wantValues("x=1@1")
	f.wantActions(store.ActionQuery{}, "b next")
	if notices := f.amend(store.Amendment{Documents: []store.DocumentChange{set("z", "1")}, Limits: store.DocumentLimits{Count: 1}}); notices[0].Conflict != call.ConflictRoom {
		t.Errorf("notices %+v", notices)
	}
	dead := action("b", tool.AfterCommit)
	dead.State, dead.Error, dead.Attempts, dead.Due = store.ActionDead, "no", 5, 0
	f.amend(store.Amendment{Done: "b", Actions: []store.Action{dead}})
	if counts, ok := f.Store.(interface {
		DeadLetters(ctx context.Context) (map[string]int, error)
	}); ok {
		if got, err := counts.DeadLetters(t.Context()); err != nil || len(got) != 1 || got["ns"] != 1 {
			t.Errorf("dead letters %v, %v, want one in ns", got, err)
		}
	}
	f.reopen()
	f.wantActions(store.ActionQuery{Namespace: "ns", State: store.ActionDead}, "b")
	f.wantActions(store.ActionQuery{Due: true}, "")
	got, err := f.Actions(t.Context(), store.ActionQuery{Namespace: "ns", State: store.ActionDead})
	if err != nil || got[0].Error != "no" || got[0].Attempts != 5 || got[0].Due != 0 {
		t.Errorf("dead %+v, %v", got, err)
	}
	// The end of a run must not make dead actions due.
	f.amend(store.Amendment{Ended: "r", EndPhase: tool.RunEnd})
	f.wantActions(store.ActionQuery{Due: true}, "next")
}

// testQueues checks that a queue is read in commit order, over all namespaces, and that actions in a queue are never due.
func testQueues(t *testing.T, f *fixture) {
	queued := func(id, queue string) store.Action {
		a := action(id, tool.AfterCommit)
		a.Due, a.Queue = 0, queue
		return a
	}
	f.create("c1")
	f.commit(&store.Change{Key: ns("c1"), Actions: []store.Action{queued("a", "q"), queued("b", "p"), action("due", tool.AfterCommit), queued("c", "q")}})
	other := queued("d", "q")
	other.Namespace = "other"
	if _, err := f.Amend(t.Context(), &store.Amendment{Namespace: "other", Actions: []store.Action{other}}); err != nil {
		t.Fatal(err)
	}
	q := store.ActionQuery{Phase: tool.AfterCommit, End: "q"}
	f.wantActions(q, "a c d")
	f.reopen()
	list, err := f.Actions(t.Context(), q)
	if err != nil || len(list) != 3 || list[0].Queue != "q" || list[0].Due != 0 {
		t.Fatalf("actions of a queue %+v, %v", list, err)
	}
	f.wantActions(store.ActionQuery{Phase: tool.AfterCommit, End: "q", After: list[0].Position, Limit: 1}, "c")
	f.wantActions(store.ActionQuery{Namespace: "other", Phase: tool.AfterCommit, End: "q"}, "d")
	f.wantActions(store.ActionQuery{Phase: tool.AfterCommit, End: "no"}, "")
	f.wantActions(store.ActionQuery{Due: true}, "due")
	f.amend(store.Amendment{Done: "a"})
	dead := list[1]
	dead.State = store.ActionDead
	f.amend(store.Amendment{Done: "c", Actions: []store.Action{dead}})
	f.wantActions(q, "d")
	f.wantActions(store.ActionQuery{Namespace: "ns", State: store.ActionDead}, "c")
}

func testActionsGo(t *testing.T, f *fixture) {
	for _, id := range []string{"c1", "c2"} {
		c := f.create(id)
		f.step(c, call.Running)
		f.step(c, call.Succeeded)
		for i, state := range []store.ActionState{store.ActionPending, store.ActionDead} {
			a := action(fmt.Sprint(id, "-", i), tool.RunEnd)
			a.CallID, a.State = id, state
			f.amend(store.Amendment{Actions: []store.Action{a}})
		}
	}
	if err := f.Shred(t.Context(), store.Shredding{Namespace: "ns", Calls: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	f.wantActions(store.ActionQuery{}, "c2-0 c2-1")
	f.clock.move(time.Hour)
	if _, err := f.Trim(t.Context(), start, 0, 0, 10); err != nil {
		t.Fatal(err)
	}
	f.wantActions(store.ActionQuery{}, "c2-0 c2-1")
	if _, err := f.Trim(t.Context(), f.Now(), 0, 0, 10); err != nil {
		t.Fatal(err)
	}
	f.wantActions(store.ActionQuery{}, "c2-0") // Pending actions stay.
}
