package lifecycle_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// instead returns a decision with a result in the tool's place.
func instead(r tool.ResultInstead) tool.Decision {
	return tool.Decision{Action: tool.Resume, ResultInstead: &r}
}

// insteadAllowed is a ticket whose approvers may answer in the tool's place.
func insteadAllowed() tool.Ticket {
	return tool.Ticket{Approvers: &tool.Approvers{ResultInstead: true}}
}

func TestT143ResultInsteadNeedsItsRight(t *testing.T) {
	aliceApproves := tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"caller", "approver", "operator"}}
	dave := tool.Principal{Namespace: "ns", Subject: "dave", Roles: []string{"approver"}}
	nameless := tool.Principal{Namespace: "ns", Roles: []string{"approver"}}
	forged := instead(tool.ResultInstead{Data: `{"paid":true}`})
	for _, single := range []bool{false, true} {
		p := &probe{}
		config := both(gates(namedGate("ask", approval(insteadAllowed()))), func(c *lifecycle.Config) { c.Approvers.SingleUser = single })
		inBubble(t, []tool.Tool{p.tool("t", mutating)}, config, func(t *testing.T, w *world) {
			s := spec("t", "")
			s.OnBehalfOf = "dave"
			c := w.do(s)
			w.refuse(alice, c, forged, call.PermissionDenied, "NOT_AN_APPROVER")
			w.refuse(aliceApproves, c, forged, call.PermissionDenied, "FOUR_EYES")
			w.refuse(dave, c, forged, call.PermissionDenied, "FOUR_EYES")
			w.refuse(nameless, c, forged, call.PermissionDenied, "FOUR_EYES")
			if c = w.answer(aliceApproves, c, yes()); c.Status != call.Succeeded || p.runs.Load() != 1 {
				t.Errorf("call %s, ran %d times; the caller may still approve it", c.Status, p.runs.Load())
			}
		})
	}
	refused := map[string]tool.Tool{
		"a ticket of a gate":              echo("gated", mutating),
		"a ticket of a tool":              asks("own", tool.Ticket{}),
		"a ticket of a tool to approvers": asks("approvers", tool.Ticket{Approvers: &tool.Approvers{}}),
	}
	for name, tl := range refused {
		gate := namedGate("ask", func(in *hook.Input) (hook.Verdict, error) {
			if in.Descriptor.ID != "gated" {
				return allow(in)
			}
			return approval(tool.Ticket{})(in)
		})
		inBubble(t, []tool.Tool{tl}, gates(gate), func(t *testing.T, w *world) {
			t.Log(name)
			w.refuse(bob, w.do(spec(tl.Descriptor().ID, "")), forged, call.PermissionDenied, "RESULT_INSTEAD_NOT_ALLOWED")
		})
	}
}

func TestResultInsteadBecomesTheResult(t *testing.T) {
	tests := map[string]struct {
		given         tool.ResultInstead
		status        call.Status
		code, message string // code and message of the error
		text          string
	}{
		"data":             {tool.ResultInstead{Data: `{"free":12}`}, call.Succeeded, "", "", `{"free":12}`},
		"data and message": {tool.ResultInstead{Data: `{"free":12}`, Message: "12 GB"}, call.Succeeded, "", "", "12 GB"},
		"message":          {tool.ResultInstead{Message: "12 GB"}, call.Succeeded, "", "", "12 GB"},
		"error":            {tool.ResultInstead{Message: "the host is down", Error: true}, call.Failed, "EXECUTION_FAILED RESULT_INSTEAD", "the host is down", "the host is down"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, after := &probe{}, &afterHook{}
			config := both(gates(namedGate("ask", approval(insteadAllowed()))), func(c *lifecycle.Config) {
				c.Hooks.After = []hook.Entry[hook.After]{{Name: "after", Hook: after}}
			})
			inBubble(t, []tool.Tool{p.tool("t", mutating)}, config, func(t *testing.T, w *world) {
				c := w.answer(bob, w.do(spec("t", `{"host":"a"}`)), instead(tt.given))
				code, message := "", ""
				if e := c.Result.Error; e != nil {
					code, message = string(e.Code)+" "+e.Reason, e.Message
				}
				if c.Status != tt.status || code != tt.code || message != tt.message || c.Result.ModelText() != tt.text || c.Executed != call.NotStarted || p.runs.Load() != 0 {
					t.Errorf("call %s %s %+v", c.Status, c.Executed, c.Result)
				}
				if d := c.Rounds[0].Decision; c.Result.Metadata["result_instead"] != "bob" || d.DecidedBy.Subject != "bob" || *d.ResultInstead != tt.given || !after.saw(c) {
					t.Errorf("metadata %v, decision %+v", c.Result.Metadata, d)
				}
			})
		})
	}
}

// TestResultInsteadThatDoesNotFit checks that the question stays open when the result could not be a result of the tool or comes with other
// fields.
func TestResultInsteadThatDoesNotFit(t *testing.T) {
	d := tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject), ResultSchema: json.RawMessage(`{"type":"object","properties":{"free":{"type":"integer"}},"required":["free"]}`)}
	tests := []struct {
		decision tool.Decision
		field    string
	}{
		{instead(tool.ResultInstead{}), "decision.result_instead"},
		{instead(tool.ResultInstead{Error: true}), "decision.result_instead.message"},
		{instead(tool.ResultInstead{Error: true, Data: `1`}), "decision.result_instead.message"},
		{instead(tool.ResultInstead{Data: `{`}), "decision.result_instead.data"},
		{instead(tool.ResultInstead{Data: `{"a":1,"a":2}`}), "decision.result_instead.data"},
		{instead(tool.ResultInstead{Message: "12 GB"}), "decision.result_instead.data"},
		{instead(tool.ResultInstead{Data: `{"free":"12"}`}), "decision.result_instead.data.free"},
		{tool.Decision{Action: tool.Resume, ResultInstead: &tool.ResultInstead{Data: `{"free":1}`}, Result: `1`}, "decision.result_instead"},
		{tool.Decision{Action: tool.Resume, ResultInstead: &tool.ResultInstead{Data: `{"free":1}`}, Arguments: `{}`}, "decision.result_instead"},
		{tool.Decision{Action: tool.Resume, ResultInstead: &tool.ResultInstead{Data: `{"free":1}`}, Remember: &tool.Remember{Option: "x"}}, "decision.result_instead"},
		{tool.Decision{Action: tool.Cancel, ResultInstead: &tool.ResultInstead{Data: `{"free":1}`}}, "decision"},
	}
	p := &probe{}
	inBubble(t, []tool.Tool{tool.Func(d, p.run)}, gates(namedGate("ask", approval(insteadAllowed()))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		for _, tt := range tests {
			_, err := w.resume(bob, c, tt.decision)
			var r *call.Refusal
			if !errors.As(err, &r) || r.Kind != call.InvalidArgument || len(r.Violations) != 1 || r.Violations[0].Field != tt.field {
				t.Errorf("%+v: %+v, want a violation of %s", tt.decision.ResultInstead, err, tt.field)
			}
			if now := w.get(c.ID); now.Status != call.Suspended || now.Revision != c.Revision {
				t.Fatalf("call is %s", now.Status)
			}
		}
		if c = w.answer(bob, c, instead(tool.ResultInstead{Data: `{"free":12}`})); c.Status != call.Succeeded || p.runs.Load() != 0 {
			t.Errorf("call %s", c.Status)
		}
	})
}

// TestResultInsteadNeedsTheGates checks that the gates decide again about a call with a result in the tool's place, and that the tool never
// runs after such an answer.
func TestResultInsteadNeedsTheGates(t *testing.T) {
	decides := func(second gate) func(*lifecycle.Config) {
		return gates(namedGate("first", approval(insteadAllowed())), namedGate("second", second))
	}
	answered := instead(tool.ResultInstead{Data: `"by hand"`})
	t.Run("block", func(t *testing.T) {
		p, blocks := &probe{}, false
		inBubble(t, []tool.Tool{p.tool("t", mutating)}, decides(func(in *hook.Input) (hook.Verdict, error) {
			if blocks {
				return hook.Block("exfiltration"), nil
			}
			return allow(in)
		}), func(t *testing.T, w *world) {
			c := w.do(spec("t", ""))
			blocks = true
			if c = w.answer(bob, c, answered); c.Status != call.Failed || c.Result.Error.Reason != "BLOCKED" {
				t.Errorf("call %s %+v: an answer took precedence over a refusal", c.Status, c.Result)
			}
		})
	})
	for name, second := range map[string]struct {
		decision tool.Decision
		status   call.Status
		data     string
		ran      int64
	}{
		"another gate asks, yes":  {yes(), call.Succeeded, `"by hand"`, 0},
		"another gate asks, no":   {no("never"), call.Cancelled, "", 0},
		"another gate asks, edit": {tool.Decision{Action: tool.Resume, Arguments: `{"x":2}`}, call.Suspended, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &probe{}
			inBubble(t, []tool.Tool{p.tool("t", mutating)}, decides(approval(tool.Ticket{})), func(t *testing.T, w *world) {
				c := w.answer(bob, w.do(spec("t", `{"x":1}`)), answered)
				if c.Status != call.Suspended || c.Open().Origin != "second" {
					t.Fatalf("call %s", c.Status)
				}
				c = w.answer(bob, c, second.decision)
				if c.Status != second.status || c.Result.JSON() != cmp.Or(second.data, "null") || p.runs.Load() != second.ran {
					t.Errorf("call %s %+v, ran %d times", c.Status, c.Result, p.runs.Load())
				}
			})
		})
	}
	t.Run("earlier approvals stay valid", func(t *testing.T) {
		ticket := insteadAllowed()
		ticket.ResumeMode = tool.PassDecisionToTool
		config := gates(namedGate("first", approval(tool.Ticket{})), namedGate("second", approval(ticket)))
		inBubble(t, []tool.Tool{echo("t", mutating)}, config, func(t *testing.T, w *world) {
			c := w.answer(bob, w.do(spec("t", "")), yes())
			if c = w.answer(bob, c, answered); c.Status != call.Succeeded || c.Result.Data != `"by hand"` {
				t.Errorf("call %s %+v", c.Status, c.Result)
			}
		})
	})
	t.Run("the same gate asks again, yes", func(t *testing.T) { // The newest answer of the gate counts: the tool runs.
		p, again := &probe{}, false
		inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("first", func(in *hook.Input) (hook.Verdict, error) {
			if d := in.Answer(); again && d != nil && d.ResultInstead == nil {
				return allow(in)
			}
			return hook.Suspend(insteadAllowed()), nil
		})), func(t *testing.T, w *world) {
			c := w.do(spec("t", `{"x":1}`))
			again = true
			if c = w.answer(bob, w.answer(bob, c, answered), yes()); c.Status != call.Succeeded || c.Result.Data != `{"x":1}` || p.runs.Load() != 1 {
				t.Errorf("call %s %+v", c.Status, c.Result)
			}
		})
	})
}

// quitter asks with a ticket, and counts how often it is notified that its question will not be answered.
type quitter struct {
	tool.Tool
	abandoned atomic.Int64
}

func (q *quitter) Abandon(context.Context, *tool.Call) { q.abandoned.Add(1) }

// TestResultInsteadOfAToolThatAsked checks a result in the place of a tool that has asked. The tool is notified that its question gets no
// answer, and Executed is STARTED.
func TestResultInsteadOfAToolThatAsked(t *testing.T) {
	for _, mode := range []tool.ResumeMode{tool.ReplayToolCall, tool.UseDecisionAsToolResult, tool.PassDecisionToTool} {
		ticket := insteadAllowed()
		ticket.ResumeMode, ticket.ResponseSchema = mode, json.RawMessage(`{"type":"object"}`)
		q := &quitter{Tool: asks("t", ticket)}
		inBubble(t, []tool.Tool{q}, nil, func(t *testing.T, w *world) {
			c := w.answer(bob, w.do(spec("t", "")), instead(tool.ResultInstead{Data: `"by hand"`}))
			synctest.Wait() // The tool is notified after the result is stored.
			if c.Status != call.Succeeded || c.Executed != call.Started || c.Result.Data != `"by hand"` || q.abandoned.Load() != 1 {
				t.Errorf("%s: call %s %s %+v, notified %d times", mode, c.Status, c.Executed, c.Result, q.abandoned.Load())
			}
		})
	}
}

// TestResultInsteadNotifiesTheToolOnce checks that the tool is notified exactly once that its question gets no answer. This must also hold
// when a gate asks before the call ends, or when the batch ends the call.
func TestResultInsteadNotifiesTheToolOnce(t *testing.T) {
	answered := instead(tool.ResultInstead{Data: `"by hand"`})
	ask := func() *quitter {
		ticket := insteadAllowed()
		ticket.ResponseSchema = json.RawMessage(`{"type":"object"}`)
		return &quitter{Tool: asks("t", ticket)}
	}
	check := func(t *testing.T, w *world, q *quitter, id string, want call.Status) {
		t.Helper()
		synctest.Wait()
		if c := w.get(id); c.Status != want || q.abandoned.Load() != 1 {
			t.Errorf("call %s %+v, notified %d times, want %s and 1", c.Status, c.Result, q.abandoned.Load(), want)
		}
	}
	for name, tt := range map[string]struct {
		decision tool.Decision
		status   call.Status
	}{"a gate asks, yes": {yes(), call.Succeeded}, "a gate asks, no": {no("never"), call.Cancelled}} {
		t.Run(name, func(t *testing.T) {
			q, late := ask(), false
			gate := namedGate("late", func(in *hook.Input) (hook.Verdict, error) {
				if late {
					return approval(tool.Ticket{})(in)
				}
				return allow(in)
			})
			inBubble(t, []tool.Tool{q}, gates(gate), func(t *testing.T, w *world) {
				c := w.do(spec("t", ""))
				late = true
				w.answer(bob, w.answer(bob, c, answered), tt.decision)
				check(t, w, q, c.ID, tt.status)
			})
		})
	}
	t.Run("the batch ends the call", func(t *testing.T) {
		q := ask()
		gate := namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
			if in.Descriptor.ID == "other" {
				return approval(tool.Ticket{})(in)
			}
			return allow(in)
		})
		inBubble(t, []tool.Tool{q, echo("other", mutating)}, gates(gate), func(t *testing.T, w *world) {
			b := batchOf(call.Auto, of("t", "other")...)
			b.FailFast, b.Replay = true, call.AllDecided
			w.launch(b)
			w.decide(bob, b.Calls[0].ID, answered)
			w.decide(bob, b.Calls[1].ID, no("never"))
			check(t, w, q, b.Calls[0].ID, call.Failed)
		})
	})
}

// TestVotesForResultInstead checks that votes agree only when their results are equal.
func TestVotesForResultInstead(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(2, insteadAllowed()), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		vote := func(i int, d tool.Decision) {
			t.Helper()
			s := c.Open()
			d.ID, d.ExpectedDigest = fmt.Sprintf("decision-of-voter-%d", i), s.Digest
			watcher, err := w.e.Resume(t.Context(), voter(i), call.ResumeRequest{SuspensionID: s.ID, Decision: d})
			if err != nil {
				t.Fatal(err)
			}
			watcher.Close()
			c = w.get(c.ID)
		}
		vote(1, instead(tool.ResultInstead{Data: `{"a":1,"b":2}`}))
		vote(2, instead(tool.ResultInstead{Data: `{"a":1,"b":3}`}))
		vote(3, yes())
		vote(4, instead(tool.ResultInstead{Data: `{"a":1,"b":2}`, Error: true, Message: "x"}))
		if c.Status != call.Suspended {
			t.Fatalf("call %s: different votes agreed", c.Status)
		}
		vote(5, instead(tool.ResultInstead{Data: `{"b": 2, "a": 1}`}))
		synctest.Wait()
		if c = w.get(c.ID); c.Status != call.Succeeded || c.Result.Metadata["result_instead"] != "voter-001, voter-005" || p.runs.Load() != 0 {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
	})
}

// TestResultInsteadSurvivesACrash checks that a stored answer is applied after a crash. When the tool has changed meanwhile, the answer
// does not count, and the tool does not run.
func TestResultInsteadSurvivesACrash(t *testing.T) {
	for _, changed := range []bool{false, true} {
		p := &probe{}
		inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(insteadAllowed()))), func(t *testing.T, w *world) {
			c := w.do(spec("t", ""))
			d := instead(tool.ResultInstead{Data: `1`})
			d.ID, d.ExpectedDigest = "decision-1234567", c.Open().Digest
			w.crash()
			w.crashAt("after-commit", func() {
				watcher, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: c.Open().ID, Decision: d})
				if err != nil {
					t.Fatal(err)
				}
				watcher.Close()
				if changed {
					w.tools.put(p.toolAs(tool.Descriptor{ID: "t", Effects: mutating, Description: "another tool"}))
				}
			})
			c = w.get(c.ID)
			switch {
			case p.runs.Load() != 0:
				t.Error("the tool ran")
			case changed && (c.Status != call.Failed || c.Result.Error.Reason != "TOOL_CHANGED"):
				t.Errorf("call %s %+v", c.Status, c.Result)
			case !changed && (c.Status != call.Succeeded || c.Result.Data != `1`):
				t.Errorf("call %s %+v", c.Status, c.Result)
			}
		})
	}
}

// TestResultInsteadOfAToolThatChangesLater checks a tool that changes while another gate asks. The answer then does not count, and the tool
// does not run.
func TestResultInsteadOfAToolThatChangesLater(t *testing.T) {
	p := &probe{}
	config := gates(namedGate("first", approval(insteadAllowed())), namedGate("second", approval(tool.Ticket{})))
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, config, func(t *testing.T, w *world) {
		c := w.answer(bob, w.do(spec("t", "")), instead(tool.ResultInstead{Data: `1`}))
		w.tools.put(p.toolAs(tool.Descriptor{ID: "t", Effects: mutating, Description: "another tool"}))
		if c = w.answer(bob, c, yes()); c.Status != call.Failed || c.Result.Error.Reason != "TOOL_CHANGED" || p.runs.Load() != 0 {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
	})
}

// TestResultInsteadOfAChangedTool checks that a result in the tool's place is refused, and the question stays open, when the tool has
// changed or no longer exists.
func TestResultInsteadOfAChangedTool(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(insteadAllowed()))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		w.tools.put((&probe{}).toolAs(tool.Descriptor{ID: "t", Description: "another tool"}))
		w.refuse(bob, c, instead(tool.ResultInstead{Data: `1`}), call.FailedPrecondition, "TOOL_CHANGED")
		w.tools.put()
		w.refuse(bob, c, instead(tool.ResultInstead{Data: `1`}), call.FailedPrecondition, "TOOL_GONE")
	})
}
