package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tools/worker"
)

func (l *line) acknowledged() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.acks)
}

// The test checks that an outcome is acknowledged only when the journal has it, even when the worker reports it again over another
// connection.
func TestT84OutcomeIsAcknowledgedWhenItIsStored(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		done := w.call(t.Context(), "a", nil)
		lease := l.leases()[0]
		if err := s.Finish(lease, tool.Text("done"), nil); err != nil {
			t.Error(err)
		}
		<-done
		s.Close(false)
		o := offer("a")
		o.Held = []string{lease}
		back, newLine, a := w.connect(o)
		if err := back.Finish(lease, tool.Text("done"), nil); err != nil || !slices.Equal(a.Kept, o.Held) {
			t.Errorf("the worker keeps %v and says it again: %v", a.Kept, err)
		}
		if n := len(l.acknowledged()) + len(newLine.acknowledged()); n > 0 {
			t.Error("acknowledged before it is stored")
		}
		w.registry.get("a").(tool.Settler).Settled("", "c1", 0)
		if got := newLine.acknowledged(); !slices.Equal(got, []string{lease}) {
			t.Errorf("acknowledged %v", got)
		}
		if _, _, a := w.connect(o); len(a.Kept) > 0 {
			t.Errorf("then it keeps %v", a.Kept)
		}
	})
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		w.call(t.Context(), "a", nil)
		lease := l.leases()[0]
		w.registry.get("a").(tool.Settler).Settled("", "c1", 0) // The engine stops waiting for the worker and stores an outcome without it.
		if err := s.Finish(lease, tool.Text("late"), nil); err != nil || len(l.acknowledged()) != 1 {
			t.Errorf("a late outcome: %v, acknowledged %v", err, l.acknowledged())
		}
	})
}

// The test checks that the next daemon of a store recognises a lease, but gives it only to the worker that held it.
func TestT61OnlyTheHolderContinues(t *testing.T) {
	cfg := worker.Config{Key: []byte("of the store"), Lease: time.Minute}
	var lease string
	inBubble(t, cfg, func(t *testing.T, w *world) {
		_, l, _ := w.connect(offer("a"))
		w.call(t.Context(), "a", nil)
		lease = l.leases()[0]
	})
	next := func(t *testing.T, w *world) (tool.Continuer, tool.Expected, *tool.Call) {
		s, _, _ := w.connect(offer("a")) // This makes the tool known to the hub.
		s.Close(true)
		c := &tool.Call{ID: "c1", Tool: "a", Reporter: &tooltest.Recorder{}}
		a := w.registry.get("a").(tool.Continuer)
		return a, a.Expect(&tool.Call{ID: "c1", Tool: "a"}), c
	}
	o := offer("a")
	o.Held = []string{lease}
	inBubble(t, cfg, func(t *testing.T, w *world) {
		a, x, c := next(t, w)
		mallory, kept, _, err := w.hub.Connect(tool.Principal{Namespace: "default", Subject: "mallory"}, o, &line{})
		if err != nil || len(kept.Kept) > 0 {
			t.Fatalf("mallory keeps %v, %v", kept.Kept, err)
		}
		mallory.Close(true)
		done := make(chan outcome, 1)
		go func() {
			<-x.Back
			time.Sleep(time.Second) // The worker must be able to report although Continue was not called yet.
			r, err := a.Continue(t.Context(), c)
			done <- outcome{r, err}
		}()
		s, _, back := w.connect(o)
		if !slices.Equal(back.Kept, o.Held) || x.Within != time.Minute {
			t.Fatalf("kept %v, within %v", back.Kept, x.Within)
		}
		if _, err := s.Reporter(lease); err != nil {
			t.Error(err)
		}
		if err := s.Finish(lease, tool.Text("done"), nil); err != nil {
			t.Error(err)
		}
		if out := <-done; out.err != nil || out.result.Message != "done" {
			t.Errorf("%v, %v", out.result, out.err)
		}
	})
	inBubble(t, cfg, func(t *testing.T, w *world) { // The engine no longer needs the attempt.
		a, x, c := next(t, w)
		x.Forget()
		if _, _, back := w.connect(o); len(back.Kept) > 0 {
			t.Errorf("kept %v", back.Kept)
		}
		if _, err := a.Continue(t.Context(), c); !errors.Is(err, tool.ErrLost) {
			t.Error(err)
		}
	})
	inBubble(t, cfg, func(t *testing.T, w *world) { // The call is cancelled before the worker connects a second time.
		a, x, c := next(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			<-x.Back
			_, err := a.Continue(ctx, c)
			done <- err
		}()
		s, _, _ := w.connect(o)
		s.Close(false)
		cancel()
		synctest.Wait()
		s, newLine, back := w.connect(o)
		if !slices.Equal(newLine.cancels, o.Held) || !slices.Equal(back.Kept, o.Held) {
			t.Errorf("cancels %v, kept %v", newLine.cancels, back.Kept)
		}
		_ = s.Finish(lease, nil, context.Canceled)
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	other := cfg
	other.Key = []byte("of another store")
	inBubble(t, other, func(t *testing.T, w *world) {
		next(t, w)
		if _, _, back := w.connect(o); len(back.Kept) > 0 {
			t.Errorf("the daemon of another store: kept %v", back.Kept)
		}
	})
}
