package lifecycle_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// TestCallsOfAThreadRunOneAfterAnother checks calls of one thread outside a batch. Calls that are not concurrency-safe run one after
// another, in the order of their arrival. Read-only and concurrency-safe calls do not wait. Calls of other threads do not wait.
func TestCallsOfAThreadRunOneAfterAnother(t *testing.T) {
	p, order := held(), []string{}
	note := made("note", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		order = append(order, c.ID)
		return tool.Text("ok"), nil
	})
	inBubble(t, []tool.Tool{p.tool("t", mutating), note, echo("read", reading), echo("safe", tool.Effects{ConcurrencySafe: true})}, nil, func(t *testing.T, w *world) {
		id := w.begin(spec("t", ""))
		var ids []string
		for range 10 {
			ids = append(ids, w.begin(spec("note", "")))
		}
		if len(order) > 0 || w.e.Stats().Queued != 10 || w.get(ids[0]).Status != call.New {
			t.Errorf("ran %v beside a call of the thread, %+v", order, w.e.Stats())
		}
		for _, s := range []call.Spec{spec("read", ""), spec("safe", ""), apart(spec("note", ""))} {
			if c := w.do(s); c.Status != call.Succeeded {
				t.Errorf("%s waited: %s", c.Tool, c.Status)
			}
		}
		order = nil
		p.free()
		synctest.Wait()
		if fmt.Sprint(order) != fmt.Sprint(ids) || w.get(id).Status != call.Succeeded || w.e.Stats().Queued != 0 {
			t.Errorf("ran %v, want %v", order, ids)
		}
		if got := types(t, 1, w.checkLog(ids[0])); got != "accepted queued attempt_started finished" {
			t.Errorf("log of one that waited: %s", got)
		}
	})
}

// TestTurnOfAThreadIsGivenUp checks that a suspended call gives up its turn in the thread. It also checks that the queue timeout applies to
// a call that waits for its turn, and that such a call can be cancelled.
func TestTurnOfAThreadIsGivenUp(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating), asks("asks", tool.Ticket{}), echo("quick", mutating)}, nil, func(t *testing.T, w *world) {
		asked := w.do(spec("asks", ""))
		if c := w.do(spec("quick", "")); c.Status != call.Succeeded {
			t.Errorf("waited for a call that is suspended: %s", c.Status)
		}
		w.begin(spec("t", ""))
		impatient := spec("quick", "")
		impatient.Timeouts.Queue = time.Second
		if c := w.do(impatient); c.Status != call.Failed || c.Result.Error.Code != tool.Timeout || c.Result.Error.Reason != "QUEUE" || c.Executed != call.NotStarted {
			t.Errorf("waited too long: %s %+v", c.Status, c.Result.Error)
		}
		waits := w.begin(spec("quick", ""))
		if c, err := w.e.Cancel(t.Context(), alice, waits, "", time.Minute); err != nil || c.Status != call.Cancelled || c.Executed != call.NotStarted {
			t.Errorf("cancelled while it waited: %+v, %v", c, err)
		}
		resumed := make(chan *call.Call, 1)
		go func() { resumed <- w.answer(alice, asked, tool.Decision{Action: tool.Resume, Result: "1"}) }()
		synctest.Wait()
		if c := w.get(asked.ID); c.Status != call.Resuming {
			t.Errorf("a decided call does not wait for its turn: %s", c.Status)
		}
		p.free()
		if c := <-resumed; c.Status != call.Succeeded {
			t.Errorf("decided call: %s", c.Status)
		}
		w.begin(spec("quick", ""))
		if st := w.e.Stats(); st.Queued != 0 || st.Running != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestChildOfACallHasATurnOfItsOwn checks that a nested call does not wait for the turn of its running parent.
func TestChildOfACallHasATurnOfItsOwn(t *testing.T) {
	var w *world
	parent := made("parent", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		child := spec("child", "")
		child.Run.ParentCall = c.ID
		if c := w.do(child); c.Status != call.Succeeded {
			return nil, fmt.Errorf("the child is %s", c.Status)
		}
		return tool.Text("ok"), nil
	})
	inBubble(t, []tool.Tool{parent, echo("child", mutating)}, nil, func(t *testing.T, world *world) {
		w = world
		began := time.Now()
		if c := w.do(spec("parent", "")); c.Status != call.Succeeded || time.Since(began) > 0 {
			t.Errorf("parent %s after %v: %+v", c.Status, time.Since(began), c.Result)
		}
	})
}

// TestBatchAndTheTurnsOfItsThread checks calls of batches that belong to a thread. The calls of SEQUENTIAL and AUTO batches take turns in
// the thread as single calls do. The calls of a PARALLEL batch do not.
func TestBatchAndTheTurnsOfItsThread(t *testing.T) {
	for _, strategy := range strategies {
		p := held()
		inBubble(t, []tool.Tool{p.tool("t", mutating), echo("quick", mutating), echo("read", reading)}, nil, func(t *testing.T, w *world) {
			w.begin(spec("t", ""))
			b := batchOf(strategy, of("read", "quick", "quick")...)
			w.turn(b, call.ExecuteOptions{}).Close()
			synctest.Wait()
			want := "SUCCEEDED NEW NEW"
			if strategy == call.Parallel {
				want = "SUCCEEDED SUCCEEDED SUCCEEDED"
			}
			w.wantBatch(b, want)
			p.free()
			synctest.Wait()
			w.wantBatch(b, "SUCCEEDED SUCCEEDED SUCCEEDED")
		})
	}
}

// TestTooManyWaitForATurn checks that the number of calls that wait for a turn in a thread is limited. The number of calls that wait for a
// slot is limited in the same way.
func TestTooManyWaitForATurn(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, func(c *lifecycle.Config) { c.QueueLength, c.NamespaceQueue, c.PrincipalQueue = 3, 3, 3 }, func(t *testing.T, w *world) {
		for range 4 {
			w.begin(spec("t", ""))
		}
		_, err := w.e.Execute(t.Context(), alice, spec("t", ""), call.ExecuteOptions{})
		wantRefusal(t, err, call.ResourceExhausted, "QUEUE_FULL")
		p.free()
	})
}
