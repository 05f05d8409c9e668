package lifecycle_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

var (
	erin    = tool.Principal{Namespace: "ns", Subject: "erin", Roles: []string{"approver"}}
	officer = tool.Principal{Namespace: "ns", Subject: "olga", Roles: []string{"approver", "operator"}}
)

// claim sends a request about the open question of c.
func (w *world) claim(p tool.Principal, c *call.Call, r call.ClaimRequest) (*call.Claim, error) {
	r.SuspensionID = c.Open().ID
	return w.e.Claim(w.t.Context(), p, r)
}

func (w *world) claimed(p tool.Principal, c *call.Call, r call.ClaimRequest) *call.Claim {
	w.t.Helper()
	claim, err := w.claim(p, c, r)
	if err != nil {
		w.t.Fatal(err)
	}
	return claim
}

func TestClaim(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		feed, err := w.e.Watches().WatchFeed(t.Context(), officer, "", "", "", true)
		if err != nil {
			t.Fatal(err)
		}
		defer feed.Close()
		first := w.claimed(bob, c, call.ClaimRequest{})
		if first.By.Subject != "bob" || first.Until.Sub(first.Since) != 5*time.Minute {
			t.Errorf("the claim is %+v", first)
		}
		f, err := feed.Next(t.Context()) // A follower of the namespace sees the claim without asking.
		if err != nil || len(f.Events) != 1 || f.Events[0].Type != call.EventClaimed || f.Events[0].Claim.Claim.By.Subject != "bob" || f.Events[0].Claim.SuspensionID != c.Open().ID {
			t.Fatalf("the feed has %+v, %v", f.Events, err)
		}
		now := w.get(c.ID)
		if got := now.LastRound().Claim; now.Status != call.Suspended || got == nil || got.By.Subject != "bob" || now.Open().Digest != c.Open().Digest {
			t.Errorf("call %s, claim %+v", now.Status, got)
		}
		var r *call.Refusal
		if _, err = w.claim(erin, c, call.ClaimRequest{}); !errors.As(err, &r) || r.Reason != "ALREADY_CLAIMED" || r.Metadata["claimed_by"] != "bob" || r.Metadata["until"] != call.FormatTime(first.Until.Time()) {
			t.Errorf("a second claim: %v", err)
		}
		_, err = w.claim(erin, c, call.ClaimRequest{Release: true})
		wantRefusal(t, err, call.FailedPrecondition, "ALREADY_CLAIMED")
		// An extension does not change when the claim began. A claim never gets shorter, and a small extension writes nothing.
		time.Sleep(2 * time.Minute)
		if same := w.claimed(bob, c, call.ClaimRequest{For: time.Minute}); same.Until != first.Until || w.get(c.ID).Revision != now.Revision {
			t.Errorf("a shorter claim changed it to %+v", same)
		}
		longer := w.claimed(bob, c, call.ClaimRequest{For: 10 * time.Minute})
		if longer.Since != first.Since || longer.Until.Sub(first.Until) != 7*time.Minute {
			t.Errorf("the extended claim is %+v, before %+v", longer, first)
		}
		// A claim of another person does not prevent a decision.
		if c = w.answer(erin, c, yes()); c.Status != call.Succeeded {
			t.Errorf("call %s", c.Status)
		}
	})
}

func TestClaimEnds(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{ExpiresIn: 90 * time.Minute}))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if none := w.claimed(bob, c, call.ClaimRequest{Release: true}); none != nil {
			t.Errorf("a release without a claim: %+v", none)
		}
		w.claimed(bob, c, call.ClaimRequest{})
		time.Sleep(5 * time.Minute)
		w.claimed(erin, c, call.ClaimRequest{}) // The first claim has ended.
		if none := w.claimed(erin, c, call.ClaimRequest{Release: true}); none != nil || w.get(c.ID).LastRound().Claim != nil {
			t.Errorf("after the release: %+v", none)
		}
		w.claimed(bob, c, call.ClaimRequest{For: time.Hour})
		_, err := w.claim(erin, c, call.ClaimRequest{TakeOver: true})
		wantRefusal(t, err, call.PermissionDenied, "OPERATOR_REQUIRED")
		_, err = w.claim(officer, c, call.ClaimRequest{})
		wantRefusal(t, err, call.FailedPrecondition, "ALREADY_CLAIMED")
		if taken := w.claimed(officer, c, call.ClaimRequest{TakeOver: true}); taken.By.Subject != "olga" {
			t.Errorf("taken over: %+v", taken)
		}
		w.crash() // A claim survives a crash, because the other people who look at the inbox must still see it.
		if got := w.get(c.ID).LastRound().Claim; got == nil || got.By.Subject != "olga" {
			t.Errorf("after a restart: %+v", got)
		}
		time.Sleep(time.Hour)
		if last := w.claimed(bob, c, call.ClaimRequest{For: time.Hour}); last.Until != c.Open().ExpiresAt {
			t.Errorf("the claim ends at %v, the question at %v", last.Until, c.Open().ExpiresAt)
		}
		time.Sleep(time.Hour)
		_, err = w.claim(bob, c, call.ClaimRequest{})
		wantRefusal(t, err, call.FailedPrecondition, "SUSPENSION_EXPIRED")
	})
}

func TestClaimRefused(t *testing.T) {
	fourEyes := tool.Ticket{Approvers: &tool.Approvers{DistinctFromCaller: true}}
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(fourEyes))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		tests := []struct {
			who    tool.Principal
			r      call.ClaimRequest
			kind   call.RefusalKind
			reason string
		}{
			{alice, call.ClaimRequest{}, call.PermissionDenied, "NOT_AN_APPROVER"},
			{tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"approver"}}, call.ClaimRequest{}, call.PermissionDenied, "FOUR_EYES"},
			{tool.Principal{Namespace: "other", Subject: "bob", Roles: []string{"approver"}}, call.ClaimRequest{}, call.NotFound, "SUSPENSION_NOT_FOUND"},
			{bob, call.ClaimRequest{For: time.Second}, call.InvalidArgument, "INVALID_FIELD"},
			{bob, call.ClaimRequest{For: time.Hour + 1}, call.InvalidArgument, "INVALID_FIELD"},
			{bob, call.ClaimRequest{Release: true, TakeOver: true}, call.InvalidArgument, "INVALID_FIELD"},
		}
		for _, tt := range tests {
			_, err := w.claim(tt.who, c, tt.r)
			wantRefusal(t, err, tt.kind, tt.reason)
		}
		if now := w.get(c.ID); now.Revision != c.Revision {
			t.Error("a refused claim changed the call")
		}
		// The log does not grow without end. The last claim can still be released.
		for range 499 {
			w.claimed(bob, c, call.ClaimRequest{})
			w.claimed(bob, c, call.ClaimRequest{Release: true})
		}
		w.claimed(bob, c, call.ClaimRequest{})
		w.claimed(bob, c, call.ClaimRequest{For: time.Hour})
		_, err := w.claim(officer, c, call.ClaimRequest{TakeOver: true})
		wantRefusal(t, err, call.ResourceExhausted, "CLAIMS_FULL")
		w.claimed(bob, c, call.ClaimRequest{Release: true})
		_, err = w.claim(bob, c, call.ClaimRequest{})
		wantRefusal(t, err, call.ResourceExhausted, "CLAIMS_FULL")
		done := w.answer(bob, c, yes())
		_, err = w.claim(bob, c, call.ClaimRequest{})
		wantRefusal(t, err, call.FailedPrecondition, "ALREADY_DECIDED")
		if done.Status != call.Succeeded {
			t.Errorf("call %s", done.Status)
		}
	})
}

// TestClaimsAndDecisionsTogether lets many people claim and decide at the same time. One of them holds the claim, and one decision counts.
func TestClaimsAndDecisionsTogether(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		var all sync.WaitGroup
		var mu sync.Mutex
		claims := 0
		for i := range 20 {
			all.Go(func() {
				if _, err := w.claim(voter(i), c, call.ClaimRequest{}); err == nil {
					mu.Lock()
					claims++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if holder := w.get(c.ID).LastRound().Claim; claims != 1 || holder == nil {
			t.Errorf("%d claims, %+v", claims, holder)
		}
		winners := decideAll(w, c, 20)
		synctest.Wait()
		if len(winners) != 1 || p.runs.Load() > 1 { // The call runs at most once. It does not run when the winning decision declines it.
			t.Errorf("%d decisions, %d runs", len(winners), p.runs.Load())
		}
		w.checkLog(c.ID)
	})
}
