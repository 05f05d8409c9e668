package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// A decision may come as soon as the question is told, while the pass that asked is still on its way out.
func TestDecisionRightAfterTheQuestion(t *testing.T) {
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{})}, nil, func(t *testing.T, w *world) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					answerAtOnce(w, spec("t", ""))
				}
			})
		}
		all.Wait()
	})
}

func answerAtOnce(w *world, s call.Spec) {
	watcher, err := w.e.Execute(w.t.Context(), alice, s, lifecycle.ExecuteOptions{WaitForDecision: true})
	if err != nil {
		w.t.Error(err)
		return
	}
	defer watcher.Close()
	for {
		f, err := watcher.Next(w.t.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		for _, ev := range f.Events {
			switch {
			case ev.Suspension != nil:
				resumed, err := w.e.Resume(w.t.Context(), alice, lifecycle.ResumeRequest{SuspensionID: ev.Suspension.ID,
					Decision: tool.Decision{ID: "decision-" + s.ID, Action: tool.Resume, Result: `1`}})
				if err != nil {
					w.t.Error(err)
					return
				}
				resumed.Close()
			case ev.Outcome != nil && ev.Outcome.Status != call.Succeeded:
				w.t.Errorf("ended %s: %s", ev.Outcome.Status, ev.Outcome.Result.ModelText())
			}
		}
	}
}

func TestPassThatAskedLeavesTheNextOneAlone(t *testing.T) {
	slow := made("t", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			return tool.Suspended("?"), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(3 * time.Second):
			return tool.Text("done"), nil
		}
	})
	config := func(c *lifecycle.Config) {
		c.FailPoint = func(name string) {
			if name == "after-suspend" {
				time.Sleep(time.Second)
			}
		}
	}
	inBubble(t, []tool.Tool{slow}, config, func(t *testing.T, w *world) {
		if c := w.answer(alice, w.do(spec("t", "")), tool.Decision{Action: tool.Resume, Result: `1`}); c.Status != call.Succeeded {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
	})
}

// A call that passed the fence before a drain closed it does not run after the drain.
func TestCallThatComesWithTheDrain(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, nil, func(t *testing.T, w *world) {
		slow := &slowTools{Tools: w.tools, asked: make(chan struct{}), answer: make(chan struct{})}
		w.cfg.Tools = slow
		w.kill()
		w.open()
		go func() {
			<-slow.asked
			w.e.Drain(t.Context())
			close(slow.answer)
		}()
		c, err := w.start(spec("t", ""), lifecycle.ExecuteOptions{}).Wait(t.Context(), time.Hour)
		synctest.Wait()
		if err != nil || p.runs.Load() != 0 || c.Status == call.Succeeded {
			t.Errorf("call %+v, %v, %d runs", c, err, p.runs.Load())
		}
	})
}

// slowTools take their time to find a tool.
type slowTools struct {
	lifecycle.Tools
	asked, answer chan struct{}
	once          sync.Once
}

func (s *slowTools) Lookup(id string) (*lifecycle.Definition, bool) {
	s.once.Do(func() {
		close(s.asked)
		<-s.answer
	})
	return s.Tools.Lookup(id)
}

// A call whose first step is refused, and which a cancel brings into the journal right then, ends as a cancelled one.
func TestP7CancelOfACallThatWasRefused(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		p := held()
		inBubble(t, []tool.Tool{p.tool("t", effects)}, nil, func(t *testing.T, w *world) {
			s := spec("t", "")
			w.useStore(nil, failing(func(n int, _ *change) bool {
				if n > 1 {
					return false
				}
				go func() {
					if _, err := w.e.Cancel(t.Context(), alice, s.ID, "", time.Minute); err != nil {
						t.Error(err)
					}
				}()
				time.Sleep(time.Millisecond) // it waits for this step
				return true
			}))
			c := w.do(s)
			if want := map[bool]call.Executed{true: call.Started, false: call.NotStarted}[effects == reading]; c.Status != call.Cancelled || c.Executed != want {
				t.Errorf("call %s %s %+v", c.Status, c.Executed, c.Result)
			}
			w.crash()
			w.checkLog(s.ID)
		})
	}
}

// A run that a gate blocked is closed before its end is told.
func TestNextCallRightAfterABlock(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("g", blocks)), func(t *testing.T, w *world) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 50 {
					s := spec("t", "")
					s.Run.ID = "run-" + s.ID
					w.do(s)
					s.ID = newCallID()
					_, err := w.e.Execute(w.t.Context(), alice, s, lifecycle.ExecuteOptions{})
					if err == nil {
						t.Error("taken")
						return
					}
					wantRefusal(t, err, call.FailedPrecondition, "RUN_BLOCKED")
				}
			})
		}
		all.Wait()
	})
}
