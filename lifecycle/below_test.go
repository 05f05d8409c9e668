package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// parent is a tool that makes a call of its own: stop ends it.
type parent struct {
	tool.Tool
	stop func(ctx context.Context) (unseen []string)
}

func (p parent) Stop(ctx context.Context, _ *tool.Call) []string { return p.stop(ctx) }

// stopChild cancels a call and waits for its end, as a parent does.
func (w *world) stopChild(ctx context.Context, id string) (unseen []string) {
	lasting := context.WithoutCancel(ctx)
	_, _ = w.e.Cancel(lasting, alice, id, "", 0)
	watcher, err := w.e.Watch(lasting, alice, id, "", true)
	if err != nil {
		return nil
	}
	defer watcher.Close()
	for !watcher.Call().Status.Terminal() {
		if _, err := watcher.Next(ctx); err != nil {
			return []string{id}
		}
	}
	return nil
}

// heeds is a tool that runs until it is cancelled, and a little longer.
func heeds(id string, after time.Duration) tool.Tool {
	return made(id, mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		time.Sleep(after)
		return nil, context.Cause(ctx)
	})
}

// reopenFirst is open for tools that use the engine while it takes up what the last one left.
func (w *world) reopenFirst() {
	w.t.Helper()
	w.cfg.Store = w.store
	var err error
	if w.e, err = lifecycle.New(w.cfg); err != nil {
		w.t.Fatal(err)
	}
	if _, err = w.e.Recover(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// TestRecoveryWaitsForNoCallsOfCalls: a start takes all calls up before one ends that made calls, and nobody waits for that.
func TestRecoveryWaitsForNoCallsOfCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cancel bool
		status call.Status
	}{
		{"cancelled", true, call.Cancelled},
		{"in doubt", false, call.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			child := apart(spec("child", ""))
			child.Run.ID = "run-2"
			var w *world
			p := parent{heeds("parent", 0), func(ctx context.Context) []string { return w.stopChild(ctx, child.ID) }}
			inBubble(t, []tool.Tool{p, heeds("child", 3*time.Second)}, nil, func(t *testing.T, own *world) {
				w = own
				above := w.begin(apart(spec("parent", "")))
				w.begin(child)
				if tt.cancel {
					go func() { _, _ = w.e.Cancel(context.Background(), alice, above, "", 0) }()
					time.Sleep(time.Second) // its end waits for the child
				}
				w.kill()
				began := time.Now()
				w.reopenFirst()
				if took := time.Since(began); took > 0 {
					t.Errorf("the start took %v", took)
				}
				synctest.Wait()
				if c := w.get(above); c.Status != tt.status || c.Result.Metadata[lifecycle.UnseenCalls] != "" {
					t.Errorf("it is %s and names %v", c.Status, c.Result)
				}
				w.checkLog(above)
			})
		})
	}
}

// TestAnswerEndsCallsOfCalls: a call that an answer ends in its tool's place has not run to its end: its calls end before.
func TestAnswerEndsCallsOfCalls(t *testing.T) {
	child := apart(spec("child", ""))
	var w *world
	p := parent{
		asks("parent", tool.Ticket{ResumeMode: tool.UseDecisionAsToolResult, Approvers: &tool.Approvers{}}),
		func(ctx context.Context) []string { return w.stopChild(ctx, child.ID) },
	}
	inBubble(t, []tool.Tool{p, heeds("child", time.Second)}, nil, func(t *testing.T, own *world) {
		w = own
		c := w.do(apart(spec("parent", "")))
		w.begin(child)
		if c = w.answer(bob, c, tool.Decision{Action: tool.Resume, Result: "1"}); c.Status != call.Succeeded {
			t.Fatalf("it is %s %+v", c.Status, c.Result)
		}
		if below := w.get(child.ID); below.Status != call.Cancelled {
			t.Errorf("told SUCCEEDED while its call is %s", below.Status)
		}
	})
}
