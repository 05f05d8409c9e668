package grpcserver_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
)

// waits starts a call of alice that waits for an approver.
func waits(w *world, text string) *tooldv1.Call {
	w.t.Helper()
	got, err := w.calls("alice").CallTool(within(w.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "write", Arguments: `{"text":"` + text + `"}`, ModelReason: "because " + text}})
	must(w.t, err)
	return got.GetCall()
}

// TestWatchInbox checks the inbox of three principals. The approver gets the question with its rights and the fields in the read mask. The
// viewer gets the question and then the decision. Another caller gets no question.
func TestWatchInbox(t *testing.T) {
	w := newWorld(t, options{})
	c := waits(w, "x")
	next := func(s interface {
		Recv() (*tooldv1.WatchInboxResponse, error)
	}) *tooldv1.WatchInboxResponse {
		t.Helper()
		res, err := s.Recv()
		must(t, err)
		return res
	}
	mask := &fieldmaskpb.FieldMask{Paths: []string{"tool", "suspension.message", "model_reason"}}
	ann, err := w.calls("ann").WatchInbox(within(t), &tooldv1.WatchInboxRequest{ReadMask: mask})
	must(t, err)
	vera, err := w.calls("vera").WatchInbox(within(t), &tooldv1.WatchInboxRequest{})
	must(t, err)
	bob, err := w.calls("bob").WatchInbox(within(t), &tooldv1.WatchInboxRequest{})
	must(t, err)
	q := next(ann).GetWaiting()
	if q.GetCall().GetTool() != "write" || q.GetCall().GetSuspension().GetMessage() == "" || q.GetCall().GetModelReason() != "because x" || q.GetCall().GetEffectiveArguments() != "" ||
		!q.GetRights().GetApprove().GetAllowed() || q.GetRights().GetCallId() != c.GetCallId() || q.GetRights().GetSuspensionId() != c.GetSuspension().GetSuspensionId() {
		t.Errorf("the approver gets %v", q)
	}
	if q = next(vera).GetWaiting(); q.GetCall().GetEffectiveArguments() != `{"text":"x"}` || q.GetRights().GetApprove().GetReason() != "ROLE_REQUIRED" || q.GetRights().GetCallId() != c.GetCallId() {
		t.Errorf("the viewer gets %v", q)
	}
	for name, s := range map[string]interface {
		Recv() (*tooldv1.WatchInboxResponse, error)
	}{"ann": ann, "vera": vera, "bob": bob} {
		if res := next(s); res.GetCaughtUp() == nil || res.GetCaughtUp().GetMore() {
			t.Errorf("%s gets %v", name, res)
		}
	}
	must(t, decide(w, "ann", c))
	s := next(vera).GetSettled()
	d := s.GetDecision()
	if s.GetSettlement() != tooldv1.Settlement_SETTLEMENT_DECIDED || s.GetSuspensionId() != c.GetSuspension().GetSuspensionId() || s.GetStatus() == tooldv1.CallStatus_CALL_STATUS_UNSPECIFIED ||
		d.GetDecidedBy().GetSubject() != "ann" || d.GetAction() != tooldv1.DecisionAction_DECISION_ACTION_RESUME || d.GetTime() == nil {
		t.Errorf("the viewer gets %v", s)
	}
	bad, err := w.calls("ann").WatchInbox(within(t), &tooldv1.WatchInboxRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"nothing"}}})
	must(t, err)
	if _, err = bad.Recv(); !strings.Contains(fmt.Sprint(err), `"nothing" is not a field path of Call`) {
		t.Errorf("a wrong mask: %v", err)
	}
}

func decide(w *world, user string, c *tooldv1.Call) error {
	stream, err := w.calls(user).ResumeTool(within(w.t), &tooldv1.ResumeToolRequest{SuspensionId: c.GetSuspension().GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: "decision-" + c.GetCallId(), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: c.GetSuspension().GetDigest(),
	}})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// TestCountsAndExpiryOrder checks CountCalls for principals that see the whole namespace and principals that see only a part of it. It also
// checks the pages of a list that is ordered by expiry.
func TestCountsAndExpiryOrder(t *testing.T) {
	w := newWorld(t, options{})
	var want []string
	for i := range 5 {
		want = append(want, waits(w, fmt.Sprint(i)).GetCallId())
	}
	for _, user := range []string{"vera", "ann", "alice"} {
		counts, err := w.calls(user).CountCalls(within(t), &tooldv1.CountCallsRequest{})
		must(t, err)
		if got := fmt.Sprint(counts.GetStatuses(), counts.GetActions(), counts.GetAtLeast()); !strings.Contains(got, "SUSPENDED") || counts.GetStatuses()[0].GetCount() != 5 || counts.GetActions()[0].GetAction() != "approval" || counts.GetActions()[0].GetCount() != 5 || counts.GetAtLeast() {
			t.Errorf("%s counts %s", user, got)
		}
	}
	if counts, err := w.calls("bob").CountCalls(within(t), &tooldv1.CountCallsRequest{}); err != nil || len(counts.GetStatuses())+len(counts.GetActions()) > 0 {
		t.Errorf("bob counts %v, %v", counts, err)
	}
	for _, user := range []string{"vera", "ann", "alice"} {
		req := &tooldv1.ListCallsRequest{Order: tooldv1.CallOrder_CALL_ORDER_EXPIRES_FIRST, PageSize: 2}
		var got []string
		for {
			page, err := w.calls(user).ListCalls(within(t), req)
			must(t, err)
			for _, c := range page.GetCalls() {
				got = append(got, c.GetCallId())
			}
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s lists %v, want %v", user, got, want)
		}
	}
	running := []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_RUNNING}
	_, err := w.calls("vera").ListCalls(within(t), &tooldv1.ListCallsRequest{Order: tooldv1.CallOrder_CALL_ORDER_EXPIRES_FIRST, Statuses: running})
	if code, _ := reason(err); code != codes.InvalidArgument {
		t.Errorf("running calls by expiry: %v", err)
	}
	_, err = w.calls("vera").ListCalls(within(t), &tooldv1.ListCallsRequest{Order: tooldv1.CallOrder_CALL_ORDER_EXPIRES_FIRST, Tool: "read"})
	must(t, err)
}

// TestInboxWatchersVanish checks that the server frees all resources of many inbox watchers whose connections break while questions arrive.
func TestInboxWatchersVanish(t *testing.T) {
	const watchers = 300
	w := newWorld(t, options{config: func(c *service.Config) { c.WatchersEach, c.Watchers = watchers, watchers }})
	waits(w, "x")
	before := runtime.NumGoroutine()
	var conns []*grpc.ClientConn
	for range 10 {
		conn, err := grpc.NewClient(w.tcp, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(tokenOf("ann"))))
		must(t, err)
		conns = append(conns, conn)
		for range watchers / 10 {
			s, err := tooldv1.NewCallServiceClient(conn).WatchInbox(t.Context(), &tooldv1.WatchInboxRequest{})
			must(t, err)
			for caughtUp := false; !caughtUp; {
				got, err := s.Recv()
				must(t, err)
				caughtUp = got.GetCaughtUp() != nil
			}
		}
	}
	if n := w.engine.Stats().Watchers; n != watchers {
		t.Errorf("%d watchers", n)
	}
	for _, conn := range conns {
		waits(w, "y")
		must(t, conn.Close())
	}
	eventually(t, "no watcher is left", func() bool { return w.engine.Stats().Watchers == 0 })
	eventually(t, "their goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
	ctx := within(t)
	s, err := w.calls("ann").WatchInbox(ctx, &tooldv1.WatchInboxRequest{})
	must(t, err)
	_, err = s.Recv()
	must(t, err) // The slots of the broken watchers are free again.
}
