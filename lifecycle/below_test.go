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

// waiting is a tool that rests until somebody answers, and stops its calls as stop says.
func waiting(id string, stop func(ctx context.Context) []string) tool.Tool {
	return parent{asks(id, tool.Ticket{Approvers: &tool.Approvers{}}), stop}
}

// until is the stop of calls that take a time to end.
func until(d time.Duration, unseen ...string) func(ctx context.Context) []string {
	return func(ctx context.Context) []string {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return unseen
		}
	}
}

// TestRunEndsAllAtOnce: one call that rests until its calls have ended does not hold up the cancel of the others, and those that rest
// share the time.
func TestRunEndsAllAtOnce(t *testing.T) {
	tools := []tool.Tool{waiting("stubborn", until(time.Hour, "some-call")), waiting("quick", until(time.Millisecond, "some-call")), asks("last", tool.Ticket{Approvers: &tool.Approvers{}})}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		var resting []string
		for _, id := range []string{"stubborn", "stubborn", "quick"} {
			c := w.do(apart(spec(id, "")))
			resting = append(resting, c.ID)
		}
		last := w.do(apart(spec("last", ""))).ID
		began := time.Now()
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the end took %v", took)
		}
		if took := w.get(last).Ended.Sub(began); took > time.Second {
			t.Errorf("what waits for nothing of its own has ended after %v", took)
		}
		for i, want := range []string{"some-call", "some-call", ""} {
			if c := w.get(resting[i]); c.Status != call.Cancelled || c.Result.Metadata[lifecycle.UnseenCalls] != want {
				t.Errorf("call %d is %s and names %v", i, c.Status, c.Result.Metadata)
			}
		}
	})
}

// TestCancelOfOneThatRests: the answer waits no longer than its asker, nor does a drain that is over, and the call ends all the same.
func TestCancelOfOneThatRests(t *testing.T) {
	tools := []tool.Tool{waiting("stubborn", until(time.Hour, "some-call"))}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		id := w.do(apart(spec("stubborn", ""))).ID
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		c, err := w.e.Cancel(ctx, alice, id, "", 0)
		if took := time.Since(began); err != nil || c.Status != call.Suspended || took != time.Second {
			t.Fatalf("after %v: %v %v", took, c, err)
		}
		_, err = w.resume(bob, c, tool.Decision{Action: tool.Resume}) // it does not go on while it ends
		wantRefusal(t, err, call.Unavailable, "CANCELLING")
		time.Sleep(10 * time.Second)
		if c := w.get(id); c.Status != call.Cancelled {
			t.Errorf("it is %s", c.Status)
		}
		id = w.do(apart(spec("stubborn", ""))).ID
		go func() { _, _ = w.e.Cancel(context.Background(), alice, id, "", 0) }()
		synctest.Wait()
		began = time.Now()
		drain(w.e)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the drain took %v", took)
		}
		if c := w.stored(id); c.Status != call.Cancelled || c.Result.Metadata[lifecycle.UnseenCalls] != "some-call" {
			t.Errorf("it is %s %v", c.Status, c.Result)
		}
	})
}

// TestP11LendersAreBounded: those that lend their place to calls of their own are no more than may wait, whoever sends them; the calls
// that they make are let in.
func TestP11LendersAreBounded(t *testing.T) {
	lends := parent{made("lends", mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		back := lifecycle.Lend(ctx)
		<-ctx.Done()
		_ = back(ctx)
		return nil, context.Cause(ctx)
	}), func(context.Context) []string { return nil }}
	limits := func(c *lifecycle.Config) { c.Concurrency, c.QueueLength, c.PrincipalQueue = 1, 4, 2 }
	inBubble(t, []tool.Tool{lends, echo("plain", mutating)}, limits, func(t *testing.T, w *world) {
		send := func(above string) (id string, err error) {
			s := apart(spec("lends", ""))
			s.Run.ParentCall = above
			watcher, err := w.e.Execute(t.Context(), alice, s, lifecycle.ExecuteOptions{})
			if err == nil {
				watcher.Close()
			}
			synctest.Wait()
			return s.ID, err
		}
		var ids []string
		flood := func(above string, want int) {
			t.Helper()
			for range 20 {
				id, err := send(above)
				if err != nil {
					wantRefusal(t, err, call.ResourceExhausted, "QUEUE_FULL")
					continue
				}
				ids = append(ids, id)
			}
			if len(ids) != want {
				t.Fatalf("%d lend their place, not %d", len(ids), want)
			}
		}
		flood("", 2)
		flood(ids[0], 16)
		b := batchOf(call.Parallel, of("lends")...)
		_, err := w.e.ExecuteBatch(t.Context(), alice, b, lifecycle.ExecuteOptions{})
		wantRefusal(t, err, call.ResourceExhausted, "QUEUE_FULL")
		if c := w.do(apart(spec("plain", ""))); c.Status != call.Succeeded {
			t.Errorf("a call of another tool is %s", c.Status)
		}
		for _, id := range ids {
			if _, err := w.e.Cancel(t.Context(), alice, id, "", time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := send(""); err != nil {
			t.Errorf("with none that lends: %v", err)
		}
	})
}
