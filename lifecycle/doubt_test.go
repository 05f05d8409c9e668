package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// reconciling is a probe tool that can report after a crash what its attempt did.
type reconciling struct {
	*probe
	d         tool.Descriptor
	asked     atomic.Int64
	reconcile func(ctx context.Context, c *tool.Call) (*tool.Result, error)
}

func (r *reconciling) Descriptor() tool.Descriptor {
	d := r.d
	d.ID, d.Parameters = "t", json.RawMessage(anyObject)
	return d
}

func (r *reconciling) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return r.run(ctx, c)
}

func (r *reconciling) Reconcile(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	r.asked.Add(1)
	return r.reconcile(ctx, c)
}

// inDoubt makes a call that is in doubt: the daemon dies after the effect of the tool and before the result is stored.
func (w *world) inDoubt(s call.Spec) *call.Call {
	w.t.Helper()
	w.crashAt("after-tool", func() { w.start(s, call.ExecuteOptions{}).Close() })
	return w.get(s.ID)
}

func TestReconcile(t *testing.T) {
	text := func(r *tool.Result, err error) func(context.Context, *tool.Call) (*tool.Result, error) {
		return func(context.Context, *tool.Call) (*tool.Result, error) { return r, err }
	}
	tests := []struct {
		name      string
		reconcile func(context.Context, *tool.Call) (*tool.Result, error)
		status    call.Status
		executed  call.Executed
		code      tool.Code
		runs      int64
	}{
		{"it happened", text(tool.Text("done"), nil), call.Succeeded, call.Finished, "", 1},
		{"it happened and failed", text(tool.Fail("half of it"), nil), call.Failed, call.Finished, tool.ExecutionFailed, 1},
		{"it did not happen", text(nil, tool.ErrNotRun), call.Succeeded, call.Finished, "", 2},
		{"unknown", text(nil, nil), call.Failed, call.ExecutedUnknown, tool.InDoubt, 1},
		{"error", text(nil, errors.New("the upstream is down")), call.Failed, call.ExecutedUnknown, tool.InDoubt, 1},
		{"a question is no answer", text(tool.Suspended("?"), nil), call.Failed, call.ExecutedUnknown, tool.InDoubt, 1},
		{"panic", func(context.Context, *tool.Call) (*tool.Result, error) { panic("no") }, call.Failed, call.ExecutedUnknown, tool.InDoubt, 1},
		{"no answer in time", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) { <-ctx.Done(); return nil, ctx.Err() }, call.Failed, call.ExecutedUnknown, tool.InDoubt, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &reconciling{probe: &probe{}, reconcile: tt.reconcile}
			inBubble(t, []tool.Tool{r}, nil, func(t *testing.T, w *world) {
				s := spec("t", `{"a":1}`)
				w.inDoubt(s)
				c := w.do(s)
				code := tool.Code("")
				if c.Result.Error != nil {
					code = c.Result.Error.Code
				}
				if c.Status != tt.status || c.Executed != tt.executed || code != tt.code || r.runs.Load() != tt.runs || r.asked.Load() != 1 {
					t.Errorf("call %s %s %+v; ran %d times, asked %d times", c.Status, c.Executed, c.Result, r.runs.Load(), r.asked.Load())
				}
				w.checkLog(s.ID)
			})
		})
	}
}

// TestReconcileIsInterruptible crashes the daemon while the tool reconciles. After each crash the tool is asked again, with the input of
// the attempt. An answer that comes too late, or from a changed tool, is not used.
func TestReconcileIsInterruptible(t *testing.T) {
	r := &reconciling{probe: &probe{}}
	r.reconcile = func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Arguments.Text() != `{"a":1}` || c.IdempotencyKey() != r.seen()[0].IdempotencyKey() || c.IdempotencyKey() == "" || c.Attempt != 1 {
			return nil, errors.New("not as the attempt had it")
		}
		if r.asked.Load() <= 3 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return tool.Text("found"), nil
	}
	inBubble(t, []tool.Tool{r}, nil, func(t *testing.T, w *world) {
		s := spec("t", `{"a":1}`)
		if c := w.inDoubt(s); c.Status != call.Running {
			t.Fatalf("while the tool is asked: %s", c.Status)
		}
		w.crash() // The daemon dies while it asks the tool.
		synctest.Wait()
		w.crashAt("reconciled", func() { // The daemon dies again after the tool has answered and before this answer is stored.
			time.Sleep(31 * time.Second)
		})
		if c := w.do(s); c.Status != call.Succeeded || c.Result.Data != `"found"` || r.runs.Load() != 1 || r.asked.Load() != 4 {
			t.Errorf("call %s %+v; ran %d times, asked %d times", c.Status, c.Result, r.runs.Load(), r.asked.Load())
		}
		w.checkLog(s.ID)
	})
}

func TestCancelWhileTheToolIsAsked(t *testing.T) {
	r := &reconciling{probe: &probe{}, reconcile: func(ctx context.Context, _ *tool.Call) (*tool.Result, error) { <-ctx.Done(); return nil, ctx.Err() }}
	inBubble(t, []tool.Tool{r}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		w.inDoubt(s)
		c, err := w.e.Cancel(t.Context(), alice, s.ID, "", time.Minute)
		if err != nil || c.Status != call.Cancelled || c.Executed != call.ExecutedUnknown || r.runs.Load() != 1 {
			t.Errorf("call %s %s, %v", c.Status, c.Executed, err)
		}
	})
}

func TestChangedToolIsNotAsked(t *testing.T) {
	r := &reconciling{probe: held(), reconcile: func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil }}
	inBubble(t, []tool.Tool{r}, nil, func(t *testing.T, w *world) {
		id := w.begin(apart(spec("t", "")))
		r.d.Description = "changed"
		w.tools.put(r)
		w.crash()
		synctest.Wait()
		if c := w.get(id); c.Status != call.Failed || c.Result.Error.Code != tool.InDoubt || r.asked.Load() != 0 {
			t.Errorf("call %s %+v, asked %d times", c.Status, c.Result, r.asked.Load())
		}
	})
}

func doubtAnswer(text string) tool.Decision { return tool.Decision{Action: tool.Resume, Result: text} }

// TestOnDoubtAsk checks on_doubt: ask. A person reports what the attempt did, and the call ends accordingly.
func TestOnDoubtAsk(t *testing.T) {
	asks := tool.Descriptor{ID: "t", OnDoubt: tool.OnDoubtAsk, ResultSchema: json.RawMessage(`{"type":["string","object"]}`)}
	tests := []struct {
		name     string
		end      func(w *world, c *call.Call) *call.Call
		status   call.Status
		executed call.Executed
		reason   string
		text     string
		runs     int64
	}{
		{"it happened", func(w *world, c *call.Call) *call.Call {
			return w.answer(bob, c, doubtAnswer(`{"outcome":"happened","data":"sent twice"}`))
		}, call.Succeeded, call.Finished, "", "sent twice", 1},
		{"run again", func(w *world, c *call.Call) *call.Call {
			return w.answer(bob, c, doubtAnswer(`{"outcome":"run_again"}`))
		}, call.Succeeded, call.Finished, "", "", 2},
		{"give up", func(w *world, c *call.Call) *call.Call { return w.answer(bob, c, doubtAnswer(`{"outcome":"give_up"}`)) }, call.Failed, call.ExecutedUnknown, "", "It is not known whether this ran", 1},
		{"declined", func(w *world, c *call.Call) *call.Call { return w.answer(bob, c, no("never mind")) }, call.Cancelled, call.ExecutedUnknown, "DECLINED", "Declined: never mind", 1},
		{"cancelled", func(w *world, c *call.Call) *call.Call {
			if _, err := w.e.Cancel(w.t.Context(), alice, c.ID, "", time.Minute); err != nil {
				w.t.Fatal(err)
			}
			return w.get(c.ID)
		}, call.Cancelled, call.ExecutedUnknown, "", "Cancelled by user", 1},
		{"expired", func(w *world, c *call.Call) *call.Call {
			time.Sleep(31 * 24 * time.Hour)
			if err := w.e.ExpireDue(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
			return w.get(c.ID)
		}, call.Cancelled, call.ExecutedUnknown, "", "No answer within 720h0m0s", 1},
	}
	for _, tt := range tests {
		for _, restart := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				p := &probe{}
				inBubble(t, []tool.Tool{p.toolAs(asks)}, func(c *lifecycle.Config) { c.People = people{"approver": {"bob"}} }, func(t *testing.T, w *world) {
					s := spec("t", `{"a":1}`)
					c := w.inDoubt(s)
					open := c.Open()
					if open == nil || open.Action != "in_doubt" || open.Approvers == nil || open.Approvers.Roles[0] != "approver" || c.Executed != call.ExecutedUnknown {
						t.Fatalf("call %s %s, question %+v", c.Status, c.Executed, open)
					}
					if restart {
						w.crash()
					}
					c = tt.end(w, c)
					reason := ""
					if c.Result.Error != nil {
						reason = c.Result.Error.Reason
					}
					if c.Status != tt.status || c.Executed != tt.executed || reason != tt.reason || tt.text != "" && c.Result.ModelText() != tt.text && strings.Trim(c.Result.Data, `"`) != tt.text || p.runs.Load() != tt.runs {
						t.Errorf("call %s %s %+v %q; ran %d times", c.Status, c.Executed, c.Result.Error, c.Result.ModelText(), p.runs.Load())
					}
					if seen := p.seen(); len(seen) == 2 && (seen[1].Resume != nil || seen[1].Attempt != 2 || seen[1].IdempotencyKey() != seen[0].IdempotencyKey()) {
						t.Errorf("ran again with %+v", seen[1])
					}
					w.checkLog(s.ID)
				})
			})
		}
	}
}

// TestOnDoubtAskAfterReconcile checks that the person who is asked reads why the tool could not tell.
func TestOnDoubtAskAfterReconcile(t *testing.T) {
	long := strings.Repeat("x", 999) + "é" // the bound is in the middle of the last character
	for reported, want := range map[error]string{errors.New("the bank is down"): "the bank is down", errors.New(long): long[:999], nil: "the tool returned no outcome"} {
		r := &reconciling{probe: &probe{}, d: tool.Descriptor{OnDoubt: tool.OnDoubtAsk}, reconcile: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, reported }}
		inBubble(t, []tool.Tool{r}, func(c *lifecycle.Config) { c.People = people{"approver": {"bob"}} }, func(t *testing.T, w *world) {
			s := spec("t", `{}`)
			w.inDoubt(s)
			synctest.Wait()
			open := w.get(s.ID).Open()
			if open == nil {
				t.Fatal("nobody is asked")
			}
			var about struct {
				Asked  bool   `json:"tool_asked"`
				Answer string `json:"tool_answer"`
			}
			if err := json.Unmarshal(open.Parameters, &about); err != nil || !about.Asked || about.Answer != want {
				t.Errorf("parameters %s, want the answer %q (%v)", open.Parameters, want, err)
			}
		})
	}
}

// TestOnDoubtAskAndCrashes crashes the daemon twice after the tool has run again. After each crash the question must be asked again, and
// the tool must never run without an answer.
func TestOnDoubtAskAndCrashes(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.toolAs(tool.Descriptor{ID: "t", OnDoubt: tool.OnDoubtAsk})}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		c := w.inDoubt(s)
		for round := 2; round <= 3; round++ {
			w.crashAt("after-tool", func() {
				if _, err := w.resume(bob, c, doubtAnswer(`{"outcome":"run_again"}`)); err == nil {
					t.Error("the daemon was to die")
				}
			})
			if c = w.get(s.ID); c.Status != call.Suspended || c.Open().Round != round || p.runs.Load() != int64(round) {
				t.Fatalf("call %s in round %d, ran %d times", c.Status, len(c.Rounds), p.runs.Load())
			}
		}
		if c = w.answer(bob, c, doubtAnswer(`{"outcome":"give_up"}`)); c.Result.Error.Code != tool.InDoubt {
			t.Errorf("%+v", c.Result)
		}
		w.checkLog(s.ID)
	})
}

func TestAnswersToDoubtAreChecked(t *testing.T) {
	p := &probe{}
	d := tool.Descriptor{ID: "t", OnDoubt: tool.OnDoubtAsk, ResultSchema: json.RawMessage(`{"type":"string"}`)}
	inBubble(t, []tool.Tool{p.toolAs(d)}, nil, func(t *testing.T, w *world) {
		c := w.inDoubt(spec("t", ""))
		refused := func(p tool.Principal, d tool.Decision, kind call.RefusalKind, reason string) {
			t.Helper()
			_, err := w.resume(p, c, d)
			wantRefusal(t, err, kind, reason)
		}
		refused(alice, doubtAnswer(`{"outcome":"give_up"}`), call.PermissionDenied, "NOT_AN_APPROVER")
		refused(bob, yes(), call.InvalidArgument, "INVALID_FIELD")
		refused(bob, doubtAnswer(`{"outcome":"maybe"}`), call.InvalidArgument, "ANSWER_INVALID")
		refused(bob, doubtAnswer(`{"outcome":"happened","data":7}`), call.InvalidArgument, "INVALID_FIELD")
		refused(bob, doubtAnswer(`{"outcome":"run_again","data":"x"}`), call.InvalidArgument, "INVALID_FIELD")
		refused(bob, tool.Decision{Action: tool.Resume, Result: `{"outcome":"run_again"}`, Arguments: `{"a":2}`}, call.InvalidArgument, "INVALID_FIELD")
		d.Description = "changed"
		w.tools.put(p.toolAs(d))
		refused(bob, doubtAnswer(`{"outcome":"run_again"}`), call.FailedPrecondition, "TOOL_CHANGED")
		if c = w.answer(bob, c, doubtAnswer(`{"outcome":"give_up"}`)); c.Result.Error.Code != tool.InDoubt || p.runs.Load() != 1 {
			t.Errorf("%+v, ran %d times", c.Result, p.runs.Load())
		}
	})
}

// TestOnDoubtAskWithoutApprovers checks that the call ends in doubt, without a question, when no principal could answer it.
func TestOnDoubtAskWithoutApprovers(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.toolAs(tool.Descriptor{ID: "t", OnDoubt: tool.OnDoubtAsk})}, func(c *lifecycle.Config) { c.People = people{} }, func(t *testing.T, w *world) {
		if c := w.inDoubt(spec("t", "")); c.Status != call.Failed || c.Result.Error.Code != tool.InDoubt {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
	})
}

// TestRunAgainKeepsEarlierAnswers checks a call that runs again after a doubt. The approval of a gate still counts, and the tool gets the
// earlier answer to its own question again.
func TestRunAgainKeepsEarlierAnswers(t *testing.T) {
	p := &probe{}
	d := tool.Descriptor{ID: "t", OnDoubt: tool.OnDoubtAsk, Parameters: json.RawMessage(anyObject)}
	asks := tool.Func(d, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil || c.Resume.Result == "" { // The tool gets only answers to its own questions, not the approval of a gate.
			return tool.Suspended("which?"), nil
		}
		return p.run(ctx, c)
	})
	inBubble(t, []tool.Tool{asks}, gates(namedGate("g", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		s := spec("t", "")
		c := w.answer(bob, w.do(s), yes())
		w.crashAt("after-tool", func() {
			_, _ = w.resume(alice, c, tool.Decision{Action: tool.Resume, Result: `"this"`})
		})
		if c = w.get(s.ID); c.Status != call.Suspended || c.Open().Action != "in_doubt" {
			t.Fatalf("call %s", c.Status)
		}
		if c = w.answer(bob, c, doubtAnswer(`{"outcome":"run_again"}`)); c.Status != call.Succeeded || p.runs.Load() != 2 {
			t.Fatalf("call %s, ran %d times", c.Status, p.runs.Load())
		}
		if again := p.seen()[1]; again.Resume == nil || again.Resume.Result != `"this"` {
			t.Errorf("ran again with %+v", again.Resume)
		}
		w.checkLog(s.ID)
	})
}
