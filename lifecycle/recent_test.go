package lifecycle_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

// countedStore counts the reads of the journal that a decision can cause.
type countedStore struct {
	*memory.Store
	reads atomic.Int64
}

func (s *countedStore) Call(ctx context.Context, key call.Key) (*call.Call, error) {
	s.reads.Add(1)
	return s.Store.Call(ctx, key)
}

func (s *countedStore) CallBySuspension(ctx context.Context, namespace, id string) (*call.Call, error) {
	s.reads.Add(1)
	return s.Store.CallBySuspension(ctx, namespace, id)
}

func (s *countedStore) Decision(ctx context.Context, namespace, id string) (*store.Decision, error) {
	s.reads.Add(1)
	return s.Store.Decision(ctx, namespace, id)
}

// TestSoonAnswersReadNothing checks an answer that arrives soon after the question: it finds its call in memory. A late answer, or one to a
// large call, reads the journal.
func TestSoonAnswersReadNothing(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		counted := &countedStore{Store: w.store}
		w.cfg.Store = counted
		e, err := lifecycle.New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.past, w.e = append(w.past, w.e), e

		large := w.do(spec("t", `{"a":"`+strings.Repeat("x", 20<<10)+`"}`))
		var waiting []*call.Call
		for range 300 {
			alone := spec("t", `{"a":1}`)
			alone.Run.Thread = "" // Without a thread, the call does not wait. The call before it may still have the turn in the thread.
			waiting = append(waiting, w.do(alone))
		}
		answer := func(c *call.Call) int64 {
			t.Helper()
			before := counted.reads.Load()
			ended, err := w.resume(bob, c, tool.Decision{Action: tool.Resume})
			if err != nil || ended.Status != call.Succeeded || ended.Revision != 4 {
				t.Fatalf("%s, revision %d, %v", ended.Status, ended.Revision, err)
			}
			return counted.reads.Load() - before
		}
		for _, c := range waiting[100:] {
			if n := answer(c); n != 0 {
				t.Fatalf("a soon answer read %d times", n)
			}
		}
		if answer(waiting[0]) == 0 || answer(large) == 0 {
			t.Error("old and large calls are kept in memory too")
		}
	})
}
