package lifecycle_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

func TestCancelInEachState(t *testing.T) {
	tests := []struct {
		tool     string
		executed call.Executed
		events   string
	}{
		{"held", call.Started, "accepted attempt_started cancel_requested finished"},
		{"heldread", call.Started, "accepted attempt_started cancel_requested finished"},
		{"asks", call.Started, "accepted attempt_started suspended cancel_requested finished"},
		{"queued", call.NotStarted, "accepted queued cancel_requested finished"},
		{"done", call.Finished, "accepted attempt_started finished"},
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			p := held()
			tools := []tool.Tool{p.tool("held", mutating), p.tool("heldread", reading), asks("asks", tool.Ticket{}), echo("done", mutating), echo("queued", mutating)}
			inBubble(t, tools, func(c *lifecycle.Config) { c.Concurrency = 1 }, func(t *testing.T, w *world) {
				if tt.tool == "queued" {
					w.begin(apart(spec("held", "")))
				}
				id := w.begin(apart(spec(tt.tool, "")))
				_, err := w.e.Cancel(t.Context(), bob, id, "", time.Minute)
				if tt.tool == "asks" { // bob is an approver: he sees a suspended call, but may not cancel it.
					wantRefusal(t, err, call.PermissionDenied, "NOT_YOUR_CALL")
				} else {
					wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
				}
				_, err = w.e.Cancel(t.Context(), eve, id, "", time.Minute)
				wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
				c, err := w.e.Cancel(t.Context(), alice, id, "enough", time.Minute)
				if err != nil || !c.Status.Terminal() || c.Executed != tt.executed {
					t.Fatalf("call %+v, %v", c, err)
				}
				if tt.tool == "done" {
					if c.Status != call.Succeeded || c.Cancel != nil {
						t.Errorf("call %s %+v", c.Status, c.Cancel)
					}
				} else if c.Status != call.Cancelled || c.Result.ModelText() != "Cancelled by user: enough" || c.Cancel.By.Subject != "alice" || c.Cancel.Cause != "CLIENT" {
					t.Errorf("call %s %q %+v", c.Status, c.Result.ModelText(), c.Cancel)
				}
				if again, err := w.e.Cancel(t.Context(), carol, id, "again", time.Minute); err != nil || again.Revision != c.Revision {
					t.Errorf("cancelled again: %v", err)
				}
				if got := types(t, 1, w.checkLog(id)); got != tt.events {
					t.Errorf("events %s, want %s", got, tt.events)
				}
			})
		})
	}
}

func TestCancelGoesToChildrenFirst(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating), p.tool("read", reading), asks("asks", tool.Ticket{})}, nil, func(t *testing.T, w *world) {
		child := func(id, parent string) string {
			s := spec(id, "")
			s.Run.ParentCall = parent
			return w.begin(s)
		}
		root := w.begin(apart(spec("t", "")))
		middle := child("t", root)
		tree := []string{child("read", middle), child("asks", middle), middle, child("t", root), root}
		other := w.begin(apart(spec("t", "")))
		if _, err := w.e.Cancel(t.Context(), alice, root, "enough", time.Minute); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_, newest, _ := w.store.Feed(t.Context(), store.Feed{Namespace: "ns"}, 1<<62, 1)
		entries, _, err := w.store.Feed(t.Context(), store.Feed{Namespace: "ns"}, 0, int(newest))
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]int{}
		for i, entry := range entries {
			for _, ev := range entry.Events {
				if ev.Type == call.EventCancelRequested {
					asked[entry.Key.ID] = i
				}
			}
		}
		for _, id := range tree {
			c := w.get(id)
			if want := map[bool]string{true: "CLIENT", false: "PARENT"}[id == root]; c.Status != call.Cancelled || c.Cancel.Cause != want {
				t.Errorf("%s: %s %+v", c.Tool, c.Status, c.Cancel)
			}
			if parent := c.Run.ParentCall; parent != "" && asked[id] >= asked[parent] {
				t.Errorf("%s was asked after its parent", c.Tool)
			}
		}
		if c := w.get(other); c.Status != call.Running {
			t.Errorf("another call is %s", c.Status)
		}
	})
}

// TestResultBeforeTheKillIsKept checks that a cancelled call succeeds when its tool still returns a result within the grace period.
func TestResultBeforeTheKillIsKept(t *testing.T) {
	tidy := made("t", mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		time.Sleep(time.Second)
		return tool.Text("was done already"), nil
	})
	inBubble(t, []tool.Tool{tidy}, nil, func(t *testing.T, w *world) {
		id := w.begin(apart(spec("t", "")))
		before := time.Now()
		c, err := w.e.Cancel(t.Context(), alice, id, "", time.Minute)
		if err != nil || c.Status != call.Succeeded || c.Executed != call.Finished || c.Result.ModelText() != "was done already" || c.Cancel == nil {
			t.Errorf("call %+v, %v", c, err)
		}
		if time.Since(before) != time.Second {
			t.Errorf("took %v", time.Since(before))
		}
	})
}

// TestToolThatAsksWhenCancelled checks that a cancelled call ends even if its tool then returns a question.
func TestToolThatAsksWhenCancelled(t *testing.T) {
	asker := made("t", mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		return tool.Suspended("really?"), nil
	})
	inBubble(t, []tool.Tool{asker}, nil, func(t *testing.T, w *world) {
		id := w.begin(apart(spec("t", "")))
		if c, err := w.e.Cancel(t.Context(), alice, id, "", time.Minute); err != nil || c.Status != call.Cancelled || c.Executed != call.Started {
			t.Errorf("call %+v, %v", c, err)
		}
		w.checkLog(id)
	})
}

func TestToolThatIgnoresItsCancellation(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		p := held()
		p.deaf = true
		inBubble(t, []tool.Tool{p.tool("t", effects)}, func(c *lifecycle.Config) { c.Concurrency = 1 }, func(t *testing.T, w *world) {
			id := w.begin(apart(spec("t", "")))
			before := time.Now()
			if c, err := w.e.Cancel(t.Context(), alice, id, "", time.Second); err != nil || c.Status != call.Running || c.Cancel == nil {
				t.Errorf("after a second: %+v, %v", c, err)
			}
			c, err := w.e.Cancel(t.Context(), alice, id, "", time.Minute)
			if err != nil || c.Status != call.Cancelled || c.Executed != call.ExecutedUnknown {
				t.Errorf("call %+v, %v", c, err)
			}
			if took := time.Since(before); took != 5*time.Second {
				t.Errorf("took %v", took)
			}
			if w.e.Stats().Abandoned != 1 {
				t.Errorf("%+v", w.e.Stats())
			}
			log := contents(w.checkLog(id))
			p.free() // The late answer of the tool changes nothing.
			synctest.Wait()
			time.Sleep(time.Second)
			if c := w.get(id); c.Status != call.Cancelled || c.Result.Status != tool.StatusError || contents(w.checkLog(id)) != log {
				t.Errorf("call %+v", c)
			}
			if st := w.e.Stats(); st.LateReports != 1 || st.Running != 0 || st.Active != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestLateReportsAreDropped checks that reports that a tool sends after the end of its call are dropped and counted.
func TestLateReportsAreDropped(t *testing.T) {
	var reports []error
	var wg sync.WaitGroup
	late := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		wg.Go(func() {
			time.Sleep(time.Second)
			_, err := c.SaveArtifact("a", "text/plain", []byte("late"))
			reports = append(reports, c.Progress(tool.ProgressDone, 1, "late"), c.Output("stdout", []byte("late")), c.Activity("a", "b", 1), c.SaveCheckpoint([]byte("late")), err)
		})
		return tool.Text("done"), nil
	})
	inBubble(t, []tool.Tool{late}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		wg.Wait()
		if slices.Contains(reports, nil) || len(reports) != 5 {
			t.Errorf("reports answered %v", reports)
		}
		if got := types(t, 1, w.checkLog(c.ID)); got != "accepted attempt_started finished" || w.get(c.ID).Checkpoint != nil {
			t.Errorf("events %s", got)
		}
		if w.e.Stats().LateReports < 3 {
			t.Errorf("%+v", w.e.Stats())
		}
		if _, err := w.e.Artifacts().ReadArtifact(t.Context(), alice, c.ID, "stdout", 0, 10); err == nil || !strings.Contains(err.Error(), "no artifact") {
			t.Errorf("late output was kept: %v", err)
		}
	})
}

func TestCancelAllOfARunOrThread(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating), p.tool("read", reading), asks("asks", tool.Ticket{}), echo("done", mutating)}, nil, func(t *testing.T, w *world) {
		start := func(id, run, thread string) string {
			s := spec(id, "")
			s.Run.ID, s.Run.Thread = run, thread
			return w.begin(s)
		}
		done := start("done", "r", "a")
		in := []string{start("t", "r", "a"), start("read", "r", "b"), start("asks", "r", "b")}
		out := []string{start("read", "other", "a"), start("read", "", "")}
		_, err := w.e.CancelAll(t.Context(), alice, "", "", "", "")
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		if ids, err := w.e.CancelAll(t.Context(), bob, "r", "", "", ""); err != nil || len(ids) != 0 {
			t.Errorf("somebody else cancelled %v, %v", ids, err)
		}
		ids, err := w.e.CancelAll(t.Context(), alice, "r", "", "enough", "")
		slices.Sort(ids)
		if err != nil || !slices.Equal(ids, in) {
			t.Errorf("cancelled %v, %v; want %v", ids, err, in)
		}
		synctest.Wait()
		for _, id := range in {
			if c := w.get(id); c.Status != call.Cancelled {
				t.Errorf("%s is %s", c.Tool, c.Status)
			}
		}
		for _, id := range out {
			if c := w.get(id); c.Status != call.Running {
				t.Errorf("%s is %s", c.Tool, c.Status)
			}
		}
		if ids, err := w.e.CancelAll(t.Context(), carol, "", "a", "", ""); err != nil || !slices.Equal(ids, out[:1]) {
			t.Errorf("cancelled %v, %v", ids, err)
		}
		if c := w.get(done); c.Status != call.Succeeded {
			t.Errorf("the finished one is %s", c.Status)
		}
	})
}

// TestCancelAndDecisionRace sends a cancellation and a decision at the same time. Exactly one takes effect: the decision if it was
// committed first, otherwise the cancellation.
func TestCancelAndDecisionRace(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		for range 300 {
			p.runs.Store(0)
			c := w.do(spec("t", ""))
			var all sync.WaitGroup
			var decided, cancelled error
			all.Go(func() { _, decided = w.resume(bob, c, yes()) })
			all.Go(func() { _, cancelled = w.e.Cancel(t.Context(), alice, c.ID, "", time.Minute) })
			all.Wait()
			synctest.Wait()
			now := w.get(c.ID)
			ran := p.runs.Load()
			if cancelled != nil || !now.Status.Terminal() || ran > 1 || now.Status == call.Succeeded != (ran == 1 && now.Executed == call.Finished) {
				t.Fatalf("call %s %s, %d runs; %v, %v", now.Status, now.Executed, ran, decided, cancelled)
			}
			if decided != nil && (ran != 0 || now.Status != call.Cancelled || now.Rounds[0].Decision != nil) {
				t.Fatalf("call %s, %d runs, decision refused: %v", now.Status, ran, decided)
			}
			w.checkLog(c.ID)
		}
	})
}

// TestCancelOfCallsThatAreNotStored checks calls that wait for a gate and are not in the journal yet. Both a cancellation and the end of
// their run end these calls.
func TestCancelOfCallsThatAreNotStored(t *testing.T) {
	slow := hook.Entry[hook.Gate]{Name: "slow", Deadline: time.Hour, Hook: gate(func(*hook.Input) (hook.Verdict, error) {
		time.Sleep(time.Minute)
		return hook.Allow(), nil
	})}
	for name, end := range map[string]func(w *world) ([]string, error){
		"run":        func(w *world) ([]string, error) { return w.e.EndRun(w.t.Context(), alice, "run-1", "", "") },
		"superseded": func(w *world) ([]string, error) { return w.e.EndRun(w.t.Context(), alice, "run-1", "", "run-2") },
		"calls":      func(w *world) ([]string, error) { return w.e.CancelAll(w.t.Context(), alice, "run-1", "", "", "") },
		"thread": func(w *world) ([]string, error) {
			return w.e.CancelAll(w.t.Context(), alice, "", "thread-1", "", "run-2")
		},
	} {
		for _, effects := range []tool.Effects{reading, mutating} {
			t.Run(name+" "+string(effects.Normal().Mutability), func(t *testing.T) {
				p := &probe{}
				inBubble(t, []tool.Tool{p.tool("t", effects)}, gates(slow), func(t *testing.T, w *world) {
					id := w.begin(spec("t", ""))
					other := spec("t", "")
					other.Run = tool.Run{ID: "run-2", Thread: "thread-1"}
					stays := w.begin(other)
					ids, err := end(w)
					if err != nil || len(ids) != 1 || ids[0] != id {
						t.Errorf("cancelled %v, %v", ids, err)
					}
					time.Sleep(time.Hour)
					if c := w.get(id); c.Status != call.Cancelled || c.Executed != call.NotStarted {
						t.Errorf("call %s %s", c.Status, c.Executed)
					}
					if c := w.get(stays); c.Status != call.Succeeded || p.runs.Load() != 1 {
						t.Errorf("the other call %s, %d runs", c.Status, p.runs.Load())
					}
				})
			})
		}
	}
}
