package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// refuse sends a decision that must be refused, and checks that the question is still open.
func (w *world) refuse(p tool.Principal, c *call.Call, d tool.Decision, kind call.RefusalKind, reason string) *call.Refusal {
	w.t.Helper()
	_, err := w.resume(p, c, d)
	if err == nil {
		w.t.Fatalf("decision was taken; want %s %s", kind, reason)
	}
	wantRefusal(w.t, err, kind, reason)
	if now := w.get(c.ID); now.Status != c.Status || now.Revision != c.Revision {
		w.t.Errorf("a refused decision moved the call from %s %d to %s %d", c.Status, c.Revision, now.Status, now.Revision)
	}
	var r *call.Refusal
	errors.As(err, &r)
	return r
}

func TestT62FourEyes(t *testing.T) {
	alsoAlice := tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"approver"}, Method: "peer"}
	dave := tool.Principal{Namespace: "ns", Subject: "dave", Roles: []string{"approver"}}
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{Approvers: &tool.Approvers{DistinctFromCaller: true}}))), func(t *testing.T, w *world) {
		s := spec("t", "")
		s.OnBehalfOf = "dave"
		c := w.do(s)
		w.refuse(alice, c, yes(), call.PermissionDenied, "NOT_AN_APPROVER")
		w.refuse(alsoAlice, c, yes(), call.PermissionDenied, "FOUR_EYES")
		w.refuse(dave, c, yes(), call.PermissionDenied, "FOUR_EYES") // dave is the person on whose behalf the call is made.
		w.refuse(alsoAlice, c, no(""), call.PermissionDenied, "FOUR_EYES")
		if p.runs.Load() != 0 {
			t.Error("tool ran")
		}
		if c = w.answer(bob, c, yes()); c.Status != call.Succeeded || c.Rounds[0].Decision.DecidedBy.Subject != "bob" {
			t.Errorf("call %s %+v", c.Status, c.Rounds[0].Decision)
		}
	})
}

func TestT114OneTokenOnly(t *testing.T) {
	aliceApproves := tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"caller", "approver"}}
	ask := gates(namedGate("ask", approval(tool.Ticket{Approvers: &tool.Approvers{DistinctFromCaller: true}})))
	for _, who := range []people{{"approver": {"alice"}}, {"approver": {"alice", "carl"}}} {
		inBubble(t, []tool.Tool{echo("t", mutating)}, both(ask, func(c *lifecycle.Config) { c.People = who }), func(t *testing.T, w *world) {
			s := spec("t", "")
			s.OnBehalfOf = "carl"
			watcher, err := w.e.Execute(t.Context(), aliceApproves, s, call.ExecuteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := watcher.Wait(t.Context(), time.Hour)
			if err != nil || c.Status != call.Failed || c.Result.Error.Reason != "NO_ELIGIBLE_APPROVER" || c.Executed != call.NotStarted {
				t.Errorf("with %v: call %+v, %v", who, c, err)
			}
		})
	}
	// With a single user, the caller may confirm the call, and the ticket requires no second person.
	inBubble(t, []tool.Tool{echo("t", mutating)}, both(ask, func(c *lifecycle.Config) { c.People, c.Approvers.SingleUser = people{"approver": {"alice"}}, true }), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if c.Status != call.Suspended || c.Open().Approvers.DistinctFromCaller {
			t.Fatalf("call %s %+v", c.Status, c.Open())
		}
		if c = w.answer(aliceApproves, c, yes()); c.Status != call.Succeeded {
			t.Errorf("call %s", c.Status)
		}
	})
}

// TestApproverGroups checks a ticket that names no groups. It gets the groups of its namespace, and only members of these groups can answer
// it.
func TestApproverGroups(t *testing.T) {
	member := func(subject string, groups ...string) tool.Principal {
		return tool.Principal{Namespace: "ns", Subject: subject, Roles: []string{"approver"}, Groups: groups}
	}
	config := func(a *tool.Approvers, who people) func(*lifecycle.Config) {
		return both(gates(namedGate("ask", approval(tool.Ticket{Approvers: a}))), func(c *lifecycle.Config) {
			c.People, c.Approvers.Groups = who, map[string][]string{"ns": {"ops"}, "other": {"hr"}}
		})
	}
	both := people{"approver/ops": {"bob"}, "approver/finance": {"erin"}}
	for want, a := range map[string]*tool.Approvers{"ops": {}, "finance": {Groups: []string{"finance"}}} {
		inBubble(t, []tool.Tool{echo("t", mutating)}, config(a, both), func(t *testing.T, w *world) {
			c := w.do(spec("t", ""))
			if got := c.Open().Approvers.Groups; len(got) != 1 || got[0] != want {
				t.Fatalf("the ticket names the groups %v, want %s", got, want)
			}
			w.refuse(member("bob", "hr"), c, yes(), call.NotFound, "SUSPENSION_NOT_FOUND") // bob does not see calls that he cannot answer.
			w.refuse(bob, c, yes(), call.NotFound, "SUSPENSION_NOT_FOUND")
			w.refuse(tool.Principal{Namespace: "ns", Subject: "carl", Roles: []string{"caller", "operator"}, Groups: []string{want}}, c, yes(), call.PermissionDenied, "NOT_AN_APPROVER")
			c = w.answer(member("erin", "hr", want), c, yes())
			if by := c.Rounds[0].Decision.DecidedBy; c.Status != call.Succeeded || len(by.Groups) != 2 {
				t.Errorf("call %s, decided by %+v", c.Status, by)
			}
		})
	}
	inBubble(t, []tool.Tool{echo("t", mutating)}, config(&tool.Approvers{Groups: []string{"legal"}}, both), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if c.Status != call.Failed || c.Result.Error.Reason != "NO_ELIGIBLE_APPROVER" || !strings.Contains(c.Result.Error.Message, "in the group legal") {
			t.Errorf("call %s: %+v", c.Status, c.Result.Error)
		}
	})
}

func TestT63ChangeBetweenSuspensionAndDecision(t *testing.T) {
	p := &probe{}
	changed := tool.Descriptor{ID: "t", Description: "now it does something else"}
	isolated := tool.Descriptor{ID: "t", RequiredNetwork: "open"}
	for _, d := range []tool.Descriptor{changed, isolated} {
		p.runs.Store(0)
		inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
			c := w.do(spec("t", `{"x":1}`))
			first := c.Open()
			w.tools.put(p.toolAs(d))
			c = w.answer(bob, c, yes())
			if c.Status != call.Suspended || p.runs.Load() != 0 || c.Open().ID == first.ID || c.Open().Digest == first.Digest || len(c.Rounds) != 2 {
				t.Fatalf("call %s, %d runs, rounds %+v", c.Status, p.runs.Load(), c.Rounds)
			}
			def, _ := w.tools.Lookup("", "t")
			if c.ToolDigest != def.Digest {
				t.Errorf("the record has tool digest %s, what is asked about is %s", c.ToolDigest, def.Digest)
			}
			if c = w.answer(bob, c, yes()); c.Status != call.Succeeded || p.runs.Load() != 1 {
				t.Errorf("call %s, %d runs", c.Status, p.runs.Load())
			}
		})
	}
	// A change of the tool also voids an answer that would become the result or the input of the tool.
	for _, mode := range []tool.ResumeMode{tool.UseDecisionAsToolResult, tool.ReplayToolCall} {
		ask := asks("t", tool.Ticket{ResumeMode: mode})
		inBubble(t, []tool.Tool{ask}, nil, func(t *testing.T, w *world) {
			c := w.do(spec("t", ""))
			d := ask.Descriptor()
			d.Description = "changed"
			w.tools.put(tool.Func(d, ask.Execute))
			c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: `"old"`})
			if c.Status != call.Suspended || len(c.Rounds) != 2 {
				t.Fatalf("%s: call %s %+v", mode, c.Status, c.Result)
			}
			if c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: `"new"`}); c.Status != call.Succeeded || c.Result.Data != `"new"` {
				t.Errorf("%s: call %s %+v", mode, c.Status, c.Result)
			}
		})
	}
}

// TestT127EditedYesAndAChangedTool checks that an approval with edited arguments applies only to the tool that its ticket showed. If the
// definition, the required isolation or the required network changes, the edited call asks again.
func TestT127EditedYesAndAChangedTool(t *testing.T) {
	full := tool.Descriptor{ID: "t", RequiredIsolation: tool.IsolationFull}
	changes := map[string]tool.Descriptor{
		"definition": {ID: "t", RequiredIsolation: tool.IsolationFull, Description: "now it does something else"},
		"isolation":  {ID: "t", RequiredIsolation: tool.IsolationNone},
		"network":    {ID: "t", RequiredIsolation: tool.IsolationFull, RequiredNetwork: "open"},
	}
	approved := &tool.Approvers{}
	edits := map[tool.ResumeMode]tool.Decision{
		tool.ReplayToolCall:     {Action: tool.Resume, Arguments: `{"x":2}`},
		tool.PassDecisionToTool: {Action: tool.Resume, Result: `{"x":2}`},
	}
	for what, changed := range changes {
		for mode, edit := range edits {
			p := &probe{}
			config := both(gates(namedGate("ask", approval(tool.Ticket{ResumeMode: mode, Approvers: approved}))), func(c *lifecycle.Config) {
				c.Isolation = func(*tool.Descriptor) []call.Fact { return factsHeld("fs_read", "fs_write", "net", "processes_killed") }
			})
			inBubble(t, []tool.Tool{p.toolAs(full)}, config, func(t *testing.T, w *world) {
				c := w.do(spec("t", `{"x":1}`))
				w.tools.put(p.toolAs(changed))
				c = w.answer(bob, c, edit)
				if c.Status != call.Suspended || p.runs.Load() != 0 || len(c.Rounds) != 2 || c.Open().Pending.Arguments != `{"x":2}` {
					t.Fatalf("%s, %s: call %s, %d runs, rounds %+v", what, mode, c.Status, p.runs.Load(), c.Rounds)
				}
				if c = w.answer(bob, c, edit); c.Status != call.Succeeded || p.runs.Load() != 1 {
					t.Errorf("%s, %s: asked again and answered: call %s, %d runs", what, mode, c.Status, p.runs.Load())
				}
			})
		}
	}
}

// TestT127AnswerOfAToolThatChanged checks that an answer with new arguments is not passed to a tool that changed after the question.
func TestT127AnswerOfAToolThatChanged(t *testing.T) {
	asked := 0
	ask := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			asked++
			return tool.SuspendedWith(tool.Ticket{ResumeMode: tool.PassDecisionToTool}), nil
		}
		return tool.Text("done"), nil
	})
	inBubble(t, []tool.Tool{ask}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		d := ask.Descriptor()
		d.Description = "changed"
		w.tools.put(tool.Func(d, ask.Execute))
		answer := tool.Decision{Action: tool.Resume, Result: `{"x":2}`}
		if c = w.answer(alice, c, answer); c.Status != call.Suspended || asked != 2 {
			t.Fatalf("call %s, asked %d times", c.Status, asked)
		}
		if c = w.answer(alice, c, answer); c.Status != call.Succeeded {
			t.Errorf("call %s", c.Status)
		}
	})
}

// TestT128ResultForATicketThatTakesNone checks that a ticket that asks only for yes or no accepts no result. Otherwise a "no" in the result
// could count as a yes.
func TestT128ResultForATicketThatTakesNone(t *testing.T) {
	p := &probe{}
	own := made("own", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			return tool.SuspendedWith(tool.Ticket{Action: "approval", Message: "sure?"}), nil
		}
		return p.run(ctx, c)
	})
	tickets := map[string]tool.Ticket{"t": {}, "named": {Action: "release"}, "own": {}}
	config := gates(namedGate("ask", func(in *hook.Input) (hook.Verdict, error) {
		if in.Descriptor.ID == "own" {
			return allow(in)
		}
		return approval(tickets[in.Descriptor.ID])(in)
	}))
	inBubble(t, []tool.Tool{p.tool("t", mutating), p.tool("named", mutating), own}, config, func(t *testing.T, w *world) {
		for id := range tickets {
			p.runs.Store(0)
			c := w.do(spec(id, ""))
			for _, result := range []string{`{"approved":false}`, `"no, please do not"`, `false`, `{}`} {
				r := w.refuse(bob, c, tool.Decision{Action: tool.Resume, Result: result}, call.InvalidArgument, "INVALID_FIELD")
				if !strings.Contains(r.Message, "CANCEL for no") {
					t.Errorf("%s, %s: refused with %q", id, result, r.Message)
				}
			}
			if p.runs.Load() != 0 {
				t.Fatalf("%s ran", id)
			}
			if c = w.answer(bob, c, tool.Decision{Action: tool.Resume, Result: "null"}); c.Status != call.Succeeded { // null is the same as no result
				t.Errorf("%s: call %s %+v", id, c.Status, c.Result)
			}
		}
	})
}

// decideAll sends n decisions concurrently and returns the winners. All others must be refused.
func decideAll(w *world, c *call.Call, n int) (winners []string) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		d := tool.Decision{ID: fmt.Sprintf("%s-%03d", c.ID, i), Action: tool.Resume}
		if i%2 == 1 {
			d.Action = tool.Cancel
		}
		p := tool.Principal{Namespace: "ns", Subject: fmt.Sprintf("approver-%d", i%10), Roles: []string{"approver"}}
		all.Go(func() {
			d.ExpectedDigest = c.Open().Digest
			watcher, err := w.e.Resume(w.t.Context(), p, call.ResumeRequest{SuspensionID: c.Open().ID, CallID: c.ID, Decision: d})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners = append(winners, d.ID)
				watcher.Close()
				return
			}
			var r *call.Refusal
			if !errors.As(err, &r) || r.Reason != "ALREADY_DECIDED" || r.Metadata["decision_id"] == "" {
				w.t.Errorf("decision %s: %v", d.ID, err)
			}
		})
	}
	all.Wait()
	return winners
}

func TestP2FirstCommittedDecisionWins(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		for range 20 {
			p.runs.Store(0)
			c := w.do(spec("t", ""))
			winners := decideAll(w, c, 100)
			if len(winners) != 1 {
				t.Fatalf("%d decisions won", len(winners))
			}
			synctest.Wait()
			c = w.get(c.ID)
			d := c.Rounds[0].Decision
			if d.ID != winners[0] || !c.Status.Terminal() {
				t.Errorf("call %s by %s; reported that %s won", c.Status, d.ID, winners[0])
			}
			if runs := p.runs.Load(); runs != map[tool.DecisionAction]int64{tool.Resume: 1}[d.Action] {
				t.Errorf("%s won and the tool ran %d times", d.Action, runs)
			}
			if got := strings.Count(types(t, 1, w.checkLog(c.ID)), "resumed"); got != 1 {
				t.Errorf("%d resumed events", got)
			}
		}
	})
}

func TestT64DecisionsAndKills(t *testing.T) {
	for _, point := range []string{"before-commit", "after-commit", "before-tool", "after-tool", "before-result", "after-result"} {
		t.Run(point, func(t *testing.T) {
			p := &probe{}
			var kill func()
			config := both(gates(namedGate("ask", approval(tool.Ticket{}))), func(c *lifecycle.Config) {
				c.FailPoint = func(name string) {
					if name == point && kill != nil {
						kill()
					}
				}
			})
			inBubble(t, []tool.Tool{p.tool("t", mutating)}, config, func(t *testing.T, w *world) {
				c := w.do(spec("t", ""))
				var once sync.Once
				kill = func() { once.Do(func() { w.store = w.store.Crash() }) }
				acknowledged := ""
				if watcher, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: c.Open().ID,
					Decision: tool.Decision{ID: "decision-1234567", Action: tool.Resume, ExpectedDigest: c.Open().Digest}}); err == nil {
					acknowledged = "decision-1234567"
					watcher.Close()
				}
				synctest.Wait()
				kill = nil
				w.past = append(w.past, w.e)
				w.open()
				synctest.Wait()
				now := w.get(c.ID)
				if now.Status == call.Suspended {
					if acknowledged != "" {
						t.Fatal("an acknowledged decision is lost")
					}
					now = w.answer(bob, now, yes())
				}
				if d := now.Rounds[0].Decision; acknowledged != "" && d.ID != acknowledged {
					t.Errorf("decided by %s", d.ID)
				}
				if !now.Status.Terminal() || p.runs.Load() > 1 || now.Status == call.Succeeded && p.runs.Load() != 1 {
					t.Errorf("call %s %+v, tool ran %d times", now.Status, now.Result, p.runs.Load())
				}
				w.checkLog(c.ID)
			})
		})
	}
}

func TestT97AnswerOfTheToolChangesTheArguments(t *testing.T) {
	seen := []string{}
	asker := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Arguments.String("to") == "" {
			return tool.SuspendedWith(tool.Ticket{Message: "to whom?", ResumeMode: tool.PassDecisionToTool}), nil
		}
		seen = append(seen, c.Arguments.Text())
		return tool.Text("sent"), nil
	})
	inBubble(t, []tool.Tool{asker}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		c := w.answer(bob, w.do(spec("t", `{}`)), yes())
		if c.Open().Origin != call.OriginTool || c.Open().ResumeMode != tool.PassDecisionToTool {
			t.Fatalf("call %s %+v", c.Status, c.Open())
		}
		c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: `{"to":"eve"}`})
		if c.Status != call.Suspended || c.Open().Origin != "ask" || c.Open().Pending.Arguments != `{"to":"eve"}` || len(seen) != 0 {
			t.Fatalf("call %s %+v, ran with %v", c.Status, c.Open(), seen)
		}
		if c = w.answer(bob, c, yes()); c.Status != call.Succeeded || len(seen) != 1 || seen[0] != `{"to":"eve"}` {
			t.Errorf("call %s, ran with %v", c.Status, seen)
		}
	})
}

func TestT98EditByNonApprover(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{Approvers: &tool.Approvers{Roles: []string{"lead"}}}))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		edit := tool.Decision{Action: tool.Resume, Arguments: `{"x":2}`}
		w.refuse(alice, c, edit, call.PermissionDenied, "NOT_AN_APPROVER")
		w.refuse(bob, c, edit, call.NotFound, "SUSPENSION_NOT_FOUND") // The ticket is for the role lead. To bob, who is only an approver, the suspension does not exist.
		w.refuse(tool.Principal{Namespace: "ns", Subject: "mallory"}, c, edit, call.NotFound, "SUSPENSION_NOT_FOUND")
		if p.runs.Load() != 0 {
			t.Error("tool ran")
		}
	})
}

func TestT99DecisionsForOtherQuestions(t *testing.T) {
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{}), made("twice", mutating, askTwice)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("twice", ""))
		first := c.Open().ID
		second := w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: `1`})
		if second.Open() == nil || second.Open().ID == first {
			t.Fatalf("call %s %+v", second.Status, second.Rounds)
		}
		send := func(p tool.Principal, suspension, callID string) error {
			_, err := w.e.Resume(t.Context(), p, call.ResumeRequest{SuspensionID: suspension, CallID: callID,
				Decision: tool.Decision{ID: "decision-" + newCallID(), Action: tool.Resume, Result: `2`}})
			return err
		}
		wantRefusal(t, send(alice, first, ""), call.FailedPrecondition, "ALREADY_DECIDED")
		wantRefusal(t, send(eve, second.Open().ID, ""), call.NotFound, "SUSPENSION_NOT_FOUND")
		wantRefusal(t, send(alice, second.Open().ID, "another-call-0001"), call.NotFound, "SUSPENSION_NOT_FOUND")
		wantRefusal(t, send(alice, second.ID, ""), call.NotFound, "SUSPENSION_NOT_FOUND") // A call id is not accepted as a suspension id.
		foreign := spec("t", "")
		foreign.ID = second.Open().ID // A call whose id equals the suspension id does not receive the answers either.
		watcher, err := w.e.Execute(t.Context(), eve, foreign, call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watcher.Wait(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, send(eve, second.Open().ID, ""), call.NotFound, "SUSPENSION_NOT_FOUND")
		if now := w.get(c.ID); now.Status != call.Suspended || now.Revision != second.Revision {
			t.Errorf("call moved to %s", now.Status)
		}
	})
}

// askTwice asks two questions, one after the other, and stores the first answer in its checkpoint.
func askTwice(_ context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Resume == nil {
		return tool.Suspended("first?"), nil
	}
	if len(c.Checkpoint) == 0 {
		if err := c.SaveCheckpoint([]byte(c.Resume.Result)); err != nil {
			return nil, err
		}
		return tool.Suspended("second?"), nil
	}
	return &tool.Result{Status: tool.StatusSuccess, Data: "[" + string(c.Checkpoint) + "," + c.Resume.Result + "]"}, nil
}

func TestT100RepeatedDecisions(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		c, other := w.do(spec("t", "")), w.do(spec("t", ""))
		d := tool.Decision{ID: "decision-of-bob-1", Action: tool.Resume, ExpectedDigest: c.Open().Digest}
		suspension := c.Open().ID
		for i := range 3 {
			if i == 2 {
				w.crash()
			}
			watcher, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: suspension, Decision: d})
			if err != nil {
				t.Fatal(err)
			}
			if c, err = watcher.Wait(t.Context(), time.Hour); err != nil || c.Status != call.Succeeded {
				t.Errorf("repeat %d: %s, %v", i, c.Status, err)
			}
		}
		if p.runs.Load() != 1 {
			t.Errorf("tool ran %d times", p.runs.Load())
		}
		for _, change := range []func(d *tool.Decision){
			func(d *tool.Decision) { d.Action = tool.Cancel },
			func(d *tool.Decision) { d.Arguments = `{"x":1}` },
			func(d *tool.Decision) { d.Reason = "because" },
		} {
			again := d
			change(&again)
			_, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: suspension, Decision: again})
			wantRefusal(t, err, call.AlreadyExists, "DECISION_ID_REUSED")
		}
		_, err := w.e.Resume(t.Context(), carolApproves, call.ResumeRequest{SuspensionID: suspension, Decision: d})
		wantRefusal(t, err, call.AlreadyExists, "DECISION_ID_REUSED")
		w.refuse(bob, other, tool.Decision{ID: d.ID, Action: tool.Resume}, call.AlreadyExists, "DECISION_ID_REUSED")
		late := tool.Decision{ID: "decision-of-bob-2", Action: tool.Cancel, ExpectedDigest: d.ExpectedDigest}
		_, err = w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: suspension, Decision: late})
		wantRefusal(t, err, call.FailedPrecondition, "ALREADY_DECIDED")
	})
}

// TestRepeatedDecisionOfAnEarlierRound checks a repeated decision of an earlier round. It streams the events that followed the decision,
// even when later rounds exist.
func TestRepeatedDecisionOfAnEarlierRound(t *testing.T) {
	inBubble(t, []tool.Tool{made("twice", mutating, askTwice)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("twice", ""))
		first := c.Open()
		send := func(wait bool) call.Stream {
			watcher, err := w.e.Resume(t.Context(), alice, call.ResumeRequest{SuspensionID: first.ID, WaitForDecision: wait,
				Decision: tool.Decision{ID: "decision-of-alice", Action: tool.Resume, Result: "1"}})
			if err != nil {
				t.Fatal(err)
			}
			return watcher
		}
		original, _ := events(t, send(false))
		again := send(true)
		second := w.get(c.ID).Open()
		w.answer(alice, w.get(c.ID), tool.Decision{Action: tool.Resume, Result: "2"})
		repeat, controls := events(t, again)
		if got, want := types(t, original[0].Sequence, repeat), types(t, original[0].Sequence, original)+" resumed attempt_started finished"; got != want || len(controls) > 1 {
			t.Errorf("the repeat published %s and %+v, want %s", got, controls, want)
		}
		var answered []string
		for _, ev := range repeat {
			if ev.Type == call.EventResumed {
				answered = append(answered, ev.Suspension.ID)
			}
		}
		if want := []string{first.ID, second.ID}; !slices.Equal(answered, want) {
			t.Errorf("answers to %v, want %v", answered, want)
		}
	})
}

var carolApproves = tool.Principal{Namespace: "ns", Subject: "carol", Roles: []string{"approver"}}

func TestT103NothingVoidsWaitingApprovals(t *testing.T) {
	strict := false
	p := &probe{}
	ask := func(in *hook.Input) (hook.Verdict, error) {
		if in.Answer() != nil {
			return hook.Allow(), nil
		}
		message := "sure?"
		if strict {
			message = "really sure?"
		}
		return hook.Suspend(tool.Ticket{Message: message, Parameters: json.RawMessage(`{"level":1}`), Approvers: &tool.Approvers{}}), nil
	}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", ask)), func(t *testing.T, w *world) {
		var waiting []*call.Call
		for i := range 100 {
			waiting = append(waiting, w.do(spec("t", fmt.Sprintf(`{"n":%d}`, i))))
		}
		synctest.Wait()
		if active := w.e.Stats().Active; active != 0 {
			t.Errorf("%d calls in memory while all wait", active)
		}
		strict = true
		w.cfg.Hooks.Gate = append(w.cfg.Hooks.Gate, namedGate("new", allow))
		w.crash()
		for _, c := range waiting {
			if now := w.get(c.ID); now.Status != call.Suspended || now.Open().Digest != c.Open().Digest {
				t.Fatalf("call %s", now.Status)
			}
			if c = w.answer(bob, c, yes()); c.Status != call.Succeeded || len(c.Rounds) != 1 {
				t.Fatalf("call %s after %d rounds", c.Status, len(c.Rounds))
			}
		}
		if p.runs.Load() != 100 {
			t.Errorf("tool ran %d times", p.runs.Load())
		}
	})
}
