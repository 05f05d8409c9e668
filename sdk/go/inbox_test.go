package toold_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// asking is a daemon with calls that wait. Each list has one call more than the previous list. The inbox reports a question after each
// list. Each of its streams begins with a question, and ends after two more questions.
type asking struct {
	tooldv1.UnimplementedCallServiceServer
	lists, streams int
	listed         chan struct{}
}

func (s *asking) WatchInbox(r *tooldv1.WatchInboxRequest, out grpc.ServerStreamingServer[tooldv1.WatchInboxResponse]) error {
	s.streams++
	question := &tooldv1.WatchInboxResponse{Change: &tooldv1.WatchInboxResponse_Waiting{Waiting: &tooldv1.InboxQuestion{}}}
	if err := errors.Join(out.Send(question), out.Send(&tooldv1.WatchInboxResponse{Change: &tooldv1.WatchInboxResponse_CaughtUp{CaughtUp: &tooldv1.InboxCaughtUp{}}})); err != nil {
		return err
	}
	for range 2 {
		<-s.listed
		settled := &tooldv1.WatchInboxResponse{Change: &tooldv1.WatchInboxResponse_Settled{Settled: &tooldv1.SettledQuestion{}}}
		if err := errors.Join(out.Send(settled), out.Send(question)); err != nil {
			return err
		}
	}
	<-s.listed
	return status.Error(codes.Unavailable, "restarting")
}

func (s *asking) ListCalls(_ context.Context, r *tooldv1.ListCallsRequest) (*tooldv1.ListCallsResponse, error) {
	if want := []string{"call_id", "suspension.suspension_id"}; !slices.Equal(r.GetReadMask().GetPaths(), want) {
		return nil, status.Errorf(codes.InvalidArgument, "the read mask is %v, not %v", r.GetReadMask(), want)
	}
	s.lists++
	var page tooldv1.ListCallsResponse
	for i := range s.lists {
		page.Calls = append(page.Calls, &tooldv1.Call{Suspension: &tooldv1.Suspension{SuspensionId: string(rune('a' + i))}})
	}
	s.listed <- struct{}{}
	return &page, nil
}

// TestInbox checks that each question comes once, also when the stream breaks. The client reads the list again only when the stream reports
// something new. The client adds the id of the question to the read mask.
func TestInbox(t *testing.T) {
	s := &asking{listed: make(chan struct{}, 100)}
	c := serve(t, admin(&versioned{}), calls(s))
	var got []string
	for call, err := range c.Inbox(t.Context(), &tooldv1.ListCallsRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"call_id"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, call.GetSuspension().GetSuspensionId()); len(got) == 5 {
			break
		}
	}
	if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(got, want) || s.streams != 2 {
		t.Errorf("the inbox has %q after %d streams, want %q after 2", got, s.streams, want)
	}
}
