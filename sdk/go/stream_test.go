package toold_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// flapping is a daemon whose first four streams break after a frame.
type flapping struct {
	tooldv1.UnimplementedCallServiceServer
	opened int
	cursor func(opened int) string
}

func (f *flapping) WatchCalls(_ *tooldv1.WatchCallsRequest, s grpc.ServerStreamingServer[tooldv1.WatchCallsResponse]) error {
	f.opened++
	if err := s.Send(&tooldv1.WatchCallsResponse{Frame: &tooldv1.Frame{Cursor: f.cursor(f.opened), Control: &tooldv1.Frame_CaughtUp{}}}); err != nil || f.opened == 5 {
		return err
	}
	return status.Error(codes.Unavailable, "gone")
}

// TestStreamsThatBreak checks that the time of the patience begins again only when a stream has reached a new position.
func TestStreamsThatBreak(t *testing.T) {
	for want, cursor := range map[codes.Code]func(int) string{codes.OK: strconv.Itoa, codes.Unavailable: func(int) string { return "same" }} {
		c := dial(t, listen(t, admin(&versioned{}), calls(&flapping{cursor: cursor})), toold.WithPatience(150*time.Millisecond))
		var last error
		for _, err := range c.Watch(t.Context(), &tooldv1.WatchCallsRequest{}) {
			last = err
		}
		if status.Code(last) != want {
			t.Errorf("the watch ended with %v, want %v", last, want)
		}
	}
}

// later is a daemon that refuses each request for lack of capacity.
type later struct {
	tooldv1.UnimplementedCallServiceServer
	requests int
	retry    time.Duration
	token    []string
}

func (b *later) GetCall(ctx context.Context, _ *tooldv1.GetCallRequest) (*tooldv1.GetCallResponse, error) {
	b.requests++
	b.token = metadata.ValueFromIncomingContext(ctx, "authorization")
	s, err := status.New(codes.ResourceExhausted, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(b.retry)})
	if err != nil {
		return nil, err
	}
	return nil, s.Err()
}

// TestRetryInfoThatNoClientCanHonour checks that a client returns the error when the named delay exceeds its patience. A delay of 0 or less
// does not make the client send the request again at once.
func TestRetryInfoThatNoClientCanHonour(t *testing.T) {
	for _, retry := range []time.Duration{-time.Second, 0, time.Hour, math.MaxInt64} {
		b := &later{retry: retry}
		c := dial(t, listen(t, admin(&versioned{}), calls(b)), toold.WithPatience(50*time.Millisecond), toold.WithToken("secret\n"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := c.Get(ctx, "a"); status.Code(err) != codes.ResourceExhausted || b.requests != 1 {
			t.Errorf("RetryInfo of %v: %v after %d requests", retry, err, b.requests)
		}
		if len(b.token) != 1 || b.token[0] != "Bearer secret" {
			t.Errorf("the daemon got the token %q", b.token)
		}
	}
}

// deciding is a daemon whose stream after a decision ends only when the client leaves. A client that connects again gets one more event.
type deciding struct {
	tooldv1.UnimplementedCallServiceServer
	left chan struct{}
}

func (d *deciding) ResumeTool(r *tooldv1.ResumeToolRequest, s grpc.ServerStreamingServer[tooldv1.ResumeToolResponse]) error {
	if r.GetCursor() == "1" {
		return s.Send(&tooldv1.ResumeToolResponse{Frame: &tooldv1.Frame{Cursor: "2", Events: []*tooldv1.CallEvent{{Sequence: 3}}}})
	}
	if err := s.Send(&tooldv1.ResumeToolResponse{Frame: &tooldv1.Frame{Cursor: "1", Events: []*tooldv1.CallEvent{{Sequence: 1}, {Sequence: 2}}}}); err != nil {
		return err
	}
	<-s.Context().Done()
	close(d.left)
	return nil
}

// TestDecisionsWithoutReaders checks that a decision leaves no stream open when the caller does not read its events.
func TestDecisionsWithoutReaders(t *testing.T) {
	d := &deciding{left: make(chan struct{})}
	events, err := serve(t, admin(&versioned{}), calls(d)).Decline(t.Context(), &tooldv1.Call{}, "no")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.left:
	case <-time.After(20 * time.Second):
		t.Fatal("the stream is open, although nobody reads the events")
	}
	var sequences []int64
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		sequences = append(sequences, e.GetSequence())
	}
	if !slices.Equal(sequences, []int64{1, 2, 3}) {
		t.Errorf("a later reader gets %v", sequences)
	}
}
