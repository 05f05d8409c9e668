package toold_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// asking is a daemon with calls that wait. Each list has one call more. It lets nobody watch the namespace; the watch of a run reports a
// question after each list.
type asking struct {
	tooldv1.UnimplementedCallServiceServer
	lists  int
	listed chan struct{}
}

func (s *asking) WatchCalls(r *tooldv1.WatchCallsRequest, out grpc.ServerStreamingServer[tooldv1.WatchCallsResponse]) error {
	if r.GetNamespace() || !r.GetFollow() {
		return status.Error(codes.PermissionDenied, "watching the namespace needs the role viewer or operator")
	}
	if err := out.Send(&tooldv1.WatchCallsResponse{Frame: &tooldv1.Frame{Control: &tooldv1.Frame_CaughtUp{CaughtUp: &tooldv1.CaughtUp{}}}}); err != nil {
		return err
	}
	for range s.listed {
		for _, e := range []*tooldv1.CallEvent{{Event: &tooldv1.CallEvent_Progress{}}, {Event: &tooldv1.CallEvent_Suspended{Suspended: &tooldv1.CallSuspended{}}}} {
			if err := out.Send(&tooldv1.WatchCallsResponse{Frame: &tooldv1.Frame{Events: []*tooldv1.CallEvent{e}}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *asking) ListCalls(_ context.Context, r *tooldv1.ListCallsRequest) (*tooldv1.ListCallsResponse, error) {
	s.lists++
	var page tooldv1.ListCallsResponse
	for i := range s.lists {
		page.Calls = append(page.Calls, &tooldv1.Call{Suspension: &tooldv1.Suspension{SuspensionId: string(rune('a' + i))}})
	}
	if r.GetRunId() != "" {
		s.listed <- struct{}{}
	}
	return &page, nil
}

// TestInbox checks that each question comes once, whether the client may watch or has to poll.
func TestInbox(t *testing.T) {
	for name, request := range map[string]*tooldv1.ListCallsRequest{"watch": {RunId: "r"}, "poll": {}} {
		s := &asking{listed: make(chan struct{}, 100)}
		c := serve(t, admin(&versioned{}), calls(s))
		want := []string{"a", "b", "c"}
		if name == "poll" {
			want = want[:1] // the second list comes after two seconds
		}
		var got []string
		for call, err := range c.Inbox(t.Context(), request) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, call.GetSuspension().GetSuspensionId()); len(got) == len(want) {
				break
			}
		}
		close(s.listed)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the inbox has %q, want %q", name, got, want)
		}
	}
}
