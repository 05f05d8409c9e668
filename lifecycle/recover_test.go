package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// crashAt kills the daemon when a call reaches the fail point, and starts the next daemon.
func (w *world) crashAt(point string, change func()) {
	var once sync.Once
	old := w.cfg.FailPoint
	w.cfg.FailPoint = func(name string) {
		if name == point {
			once.Do(func() { w.store = w.store.Crash() })
		}
	}
	w.crash()
	change()
	synctest.Wait()
	w.past = append(w.past, w.e)
	drain(w.e)
	w.cfg.FailPoint = old
	w.open()
	synctest.Wait()
}

func TestT84CrashBetweenEffectAndResult(t *testing.T) {
	for _, point := range []string{"after-tool", "before-result"} {
		p := &probe{}
		inBubble(t, []tool.Tool{p.tool("t", mutating)}, nil, func(t *testing.T, w *world) {
			s := spec("t", "")
			w.crashAt(point, func() { w.start(s, call.ExecuteOptions{}).Close() })
			c := w.get(s.ID)
			if c.Status != call.Failed || c.Result.Error.Code != tool.InDoubt || c.Executed != call.ExecutedUnknown || c.Result.Error.Retryable || p.runs.Load() != 1 {
				t.Errorf("%s: call %s %+v, %d runs", point, c.Status, c.Result.Error, p.runs.Load())
			}
			if c = w.do(s); c.Result.Error.Code != tool.InDoubt || p.runs.Load() != 1 {
				t.Errorf("%s: sent again: %d runs", point, p.runs.Load())
			}
			if got := types(t, 1, w.checkLog(s.ID)); got != "accepted attempt_started finished" {
				t.Errorf("events %s", got)
			}
		})
	}
}

func TestP3NoHiddenSecondRun(t *testing.T) {
	tests := []struct {
		name  string
		d     tool.Descriptor
		point string
		runs  int64
		code  tool.Code
		then  string // types of the events that follow the recovery
	}{
		{"mutating, before the tool", tool.Descriptor{}, "before-tool", 1, tool.InDoubt, "accepted attempt_started finished"}, // The tool has not run, but the journal cannot know that, so the call is in doubt.
		{"mutating, result stored", tool.Descriptor{}, "after-result", 1, "", "accepted attempt_started finished"},
		{"idempotent", tool.Descriptor{Idempotent: true}, "after-tool", 2, "", "accepted attempt_started attempt_started finished"},
		{"idempotent, result stored", tool.Descriptor{Idempotent: true}, "after-result", 1, "", "accepted attempt_started finished"},
		{"never stored", tool.Descriptor{}, "before-commit", 0, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &probe{}
			tt.d.ID = "t"
			rewrite := hook.Entry[hook.Rewrite]{Name: "add", Hook: adds("x")}
			inBubble(t, []tool.Tool{p.toolAs(tt.d)}, rewrites(rewrite), func(t *testing.T, w *world) {
				s := spec("t", `{"s":""}`)
				w.crashAt(tt.point, func() { w.start(s, call.ExecuteOptions{}).Close() })
				if p.runs.Load() != tt.runs {
					t.Errorf("ran %d times, want %d", p.runs.Load(), tt.runs)
				}
				if tt.then == "" {
					_, err := w.e.Records().Get(t.Context(), alice, s.ID)
					wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
					return
				}
				c := w.get(s.ID)
				if tt.code == "" && c.Status != call.Succeeded || tt.code != "" && (c.Result.Error == nil || c.Result.Error.Code != tt.code) {
					t.Errorf("call %s %+v", c.Status, c.Result)
				}
				if got := types(t, 1, w.checkLog(s.ID)); got != tt.then {
					t.Errorf("events %s, want %s", got, tt.then)
				}
				for i, r := range p.seen() {
					if r.Arguments.Text() != `{"s":"x"}` || r.IdempotencyKey() != p.seen()[0].IdempotencyKey() || r.Attempt != i+1 {
						t.Errorf("run %d: %s, attempt %d, key %s", i+1, r.Arguments.Text(), r.Attempt, r.IdempotencyKey())
					}
				}
			})
		})
	}
}

func TestReadOnlyCallsRunAgain(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", reading)}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		w.begin(s)
		time.Sleep(time.Second) // The call is in the journal now.
		w.crash()
		synctest.Wait()
		if c := w.get(s.ID); c.Status != call.Running || len(c.Attempts) != 2 || p.runs.Load() != 2 {
			t.Fatalf("call %s, %d attempts, %d runs", c.Status, len(c.Attempts), p.runs.Load())
		}
		p.free()
		if c := w.do(s); c.Status != call.Succeeded || p.runs.Load() != 2 {
			t.Errorf("call %s, %d runs", c.Status, p.runs.Load())
		}
		time.Sleep(time.Second)
		if got := types(t, 1, w.checkLog(s.ID)); got != "accepted attempt_started attempt_started finished" {
			t.Errorf("events %s", got)
		}
	})
}

// TestChangedToolIsNotRunAgain checks a tool whose definition has changed. It does not run again, even if the new definition says that this
// is harmless.
func TestChangedToolIsNotRunAgain(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.toolAs(tool.Descriptor{ID: "t", Idempotent: true})}, nil, func(t *testing.T, w *world) {
		id := w.begin(apart(spec("t", "")))
		w.tools.put(p.toolAs(tool.Descriptor{ID: "t", Idempotent: true, Description: "changed"}))
		w.crash()
		if c := w.get(id); c.Result == nil || c.Result.Error.Code != tool.InDoubt || p.runs.Load() != 1 {
			t.Errorf("call %s, %d runs", c.Status, p.runs.Load())
		}
	})
}

func TestT107CancelStoredThenKilled(t *testing.T) {
	p := held()
	for name, tt := range map[string]struct {
		tool     tool.Tool
		executed call.Executed
	}{
		"idempotent": {p.toolAs(tool.Descriptor{ID: "t", Idempotent: true}), call.ExecutedUnknown},
		"read-only":  {p.tool("t", reading), call.ExecutedUnknown},
		"queued":     {p.tool("t", mutating), call.NotStarted},
	} {
		t.Run(name, func(t *testing.T) {
			p = held()
			again := tool.Func(tt.tool.Descriptor(), p.run)
			inBubble(t, []tool.Tool{again, held().tool("slow", mutating)}, func(c *lifecycle.Config) { c.Concurrency = 1 }, func(t *testing.T, w *world) {
				s := spec("t", "")
				w.crashAt("after-cancel", func() {
					if name == "queued" {
						w.begin(apart(spec("slow", "")))
					}
					w.begin(s)
					if _, err := w.e.Cancel(t.Context(), alice, s.ID, "enough", 0); err != nil {
						t.Fatal(err)
					}
				})
				c := w.get(s.ID)
				if c.Status != call.Cancelled || c.Executed != tt.executed || c.Result.ModelText() != "Cancelled by user: enough" {
					t.Errorf("call %s %s %+v", c.Status, c.Executed, c.Result)
				}
				if want := map[bool]int64{false: 1}[name == "queued"]; p.runs.Load() != want {
					t.Errorf("%d runs", p.runs.Load())
				}
				w.checkLog(s.ID)
			})
		})
	}
}

func TestRecoverNew(t *testing.T) {
	tests := []struct {
		name     string
		attended bool
		linger   *time.Duration
		back     time.Duration // when a watcher attaches again; 0 means never
		runs     int64
		ended    time.Duration // the call must have ended by this time
	}{
		{"detached", false, nil, 0, 1, 0},
		{"attended, nobody comes", true, nil, 0, 0, 31 * time.Second},
		{"attended, somebody comes", true, nil, 20 * time.Second, 1, 21 * time.Second},
		{"attended, comes too late", true, nil, 40 * time.Second, 0, 31 * time.Second},
		{"attended, not waited for", true, lingers(0), 0, 0, time.Second},
		{"attended, waited for longer", true, lingers(2 * time.Hour), time.Hour, 1, time.Hour + time.Second},
		{"attended, goes on by itself", true, lingers(-1), 0, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &probe{}
			inBubble(t, []tool.Tool{p.tool("t", mutating), held().tool("slow", mutating)}, func(c *lifecycle.Config) { c.Concurrency, c.QueueTimeout = 1, 10*time.Hour }, func(t *testing.T, w *world) {
				s := spec("t", "")
				s.Linger = tt.linger
				w.begin(apart(spec("slow", ""))) // This call takes the only slot.
				watcher := w.start(s, call.ExecuteOptions{Attended: tt.attended})
				synctest.Wait()
				w.crash()
				watcher.Close()
				began := time.Now()
				if tt.back > 0 {
					time.Sleep(tt.back)
					again, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{Attended: true})
					if err != nil {
						t.Fatal(err)
					}
					defer again.Close()
				}
				time.Sleep(max(tt.ended-time.Since(began), 0))
				synctest.Wait()
				c := w.get(s.ID)
				if !c.Status.Terminal() || p.runs.Load() != tt.runs {
					t.Fatalf("call %s, %d runs", c.Status, p.runs.Load())
				}
				if tt.runs == 0 {
					ending{status: call.Failed, code: tool.Interrupted, reason: "RESTART", executed: call.NotStarted, aborted: true, retryable: true, text: "Not run"}.check(t, endingOf(c, &afterHook{}))
				}
				w.checkLog(s.ID)
			})
		})
	}
}

// TestRecoveredReadOnlyCallMayHaveRun checks that a recovered read-only call counts as possibly executed. Its attempts are written after
// they start, so an attempt may be missing in the journal.
func TestRecoveredReadOnlyCallMayHaveRun(t *testing.T) {
	ends := map[string]func(w *world, id string){
		"nobody comes":       func(*world, string) { time.Sleep(time.Minute) },
		"it is cancelled":    func(w *world, id string) { _, _ = w.e.Cancel(w.t.Context(), alice, id, "", time.Minute) },
		"nobody runs it now": func(w *world, id string) { w.log(id); time.Sleep(time.Minute) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			var unavailable atomic.Bool
			runs, slow := held(), held()
			read := made("t", reading, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
				if unavailable.Load() {
					return nil, fmt.Errorf("%w: %w", tool.ErrNotRun, tool.Errorf(tool.Upstream, "nobody is there"))
				}
				return runs.run(ctx, c)
			})
			inBubble(t, []tool.Tool{read, slow.tool("slow", mutating)}, func(c *lifecycle.Config) { c.Concurrency = 1 }, func(t *testing.T, w *world) {
				w.begin(apart(spec("slow", "")))
				s := spec("t", "")
				watcher := w.start(s, call.ExecuteOptions{Attended: true})
				time.Sleep(time.Second) // The call waits and is in the journal.
				slow.free()
				synctest.Wait()
				if runs.runs.Load() != 1 {
					t.Fatal("the tool has not begun")
				}
				unavailable.Store(true)
				w.crash()
				watcher.Close()
				if name == "nobody runs it now" {
					again := w.start(s, call.ExecuteOptions{Attended: true})
					defer again.Close()
				}
				end(w, s.ID)
				synctest.Wait()
				if c := w.get(s.ID); !c.Status.Terminal() || c.Executed != call.ExecutedUnknown || strings.Contains(c.Result.ModelText(), "Not run") {
					t.Errorf("call %s %s %q", c.Status, c.Executed, c.Result.ModelText())
				}
				w.checkLog(s.ID)
			})
		})
	}
}

// TestCancelOfARecoveredCall checks a call that waits for a watcher after a restart. A cancellation ends it immediately.
func TestCancelOfARecoveredCall(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating), held().tool("slow", mutating)}, func(c *lifecycle.Config) { c.Concurrency = 1 }, func(t *testing.T, w *world) {
		s := spec("t", "")
		w.begin(apart(spec("slow", "")))
		watcher := w.start(s, call.ExecuteOptions{Attended: true})
		synctest.Wait()
		w.crash()
		watcher.Close()
		if c, err := w.e.Cancel(t.Context(), alice, s.ID, "", time.Second); err != nil || c.Status != call.Cancelled || c.Executed != call.NotStarted || p.runs.Load() != 0 {
			t.Errorf("call %+v, %v, %d runs", c, err, p.runs.Load())
		}
	})
}

func TestRecoverResuming(t *testing.T) {
	for _, tt := range []struct {
		name     string
		mode     tool.ResumeMode
		decision tool.Decision
		status   call.Status
		text     string
		runs     int64
	}{
		{"approved", tool.ReplayToolCall, yes(), call.Succeeded, `{"x":1}`, 1},
		{"edited", tool.ReplayToolCall, tool.Decision{Action: tool.Resume, Arguments: `{"x":2}`}, call.Succeeded, `{"x":2}`, 1},
		{"declined", tool.ReplayToolCall, no("no"), call.Cancelled, "Declined: no", 0},
		{"answered", tool.UseDecisionAsToolResult, tool.Decision{Action: tool.Resume, Result: `3`}, call.Succeeded, "3", 0},
		{"passed", tool.PassDecisionToTool, tool.Decision{Action: tool.Resume, Result: `{"x":4}`}, call.Succeeded, `{"x":4}`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &probe{}
			inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{ResumeMode: tt.mode}))), func(t *testing.T, w *world) {
				c := w.do(spec("t", `{"x":1}`))
				d := tt.decision
				d.ID, d.ExpectedDigest = "decision-1234567", c.Open().Digest
				w.crash()
				w.crashAt("after-commit", func() {
					watcher, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: c.Open().ID, Decision: d})
					if err != nil {
						t.Fatal(err)
					}
					watcher.Close()
				})
				c = w.get(c.ID)
				if c.Status != tt.status || c.Result.ModelText() != tt.text || p.runs.Load() != tt.runs {
					t.Errorf("call %s %q, %d runs", c.Status, c.Result.ModelText(), p.runs.Load())
				}
				if n := strings.Count(types(t, 1, w.checkLog(c.ID)), "resumed"); n != 1 {
					t.Errorf("%d resumed events", n)
				}
			})
		})
	}
}

func TestT108MovedStoreHolds(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.toolAs(tool.Descriptor{ID: "t", Idempotent: true}), echo("free", mutating), asks("asks", tool.Ticket{ExpiresIn: time.Hour})}, nil, func(t *testing.T, w *world) {
		running, waiting := w.begin(apart(spec("t", ""))), w.do(spec("asks", ""))
		w.kill()
		w.store.SetMoved(true)
		w.open()
		time.Sleep(2 * time.Hour)
		if err := w.e.ExpireDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := w.get(running); c.Status != call.Running || p.runs.Load() != 1 {
			t.Errorf("call %s, %d runs", c.Status, p.runs.Load())
		}
		w.refuse(alice, waiting, tool.Decision{Action: tool.Resume, Result: "1"}, call.FailedPrecondition, "CALL_HELD")
		if c := w.do(spec("free", "")); c.Status != call.Succeeded { // A new call is not held.
			t.Errorf("a new call: %s", c.Status)
		}
		w.kill()
		w.store.SetMoved(false)
		w.open()
		synctest.Wait()
		if c := w.get(running); c.Status != call.Running || p.runs.Load() != 2 {
			t.Errorf("released: call %s, %d runs", c.Status, p.runs.Load())
		}
	})
}

// TestT108Release checks that released calls continue as after a normal start, while the other calls stay held. When no call is held any
// more, the daemon treats the store as its own again.
func TestT108Release(t *testing.T) {
	p := held()
	tools := []tool.Tool{p.toolAs(tool.Descriptor{ID: "again", Idempotent: true}), p.tool("once", mutating), asks("asks", tool.Ticket{ExpiresIn: time.Hour})}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		again, once, ended := w.begin(apart(spec("again", ""))), w.begin(apart(spec("once", ""))), w.begin(apart(spec("once", "")))
		waiting, late, dropped := w.do(spec("asks", "")), w.do(spec("asks", "")), w.do(spec("asks", ""))
		release := func(end bool, released, left int, ids ...string) {
			t.Helper()
			n, m, err := w.e.Release(t.Context(), carol, call.HeldSelector{IDs: ids, All: ids == nil}, end, "")
			if err != nil || n != released || m != left {
				t.Errorf("released %d, left %d, %v; want %d, %d", n, m, err, released, left)
			}
			synctest.Wait()
		}
		w.cfg.Released = func() error { w.store.SetMoved(false); return nil }
		w.kill()
		w.store.SetMoved(true)
		w.open()
		_, _, err := w.e.Release(t.Context(), carol, call.HeldSelector{IDs: []string{again, "nobody-knows-this"}}, false, "")
		wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
		release(false, 1, 5, waiting.ID)
		release(false, 0, 5, waiting.ID)
		if c := w.answer(alice, waiting, tool.Decision{Action: tool.Resume, Result: "1"}); c.Status != call.Succeeded {
			t.Errorf("the released question: %s", c.Status)
		}
		w.refuse(alice, late, tool.Decision{Action: tool.Resume, Result: "1"}, call.FailedPrecondition, "CALL_HELD")
		release(true, 1, 4, dropped.ID)
		release(true, 1, 3, ended)
		for id, executed := range map[string]call.Executed{dropped.ID: call.Started, ended: call.ExecutedUnknown} {
			if c := w.get(id); c.Status != call.Cancelled || c.Executed != executed {
				t.Errorf("ended: %s %s, want CANCELLED %s", c.Status, c.Executed, executed)
			}
		}
		time.Sleep(2 * time.Hour)
		if err := w.e.ExpireDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := w.get(late.ID); c.Status != call.Suspended || p.runs.Load() != 3 {
			t.Errorf("held: %s, %d runs", c.Status, p.runs.Load())
		}
		release(false, 3, 0)
		if c := w.get(again); c.Status != call.Running || p.runs.Load() != 4 {
			t.Errorf("the idempotent call: %s, %d runs", c.Status, p.runs.Load())
		}
		if c := w.get(once); c.Status != call.Failed || c.Result.Error.Code != tool.InDoubt {
			t.Errorf("the call that had begun: %s %+v", c.Status, c.Result)
		}
		if err := w.e.ExpireDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := w.get(late.ID); c.Status != call.Cancelled || c.Result.Error.Code != tool.Expired {
			t.Errorf("the late question: %s %+v", c.Status, c.Result)
		}
		if w.store.Identity().Moved {
			t.Error("the store still counts as moved")
		}
		for _, id := range []string{again, once, ended, waiting.ID, late.ID, dropped.ID} {
			w.checkLog(id)
		}
	})
}

// TestT108ReleaseIsInterruptible checks a crash during a release. The next daemon holds the unfinished calls again, and no call runs twice.
func TestT108ReleaseIsInterruptible(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("once", mutating), echo("write", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		var waiting []*call.Call
		for range 4 {
			waiting = append(waiting, w.do(apart(spec("once", ""))))
		}
		for _, c := range waiting {
			watcher, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: c.Open().ID, Decision: tool.Decision{ID: "decision-" + c.ID, Action: tool.Resume, ExpectedDigest: c.Open().Digest}})
			if err != nil {
				t.Fatal(err)
			}
			watcher.Close()
		}
		synctest.Wait()
		w.cfg.Released = func() error { w.store.SetMoved(false); return nil }
		w.kill()
		w.store.SetMoved(true)
		n := 0
		w.cfg.FailPoint = func(name string) {
			if name == "released" {
				if n++; n == 2 {
					w.store = w.store.Crash()
					w.store.SetMoved(true)
				}
			}
		}
		w.open()
		_, _, _ = w.e.Release(t.Context(), carol, call.HeldSelector{All: true}, false, "")
		synctest.Wait()
		w.past = append(w.past, w.e)
		drain(w.e)
		w.open()
		done, left, err := w.e.Release(t.Context(), carol, call.HeldSelector{All: true}, false, "")
		if err != nil || left != 0 || done < 2 {
			t.Errorf("released %d, left %d, %v", done, left, err)
		}
		synctest.Wait()
		for _, c := range waiting {
			if c = w.get(c.ID); c.Status != call.Failed || c.Result.Error.Code != tool.InDoubt {
				t.Errorf("call %s %+v", c.Status, c.Result)
			}
		}
		if p.runs.Load() != 4 || w.store.Identity().Moved {
			t.Errorf("%d runs, moved = %t", p.runs.Load(), w.store.Identity().Moved)
		}
	})
}

// TestRecoveryIsInterruptible checks that a recovery can be interrupted at any point and repeated.
func TestRecoveryIsInterruptible(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, nil, func(t *testing.T, w *world) {
		for range 10 {
			w.begin(apart(spec("t", "")))
		}
		for n := range 11 {
			commits := 0
			w.cfg.FailPoint = func(name string) {
				if name == "after-commit" {
					if commits++; commits == n {
						w.store = w.store.Crash()
					}
				}
			}
			w.kill()
			w.cfg.Store = w.store
			e, err := lifecycle.New(w.cfg)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = e.Recover(t.Context())
			w.e, commits = e, 100
		}
		w.crash()
		page, err := w.store.Calls(t.Context(), call.Query{Namespace: "ns", Limit: 20})
		if err != nil || len(page.Calls) != 10 {
			t.Fatal(err)
		}
		for _, c := range page.Calls {
			if c.Status != call.Failed || c.Result.Error.Code != tool.InDoubt {
				t.Errorf("call %s %+v", c.Status, c.Result)
			}
			w.checkLog(c.ID)
		}
		if p.runs.Load() != 10 {
			t.Errorf("%d runs", p.runs.Load())
		}
	})
}

// TestArtifactsOfASecondAttempt checks that the artifacts of a second attempt are stored separately, and not appended to those of the first
// attempt.
func TestArtifactsOfASecondAttempt(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	p := held()
	saves := made("t", reading, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		a, err := c.SaveArtifact("picture", "image/png", []byte("picture"))
		if err != nil {
			return nil, err
		}
		b, err := c.SaveArtifact("picture", "image/png", []byte("other"))
		if err != nil {
			return nil, err
		}
		if _, err := p.run(ctx, c); err != nil {
			return nil, err
		}
		return &tool.Result{Status: tool.StatusSuccess, Message: long, Artifacts: []tool.Artifact{a, b}}, nil
	})
	inBubble(t, []tool.Tool{saves}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		w.begin(s)
		time.Sleep(time.Second)
		w.crashAt("before-result", p.free) // By then, attempt 2 has saved its artifacts.
		c := w.do(s)
		if c.Status != call.Succeeded || len(c.Attempts) < 2 || len(c.Result.Artifacts) != 3 {
			t.Fatalf("call %s after %d attempts: %+v", c.Status, len(c.Attempts), c.Result.Artifacts)
		}
		for i, want := range []string{"picture", "other", long} {
			a := c.Result.Artifacts[i]
			part, err := w.e.Artifacts().ReadArtifact(t.Context(), alice, s.ID, a.Name, 0, 1<<20)
			if err != nil || string(part.Bytes) != want || a.Size != int64(len(want)) || part.Size != a.Size {
				t.Errorf("artifact %+v has %d bytes %.20q, %v", a, len(part.Bytes), part.Bytes, err)
			}
		}
	})
}
