package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// TestDecisionRightAfterTheQuestion checks a decision that arrives as soon as the question is published. At that time, the pipeline run
// that asked the question has not ended yet.
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
	watcher, err := w.e.Execute(w.t.Context(), alice, s, call.ExecuteOptions{WaitForDecision: true})
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
				resumed, err := w.e.Resume(w.t.Context(), alice, call.ResumeRequest{SuspensionID: ev.Suspension.ID,
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

// TestCallThatComesWithTheDrain checks a call that was admitted just before a drain began and starts after the drain period. It does not
// run, and the drain waits for its end.
func TestCallThatComesWithTheDrain(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, nil, func(t *testing.T, w *world) {
		slow := &slowTools{Tools: w.tools, asked: make(chan struct{}), answer: make(chan struct{})}
		w.cfg.Tools = slow
		w.kill()
		w.open()
		drained := make(chan struct{})
		go func() {
			<-slow.asked
			go func() { drain(w.e); close(drained) }()
			synctest.Wait()
			close(slow.answer)
		}()
		c, err := w.start(spec("t", ""), call.ExecuteOptions{}).Wait(t.Context(), time.Hour)
		<-drained
		if err != nil || p.runs.Load() != 0 || c.Status == call.Succeeded {
			t.Errorf("call %+v, %v, %d runs", c, err, p.runs.Load())
		}
	})
}

// slowToFind is a store that is slow to find a question.
type slowToFind struct {
	store.Store
	asked, answer chan struct{}
}

func (s *slowToFind) CallBySuspension(ctx context.Context, namespace, id string) (*call.Call, error) {
	close(s.asked)
	<-s.answer
	return s.Store.CallBySuspension(ctx, namespace, id)
}

// TestDecisionThatComesWithTheDrain checks a decision that arrived just before a drain. It is executed within the drain period and is not
// lost.
func TestDecisionThatComesWithTheDrain(t *testing.T) {
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{})}, nil, func(t *testing.T, w *world) {
		waits := w.do(spec("t", ""))
		slow := &slowToFind{Store: w.store, asked: make(chan struct{}), answer: make(chan struct{})}
		cfg := w.cfg
		cfg.Store = slow
		e, err := lifecycle.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		drained := make(chan struct{})
		go func() {
			<-slow.asked
			go func() {
				time.Sleep(time.Second)
				close(slow.answer)
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			e.Drain(ctx)
			close(drained)
		}()
		watcher, err := e.Resume(t.Context(), alice, call.ResumeRequest{SuspensionID: waits.Open().ID, Decision: tool.Decision{ID: "decision-1234567", Action: tool.Resume, Result: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := watcher.Wait(t.Context(), time.Hour); err != nil || c.Status != call.Succeeded {
			t.Errorf("call %s %+v, %v", c.Status, c.Result, err)
		}
		<-drained
	})
}

// slowTools is slow to find a tool.
type slowTools struct {
	lifecycle.Tools
	asked, answer chan struct{}
	once          sync.Once
}

func (s *slowTools) Lookup(namespace, id string) (*lifecycle.Definition, bool) {
	s.once.Do(func() {
		close(s.asked)
		<-s.answer
	})
	return s.Tools.Lookup(namespace, id)
}

// TestP7CancelOfACallThatWasRefused checks a call whose first step the journal refuses while a cancellation stores the call. The call ends
// as cancelled.
func TestP7CancelOfACallThatWasRefused(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		p := held()
		inBubble(t, []tool.Tool{p.tool("t", effects)}, nil, func(t *testing.T, w *world) {
			s := spec("t", "")
			var cancelled sync.WaitGroup
			// The logger pauses after the step was refused, so that the cancellation can store its request. The pipeline run then finds the
			// request in the record before its context is cancelled.
			w.cfg.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.ErrorLevel),
				zap.Hooks(func(at zapcore.Entry) error {
					if at.Message == "journal refused a change of a call" {
						time.Sleep(time.Millisecond)
					}
					return nil
				}))
			w.cfg.FailPoint = func(name string) {
				if name == "after-cancel" {
					time.Sleep(time.Second)
				}
			}
			w.useStore(nil, failing(func(n int, _ *change) bool {
				if n > 1 {
					return false
				}
				cancelled.Go(func() {
					if _, err := w.e.Cancel(t.Context(), alice, s.ID, "", time.Minute); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(time.Millisecond) // The cancellation waits for the slot, which this step holds.
				return true
			}))
			c := w.do(s)
			if want := map[bool]call.Executed{true: call.Started, false: call.NotStarted}[reflect.DeepEqual(effects, reading)]; c.Status != call.Cancelled || c.Executed != want {
				t.Errorf("call %s %s %+v", c.Status, c.Executed, c.Result)
			}
			cancelled.Wait()
			w.crash()
			w.checkLog(s.ID)
		})
	}
}

// TestNextCallRightAfterABlock checks a gate that blocks a run. The run is blocked before the end of the call is published, so that the
// next call of the run is refused.
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
					_, err := w.e.Execute(w.t.Context(), alice, s, call.ExecuteOptions{})
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

// TestP7FailedJournalEndsStreams checks that the streams of all watchers end when the journal has failed.
func TestP7FailedJournalEndsStreams(t *testing.T) {
	inBubble(t, []tool.Tool{asks("asks", tool.Ticket{}), echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		ended := make(chan error, 1)
		w.cfg.OnFatal = func(err error) { ended <- err }
		w.useStore(nil, func(c *store.Change) error {
			if c.Call != nil && c.Call.Tool == "t" {
				return store.ErrFatal
			}
			return nil
		})
		s := spec("asks", "")
		waiting := w.start(s, call.ExecuteOptions{WaitForDecision: true})
		synctest.Wait()
		feed, err := w.e.Watches().WatchFeed(t.Context(), carol, "", "", "", true)
		if err != nil {
			t.Fatal(err)
		}
		watcher := w.start(spec("t", ""), call.ExecuteOptions{})
		if _, err := watcher.Wait(t.Context(), time.Hour); err == nil {
			t.Error("a call whose first step failed has an outcome")
		} else {
			wantRefusal(t, err, call.Unavailable, "JOURNAL_FAILED")
		}
		if err := <-ended; !errors.Is(err, store.ErrFatal) {
			t.Errorf("ended with %v", err)
		}
		if list, controls := events(t, waiting); types(t, 1, list) != "accepted attempt_started suspended" || len(controls) != 1 || !controls[0].Closing {
			t.Errorf("%s, then %+v", types(t, 1, list), controls)
		}
		for err == nil {
			_, err = feed.Next(t.Context())
		}
		feed.Close()
		_, err = w.e.Execute(t.Context(), alice, spec("t", ""), call.ExecuteOptions{})
		wantRefusal(t, err, call.Unavailable, "JOURNAL_FAILED")
	})
}

// TestP7DrainOnAFullDisk checks a tool that is blocked because the disk is full. When the daemon stops, the tool is stopped.
func TestP7DrainOnAFullDisk(t *testing.T) {
	loud := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		for range 100 {
			if err := c.Output("stdout", make([]byte, 64<<10)); err != nil {
				return nil, err
			}
		}
		return tool.Text("done"), nil
	})
	inBubble(t, []tool.Tool{loud}, nil, func(t *testing.T, w *world) {
		var full atomic.Bool
		w.useStore(nil, failing(func(n int, _ *change) bool { return n > 1 && full.Load() }))
		full.Store(true)
		id := w.begin(apart(spec("t", "")))
		before := time.Now()
		drain(w.e)
		if took := time.Since(before); took > time.Second {
			t.Errorf("took %v", took)
		}
		full.Store(false)
		w.crash()
		if c := w.get(id); c.Result == nil || c.Result.Error.Code != tool.InDoubt {
			t.Errorf("call %s", c.Status)
		}
	})
}
