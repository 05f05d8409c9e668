package lifecycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// voter returns the i-th of many approvers.
func voter(i int) tool.Principal {
	return tool.Principal{Namespace: "ns", Subject: fmt.Sprintf("voter-%03d", i), Roles: []string{"approver"}}
}

// ballots sets a gate whose ticket needs n votes.
func ballots(n int, t tool.Ticket) func(*lifecycle.Config) {
	a := tool.Approvers{Count: n}
	if t.Approvers != nil {
		a = *t.Approvers
		a.Count = n
	}
	t.Approvers = &a
	return gates(namedGate("ask", approval(t)))
}

func votersOf(d *tool.Decision) (names []string) {
	for _, p := range d.Voters() {
		names = append(names, p.Subject)
	}
	return names
}

func wantVotes(t *testing.T, c *call.Call, want ...string) {
	t.Helper()
	var got []string
	for _, v := range c.LastRound().Votes {
		got = append(got, v.Voter.Subject)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("votes of %v count, want %v", got, want)
	}
}

func TestVotes(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(3, tool.Ticket{}), func(t *testing.T, w *world) {
		c := w.do(spec("t", `{"x":1}`))
		ticket := c.Open()
		for i := 1; i <= 2; i++ {
			watcher, err := w.e.Resume(t.Context(), voter(i), call.ResumeRequest{SuspensionID: ticket.ID,
				Decision: tool.Decision{ID: fmt.Sprintf("decision-of-voter-%d", i), Action: tool.Resume, ExpectedDigest: ticket.Digest}})
			if err != nil {
				t.Fatal(err)
			}
			list, _ := events(t, watcher) // The stream ends here, although the call still waits for votes.
			if got := types(t, c.LastSequence+int64(i), list); got != "vote_recorded" {
				t.Fatalf("the stream of vote %d has %s", i, got)
			}
			if v := list[0].Vote; v.SuspensionID != ticket.ID || v.Votes != i || v.Needed != 3 || v.Vote.Voter.Subject != voter(i).Subject || v.Vote.Time.IsZero() {
				t.Errorf("vote %d is published as %+v", i, v)
			}
		}
		now := w.get(c.ID)
		wantVotes(t, now, "voter-001", "voter-002")
		if now.Status != call.Suspended || p.runs.Load() != 0 || now.Open().ID != ticket.ID || now.Open().Digest != ticket.Digest || now.Open().ExpiresAt != ticket.ExpiresAt {
			t.Fatalf("call %s, %d runs, ticket %+v", now.Status, p.runs.Load(), now.Open())
		}
		w.refuse(voter(1), now, yes(), call.FailedPrecondition, "ALREADY_VOTED")
		c = w.answer(voter(3), now, yes())
		if c.Status != call.Succeeded || p.runs.Load() != 1 || fmt.Sprint(votersOf(c.Rounds[0].Decision)) != "[voter-001 voter-002 voter-003]" {
			t.Errorf("call %s, %d runs, decided by %v", c.Status, p.runs.Load(), votersOf(c.Rounds[0].Decision))
		}
		_, err := w.resume(voter(4), c, yes())
		wantRefusal(t, err, call.FailedPrecondition, "ALREADY_DECIDED")
		w.checkLog(c.ID)
	})
}

func TestVotesThatDiffer(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	result := func(text string) tool.Decision { return tool.Decision{Action: tool.Resume, Result: text} }
	inBubble(t, []tool.Tool{echo("t", mutating)}, ballots(2, tool.Ticket{ResponseSchema: schema}), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		c = w.answer(voter(1), c, result(`{"n":1}`))
		c = w.answer(voter(2), c, result(`{"n":2}`))
		wantVotes(t, c, "voter-001", "voter-002")
		c = w.answer(voter(1), c, result(`{"n":3}`)) // This vote replaces the earlier vote of voter 1.
		wantVotes(t, c, "voter-002", "voter-001")
		c = w.answer(voter(3), c, result(`{"n":1}`))
		if c.Status != call.Suspended {
			t.Fatalf("call %s by a vote that was taken back", c.Status)
		}
		w.refuse(voter(4), c, result(`{"n":"x"}`), call.InvalidArgument, "ANSWER_INVALID")
		c = w.answer(voter(4), c, result(` { "n" : 2 } `)) // This vote equals the vote of voter 2 in canonical form.
		if c.Status != call.Succeeded || fmt.Sprint(votersOf(c.Rounds[0].Decision)) != "[voter-002 voter-004]" {
			t.Errorf("call %s, decided by %v", c.Status, votersOf(c.Rounds[0].Decision))
		}
	})
}

// TestOneNoDecides checks that a single "no" of an approver decides the question.
func TestOneNoDecides(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(3, tool.Ticket{}), func(t *testing.T, w *world) {
		c := w.answer(voter(1), w.do(spec("t", "")), yes())
		w.refuse(alice, c, no(""), call.PermissionDenied, "NOT_AN_APPROVER")
		c = w.answer(voter(1), c, no("I was wrong")) // Even a voter that approved before can decline.
		if c.Status != call.Cancelled || c.Result.Error.Reason != "DECLINED" || p.runs.Load() != 0 {
			t.Errorf("call %s %+v, %d runs", c.Status, c.Result.Error, p.runs.Load())
		}
	})
}

// TestT62VotesOfOthers checks the four-eyes rule: it applies to each vote. A call is refused when too few other people could approve it
// (also T114).
func TestT62VotesOfOthers(t *testing.T) {
	fourEyes := tool.Ticket{Approvers: &tool.Approvers{DistinctFromCaller: true}}
	aliceApproves := tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"approver"}, Method: "peer"}
	dave := tool.Principal{Namespace: "ns", Subject: "dave", Roles: []string{"approver"}}
	behalf := spec("t", "")
	behalf.OnBehalfOf = "dave"
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(2, fourEyes), func(t *testing.T, w *world) {
		c := w.answer(bob, w.do(behalf), yes())
		w.refuse(aliceApproves, c, yes(), call.PermissionDenied, "FOUR_EYES")
		w.refuse(dave, c, yes(), call.PermissionDenied, "FOUR_EYES")
		sameBob := bob
		sameBob.Method = "peer"
		w.refuse(sameBob, c, yes(), call.FailedPrecondition, "ALREADY_VOTED")
		if c = w.answer(carolApproves, c, yes()); c.Status != call.Succeeded || p.runs.Load() != 1 {
			t.Errorf("call %s, %d runs", c.Status, p.runs.Load())
		}
	})
	who := people{"approver": {"alice", "bob", "dave"}, "operator": {"bob"}}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, both(ballots(2, fourEyes), func(c *lifecycle.Config) { c.People = who }), func(t *testing.T, w *world) {
		if c := w.do(behalf); c.Status != call.Failed || c.Result.Error.Reason != "NO_ELIGIBLE_APPROVER" || c.Executed != call.NotStarted {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
		if c := w.do(spec("t", "")); c.Status != call.Suspended { // Here bob and dave could approve.
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
	})
	// With a single user, one typed confirmation replaces all votes.
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, both(ballots(2, fourEyes), func(c *lifecycle.Config) { c.People, c.Approvers.SingleUser = people{"approver": {"alice"}}, true }), func(t *testing.T, w *world) {
		if c := w.answer(aliceApproves, w.do(spec("t", "")), yes()); c.Status != call.Succeeded || c.Rounds[0].Suspension.Approvers.Count != 1 {
			t.Errorf("call %s %+v", c.Status, c.Rounds[0].Suspension.Approvers)
		}
	})
}

// TestT98EditVoidsVotes checks that only arguments that enough people approved are executed. An edit restarts the count, even for people
// who have already voted.
func TestT98EditVoidsVotes(t *testing.T) {
	p := &probe{}
	edit := func(n int) tool.Decision {
		return tool.Decision{Action: tool.Resume, Arguments: fmt.Sprintf(`{"x": %d}`, n)}
	}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(2, tool.Ticket{}), func(t *testing.T, w *world) {
		c := w.answer(voter(1), w.do(spec("t", `{"x":1}`)), yes())
		c = w.answer(voter(2), c, edit(2))
		wantVotes(t, c, "voter-002")
		if r := c.LastRound(); r.Proposed != `{"x": 2}` || !r.Votes[0].Edited {
			t.Errorf("the round is %+v", r)
		}
		c = w.answer(voter(3), c, yes()) // This vote approves the original arguments and not the edit.
		wantVotes(t, c, "voter-002", "voter-003")
		w.refuse(alice, c, edit(3), call.PermissionDenied, "NOT_AN_APPROVER")
		if c.Status != call.Suspended || p.runs.Load() != 0 {
			t.Fatalf("call %s, %d runs", c.Status, p.runs.Load())
		}
		c = w.answer(voter(3), c, tool.Decision{Action: tool.Resume, Arguments: `{"x":2}`}) // These arguments equal the edit in canonical form.
		if calls := p.seen(); c.Status != call.Succeeded || len(calls) != 1 || calls[0].Arguments.Text() != `{"x":2}` {
			t.Errorf("call %s, ran %+v", c.Status, calls)
		}
	})
}

// TestT63ToolChangesBetweenVotes checks a tool that changes between two votes. Votes apply only to the tool that the question showed, so
// the call asks again.
func TestT63ToolChangesBetweenVotes(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(2, tool.Ticket{}), func(t *testing.T, w *world) {
		c := w.answer(voter(1), w.do(spec("t", "")), yes())
		w.tools.put(p.toolAs(tool.Descriptor{ID: "t", Description: "now it does something else"}))
		c = w.answer(voter(2), c, yes())
		if c.Status != call.Suspended || len(c.Rounds) != 2 || p.runs.Load() != 0 {
			t.Fatalf("call %s, %d rounds, %d runs", c.Status, len(c.Rounds), p.runs.Load())
		}
		wantVotes(t, c) // The new question has no votes.
		c = w.answer(voter(1), w.answer(voter(2), c, yes()), yes())
		if c.Status != call.Succeeded || p.runs.Load() != 1 {
			t.Errorf("call %s, %d runs", c.Status, p.runs.Load())
		}
	})
}

// TestT127DifferentEditsOfAChangedTool checks two people with different edits. They do not agree, even if the tool has changed so that
// neither edit can be applied.
func TestT127DifferentEditsOfAChangedTool(t *testing.T) {
	p := &probe{}
	edit := func(n int) tool.Decision {
		return tool.Decision{Action: tool.Resume, Arguments: fmt.Sprintf(`{"x":%d}`, n)}
	}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(2, tool.Ticket{}), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		w.tools.put(p.toolAs(tool.Descriptor{ID: "t", Description: "now it does something else"}))
		c = w.answer(voter(2), w.answer(voter(1), c, edit(1)), edit(2))
		if c.Status != call.Suspended || len(c.Rounds) != 1 {
			t.Fatalf("call %s after %d rounds", c.Status, len(c.Rounds))
		}
		c = w.answer(voter(1), c, edit(2))
		if c.Status != call.Suspended || len(c.Rounds) != 2 || p.runs.Load() != 0 || c.Open().Pending.Arguments != `{"x":2}` {
			t.Errorf("call %s after %d rounds, %d runs", c.Status, len(c.Rounds), p.runs.Load())
		}
	})
}

// TestVotesExpireWithTheQuestion checks that a vote does not extend the time in which a question can be answered (T101).
func TestVotesExpireWithTheQuestion(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, ballots(2, tool.Ticket{ExpiresIn: time.Hour}), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		time.Sleep(59 * time.Minute)
		c = w.answer(voter(1), c, yes())
		time.Sleep(2 * time.Minute)
		w.refuse(voter(2), c, yes(), call.FailedPrecondition, "SUSPENSION_EXPIRED")
		if err := w.e.ExpireDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c = w.get(c.ID); c.Status != call.Cancelled || c.Result.Error.Code != tool.Expired {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
	})
}

// TestT100RepeatedVotes checks a vote that is sent again. It returns the same outcome, before and after the call has changed.
func TestT100RepeatedVotes(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(2, tool.Ticket{}), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		d := yes()
		d.ID, d.ExpectedDigest = "decision-of-voter-1", c.Open().Digest
		for range 3 {
			c = w.answer(voter(1), c, d)
			wantVotes(t, c, "voter-001")
			w.crash()
		}
		other := d
		other.Reason = "because"
		w.refuse(voter(1), c, other, call.AlreadyExists, "DECISION_ID_REUSED")
		w.refuse(voter(2), c, d, call.AlreadyExists, "DECISION_ID_REUSED")
		c = w.answer(voter(2), c, yes())
		if again := w.answer(voter(1), c, d); again.Status != call.Succeeded || p.runs.Load() != 1 {
			t.Errorf("call %s, %d runs", again.Status, p.runs.Load())
		}
	})
}

// TestP2HundredVoters checks 100 concurrent votes. Exactly the needed number counts. All other votes are refused, because the question is
// decided.
func TestP2HundredVoters(t *testing.T) {
	p := &probe{}
	const needed = 37
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, ballots(needed, tool.Ticket{}), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		ticket := c.Open()
		var all sync.WaitGroup
		var mu sync.Mutex
		taken := 0
		for i := range 100 {
			all.Go(func() {
				watcher, err := w.e.Resume(t.Context(), voter(i), call.ResumeRequest{SuspensionID: ticket.ID,
					Decision: tool.Decision{ID: fmt.Sprintf("%s-%03d", c.ID, i), Action: tool.Resume, ExpectedDigest: ticket.Digest}})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					taken++
					watcher.Close()
					return
				}
				var r *call.Refusal
				if !errors.As(err, &r) || r.Reason != "ALREADY_DECIDED" {
					t.Errorf("voter %d: %v", i, err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		c = w.get(c.ID)
		voters := map[string]bool{}
		for _, name := range votersOf(c.Rounds[0].Decision) {
			voters[name] = true
		}
		if taken != needed || len(voters) != needed || c.Status != call.Succeeded || p.runs.Load() != 1 {
			t.Errorf("%d votes taken, %d voters, call %s, %d runs", taken, len(voters), c.Status, p.runs.Load())
		}
		published := map[call.EventType]int{}
		for _, ev := range w.checkLog(c.ID) {
			published[ev.Type]++
			if ev.Vote != nil && ev.Vote.Votes != published[ev.Type] {
				t.Errorf("vote %d is published as number %d", published[ev.Type], ev.Vote.Votes)
			}
		}
		if published[call.EventVoteRecorded] != needed-1 || published[call.EventResumed] != 1 {
			t.Errorf("published %v", published)
		}
	})
}

// TestT83VotesAndKills kills the daemon between votes or while it stores one. Every acknowledged vote must be kept, and no vote may count
// twice (P1, P2).
func TestT83VotesAndKills(t *testing.T) {
	for _, point := range []string{"before-commit", "after-commit"} {
		for at := range 3 {
			t.Run(fmt.Sprintf("%s of vote %d", point, at+1), func(t *testing.T) {
				p := &probe{}
				var kill func()
				config := both(ballots(3, tool.Ticket{}), func(c *lifecycle.Config) {
					c.FailPoint = func(name string) {
						if name == point && kill != nil {
							kill()
						}
					}
				})
				inBubble(t, []tool.Tool{p.tool("t", mutating)}, config, func(t *testing.T, w *world) { killedVote(t, w, p, at, &kill) })
			})
		}
	}
}

// killedVote sends the votes of three people and kills the daemon while it stores vote number at. A voter that got no acknowledgment sends
// the vote again with the same decision_id.
func killedVote(t *testing.T, w *world, p *probe, at int, kill *func()) {
	c := w.do(spec("t", ""))
	vote := func(i int) bool {
		watcher, err := w.e.Resume(t.Context(), voter(i), call.ResumeRequest{SuspensionID: c.LastRound().Suspension.ID,
			Decision: tool.Decision{ID: fmt.Sprintf("decision-of-voter-%d", i), Action: tool.Resume, ExpectedDigest: c.LastRound().Suspension.Digest}})
		if err == nil {
			watcher.Close()
		}
		synctest.Wait()
		return err == nil
	}
	for i := range 3 {
		acknowledged := false
		if i == at {
			var once sync.Once
			*kill = func() { once.Do(func() { w.store = w.store.Crash() }) }
			acknowledged = vote(i)
			*kill = nil
			w.past = append(w.past, w.e)
			w.open()
			synctest.Wait()
		}
		if now := w.get(c.ID).LastRound(); acknowledged && len(now.Votes) != i+1 {
			t.Fatalf("an acknowledged vote is lost: %+v", now.Votes)
		}
		if !acknowledged && !vote(i) {
			t.Fatalf("vote %d was refused", i)
		}
		if now := w.get(c.ID).LastRound(); len(now.Votes) != i+1 {
			t.Fatalf("%d votes are there after %d", len(now.Votes), i+1)
		}
	}
	now := w.get(c.ID)
	if got := fmt.Sprint(votersOf(now.Rounds[0].Decision)); got != "[voter-000 voter-001 voter-002]" || now.Status != call.Succeeded || p.runs.Load() != 1 {
		t.Errorf("call %s, decided by %s, %d runs", now.Status, got, p.runs.Load())
	}
	w.checkLog(c.ID)
}
