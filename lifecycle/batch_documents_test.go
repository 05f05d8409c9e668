package lifecycle_test

import (
	"context"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// TestClaimsInABatch checks calls that run together and change the same document. When two commands conflict, only the command that commits
// first takes effect. Commands that add to a sum or a list do not conflict. Commands of calls that run one after another do not conflict
// either.
func TestClaimsInABatch(t *testing.T) {
	last, sum := tool.Key[string]{Scope: tool.RunScope, Name: "last"}, tool.Key[int]{Scope: tool.RunScope, Name: "sum"}
	claims := writes("claims", mutating, last.Set("x"), sum.Add(1))
	for strategy, want := range map[call.Strategy]struct {
		won  int
		docs string
	}{
		call.Parallel:   {1, `RUN last="x"@1 RUN sum=4@4`},
		call.Sequential: {4, `RUN last="x"@4 RUN sum=4@4`},
	} {
		inBubble(t, []tool.Tool{claims}, nil, func(t *testing.T, w *world) {
			b := batchOf(strategy, of("claims", "claims", "claims", "claims")...)
			if done := w.batch(b); len(done.Open) > 0 {
				t.Fatalf("%s: open %v", strategy, done.Open)
			}
			won, notices := 0, []string{}
			for _, c := range b.Calls {
				n := w.notices(c.ID)
				notices = append(notices, n)
				switch {
				case !strings.Contains(n, "last@1 CLAIMED"):
					won++
				case w.get(c.ID).Status != call.Succeeded:
					t.Errorf("%s: a call that lost is %s", strategy, w.get(c.ID).Status)
				}
			}
			if got := strings.Join(w.values(), " "); won != want.won || got != want.docs {
				t.Errorf("%s: %d won, notices %q, documents %s", strategy, won, notices, got)
			}
		})
	}
}

// TestActionsAtTheEndOfABatch checks that actions for the end of a batch are executed only after all calls have ended, including a call
// that waits for a person. The actions survive a crash.
func TestActionsAtTheEndOfABatch(t *testing.T) {
	h := &handler{}
	waits := made("waits", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			return tool.Suspended("?"), nil
		}
		return tool.Text("done"), nil
	})
	inBubble(t, []tool.Tool{asksFor(do(tool.BatchEnd, "1")), waits}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		b := batchOf(call.Parallel, of("t", "waits", "t")...)
		w.launch(b)
		w.act()
		h.wantReceived(t, "")
		w.crash()
		w.act()
		h.wantReceived(t, "")
		w.answer(alice, w.get(b.Calls[1].ID), yes())
		w.act()
		h.wantReceived(t, "BATCH_END 1 1.1, BATCH_END 1 1.1")
		if h.asked[0].Batch != b.ID || h.asked[0].ID == h.asked[1].ID {
			t.Errorf("asked %+v", h.asked)
		}
	})
}
