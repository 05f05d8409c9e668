package lifecycle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// parent is a tool that makes a nested call. Its function stop ends that call.
type parent struct {
	tool.Tool
	stop func(ctx context.Context) (unseen []string)
}

func (p parent) Stop(ctx context.Context, _ *tool.Call) []string { return p.stop(ctx) }

// stopChild cancels a call and waits for its end, like a real parent tool.
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

// runsUntilCancelled returns a tool that runs until it is cancelled, and needs the given time to stop.
func runsUntilCancelled(id string, after time.Duration) tool.Tool {
	return made(id, mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		time.Sleep(after)
		return nil, context.Cause(ctx)
	})
}

// reopenFirst opens the engine like open. It first sets w.e, for tools that use the engine during its recovery.
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

// TestRecoveryWaitsForNoCallsOfCalls checks a start with a parent call that must end. The start recovers all calls before it ends the
// parent, and does not wait for nested calls.
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
			p := parent{runsUntilCancelled("parent", 0), func(ctx context.Context) []string { return w.stopChild(ctx, child.ID) }}
			inBubble(t, []tool.Tool{p, runsUntilCancelled("child", 3*time.Second)}, nil, func(t *testing.T, own *world) {
				w = own
				above := w.begin(apart(spec("parent", "")))
				w.begin(child)
				if tt.cancel {
					go func() { _, _ = w.e.Cancel(context.Background(), alice, above, "", 0) }()
					time.Sleep(time.Second) // The end of the parent call waits for the nested call.
				}
				w.kill()
				began := time.Now()
				w.reopenFirst()
				if took := time.Since(began); took > 0 {
					t.Errorf("the start took %v", took)
				}
				synctest.Wait()
				if c := w.get(above); c.Status != tt.status || c.Result.Metadata[outcome.UnseenCalls] != "" {
					t.Errorf("it is %s and names %v", c.Status, c.Result)
				}
				w.checkLog(above)
			})
		})
	}
}

// TestAnswerEndsCallsOfCalls checks a call whose result is a person's answer. Its tool has not run to its end, so toold ends the nested
// calls before the call.
func TestAnswerEndsCallsOfCalls(t *testing.T) {
	child := apart(spec("child", ""))
	var w *world
	p := parent{
		asks("parent", tool.Ticket{ResumeMode: tool.UseDecisionAsToolResult, Approvers: &tool.Approvers{}}),
		func(ctx context.Context) []string { return w.stopChild(ctx, child.ID) },
	}
	inBubble(t, []tool.Tool{p, runsUntilCancelled("child", time.Second)}, nil, func(t *testing.T, own *world) {
		w = own
		c := w.do(apart(spec("parent", "")))
		w.begin(child)
		if c = w.answer(bob, c, tool.Decision{Action: tool.Resume, Result: "1"}); c.Status != call.Succeeded {
			t.Fatalf("it is %s %+v", c.Status, c.Result)
		}
		if below := w.get(child.ID); below.Status != call.Cancelled {
			t.Errorf("published SUCCEEDED while its call is %s", below.Status)
		}
	})
}

// waiting returns a parent tool that asks a question, and stops its nested calls with stop.
func waiting(id string, stop func(ctx context.Context) []string) tool.Tool {
	return parent{asks(id, tool.Ticket{Approvers: &tool.Approvers{}}), stop}
}

// until returns a stop function that takes the time d. If its context ends earlier, the stop function returns unseen.
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

// TestRunEndsAllAtOnce checks the end of a run with suspended calls that wait for their nested calls. Such a call does not delay the
// cancellation of others, and several such calls wait at the same time.
func TestRunEndsAllAtOnce(t *testing.T) {
	tools := []tool.Tool{waiting("stubborn", until(time.Hour, "some-call")), waiting("quick", until(time.Millisecond, "some-call")), asks("last", tool.Ticket{Approvers: &tool.Approvers{}})}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		var suspended []string
		for _, id := range []string{"stubborn", "stubborn", "quick"} {
			c := w.do(apart(spec(id, "")))
			suspended = append(suspended, c.ID)
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
			if c := w.get(suspended[i]); c.Status != call.Cancelled || c.Result.Metadata[outcome.UnseenCalls] != want {
				t.Errorf("call %d is %s and names %v", i, c.Status, c.Result.Metadata)
			}
		}
	})
}

// TestCancelOfSuspendedParent checks the cancellation of a suspended parent call. When Cancel returns, the request is stored, so neither an
// answer nor an expiry resumes the call. The call ends when its nested calls have ended or when the drain period is over.
func TestCancelOfSuspendedParent(t *testing.T) {
	tools := []tool.Tool{
		waiting("stubborn", until(time.Hour, "some-call")),
		parent{asks("default", tool.Ticket{DefaultResult: "1", ExpiresIn: 3 * time.Second}), until(time.Hour)},
	}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		for _, id := range []string{"stubborn", "default"} {
			asked := w.do(apart(spec(id, "")))
			began := time.Now()
			c, err := w.e.Cancel(t.Context(), alice, asked.ID, "", 0)
			if took := time.Since(began); err != nil || c.Status != call.Resuming || c.Cancel == nil || took > 0 {
				t.Fatalf("after %v: %v %v", took, c, err)
			}
			_, err = w.resume(bob, asked, tool.Decision{Action: tool.Resume})
			wantRefusal(t, err, call.FailedPrecondition, "ALREADY_DECIDED")
			time.Sleep(5 * time.Second)
			if err := w.e.ExpireDue(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c := w.get(asked.ID); c.Status != call.Resuming {
				t.Errorf("it is %s while its calls end", c.Status)
			}
			time.Sleep(5 * time.Second)
			if c := w.get(asked.ID); c.Status != call.Cancelled || len(c.Attempts) != 1 {
				t.Errorf("it is %s after %d attempts", c.Status, len(c.Attempts))
			}
			w.checkLog(asked.ID)
		}
		var ids []string
		for range 100 {
			id := w.do(apart(spec("stubborn", ""))).ID
			if _, err := w.e.Cancel(t.Context(), alice, id, "", 0); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		began := time.Now()
		drain(w.e)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the drain took %v", took)
		}
		for _, id := range ids {
			if c := w.stored(id); c.Status != call.Cancelled || c.Result.Metadata[outcome.UnseenCalls] != "some-call" {
				t.Errorf("it is %s %v", c.Status, c.Result)
			}
		}
	})
}

// above is a suspended parent tool. It counts how often it is notified that its question will not be answered.
type above struct {
	parent
	abandoned *atomic.Int32
}

func (a above) Abandon(context.Context, *tool.Call) { a.abandoned.Add(1) }

// TestCancelOfSuspendedParentIsARecord checks that the next daemon completes a cancellation whose request is stored (T107). The call and its
// nested call end CANCELLED once. The tool is notified that its question will not be answered.
func TestCancelOfSuspendedParentIsARecord(t *testing.T) {
	for _, name := range []string{"alone", "in a batch"} {
		t.Run(name, func(t *testing.T) {
			child, abandoned := apart(spec("child", "")), &atomic.Int32{}
			var w *world
			p := above{parent{asks("parent", tool.Ticket{}), func(ctx context.Context) []string { return w.stopChild(ctx, child.ID) }}, abandoned}
			inBubble(t, []tool.Tool{p, runsUntilCancelled("child", 3*time.Second)}, nil, func(t *testing.T, own *world) {
				w = own
				s := apart(spec("parent", ""))
				if name == "alone" {
					w.do(s)
				} else {
					w.batch(batchOf(call.Sequential, s))
				}
				child.Run.ParentCall = s.ID
				w.begin(child)
				c, err := w.e.Cancel(t.Context(), alice, s.ID, "no more", 0)
				if err != nil || c.Status.Terminal() {
					t.Fatalf("%v %v", c, err)
				}
				w.kill()
				if n := abandoned.Load(); n != 0 {
					t.Fatalf("the tool was notified %d times before", n)
				}
				w.reopenFirst()
				synctest.Wait()
				for _, id := range []string{s.ID, child.ID} {
					c := w.get(id)
					if c.Status != call.Cancelled || c.Cancel == nil || c.Cancel.Reason != "no more" {
						t.Errorf("%s is %s %v", c.Tool, c.Status, c.Cancel)
					}
					w.checkLog(id)
				}
				if n := abandoned.Load(); n != 1 {
					t.Errorf("the tool was notified %d times", n)
				}
			})
		})
	}
}

// TestStartRunsNoNestedCallOfAnEndingCall checks a start that ends a parent call. The start must not begin any nested call of the parent. This
// must hold inside and outside a batch, and in any order of recovery.
func TestStartRunsNoNestedCallOfAnEndingCall(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		t.Run(map[bool]string{false: "in doubt", true: "cancelled"}[cancel], func(t *testing.T) {
			var w *world
			var ids []string
			ran := &probe{}
			p := parent{runsUntilCancelled("parent", 0), func(ctx context.Context) (unseen []string) {
				for _, id := range ids {
					unseen = append(unseen, w.stopChild(ctx, id)...)
				}
				return unseen
			}}
			inBubble(t, []tool.Tool{p, runsUntilCancelled("first", time.Second), ran.tool("next", mutating)}, nil, func(t *testing.T, own *world) {
				w = own
				s := apart(spec("parent", ""))
				w.begin(s)
				if cancel { // The end of the call waits until the nested calls have ended, even while new ones arrive.
					ids = append(ids, w.begin(apart(spec("first", ""))))
					if _, err := w.e.Cancel(t.Context(), alice, s.ID, "", 0); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				b := batchOf(call.Sequential, of("first", "next")...)
				for i := range b.Calls {
					b.Calls[i].Run.ParentCall = s.ID
					ids = append(ids, b.Calls[i].ID)
				}
				w.launch(b)
				behind := spec("next", "") // This call waits in the thread until first has ended.
				behind.Run = b.Calls[0].Run
				behind.Timeouts.Queue = time.Hour
				w.begin(behind)
				ids = append(ids, behind.ID)
				w.kill()
				w.reopenFirst()
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := ran.runs.Load(); n != 0 {
					t.Errorf("%d ran that had not begun", n)
				}
				for _, id := range append(ids, s.ID) {
					if c := w.get(id); !c.Status.Terminal() {
						t.Errorf("%s is %s", c.Tool, c.Status)
					}
					w.checkLog(id)
				}
			})
		})
	}
}

// TestP11LendersAreBounded checks the limits on calls that lend their slot. These limits equal the limits on waiting calls. For nested
// calls they are eight times as high.
func TestP11LendersAreBounded(t *testing.T) {
	lends := parent{made("lends", mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		back := lifecycle.LendSlot(ctx)
		<-ctx.Done()
		_ = back(ctx)
		return nil, context.Cause(ctx)
	}), func(context.Context) []string { return nil }}
	limits := func(c *lifecycle.Config) { c.Concurrency, c.QueueLength, c.PrincipalQueue = 1, 4, 2 }
	inBubble(t, []tool.Tool{lends, echo("plain", mutating)}, limits, func(t *testing.T, w *world) {
		send := func(above string) (id string, err error) {
			s := apart(spec("lends", ""))
			s.Run.ParentCall = above
			watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
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
				t.Fatalf("%d lend their slot, not %d", len(ids), want)
			}
		}
		flood("", 2)
		flood(ids[0], 16)
		b := batchOf(call.Parallel, of("lends")...)
		_, err := w.e.ExecuteBatch(t.Context(), alice, b, call.ExecuteOptions{})
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
