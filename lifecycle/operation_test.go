package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// render is a tool whose work continues outside the daemon.
type render struct {
	start func(c *tool.Call) *tool.Result                               // returns the first result; nil: an operation that is polled each minute
	poll  func(ctx context.Context, c *tool.Call) (*tool.Result, error) // answers a poll; nil: the operation continues
	late  func(c *tool.Call) (*tool.Result, error)                      // result of Reconcile

	about string
	stop  func(c *tool.Call) // called at the beginning of Abandon

	mu      sync.Mutex
	runs    int
	polled  []time.Time
	stopped []string
}

func (r *render) Descriptor() tool.Descriptor {
	return tool.Descriptor{ID: "render", Description: r.about, Parameters: json.RawMessage(anyObject), ResultSchema: json.RawMessage(`{"type":["object","string"]}`)}
}

func (r *render) Execute(_ context.Context, c *tool.Call) (*tool.Result, error) {
	r.mu.Lock()
	r.runs++
	r.mu.Unlock()
	if r.start != nil {
		return r.start(c), nil
	}
	_ = c.SaveCheckpoint([]byte("job 7"))
	return tool.Continues(tool.Operation{ID: "op", PollAfter: time.Minute}, "it renders"), nil
}

func (r *render) Poll(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	r.mu.Lock()
	r.polled = append(r.polled, time.Now())
	poll := r.poll
	r.mu.Unlock()
	if poll == nil {
		return nil, nil
	}
	return poll(ctx, c)
}

func (r *render) Abandon(_ context.Context, c *tool.Call) {
	if r.stop != nil {
		r.stop(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Operation != nil {
		r.stopped = append(r.stopped, c.Operation.ID)
	}
}

func (r *render) Reconcile(_ context.Context, c *tool.Call) (*tool.Result, error) {
	if r.late == nil {
		return nil, nil
	}
	return r.late(c)
}

func (r *render) polls() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.polled) }

// operating does what inBubble does, with an engine that polls operations.
func operating(t *testing.T, r *render, run func(t *testing.T, w *world, poll func())) {
	t.Helper()
	inBubble(t, []tool.Tool{r}, nil, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		defer loops.Wait()
		defer cancel()
		poll := func() {
			e := w.e
			loops.Go(func() { _ = e.Operations().Run(ctx) })
		}
		poll()
		run(t, w, poll)
	})
}

// park starts a call and waits until its work continues outside the daemon.
func (w *world) park(s call.Spec) *call.Call {
	w.t.Helper()
	watcher, err := w.e.Execute(w.t.Context(), alice, s, call.ExecuteOptions{Attended: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer watcher.Close()
	synctest.Wait()
	c := w.stored(s.ID)
	if o := c.Operation(); o == nil || c.Status != call.Running || !c.Detached {
		w.t.Fatalf("the call is %s with %+v", c.Status, c.Attempts)
	}
	return c
}

func (w *world) stored(id string) *call.Call {
	w.t.Helper()
	c, err := w.e.Records().Get(w.t.Context(), alice, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestOperationIsPolled(t *testing.T) {
	r := &render{}
	r.poll = func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if string(c.Checkpoint) != "job 7" || c.Operation.ID != "op" || c.Attempt != 1 {
			t.Errorf("asked for %q of attempt %d with the checkpoint %q", c.Operation.ID, c.Attempt, c.Checkpoint)
		}
		if left := time.Until(c.Deadline); left <= 0 || left > 25*time.Hour { // by the machine's clock, unlike the stored expiry
			t.Errorf("the operation ends in %v", left)
		}
		switch r.polls() {
		case 1:
			return nil, c.Progress(tool.ProgressRunning, 0.5, "half")
		case 3: // Until the next poll, the call is not in memory.
			return nil, c.Progress(tool.ProgressRunning, 0.9, "almost")
		case 2:
			return tool.Continues(tool.Operation{ID: "op", PollAfter: time.Hour}, "slower"), nil
		}
		return tool.Text("a picture"), nil
	}
	operating(t, r, func(t *testing.T, w *world, poll func()) {
		began := time.Now()
		s := spec("render", "{}")
		w.park(s)
		if got := w.e.Stats(); got.Active != 0 || got.Running != 0 {
			t.Errorf("it holds %d slots and %d calls in memory", got.Running, got.Active)
		}
		// The operation does not block its thread, so another call of the thread runs.
		other := spec("render", "{}")
		w.park(other)
		if _, err := w.e.Cancel(t.Context(), alice, other.ID, "", time.Second); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		r.polled = nil
		r.mu.Unlock()
		time.Sleep(time.Minute + time.Second)
		w.crash()
		poll()
		time.Sleep(time.Minute)
		c := w.stored(s.ID)
		if r.polls() != 2 || c.Operation().Every != time.Hour {
			t.Fatalf("asked %d times, now each %v", r.polls(), c.Operation().Every)
		}
		time.Sleep(3 * time.Hour)
		c = w.stored(s.ID)
		if c.Status != call.Succeeded || c.Executed != call.Finished || c.Result.Message != "a picture" || r.polls() != 4 || len(c.Attempts) != 1 || c.Attempts[0].Ended.IsZero() {
			t.Errorf("ended %s %s after %d questions: %+v", c.Status, c.Executed, r.polls(), c.Attempts)
		}
		if got := types(t, 1, w.log(s.ID)); got != "accepted attempt_started progress progress progress progress finished" {
			t.Errorf("log: %s", got)
		}
		if d := c.Result.Duration; d < time.Hour || d > time.Since(began) {
			t.Errorf("it took %v", d)
		}
		if r.runs != 2 {
			t.Errorf("ran %d times", r.runs)
		}
	})
}

// TestOperationCrashWhileAsked crashes the daemon during a poll, after the tool has published events. The events must keep their sequences,
// even if the call was not in memory in between.
func TestOperationCrashWhileAsked(t *testing.T) {
	r := &render{}
	r.poll = func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		switch r.polls() {
		case 1:
			_ = c.Progress(tool.ProgressRunning, 0.3, "reported before the crash")
			<-ctx.Done()
			return nil, ctx.Err()
		case 2:
			return nil, c.Progress(tool.ProgressRunning, 0.6, "reported after it")
		}
		return tool.Text("done"), nil
	}
	operating(t, r, func(t *testing.T, w *world, poll func()) {
		s := spec("render", "{}")
		w.park(s)
		time.Sleep(time.Minute + time.Second)
		w.crash()
		poll()
		time.Sleep(2 * time.Minute)
		if got := types(t, 1, w.log(s.ID)); got != "accepted attempt_started progress progress progress finished" {
			t.Errorf("log: %s", got)
		}
	})
}

func TestOperationFailures(t *testing.T) {
	r := &render{poll: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, errors.New("no route") }}
	operating(t, r, func(t *testing.T, w *world, _ func()) {
		s := spec("render", "{}")
		w.park(s)
		time.Sleep(time.Hour)
		// The polls come after 1, 2 and 4 minutes, and then every 5 minutes.
		if n := r.polls(); n < 12 || n > 15 {
			t.Errorf("asked %d times in an hour", n)
		}
		r.mu.Lock()
		r.poll = func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
			<-ctx.Done()
			time.Sleep(time.Hour) // Even after its cancellation, the tool does not return.
			return tool.Text("late"), nil
		}
		r.mu.Unlock()
		time.Sleep(24 * time.Hour)
		c := w.stored(s.ID)
		if e := c.Result.Error; c.Status != call.Failed || e.Code != tool.Timeout || e.Reason != "OPERATION" || c.Executed != call.ExecutedUnknown {
			t.Errorf("after a day: %s %s %+v", c.Status, c.Executed, e)
		}
		if len(r.stopped) != 1 || r.stopped[0] != "op" {
			t.Errorf("stopped %v", r.stopped)
		}
	})
	for name, start := range map[string]*tool.Result{
		"no name":  tool.Continues(tool.Operation{PollAfter: time.Second}, ""),
		"for ever": tool.Continues(tool.Operation{ID: "op", ExpiresIn: 31 * 24 * time.Hour}, ""),
		"question": {Status: tool.StatusPending, Suspension: &tool.Ticket{}, Operation: &tool.Operation{ID: "op"}},
		"long":     tool.Continues(tool.Operation{ID: strings.Repeat("x", 1025)}, ""),
	} {
		operating(t, &render{start: func(*tool.Call) *tool.Result { return start }}, func(t *testing.T, w *world, _ func()) {
			if c := w.do(spec("render", "{}")); c.Status != call.Failed || c.Result.Error.Code != tool.Internal || c.Executed != call.ExecutedUnknown {
				t.Errorf("%s: %s %s %+v", name, c.Status, c.Executed, c.Result.Error)
			}
		})
	}
}

func TestOperationCancelled(t *testing.T) {
	for _, when := range []string{"while it is suspended", "while it is asked for", "over a crash"} {
		r := &render{}
		r.poll = func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		operating(t, r, func(t *testing.T, w *world, poll func()) {
			s := spec("render", "{}")
			w.park(s)
			switch when {
			case "while it is asked for":
				time.Sleep(time.Minute + time.Second)
			case "over a crash":
				w.cfg.FailPoint = nil
				e := w.e
				drain(e) // The cancel request is stored, but this daemon stops before it acts on it.
				if _, err := e.Cancel(t.Context(), alice, s.ID, "", 0); err != nil {
					t.Fatal(err)
				}
				w.crash()
				poll()
				time.Sleep(time.Second)
			}
			c, err := w.e.Cancel(t.Context(), alice, s.ID, "", 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if c.Status != call.Cancelled || c.Executed != call.ExecutedUnknown || len(r.stopped) != 1 {
				t.Errorf("%s: %s %s, stopped %v", when, c.Status, c.Executed, r.stopped)
			}
			if got := types(t, 1, w.log(s.ID)); got != "accepted attempt_started progress cancel_requested finished" {
				t.Errorf("%s: log %s", when, got)
			}
		})
	}
}

// TestOperationEndsOnce checks that of several concurrent completions and a concurrent cancellation of an operation exactly one takes
// effect.
func TestOperationEndsOnce(t *testing.T) {
	r := &render{start: func(*tool.Call) *tool.Result { return tool.Continues(tool.Operation{ID: "op"}, "") }}
	operating(t, r, func(t *testing.T, w *world, _ func()) {
		for n := range 20 {
			s := spec("render", "{}")
			w.park(s)
			for _, wrong := range [][3]string{{"other", "test", "op"}, {"ns", "other", "op"}, {"ns", "test", "other"}} {
				if err := w.e.Complete(wrong[0], wrong[1], s.ID, wrong[2], tool.Text("stolen"), nil); err == nil {
					t.Errorf("completed by %v", wrong)
				}
			}
			var mu sync.Mutex
			var all sync.WaitGroup
			counted := 0
			for who := range 8 {
				all.Go(func() {
					if who == n%8 {
						_, _ = w.e.Cancel(t.Context(), alice, s.ID, "", 0)
						return
					}
					if w.e.Complete("ns", "test", s.ID, "op", tool.Text(fmt.Sprint(who)), nil) == nil {
						mu.Lock()
						counted++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			synctest.Wait()
			c := w.stored(s.ID)
			if want := map[bool]call.Status{true: call.Succeeded, false: call.Cancelled}[counted == 1]; counted > 1 || c.Status != want {
				t.Errorf("%d completions count, and the call is %s", counted, c.Status)
			}
			if got := types(t, 1, w.log(s.ID)); strings.Count(got, "finished") != 1 {
				t.Errorf("log: %s", got)
			}
		}
		if w.e.Stats().IllegalTransitions != 0 {
			t.Error("illegal transitions were tried")
		}
		s := spec("render", "{}")
		w.park(s)
		if err := w.e.Complete("ns", "test", s.ID, "op", tool.Success(7), nil); err != nil {
			t.Error(err)
		}
		if c := w.stored(s.ID); c.Status != call.Failed || c.Result.Error.Reason != "RESULT_SCHEMA" {
			t.Errorf("data that breaks the schema: %s %+v", c.Status, c.Result.Error)
		}
	})
}

// TestOperationsHoldNothing checks a thousand operations: they use no goroutines, their calls are not in memory, and the next daemon finds
// all of them.
func TestOperationsHoldNothing(t *testing.T) {
	const many = 1000
	r := &render{}
	operating(t, r, func(t *testing.T, w *world, poll func()) {
		before := runtime.NumGoroutine()
		for range many {
			w.park(apart(spec("render", "{}")))
		}
		if n := runtime.NumGoroutine(); n > before+10 {
			t.Errorf("%d goroutines, %d before", n, before)
		}
		if got := w.e.Stats(); got.Active != 0 || got.Running != 0 {
			t.Errorf("%d in memory, %d slots", got.Active, got.Running)
		}
		w.kill()
		w.open()
		r.mu.Lock()
		r.poll = func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil }
		r.polled = nil
		r.mu.Unlock()
		poll()
		time.Sleep(time.Minute)
		if got := w.e.Stats(); r.polls() != many || got.Active != 0 {
			t.Errorf("after a restart %d were asked for, %d are in memory", r.polls(), got.Active)
		}
		if r.runs != many {
			t.Errorf("ran %d times", r.runs)
		}
	})
}

// TestOperationAndOthers checks operations together with questions, Reconcile, a changed tool, a drain and a batch.
func TestOperationAndOthers(t *testing.T) {
	asks := &render{}
	asks.start = func(c *tool.Call) *tool.Result {
		if c.Resume != nil {
			return tool.Text("painted " + c.Resume.Result)
		}
		return tool.Continues(tool.Operation{ID: "op", PollAfter: time.Minute}, "")
	}
	asks.poll = func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Suspended("Which colour?"), nil }
	operating(t, asks, func(t *testing.T, w *world, _ func()) {
		s := spec("render", "{}")
		w.park(s)
		time.Sleep(2 * time.Minute)
		c := w.stored(s.ID)
		if c.Status != call.Suspended || c.Attempts[0].Ended.IsZero() {
			t.Fatalf("the question: %s", c.Status)
		}
		if c, err := w.resume(alice, c, tool.Decision{Action: tool.Resume, Result: `1`}); err != nil || c.Result.Message != "painted 1" {
			t.Errorf("the answer: %v, %v", c, err)
		}
	})

	found := &render{late: func(*tool.Call) (*tool.Result, error) {
		return tool.Continues(tool.Operation{ID: "found", PollAfter: time.Minute}, ""), nil
	}}
	hang := make(chan struct{})
	found.start = func(*tool.Call) *tool.Result { <-hang; return nil }
	found.poll = func(_ context.Context, c *tool.Call) (*tool.Result, error) { return tool.Text(c.Operation.ID), nil }
	operating(t, found, func(t *testing.T, w *world, poll func()) {
		hang = make(chan struct{})
		s := spec("render", "{}")
		watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watcher.Close()
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(hang) }()
		w.crash()
		poll()
		time.Sleep(2 * time.Minute)
		if c := w.stored(s.ID); c.Status != call.Succeeded || c.Result.Message != "found" || len(c.Attempts) != 1 {
			t.Errorf("found: %s %+v", c.Status, c.Result)
		}
	})

	changed := &render{}
	operating(t, changed, func(t *testing.T, w *world, poll func()) {
		s := spec("render", "{}")
		w.park(s)
		drain(w.e)
		if c := w.stored(s.ID); c.Operation() == nil {
			t.Errorf("after a drain: %s", c.Status)
		}
		w.crash()
		other := &render{about: "another"}
		w.tools.set(t, other)
		poll()
		time.Sleep(time.Hour)
		if changed.polls()+other.polls() != 0 {
			t.Error("a changed tool was asked")
		}
		w.tools.set(t, changed)
		time.Sleep(10 * time.Minute)
		if changed.polls() == 0 {
			t.Error("the tool that is what it was is not asked")
		}
	})
}
