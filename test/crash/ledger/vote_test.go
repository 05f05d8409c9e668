package ledger_test

import (
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

func vote(id, who string, edited bool) *tooldv1.Vote {
	return &tooldv1.Vote{DecisionId: id, Voter: &tooldv1.Principal{Subject: who}, Edited: edited}
}

// voted returns the event that records a vote. votes is the number of votes that agree.
func voted(n int64, v *tooldv1.Vote, votes int32) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{CallId: "call", Sequence: n, Event: &tooldv1.CallEvent_VoteRecorded{
		VoteRecorded: &tooldv1.VoteRecorded{SuspensionId: "q", Vote: v, Votes: votes, Needed: 2},
	}}
}

// decided returns the event of an approval, with the votes that led to it. who is the subject of the approver.
func decided(n int64, id, who string, votes ...*tooldv1.Vote) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{CallId: "call", Sequence: n, Event: &tooldv1.CallEvent_Resumed{Resumed: &tooldv1.CallResumed{Decision: &tooldv1.Decision{
		SuspensionId: "q", DecisionId: id, DecidedBy: &tooldv1.Principal{Subject: who}, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Votes: votes,
	}}}}
}

// TestCountsVotes feeds a ledger with logs in which votes are lost, miscounted, or correct.
func TestCountsVotes(t *testing.T) {
	ann, bob, bobs := vote("a", "ann", false), vote("b", "bob", false), vote("e", "bob", true)
	open := func(votes ...*tooldv1.Vote) *tooldv1.Suspension {
		s := question("q")
		s.Approvers, s.Votes = &tooldv1.Approvers{Count: 2}, votes
		return s
	}
	asked := &tooldv1.CallEvent{CallId: "call", Sequence: 2, Event: &tooldv1.CallEvent_Suspended{Suspended: &tooldv1.CallSuspended{Suspension: open()}}}
	log := func(c *ledger.Call, events ...*tooldv1.CallEvent) {
		tell(c, 1, nil, at("c1.1.9", append([]*tooldv1.CallEvent{event(1, sync), asked}, events...)...))
		for _, id := range []string{"a", "b", "e"} {
			c.Send("q", &tooldv1.Decision{DecisionId: id})
		}
	}
	tests := []struct {
		name string
		tell func(c *ledger.Call)
		want string
	}{
		{"two people", func(c *ledger.Call) {
			log(c, voted(3, ann, 1), decided(4, "b", "bob", ann, bob))
			c.Voted("q", "a")
			c.Voted("q", "b")
		}, ""},
		{"an edit voids", func(c *ledger.Call) { log(c, voted(3, ann, 1), voted(4, bobs, 1)) }, ""},
		{"changes its mind", func(c *ledger.Call) { log(c, voted(3, bobs, 1), voted(4, bob, 1), decided(5, "a", "ann", bob, ann)) }, ""},
		{"lost", func(c *ledger.Call) { log(c, voted(3, bob, 1)); c.Voted("q", "a") }, "its log does not have it"},
		{"lost from the decision", func(c *ledger.Call) { log(c, voted(3, ann, 1), decided(4, "b", "bob", bob)) }, "was made by the votes [b]; [a b] were there"},
		{"decided too early", func(c *ledger.Call) { log(c, decided(3, "b", "bob", bob)) }, "it takes 2"},
		{"counted twice", func(c *ledger.Call) { log(c, voted(3, ann, 1), voted(4, ann, 1)) }, "counted twice"},
		{"one person twice", func(c *ledger.Call) { log(c, voted(3, ann, 1), voted(4, vote("b", "ann", false), 2)) }, "published as 2 of 2, and counts as 1 of 2"},
		{"open although decided", func(c *ledger.Call) { log(c, voted(3, ann, 1), voted(4, bob, 2)) }, "the question stayed open"},
		{"nobody's", func(c *ledger.Call) { log(c, voted(3, vote("x", "ann", false), 1)) }, "nobody sent it"},
		{"taken, then refused", func(c *ledger.Call) { log(c); c.Voted("q", "a"); c.Refused("q", "a", "b") }, "was taken and is refused now"},
		{"taken, then another's", func(c *ledger.Call) { log(c); c.Voted("q", "a"); c.VotedBefore("q", "a", "b") }, "was taken and is refused now"},
		{"refused for nothing", func(c *ledger.Call) { log(c); c.VotedBefore("q", "a", "x") }, "which nobody sent"},
		{"not in the record", func(c *ledger.Call) {
			log(c, voted(3, ann, 1))
			c.Record(record(waiting, 3, func(c *tooldv1.Call) { c.Suspension = open() }), "", 2, c.View())
		}, "has the votes []; its log says [a]"},
		{"in the record", func(c *ledger.Call) {
			log(c, voted(3, ann, 1))
			c.Record(record(waiting, 3, func(c *tooldv1.Call) { c.Suspension = open(ann) }), "", 2, c.View())
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			book := ledger.New()
			c := book.Call("call", false)
			tt.tell(c)
			c.CountVotes()
			broken := book.Broken()
			if tt.want == "" && len(broken) > 0 || tt.want != "" && (len(broken) == 0 || !strings.Contains(broken[0].What, tt.want)) {
				t.Errorf("found %v, want %q", broken, tt.want)
			}
		})
	}
}
