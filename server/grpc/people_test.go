package grpcserver_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
)

// TestWhoAmI checks the identity of each user, and what the user may do with a suspension. It compares the right to approve with the result
// of ResumeTool.
func TestWhoAmI(t *testing.T) {
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	w := newWorld(t, options{tokens: []access.Token{{
		Hash: hashOf(tokenOf("temp")), Expires: expires,
		Principal: tool.Principal{Namespace: "default", Subject: "temp", Roles: []string{"approver"}, Groups: []string{"finance"}},
	}}})
	ctx := within(t)
	got, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "write", Arguments: `{"text":"x"}`}})
	must(t, err)
	s := got.GetCall().GetSuspension()
	const unknown = "s-unknown-unknown-unknown"
	tests := []struct{ user, approve, instead, unknown string }{
		{"ann", "yes", "RESULT_INSTEAD_NOT_ALLOWED", "SUSPENSION_NOT_FOUND"},
		{"temp", "yes", "RESULT_INSTEAD_NOT_ALLOWED", "SUSPENSION_NOT_FOUND"},
		{"alice", "NOT_AN_APPROVER", "NOT_AN_APPROVER", "SUSPENSION_NOT_FOUND"},
		{"oscar", "NOT_AN_APPROVER", "NOT_AN_APPROVER", "SUSPENSION_NOT_FOUND"},
		{"bob", "SUSPENSION_NOT_FOUND", "SUSPENSION_NOT_FOUND", "SUSPENSION_NOT_FOUND"},
		{"mallory", "SUSPENSION_NOT_FOUND", "SUSPENSION_NOT_FOUND", "SUSPENSION_NOT_FOUND"},
		{"vera", "ROLE_REQUIRED", "ROLE_REQUIRED", "ROLE_REQUIRED"},
		{"wanda", "ROLE_REQUIRED", "ROLE_REQUIRED", "ROLE_REQUIRED"},
		{"adam", "ROLE_REQUIRED", "ROLE_REQUIRED", "ROLE_REQUIRED"},
	}
	word := func(r *tooldv1.Right) string {
		if r.GetAllowed() != (r.GetReason() == "" && r.GetMessage() == "") {
			t.Errorf("a right is %v", r)
		}
		if r.GetAllowed() {
			return "yes"
		}
		return r.GetReason()
	}
	for _, tt := range tests {
		who, err := w.calls(tt.user).WhoAmI(ctx, &tooldv1.WhoAmIRequest{SuspensionIds: []string{s.GetSuspensionId(), unknown}})
		must(t, err)
		p := who.GetPrincipal()
		if p.GetSubject() != tt.user || p.GetMethod() != "token" || len(p.GetRoles()) == 0 || who.GetReadOnly() {
			t.Errorf("%s is %v", tt.user, who)
		}
		if temp := tt.user == "temp"; temp != (fmt.Sprint(p.GetGroups()) == "[finance]") || temp != (who.GetExpiresAt() != nil) || temp && !who.GetExpiresAt().AsTime().Equal(expires) {
			t.Errorf("%s has the groups %v until %v", tt.user, p.GetGroups(), who.GetExpiresAt())
		}
		ours, theirs := who.GetTickets()[0], who.GetTickets()[1]
		if word(ours.GetApprove()) != tt.approve || word(ours.GetDecline()) != tt.approve || word(ours.GetResultInstead()) != tt.instead || word(theirs.GetApprove()) != tt.unknown {
			t.Errorf("%s: %v; unknown: %v", tt.user, ours, theirs)
		}
		if sees := tt.approve == "yes" || tt.approve == "NOT_AN_APPROVER"; sees != (ours.GetCallId() == got.GetCall().GetCallId()) {
			t.Errorf("the response to %s names the call %q", tt.user, ours.GetCallId())
		}
		stream, err := w.calls(tt.user).ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: s.GetSuspensionId(), Decision: &tooldv1.Decision{
			DecisionId: "decision-of-" + tt.user + "-1", Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: strings.Repeat("0", 64), // This is never the right digest, so an accepted decision changes nothing.
		}})
		must(t, err)
		_, err = stream.Recv()
		want := tt.approve
		if want == "yes" {
			want = "DIGEST_MISMATCH"
		}
		if _, why := reason(err); why != want {
			t.Errorf("ResumeTool of %s: %v, want %s", tt.user, err, want)
		}
	}
	_, err = w.calls("ann").WhoAmI(ctx, &tooldv1.WhoAmIRequest{SuspensionIds: make([]string, 101)})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = w.calls("ann").WhoAmI(ctx, &tooldv1.WhoAmIRequest{SuspensionIds: []string{""}})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
}

// TestClaimSuspension checks that a claim appears in the record of the call and in the feed of the namespace. It also checks who may claim,
// and the release.
func TestClaimSuspension(t *testing.T) {
	w := newWorld(t, options{})
	ctx := within(t)
	got, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "write", Arguments: `{"text":"x"}`}})
	must(t, err)
	id, suspension := got.GetCall().GetCallId(), got.GetCall().GetSuspension().GetSuspensionId()
	feed, err := w.calls("vera").WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
	must(t, err)
	f, err := feed.Recv()
	must(t, err)
	if f.GetFrame().GetCaughtUp() == nil {
		t.Fatalf("the first frame is %v", f)
	}
	claimed, err := w.calls("ann").ClaimSuspension(ctx, &tooldv1.ClaimSuspensionRequest{SuspensionId: suspension, Duration: durationpb.New(time.Minute)})
	must(t, err)
	if c := claimed.GetClaim(); c.GetClaimedBy().GetSubject() != "ann" || c.GetUntil().AsTime().Sub(c.GetClaimedAt().AsTime()) != time.Minute {
		t.Errorf("the claim is %v", c)
	}
	f, err = feed.Recv()
	must(t, err)
	if e := f.GetFrame().GetEvents()[0].GetClaimed(); e.GetSuspensionId() != suspension || e.GetClaim().GetClaimedBy().GetSubject() != "ann" {
		t.Errorf("the feed has %v", f)
	}
	seen, err := w.calls("alice").GetCall(ctx, &tooldv1.GetCallRequest{CallId: id})
	must(t, err)
	if seen.GetCall().GetSuspension().GetClaim().GetClaimedBy().GetSubject() != "ann" {
		t.Errorf("the record has %v", seen.GetCall().GetSuspension().GetClaim())
	}
	_, err = w.calls("art").ClaimSuspension(ctx, &tooldv1.ClaimSuspensionRequest{SuspensionId: suspension})
	wantRefusal(t, err, codes.FailedPrecondition, "ALREADY_CLAIMED")
	_, err = w.calls("alice").ClaimSuspension(ctx, &tooldv1.ClaimSuspensionRequest{SuspensionId: suspension})
	wantRefusal(t, err, codes.PermissionDenied, "NOT_AN_APPROVER")
	_, err = w.calls("ann").ClaimSuspension(ctx, &tooldv1.ClaimSuspensionRequest{SuspensionId: suspension, Duration: durationpb.New(-1)})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = w.calls("ann").ClaimSuspension(ctx, &tooldv1.ClaimSuspensionRequest{})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	released, err := w.calls("ann").ClaimSuspension(ctx, &tooldv1.ClaimSuspensionRequest{SuspensionId: suspension, Release: true})
	must(t, err)
	if released.GetClaim() != nil {
		t.Errorf("after the release: %v", released)
	}
}

// TestT62SecondCredential checks people who use a second credential: another token, or the unix socket. Both credentials count as one
// person for four eyes and for votes, even when a delegate acted for this person (T114).
func TestT62SecondCredential(t *testing.T) {
	person := func(subject string, roles ...string) tool.Principal {
		return tool.Principal{Namespace: "default", Subject: subject, Roles: roles}
	}
	token := func(text, subject string, roles ...string) access.Token {
		return access.Token{Hash: hashOf(tokenOf(text)), Principal: person(subject, roles...)}
	}
	w := newWorld(t, options{
		tokens: []access.Token{token("alice-approves", "alice", "approver", "operator"), token("ann-again", "ann", "approver", "operator")},
		peers:  []access.Peer{{UID: uint32(os.Getuid()), Principal: person("ann", "approver")}},
	})
	w.swapRules(`rules:
  - {action: ask, tools: [write], four_eyes: true}
  - {action: ask, tools: [transfer], count: 2}`)
	ctx := within(t)
	local, err := grpc.NewClient("unix:"+w.unix, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer local.Close()
	peer := tooldv1.NewCallServiceClient(local)
	n := 0
	decide := func(as tooldv1.CallServiceClient, c *tooldv1.Call) string {
		n++
		stream, err := as.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: c.GetSuspension().GetSuspensionId(), Decision: &tooldv1.Decision{
			DecisionId: fmt.Sprintf("decision-number-%d", n), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: c.GetSuspension().GetDigest(),
		}})
		must(t, err)
		_, err = readAll(stream.Recv)
		_, why := reason(err)
		return why
	}
	begin := func(as, id, behalf string) *tooldv1.Call {
		got, err := w.calls(as).CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: id, Arguments: `{"text":"x"}`, Run: &tooldv1.Run{OnBehalfOf: behalf}}})
		must(t, err)
		return got.GetCall()
	}
	tests := []struct {
		name string
		as   tooldv1.CallServiceClient
		call *tooldv1.Call
		want string
	}{
		{"the caller with another token", w.calls("alice-approves"), begin("alice", "write", ""), "FOUR_EYES"},
		{"the person behind the delegate", w.calls("ann"), begin("dora", "write", "ann"), "FOUR_EYES"},
		{"the same with another token", w.calls("ann-again"), begin("dora", "write", "ann"), "FOUR_EYES"},
		{"the same at the unix socket", peer, begin("dora", "write", "ann"), "FOUR_EYES"},
		{"somebody else", w.calls("art"), begin("dora", "write", "ann"), ""},
		{"the local user for a call of another", peer, begin("alice", "write", ""), ""},
	}
	for _, tt := range tests {
		if got := decide(tt.as, tt.call); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	two := begin("alice", "transfer", "")
	for i, want := range []struct {
		as  tooldv1.CallServiceClient
		why string
	}{{w.calls("ann"), ""}, {w.calls("ann-again"), "ALREADY_VOTED"}, {peer, "ALREADY_VOTED"}, {w.calls("art"), ""}} {
		if got := decide(want.as, two); got != want.why {
			t.Errorf("vote %d: %q, want %q", i, got, want.why)
		}
	}
	got, err := w.calls("alice").GetCall(ctx, &tooldv1.GetCallRequest{CallId: two.GetCallId()})
	must(t, err)
	if d := got.GetCall().GetDecisions(); len(d) != 1 || len(d[0].GetVotes()) != 2 {
		t.Errorf("the decisions are %v", d)
	}
}
