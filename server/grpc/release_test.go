package grpcserver_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/store/memory"
)

// TestT108ReleaseCalls (T108) checks a suspended call of a copied store. It is held until an operator releases or cancels it.
func TestT108ReleaseCalls(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Config{})
	w := newWorld(t, options{store: store})
	for _, id := range []string{"released-0000001", "ended-0000000001"} {
		got, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "ask", CallId: id}})
		must(t, err)
		if s := got.GetCall().GetStatus(); s != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
			t.Fatalf("the call is %v", s)
		}
	}
	w.stop()

	crashed := store.Crash()
	crashed.SetMoved(true)
	w = newWorld(t, options{store: crashed})
	get := func(id string) *tooldv1.Call {
		t.Helper()
		got, err := w.calls("alice").GetCall(within(t), &tooldv1.GetCallRequest{CallId: id})
		must(t, err)
		return got.GetCall()
	}
	answer := func(c *tooldv1.Call) error {
		t.Helper()
		open := c.GetSuspension()
		stream, err := w.calls("ann").ResumeTool(within(t), &tooldv1.ResumeToolRequest{SuspensionId: open.GetSuspensionId(), Decision: &tooldv1.Decision{
			DecisionId: "decision-" + c.GetCallId(), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: open.GetDigest(), Result: `{"color":"red"}`,
		}})
		must(t, err)
		_, err = readAll(stream.Recv)
		return err
	}
	wantRefusal(t, answer(get("released-0000001")), codes.FailedPrecondition, "CALL_HELD")
	admin := tooldv1.NewAdminServiceClient(w.as("oscar"))
	for _, bad := range []*tooldv1.ReleaseCallsRequest{{}, {All: true, RunId: "r"}, {CallIds: make([]string, 1001)}} {
		_, err := admin.ReleaseCalls(within(t), bad)
		wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	}
	_, err := admin.ReleaseCalls(within(t), &tooldv1.ReleaseCallsRequest{CallIds: []string{"released-0000001", "unknown-00000001"}})
	wantRefusal(t, err, codes.NotFound, "CALL_NOT_FOUND")
	foreign, err := tooldv1.NewAdminServiceClient(w.as("mallory")).ReleaseCalls(within(t), &tooldv1.ReleaseCallsRequest{All: true})
	if err != nil || foreign.GetReleased() != 0 || foreign.GetHeld() != 0 {
		t.Errorf("another namespace's operator released %v, %v", foreign, err)
	}
	holds := func(who string, want int64) {
		t.Helper()
		info, err := tooldv1.NewAdminServiceClient(w.as(who)).GetInfo(within(t), &tooldv1.GetInfoRequest{})
		if err != nil || info.GetHeldCalls() != want {
			t.Errorf("%s sees %d held calls, want %d: %v", who, info.GetHeldCalls(), want, err)
		}
	}
	for who, want := range map[string]int64{"oscar": 2, "vera": 2, "mallory": 0, "alice": 0, "ann": 0, "adam": 0} { // GetInfo shows the number of held calls only to principals that may list all calls.
		holds(who, want)
	}
	for _, step := range []struct {
		request        *tooldv1.ReleaseCallsRequest
		released, held int64
	}{
		{&tooldv1.ReleaseCallsRequest{CallIds: []string{"released-0000001"}}, 1, 1},
		{&tooldv1.ReleaseCallsRequest{CallIds: []string{"released-0000001"}}, 0, 1},
		{&tooldv1.ReleaseCallsRequest{All: true, End: true, Reason: "ran elsewhere"}, 1, 0},
	} {
		got, err := admin.ReleaseCalls(within(t), step.request)
		if err != nil || got.GetReleased() != step.released || got.GetHeld() != step.held {
			t.Errorf("%v: %v, %v", step.request, got, err)
		}
	}
	holds("oscar", 0)
	must(t, answer(get("released-0000001")))
	if s := get("released-0000001").GetStatus(); s != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("the released call is %v", s)
	}
	if c := get("ended-0000000001"); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_CANCELLED || c.GetCancelRequest().GetReason() != "ran elsewhere" {
		t.Errorf("the ended call is %v", c)
	}
}
