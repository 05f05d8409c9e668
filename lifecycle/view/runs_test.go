package view_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

// growing is a store that gets a call of a new run after each query for the calls of all runs.
type growing struct {
	store.Store
	t     *testing.T
	calls int
}

func (g *growing) add() {
	g.calls++
	id := fmt.Sprint("r", g.calls)
	c := made(id, "ns", "alice", call.Succeeded)
	c.Run.ID, c.Revision = id, 1
	if err := g.Commit(g.t.Context(), &store.Change{Call: c, Create: true}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *growing) Calls(ctx context.Context, q call.Query) (call.Page, error) {
	page, err := g.Store.Calls(ctx, q)
	if q.Run == "" {
		g.add()
	}
	return page, err
}

// TestRunsWhileRunsBegin checks that new runs do not make a list show a run twice.
func TestRunsWhileRunsBegin(t *testing.T) {
	g := &growing{Store: memory.New(memory.Config{}), t: t}
	for range 5 {
		g.add()
	}
	records := view.NewRecords(view.Config{Store: g, Owners: ofAlice{}, Modes: ofAlice{}, Settle: func() {}})
	var got []string
	for q := (call.RunQuery{Limit: 2}); ; {
		runs, next, err := records.Runs(t.Context(), tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"caller"}}, &q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			got = append(got, r.ID)
		}
		if q.After = next; next == 0 {
			break
		}
	}
	if want := []string{"r5", "r4", "r3", "r2", "r1"}; !slices.Equal(got, want) {
		t.Errorf("the list shows %v, want %v", got, want)
	}
}
