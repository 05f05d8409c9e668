package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

func anyPrincipal(t *rapid.T, label string) tool.Principal {
	some := func(label string, of ...string) []string {
		return slices.DeleteFunc(of, func(string) bool { return !rapid.Bool().Draw(t, label) })
	}
	return tool.Principal{
		Namespace: rapid.SampledFrom([]string{"ns", "ns", "ns", "other"}).Draw(t, label+" namespace"),
		Subject:   rapid.SampledFrom([]string{"alice", "bob", "carl", "dave"}).Draw(t, label+" subject"),
		Roles:     some(label+" roles", "caller", "approver", "operator", "viewer"), Groups: some(label+" groups", "finance", "ops"),
	}
}

func anyTicket(t *rapid.T) tool.Ticket {
	ticket := tool.Ticket{
		Action:     rapid.SampledFrom([]string{"approval", "input"}).Draw(t, "action"),
		ResumeMode: rapid.SampledFrom([]tool.ResumeMode{tool.ReplayToolCall, tool.ReplayToolCall, tool.UseDecisionAsToolResult, tool.PassDecisionToTool}).Draw(t, "mode"),
	}
	if rapid.IntRange(0, 3).Draw(t, "options") > 0 {
		ticket.RememberOptions = []tool.RememberOption{{Option: "exact"}}
	}
	if rapid.IntRange(0, 3).Draw(t, "approvers") > 0 {
		ticket.Approvers = &tool.Approvers{
			Roles:              rapid.SampledFrom([][]string{nil, {"approver"}, {"operator"}, {"approver", "operator"}}).Draw(t, "roles"),
			Groups:             rapid.SampledFrom([][]string{nil, nil, {"finance"}, {"finance", "ops"}}).Draw(t, "groups"),
			DistinctFromCaller: rapid.IntRange(0, 2).Draw(t, "four eyes") == 0, Count: max(rapid.IntRange(-2, 2).Draw(t, "count"), 0),
			ResultInstead: rapid.Bool().Draw(t, "instead"),
		}
	}
	return ticket
}

// A tryout is a decision that needs one right. The test sends it and compares the outcome with the right that Rights reports.
type tryout struct {
	name     string
	right    func(*call.TicketRights) error
	decision func(s *call.Suspension) tool.Decision
}

// tryouts returns one decision for each right, with content that the ticket accepts.
func tryouts() []tryout {
	resume := func(s *call.Suspension) tool.Decision {
		d := tool.Decision{Action: tool.Resume}
		if s.ResumeMode != tool.ReplayToolCall {
			d.Result = `{"x":1}`
		}
		return d
	}
	all := []tryout{
		{"approve", func(r *call.TicketRights) error { return r.Approve }, resume},
		{"decline", func(r *call.TicketRights) error { return r.Decline }, func(*call.Suspension) tool.Decision { return tool.Decision{Action: tool.Cancel} }},
		{"edit", func(r *call.TicketRights) error { return r.Edit }, func(s *call.Suspension) tool.Decision {
			d := resume(s)
			d.Arguments = `{"x":2}`
			return d
		}},
		{"result instead", func(r *call.TicketRights) error { return r.ResultInstead }, func(*call.Suspension) tool.Decision {
			return tool.Decision{Action: tool.Resume, ResultInstead: &tool.ResultInstead{Message: "by hand"}}
		}},
	}
	for _, scope := range []tool.Scope{tool.RunScope, tool.ThreadScope, tool.NamespaceScope} {
		all = append(all, tryout{"remember " + string(scope), func(r *call.TicketRights) error {
			if r.Approve != nil { // Remembering an answer also approves.
				return r.Approve
			}
			if r.Remember != nil || !slices.Contains(r.Scopes, scope) {
				return errors.New("not for this scope") // The reason differs from scope to scope, so this error stands for all of them.
			}
			return nil
		}, func(s *call.Suspension) tool.Decision {
			d := resume(s)
			d.Remember = &tool.Remember{Option: "exact", Scope: scope}
			return d
		}})
	}
	return all
}

// TestRightsAreWhatResumeAccepts compares Rights with Resume for random tickets and principals. Before the comparison, the ticket may get a
// vote, be closed or expire, and its tool may change or disappear. Rights must give a right exactly if the engine accepts a decision that
// uses it. The error of a missing right must be the one that Resume returns.
func TestRightsAreWhatResumeAccepts(t *testing.T) {
	missing := map[string]bool{} // cases that the test did not see yet
	for _, try := range tryouts() {
		missing[try.name+" true"], missing[try.name+" false"] = true, true
	}
	for range 20 {
		rapid.Check(t, func(rt *rapid.T) {
			ticket, who := anyTicket(rt), anyPrincipal(rt, "who")
			behalf := rapid.SampledFrom([]string{"", "", "dave"}).Draw(rt, "on behalf of")
			run := rapid.SampledFrom([]string{"", "run-1", "run-1"}).Draw(rt, "run")
			before := rapid.SampledFrom([]string{"nothing", "nothing", "vote", "declined", "expired", "tool gone", "tool changed"}).Draw(rt, "before")
			for _, try := range tryouts() {
				refused, got := try.ask(t, ticket, who, behalf, run, before)
				delete(missing, fmt.Sprintf("%s %t", try.name, refused == nil))
				var r, want *call.Refusal
				errors.As(got, &want)
				if (refused == nil) != (got == nil) || errors.As(refused, &r) && (want == nil || r.Reason != want.Reason || r.Message != want.Message) {
					rt.Fatalf("%s after %s: Rights says %v, Resume says %v", try.name, before, refused, got)
				}
			}
		})
		if len(missing) == 0 || t.Failed() {
			return
		}
	}
	t.Errorf("the test never saw %v", missing)
}

// ask returns what Rights says about a new call, and what Resume then answers.
func (try *tryout) ask(t *testing.T, ticket tool.Ticket, who tool.Principal, behalf, run, before string) (refused, got error) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(ticket))), func(t *testing.T, w *world) {
		c := suspended(t, w, behalf, run)
		ticketBefore(w, c, who, before)
		s := c.Open()
		rights, err := w.e.Rights(t.Context(), who, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		refused = try.right(&rights)
		d := try.decision(s)
		d.ID, d.ExpectedDigest = "decision-of-tryout", s.Digest
		_, got = w.e.Resume(t.Context(), who, call.ResumeRequest{SuspensionID: s.ID, Decision: d})
	})
	return refused, got
}

// suspended returns a call of alice that waits.
func suspended(t *testing.T, w *world, behalf, run string) *call.Call {
	t.Helper()
	s := spec("t", `{"x":1}`)
	s.OnBehalfOf, s.Run = behalf, tool.Run{ID: run, Thread: run}
	c := w.do(s)
	if c.Status != call.Suspended {
		t.Fatalf("call %s: %+v", c.Status, c.Result)
	}
	return c
}

// ticketBefore changes the ticket of a call, or its tool.
func ticketBefore(w *world, c *call.Call, who tool.Principal, what string) {
	everything := tool.Principal{Namespace: "ns", Subject: "zoe", Roles: []string{"approver", "operator"}, Groups: []string{"finance", "ops"}}
	switch what {
	case "vote":
		_, _ = w.e.Resume(w.t.Context(), who, call.ResumeRequest{SuspensionID: c.Open().ID, Decision: tool.Decision{ID: "decision-of-voter", Action: tool.Resume, ExpectedDigest: c.Open().Digest}})
	case "declined":
		_, _ = w.e.Resume(w.t.Context(), everything, call.ResumeRequest{SuspensionID: c.Open().ID, Decision: tool.Decision{ID: "decision-of-other", Action: tool.Cancel, ExpectedDigest: c.Open().Digest}})
	case "expired":
		time.Sleep(31 * 24 * time.Hour)
	case "tool gone":
		w.tools.put()
	case "tool changed":
		w.tools.put((&probe{}).toolAs(tool.Descriptor{ID: "t", Description: "other"}))
	}
}

// TestDescribeEdit checks that a preview of an edit says what happens to the approval with these arguments, and changes nothing.
func TestDescribeEdit(t *testing.T) {
	blocks := gate(func(in *hook.Input) (hook.Verdict, error) {
		if in.Arguments.Text() == `{"x":3}` {
			return hook.Block("not three"), nil
		}
		return hook.Allow(), nil
	})
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{Approvers: &tool.Approvers{DistinctFromCaller: true}})), namedGate("three", blocks)), func(t *testing.T, w *world) {
		c := suspended(t, w, "", "run-1")
		s := c.Open()
		for arguments, want := range map[string]string{`{"x": 2}`: "ALLOW", `{"x":3}`: "BLOCK"} {
			v, err := w.e.DescribeEdit(t.Context(), bob, s.ID, arguments)
			if err != nil || !v.Valid || v.Outcome != want || !v.Verdicts[0].Answered || v.Digest == s.Digest {
				t.Errorf("%s would be %+v, %v, want %s", arguments, v, err, want)
			}
		}
		_, err := w.e.DescribeEdit(t.Context(), alice, s.ID, `{"x":2}`)
		wantRefusal(t, err, call.PermissionDenied, "NOT_AN_APPROVER")
		_, err = w.e.DescribeEdit(t.Context(), tool.Principal{Namespace: "other", Subject: "bob", Roles: []string{"approver"}}, s.ID, `{"x":2}`)
		wantRefusal(t, err, call.NotFound, "SUSPENSION_NOT_FOUND")
		v, err := w.e.DescribeEdit(t.Context(), bob, s.ID, `{"x":2}`)
		if err != nil {
			t.Fatal(err)
		}
		if after := w.stored(c.ID); after.Status != call.Suspended || after.Revision != c.Revision {
			t.Errorf("the preview changed the call: %s, revision %d, then %d", after.Status, c.Revision, after.Revision)
		}
		done, err := w.resume(bob, c, tool.Decision{Action: tool.Resume, Arguments: `{"x":2}`})
		if err != nil || done.Status != call.Succeeded || done.LastRound().Decision.AppliesTo != v.Digest {
			t.Errorf("the call is %+v, %v; its approval does not apply to digest %s", done, err, v.Digest)
		}
	})
}

// damagedRecords contains no call that can be read.
type damagedRecords struct{ *memory.Store }

func (damagedRecords) Call(context.Context, call.Key) (*call.Call, error) {
	return nil, store.ErrCorrupt
}

// TestRightsOfDamagedCall checks that Rights of a damaged record reports no rights instead of an error. A request about several suspensions
// then still gets the rights of the other suspensions.
func TestRightsOfDamagedCall(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		s := w.do(spec("t", "")).Open()
		w.cfg.Store = damagedRecords{w.store}
		e, err := lifecycle.New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.past, w.e = append(w.past, w.e), e
		rights, err := e.Rights(t.Context(), bob, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, rights.Approve, call.DataLoss, "CALL_CORRUPT")
		_, err = e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: s.ID, Decision: tool.Decision{ID: "decision-of-damaged", Action: tool.Cancel}})
		wantRefusal(t, err, call.DataLoss, "CALL_CORRUPT")
	})
}
