package show_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestClaimIsShownUntilItEnds checks that every view of a ticket shows a claim until the claim ends, and escapes the name of the claimant.
func TestClaimIsShownUntilItEnds(t *testing.T) {
	now := time.Date(2027, 3, 14, 15, 9, 26, 0, time.UTC)
	c := &tooldv1.Call{Suspension: &tooldv1.Suspension{
		SuspensionId: "s-1", Action: "approval", Pending: &tooldv1.PendingCall{Name: "bash", Arguments: "{}"},
		CreatedAt: timestamppb.New(now.Add(-time.Hour)), ExpiresAt: timestamppb.New(now.Add(time.Hour)),
		Claim: &tooldv1.Claim{ClaimedBy: &tooldv1.Principal{Subject: "an\x1b[31mn"}, Until: timestamppb.New(now.Add(time.Minute))},
	}}
	views := func(v show.View) map[string]string {
		return map[string]string{"inbox": v.InboxLine(c, 100), "list": v.Waiting(c), "ticket": v.Ticket(c, c.GetSuspension())}
	}
	for name, text := range views(show.View{Now: now}) {
		if !strings.Contains(text, "mn") || strings.Contains(text, "\x1b[31m") {
			t.Errorf("%s: the claim is shown as %q", name, text)
		}
	}
	for name, text := range views(show.View{Now: now.Add(time.Minute)}) {
		if strings.Contains(text, "mn") || strings.Contains(text, "claimed") || strings.Contains(text, "looks") {
			t.Errorf("%s: an ended claim is shown: %q", name, text)
		}
	}
}

func TestWhoAmI(t *testing.T) {
	got := show.View{}.WhoAmI(&tooldv1.WhoAmIResponse{
		Principal: &tooldv1.Principal{Subject: "ann", Namespace: "bank", Roles: []tooldv1.Role{tooldv1.Role_ROLE_APPROVER}, Groups: []string{"finance", "ops"}, Method: "token"},
		ReadOnly:  true,
		Tickets: []*tooldv1.TicketRights{{
			SuspensionId: "s-1", Approve: &tooldv1.Right{Allowed: true}, Decline: &tooldv1.Right{Message: "no way"}, Remember: &tooldv1.Right{Allowed: true},
			RememberScopes: []tooldv1.RememberScope{tooldv1.RememberScope_REMEMBER_SCOPE_RUN, tooldv1.RememberScope_REMEMBER_SCOPE_THREAD},
		}},
	})
	for _, want := range []string{"ann", "bank", "approver", "finance, ops", "read-only", "never", "no: no way", "yes, for this run or thread"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
