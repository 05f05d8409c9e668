package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

// TestSalvageKeepsActions checks that Salvage saves pending and dead actions. A damaged action must be copied, and must be read as broken.
func TestSalvageKeepsActions(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	now := s.Now().Truncate(time.Second)
	change := creation(newCall("c1"))
	for _, id := range []string{"due", "run", "dead", "broken"} {
		a := store.Action{Namespace: "ns", ID: id, CallID: "c1", Run: "r", State: store.ActionPending, Created: now, Due: now, Action: tool.Action{Handler: "h", Phase: tool.AfterCommit, Payload: `{"n":1}`}}
		switch id {
		case "run":
			a.Phase, a.Due = tool.RunEnd, 0
		case "dead":
			a.State, a.Due, a.Error = store.ActionDead, 0, "no"
		}
		change.Actions = append(change.Actions, a)
	}
	commit(t, s, change)
	actions := func(s *sqlite.Store) []store.Action {
		t.Helper()
		all, err := s.Actions(t.Context(), store.ActionQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := actions(s)
	closeStore(t, s)
	script(t, dir, "UPDATE actions SET record = CAST('x' AS BLOB) WHERE id = 'broken'")
	for i := range want {
		if want[i].ID == "broken" {
			want[i] = store.Action{Position: want[i].Position, Namespace: "ns", ID: "broken", CallID: "c1", State: store.ActionPending, Due: want[i].Due, Broken: true}
		}
	}

	dst := filepath.Join(t.TempDir(), "saved")
	saved, err := sqlite.Salvage(t.Context(), dir, dst)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range saved.Tables {
		if table.Damaged || table.Name == "actions" && table.Rows != 4 {
			t.Errorf("%+v", table)
		}
	}
	s = open(t, sqlite.Config{Dir: dst})
	if diff := cmp.Diff(want, actions(s), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the actions are not what they were (-want +got):\n%s", diff)
	}
	if dead, err := s.DeadLetters(t.Context()); err != nil || len(dead) != 1 || dead["ns"] != 1 {
		t.Errorf("dead letters %v, %v", dead, err)
	}
	change = creation(newCall("later"))
	change.Actions = []store.Action{{Namespace: "ns", ID: "next", CallID: "later", State: store.ActionPending, Created: now, Action: tool.Action{Handler: "h", Phase: tool.AfterCommit}}}
	commit(t, s, change)
	if all := actions(s); all[len(all)-1].ID != "next" {
		t.Errorf("a new action is before old ones: %+v", all)
	}
	closeStore(t, s)
}
