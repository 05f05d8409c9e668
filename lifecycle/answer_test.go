package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

func TestResponseSchemaKeepsTheQuestionOpen(t *testing.T) {
	ticket := tool.Ticket{ResumeMode: tool.UseDecisionAsToolResult, Action: "input",
		ResponseSchema: json.RawMessage(`{"type":"object","properties":{"colour":{"enum":["red","blue"]}},"required":["colour"]}`)}
	inBubble(t, []tool.Tool{asks("t", ticket)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		for result, want := range map[string]string{
			``:                   "decision.result",
			`{"colour":"green"}`: "decision.result.colour",
			`{}`:                 "decision.result.colour",
			`"red"`:              "decision.result",
			`{"colour":`:         "decision.result",
		} {
			_, err := w.resume(alice, c, tool.Decision{Action: tool.Resume, Result: result})
			var r *call.Refusal
			if !errors.As(err, &r) || r.Kind != call.InvalidArgument || len(r.Violations) != 1 || r.Violations[0].Field != want {
				t.Errorf("answer %s: %+v, want a violation of %s", result, err, want)
			}
			if now := w.get(c.ID); now.Status != call.Suspended || now.Revision != c.Revision {
				t.Fatalf("answer %s: call is %s", result, now.Status)
			}
		}
		if c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: `{"colour":"red"}`}); c.Status != call.Succeeded || c.Result.Data != `{"colour":"red"}` {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
	})
}

// TestDecisionsThatDoNotFit checks that a decision is refused when its ticket does not accept the content of the decision.
func TestDecisionsThatDoNotFit(t *testing.T) {
	strict := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)
	d := tool.Descriptor{ID: "t", Parameters: strict}
	run := func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("ran"), nil }
	long := strings.Repeat("x", 1<<20)
	tests := []struct {
		mode     tool.ResumeMode
		decision tool.Decision
		field    string
	}{
		{tool.ReplayToolCall, tool.Decision{ID: "short", Action: tool.Resume}, "decision.decision_id"},
		{tool.ReplayToolCall, tool.Decision{}, "decision.action"},
		{tool.ReplayToolCall, tool.Decision{Action: "MAYBE"}, "decision.action"},
		{tool.ReplayToolCall, tool.Decision{Action: tool.Cancel, Arguments: `{}`}, "decision"},
		{tool.ReplayToolCall, tool.Decision{Action: tool.Resume, Reason: long}, "decision"},
		{tool.ReplayToolCall, tool.Decision{Action: tool.Resume, Result: `{`}, "decision.result"},
		{tool.ReplayToolCall, tool.Decision{Action: tool.Resume, Arguments: `{`}, "decision.arguments"},
		{tool.ReplayToolCall, tool.Decision{Action: tool.Resume, Arguments: `[]`}, "decision.arguments"},
		{tool.ReplayToolCall, tool.Decision{Action: tool.Resume, Arguments: `{"n":1,"n":2}`}, "decision.arguments"},
		{tool.ReplayToolCall, tool.Decision{Action: tool.Resume, Arguments: `{"m":1}`}, "m"},
		{tool.UseDecisionAsToolResult, tool.Decision{Action: tool.Resume, Result: `1`, Arguments: `{}`}, "decision.arguments"},
		{tool.UseDecisionAsToolResult, tool.Decision{Action: tool.Resume}, "decision.result"},
		{tool.PassDecisionToTool, tool.Decision{Action: tool.Resume, Result: `{}`, Arguments: `{}`}, "decision.arguments"},
		{tool.PassDecisionToTool, tool.Decision{Action: tool.Resume}, "decision.result"},
		{tool.PassDecisionToTool, tool.Decision{Action: tool.Resume, Result: `7`}, "decision.result"},
		{tool.PassDecisionToTool, tool.Decision{Action: tool.Resume, Result: `{"n":"x"}`}, "n"},
	}
	for _, tt := range tests {
		inBubble(t, []tool.Tool{tool.Func(d, run)}, gates(namedGate("ask", approval(tool.Ticket{ResumeMode: tt.mode}))), func(t *testing.T, w *world) {
			c := w.do(spec("t", `{"n":1}`))
			_, err := w.resume(bob, c, tt.decision)
			var r *call.Refusal
			if !errors.As(err, &r) || r.Kind != call.InvalidArgument || len(r.Violations) != 1 || r.Violations[0].Field != tt.field {
				t.Errorf("%s, %.200v: %+v, want a violation of %s", tt.mode, tt.decision, err, tt.field)
			}
			if now := w.get(c.ID); now.Status != call.Suspended || now.Revision != c.Revision {
				t.Errorf("call is %s", now.Status)
			}
		})
	}
}

func TestDigestIsRequiredAndCompared(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating), asks("own", tool.Ticket{})}, gates(namedGate("ask", func(in *hook.Input) (hook.Verdict, error) {
		if in.Descriptor.ID == "own" {
			return allow(in)
		}
		return approval(tool.Ticket{})(in)
	})), func(t *testing.T, w *world) {
		c, own := w.do(spec("t", "")), w.do(spec("own", ""))
		send := func(c *call.Call, digest, cursor string) error {
			d := tool.Decision{ID: "decision-" + newCallID(), Action: tool.Cancel, ExpectedDigest: digest}
			watcher, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: c.LastRound().Suspension.ID, Decision: d, Cursor: cursor})
			if err == nil {
				watcher.Close()
			}
			return err
		}
		wantRefusal(t, send(c, "", ""), call.InvalidArgument, "INVALID_FIELD")
		wantRefusal(t, send(c, own.Open().Digest, ""), call.FailedPrecondition, "DIGEST_MISMATCH")
		wantRefusal(t, send(own, c.Open().Digest, ""), call.FailedPrecondition, "DIGEST_MISMATCH")
		wantRefusal(t, send(c, c.Open().Digest, "c1.1.999"), call.OutOfRange, "CURSOR_OUT_OF_RANGE")
		wantRefusal(t, send(c, c.Open().Digest, "nonsense"), call.InvalidArgument, "INVALID_FIELD")
		for _, c := range []*call.Call{c, own} {
			if now := w.get(c.ID); now.Status != call.Suspended {
				t.Fatalf("call is %s", now.Status)
			}
		}
		if err := send(own, "", ""); err != nil { // The ticket of the tool's own question names no approvers, so this answer is accepted.
			t.Error(err)
		}
		if err := send(c, c.Open().Digest, "c1.1.1"); err != nil {
			t.Error(err)
		}
	})
}

func TestEditedArgumentsRunAndBothFormsAreKept(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		c := w.do(spec("t", `{"x":1}`))
		ticket := *c.Open()
		c = w.answer(bob, c, tool.Decision{Action: tool.Resume, Arguments: ` { "x" : 2 } `})
		if c.Status != call.Succeeded || c.Requested != `{"x":1}` || c.Effective != `{"x":2}` || c.Result.Data != `{"x":2}` {
			t.Errorf("call %s, requested %s, effective %s, %+v", c.Status, c.Requested, c.Effective, c.Result)
		}
		d := c.Rounds[0].Decision
		if d.Arguments != ` { "x" : 2 } ` || d.AppliesTo == "" || d.AppliesTo == ticket.Digest || c.Rounds[0].Suspension.Pending.Arguments != `{"x":1}` {
			t.Errorf("decision %+v on %+v", d, ticket)
		}
		w.crash()
		if again := w.get(c.ID); again.Effective != `{"x":2}` || again.Rounds[0].Decision.AppliesTo != d.AppliesTo {
			t.Errorf("after a restart %+v", again)
		}
		if again, err := w.e.Execute(t.Context(), alice, call.Spec{Tool: "t", Arguments: `{"x":1}`, ID: c.ID, Run: c.Run}, call.ExecuteOptions{}); err != nil {
			t.Errorf("the same request again: %v", err)
		} else {
			again.Close()
		}
	})
}

// TestLargeArgumentsSurviveASuspension checks that arguments above the default size limit survive a suspension when their tool accepts
// them.
func TestLargeArgumentsSurviveASuspension(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.toolAs(tool.Descriptor{ID: "t", MaxArguments: 1 << 20})}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		args := `{"text":"` + strings.Repeat("x", 300<<10) + `"}`
		s := spec("t", args)
		w.cfg.OutputBudget = 1 << 20
		c := w.do(s)
		w.crash()
		if c = w.answer(bob, c, yes()); c.Status != call.Succeeded || p.seen()[0].Arguments.Text() != args {
			t.Errorf("call %s, ran with %d bytes", c.Status, len(p.seen()[0].Arguments.Text()))
		}
	})
	var shown []int // sizes that After hooks saw
	config := both(gates(namedGate("ask", approval(tool.Ticket{ResumeMode: tool.UseDecisionAsToolResult, ExpiresIn: time.Hour}))), func(c *lifecycle.Config) {
		c.Hooks.After = []hook.Entry[hook.After]{{Name: "a", Hook: sized{&shown}}}
	})
	inBubble(t, []tool.Tool{p.toolAs(tool.Descriptor{ID: "t", MaxArguments: 1 << 20})}, config, func(t *testing.T, w *world) {
		args := `{"text":"` + strings.Repeat("x", 300<<10) + `"}`
		decided, left := w.do(spec("t", args)), w.do(spec("t", args))
		if c := w.answer(bob, decided, tool.Decision{Action: tool.Resume, Result: "1"}); c.Status != call.Succeeded || c.Result.Data != "1" || c.Executed != call.NotStarted {
			t.Errorf("call %s %s %.20s", c.Status, c.Executed, c.Result.Data)
		}
		expired(w, call.Spec{Tool: "t", Arguments: args, ID: left.ID, Run: left.Run})
		if len(shown) != 2 || shown[0] != len(args) || shown[1] != len(args) {
			t.Errorf("hooks saw arguments of %v bytes", shown)
		}
	})
}

// sized records the size of the arguments that an After hook receives.
type sized struct{ shown *[]int }

func (s sized) After(_ context.Context, in *hook.Input, _ hook.Outcome) (hook.AfterResult, error) {
	*s.shown = append(*s.shown, len(in.Arguments.Text()))
	return hook.AfterResult{}, nil
}

func TestIdempotencyKey(t *testing.T) {
	p := &probe{}
	ask := func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if _, err := p.run(ctx, c); err != nil || c.Resume == nil || c.Resume.Result == "1" {
			return tool.Suspended("again?"), err
		}
		return tool.Text("done"), nil
	}
	inBubble(t, []tool.Tool{made("t", mutating, ask)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("t", `{"x":1}`))
		c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: "1"})
		c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: "1", Arguments: `{"x":2}`})
		w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: "2"})
		other := w.do(spec("t", `{"x":1}`))
		var keys []string
		for i, c := range p.seen() {
			if i < 4 && c.Attempt != i+1 {
				t.Errorf("run %d is attempt %d", i+1, c.Attempt)
			}
			keys = append(keys, c.IdempotencyKey())
		}
		if len(keys) != 5 || keys[0] != keys[1] || keys[1] == keys[2] || keys[2] != keys[3] || keys[4] == keys[0] || len(keys[0]) != 64 {
			t.Errorf("keys %q of %s and %s", keys, c.ID, other.ID)
		}
	})
}

// TestToolAsksRepeatedly checks that a tool may ask several times, and that it does not repeat work before its checkpoint.
func TestToolAsksRepeatedly(t *testing.T) {
	abandon := &abandoner{}
	inBubble(t, []tool.Tool{made("twice", mutating, askTwice), abandon}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("twice", ""))
		if c.Open().Action != "tool:twice" || c.Open().ResumeMode != tool.ReplayToolCall || c.Open().ExpiresAt.Sub(c.Open().Created).Round(time.Hour) != 30*24*time.Hour {
			t.Errorf("default ticket %+v", c.Open())
		}
		w.crash()
		c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: `"a"`})
		w.crash()
		if c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: `"b"`}); c.Status != call.Succeeded || c.Result.Data != `["a","b"]` || len(c.Attempts) != 3 {
			t.Errorf("call %s %+v after %d attempts", c.Status, c.Result, len(c.Attempts))
		}
		for _, a := range c.Attempts {
			if a.Ended.IsZero() {
				t.Errorf("attempt %d has no end", a.Number)
			}
		}
		for i, end := range []func(c *call.Call){
			func(c *call.Call) { w.answer(alice, c, no("not now")) },
			func(c *call.Call) { _, _ = w.e.Cancel(t.Context(), alice, c.ID, "", time.Minute) },
			func(c *call.Call) { time.Sleep(31 * 24 * time.Hour); _ = w.e.ExpireDue(t.Context()) },
		} {
			c := w.do(spec("abandoner", fmt.Sprintf(`{"n":%d}`, i)))
			end(c)
			synctest.Wait()
			if got := abandon.abandonedCalls(); len(got) != i+1 || got[i] != c.ID {
				t.Errorf("end %d: published %v", i, got)
			}
		}
	})
}

// abandoner is a tool that asks a question and is notified when the question will not be answered.
type abandoner struct {
	mu    sync.Mutex
	calls []string
}

func (*abandoner) Descriptor() tool.Descriptor {
	return tool.Descriptor{ID: "abandoner", Parameters: json.RawMessage(anyObject)}
}

func (*abandoner) Execute(context.Context, *tool.Call) (*tool.Result, error) {
	return tool.Suspended("?"), nil
}

func (a *abandoner) Abandon(_ context.Context, c *tool.Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, c.ID)
}

func (a *abandoner) abandonedCalls() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.calls...)
}

func TestP12IsolationIsCheckedOnResume(t *testing.T) {
	facts := factsHeld("fs_read", "fs_write", "net", "processes_killed")
	p := &probe{}
	config := both(gates(namedGate("ask", approval(tool.Ticket{}))), func(c *lifecycle.Config) { c.Isolation = func(*tool.Descriptor) []call.Fact { return facts } })
	inBubble(t, []tool.Tool{p.toolAs(tool.Descriptor{ID: "t", RequiredIsolation: tool.IsolationFull})}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		facts = factsHeld("fs_read")
		w.crash()
		if c = w.answer(bob, c, yes()); c.Status != call.Failed || c.Result.Error.Code != tool.Sandbox || p.runs.Load() != 0 {
			t.Errorf("call %s %+v, %d runs", c.Status, c.Result.Error, p.runs.Load())
		}
	})
}
