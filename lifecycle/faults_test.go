package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// ordeal runs several calls on a journal that fails, and records the events that watchers receive.
type ordeal struct {
	w        *world
	t        *testing.T
	mu       sync.Mutex
	received map[string][]call.Event
	acked    map[string]string // id of the acknowledged decision of each call
	runs     map[string]int
	specs    map[string]call.Spec
	again    atomic.Bool // Set after a restart. A call that starts only after the restart is not cancelled, so its tool "held" must return by itself.
}

// tools returns tools that change data, read, ask or wait. Each checks that the journal has its attempt.
func (o *ordeal) tools() []tool.Tool {
	run := func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		o.mu.Lock()
		o.runs[c.ID]++
		o.mu.Unlock()
		stored, err := o.w.store.Call(ctx, call.Key{Namespace: c.Namespace, ID: c.ID})
		if c.Tool != "read" && err == nil && (stored.Status != call.Running || len(stored.Attempts) != c.Attempt) {
			o.t.Errorf("attempt %d of %s runs; the journal has %s with %d attempts", c.Attempt, c.Tool, stored.Status, len(stored.Attempts))
		}
		if err := c.Progress(tool.ProgressRunning, 0.5, "half"); err != nil {
			return nil, err
		}
		if err := c.Output("stdout", []byte("output\n")); err != nil {
			return nil, err
		}
		switch {
		case c.Tool == "asks" && c.Resume == nil:
			return tool.Suspended("?"), nil
		case c.Tool == "held" && !o.again.Load():
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case c.Tool == "work":
			if err := c.SaveCheckpoint([]byte("half")); err != nil {
				return nil, err
			}
		}
		time.Sleep(time.Millisecond)
		key := tool.Key[string]{Scope: tool.RunScope, Name: c.Tool}
		return tool.Text("done").With(key.Set("done")), nil
	}
	readRun := func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		r, err := run(ctx, c)
		if r != nil {
			r.Documents = nil
		}
		return r, err
	}
	return []tool.Tool{made("work", mutating, run), made("read", reading, readRun), made("gated", mutating, run), made("asks", mutating, run), made("held", mutating, run), made("blocked", mutating, run)}
}

func (o *ordeal) gate(in *hook.Input) (hook.Verdict, error) {
	switch in.Descriptor.ID {
	case "gated":
		return approval(tool.Ticket{ExpiresIn: time.Hour})(in)
	case "blocked":
		return hook.Block("never"), nil
	}
	return hook.Allow(), nil
}

// follow sends a call, records the events, and repeats the request when the journal was full or busy.
func (o *ordeal) follow(id string) (suspended *call.Suspension) {
	o.mu.Lock()
	s := o.specs[id]
	o.mu.Unlock()
	for range 5 {
		watcher, err := o.w.e.Execute(o.t.Context(), alice, s, call.ExecuteOptions{Cursor: o.cursor(s.ID)})
		for err == nil {
			var f call.Frame
			if f, err = watcher.Next(o.t.Context()); err == nil {
				o.note(s.ID, f.Events)
			}
			if f.Closing {
				err = io.EOF
			}
			for _, ev := range f.Events {
				suspended = ev.Suspension
			}
		}
		if watcher != nil {
			watcher.Close()
		}
		if errors.Is(err, io.EOF) {
			return suspended
		}
		if !o.refused(err) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func (o *ordeal) cursor(id string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.received[id]); n > 0 {
		return o.w.e.Watches().CursorAfter(o.received[id][n-1].Sequence)
	}
	return ""
}

func (o *ordeal) note(id string, list []call.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.received[id] = append(o.received[id], list...)
}

// refused reports whether a request with this error may succeed later. The test fails for an unexpected error.
func (o *ordeal) refused(err error) bool {
	var r *call.Refusal
	if !errors.As(err, &r) {
		o.t.Errorf("refused with %v", err)
		return false
	}
	switch r.Reason {
	case "STORAGE_FULL":
		return true
	case "JOURNAL_FAILED", "RUN_BLOCKED", "ALREADY_DECIDED", "SUSPENSION_EXPIRED", "CALL_NOT_FOUND":
		return false
	}
	o.t.Errorf("refused with %s: %s", r.Reason, r.Message)
	return false
}

// runCalls runs the calls. Each call has its own goroutine, but they start one after the other, so that the order of changes is the same in
// each test run.
func (o *ordeal) runCalls() {
	o.received, o.acked, o.runs, o.specs = map[string][]call.Event{}, map[string]string{}, map[string]int{}, map[string]call.Spec{}
	for _, id := range []string{"work", "read", "gated", "gated", "asks", "held", "blocked"} {
		s := spec(id, "")
		s.Run.ID = "run-" + id
		o.specs[s.ID] = s
		o.one(s)
	}
}

func (o *ordeal) one(s call.Spec) {
	ctx, e := o.t.Context(), o.w.e
	switch s.Tool {
	case "held":
		go func() {
			time.Sleep(20 * time.Millisecond)
			for range 3 {
				if _, err := e.Cancel(ctx, alice, s.ID, "", time.Minute); err == nil || !o.refused(err) {
					return
				}
			}
		}()
		o.follow(s.ID)
	case "gated", "asks":
		asked := o.follow(s.ID)
		if asked == nil {
			return
		}
		if len(o.specs) == 4 { // The test answers only the first question; the second one expires.
			time.Sleep(time.Hour)
			for range 3 {
				_ = e.ExpireDue(ctx)
			}
			return
		}
		d := tool.Decision{ID: "decision-" + s.ID, Action: tool.Resume, ExpectedDigest: asked.Digest}
		for range 3 {
			watcher, err := e.Resume(ctx, bob, call.ResumeRequest{SuspensionID: asked.ID, Decision: d})
			if err == nil {
				watcher.Close()
				o.acked[s.ID] = d.ID
				o.follow(s.ID)
				return
			}
			if !o.refused(err) {
				return
			}
		}
	case "blocked":
		o.follow(s.ID)
		_, _ = e.EndRun(ctx, alice, s.Run.ID, "", "")
	default:
		o.follow(s.ID)
	}
}

// check compares the stored calls with the events that watchers received.
func (o *ordeal) check(when string) {
	t, w := o.t, o.w
	for id, s := range o.specs {
		c, err := w.e.Records().Get(t.Context(), alice, id)
		if err != nil {
			if len(o.received[id]) > 0 && s.Tool != "read" || o.runs[id] > 0 && s.Tool != "read" {
				t.Errorf("%s: %s published %d events, ran %d times, and is lost: %v", when, s.Tool, len(o.received[id]), o.runs[id], err)
			}
			continue
		}
		if !c.Status.Terminal() && c.Status != call.Suspended {
			t.Errorf("%s: %s is %s", when, s.Tool, c.Status)
		}
		log := w.checkLog(id)
		for i, ev := range o.received[id] {
			if i >= len(log) || content(log[i]) != content(ev) {
				if s.Tool != "read" {
					t.Errorf("%s: %s published\n%s and has\n%s", when, s.Tool, contents(o.received[id]), contents(log))
				}
				break
			}
		}
		if most := map[bool]int{true: 2, false: 1}[s.Tool == "asks" || s.Tool == "read"]; o.runs[id] > most {
			t.Errorf("%s: %s ran %d times", when, s.Tool, o.runs[id])
		}
		if o.runs[id] > len(c.Attempts) {
			t.Errorf("%s: %s ran %d times in %d attempts", when, s.Tool, o.runs[id], len(c.Attempts))
		}
		if c.Executed == call.NotStarted && o.runs[id] > 0 || c.Status == call.Succeeded && o.runs[id] == 0 {
			t.Errorf("%s: %s is %s %s and ran %d times", when, s.Tool, c.Status, c.Executed, o.runs[id])
		}
		if d := o.acked[id]; d != "" && (len(c.Rounds) == 0 || c.Rounds[0].Decision == nil || c.Rounds[0].Decision.ID != d) {
			t.Errorf("%s: %s: the decision that was acknowledged is not there", when, s.Tool)
		}
	}
}

// undergo runs the calls on a journal for which fail decides which changes fail. It checks the stored calls before and after a restart, and
// returns the number of attempted changes.
func undergo(t *testing.T, name string, fail func(n int) error, after bool) (changes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &ordeal{t: t, runs: map[string]int{}}
		fatal := 0
		o.w = newWorld(t, o.tools(), func(c *lifecycle.Config) {
			c.Hooks.Gate = []hook.Entry[hook.Gate]{namedGate("g", o.gate)}
			c.OnFatal = func(error) { fatal++ }
		})
		defer o.w.stop()
		var mu sync.Mutex
		count := func(*store.Change) error {
			mu.Lock()
			defer mu.Unlock()
			changes++
			return fail(changes)
		}
		if after {
			o.w.past = append(o.w.past, o.w.e)
			cfg := o.w.cfg
			cfg.Store = &doubtful{Store: o.w.store, fail: count}
			e, err := lifecycle.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			o.w.e = e
		} else {
			o.w.useStore(nil, count)
		}
		o.runCalls()
		time.Sleep(time.Minute)
		synctest.Wait()
		if fatal > 1 {
			t.Errorf("%s: the fatal error was reported %d times", name, fatal)
		}
		if fatal == 0 {
			o.check(name)
		} else if _, err := o.w.e.Execute(t.Context(), alice, spec("work", ""), call.ExecuteOptions{}); err == nil {
			t.Errorf("%s: a call was taken after the end", name)
		}
		fail = func(int) error { return nil }
		o.again.Store(true)
		o.w.crash()
		time.Sleep(time.Minute)
		synctest.Wait()
		o.check(name + ", after a restart")
	})
	return changes
}

// doubtful is a journal that sometimes stores a change and still returns an error. The caller then cannot know whether the change was
// stored.
type doubtful struct {
	store.Store
	fail   func(*store.Change) error
	mu     sync.Mutex
	failed error
}

func (d *doubtful) Submit(c *store.Change, done func(error)) {
	d.mu.Lock()
	failed := d.failed
	d.mu.Unlock()
	if failed != nil {
		done(failed)
		return
	}
	d.Store.Submit(c, func(err error) {
		if err == nil {
			if err = d.fail(c); err != nil {
				d.mu.Lock()
				d.failed = err
				d.mu.Unlock()
			}
		}
		done(err)
	})
}

func TestP7JournalThatFails(t *testing.T) {
	n := undergo(t, "sound", func(int) error { return nil }, false)
	if n < 20 {
		t.Fatalf("%d changes", n)
	}
	for at := 1; at <= n; at++ {
		undergo(t, fmt.Sprintf("full at %d", at), func(n int) error {
			if n == at {
				return store.ErrFull
			}
			return nil
		}, false)
		undergo(t, fmt.Sprintf("full from %d to %d", at, at+6), func(n int) error {
			if n >= at && n < at+6 {
				return store.ErrFull
			}
			return nil
		}, false)
		undergo(t, fmt.Sprintf("failed at %d", at), func(n int) error {
			if n >= at {
				return store.ErrFatal
			}
			return nil
		}, false)
		undergo(t, fmt.Sprintf("in doubt at %d", at), func(n int) error {
			if n == at {
				return store.ErrFatal
			}
			return nil
		}, true)
	}
}

// TestP7FullDiskContinuesWithSpace checks a tool that prints while the disk is full. The tool is blocked, so that memory stays bounded. When
// there is space again, the call continues without a restart.
func TestP7FullDiskContinuesWithSpace(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		var full atomic.Bool
		var printed atomic.Int64
		loud := made("t", effects, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			full.Store(true)
			for range 100 {
				printed.Add(1)
				if err := c.Output("stdout", []byte(strings.Repeat("x", 64<<10))); err != nil {
					return nil, err
				}
			}
			return tool.Text("done"), nil
		})
		inBubble(t, []tool.Tool{loud, echo("new", mutating)}, nil, func(t *testing.T, w *world) {
			w.cfg.FailPoint = func(at string) {
				if at == "before-commit" && full.Load() {
					time.Sleep(70 * time.Millisecond) // Each refused write takes 70 ms. While a timer repeats a refused write, the tool's output can then start a second write.
				}
			}
			w.useStore(nil, failing(func(int, *change) bool { return full.Load() }))
			s := spec("t", "")
			w.begin(s)
			time.Sleep(time.Minute)
			if printed.Load() > 20 {
				t.Errorf("%d pieces were printed while nothing could be stored", printed.Load())
			}
			refused := spec("new", "")
			watcher := w.start(refused, call.ExecuteOptions{})
			_, err := watcher.Wait(t.Context(), time.Hour)
			wantRefusal(t, err, call.ResourceExhausted, "STORAGE_FULL")
			full.Store(false)
			if c := w.do(s); c.Status != call.Succeeded {
				t.Errorf("call %s %+v", c.Status, c.Result)
			}
			if c := w.do(refused); c.Status != call.Succeeded { // This request has the same id as the refused one.
				t.Errorf("the refused call: %s", c.Status)
			}
			time.Sleep(time.Minute)
			w.crash()
			w.checkLog(s.ID)
		})
	}
}
