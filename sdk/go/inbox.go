package toold

import (
	"context"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// suspensionID is the path of the id of a question in a read mask.
const suspensionID = "suspension.suspension_id"

// Waiting returns the calls that wait for a decision, oldest first.
func (c *Client) Waiting(ctx context.Context, r *tooldv1.ListCallsRequest) iter.Seq2[*tooldv1.Call, error] {
	return func(yield func(*tooldv1.Call, error) bool) {
		r.Statuses, r.Order = []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}, tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST
		if paths := r.GetReadMask().GetPaths(); len(paths) > 0 && !slices.Contains(paths, suspensionID) { // Inbox and WhoAmI need the id.
			r.ReadMask = &fieldmaskpb.FieldMask{Paths: append(slices.Clip(paths), suspensionID)}
		}
		for r.PageToken = ""; ; {
			page, err := again(ctx, c.patience, func() (*tooldv1.ListCallsResponse, error) { return c.Calls.ListCalls(ctx, r) })
			if err != nil {
				yield(nil, err)
				return
			}
			for _, call := range page.GetCalls() {
				if !yield(call, nil) {
					return
				}
			}
			if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
				return
			}
		}
	}
}

// Inbox returns the calls that wait for a decision, as [Client.Waiting] does. Then it returns each call that begins to wait, until ctx
// ends. A call comes once for each of its questions.
func (c *Client) Inbox(ctx context.Context, r *tooldv1.ListCallsRequest) iter.Seq2[*tooldv1.Call, error] {
	return func(yield func(*tooldv1.Call, error) bool) {
		shown := map[string]bool{}
		for f, err := range frames(ctx, c.patience, "", c.openInbox) {
			if err != nil {
				yield(nil, err)
				return
			}
			if f.GetCaughtUp() == nil {
				continue
			}
			open := map[string]bool{}
			for call, err := range c.Waiting(ctx, r) {
				id := call.GetSuspension().GetSuspensionId()
				if open[id] = true; !shown[id] && !yield(call, err) || err != nil {
					return
				}
			}
			shown = open
		}
	}
}

func (c *Client) openInbox(ctx context.Context, _ string) (stream[inboxFrame], error) {
	s, err := c.Calls.WatchInbox(ctx, &tooldv1.WatchInboxRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"call_id"}}})
	if err != nil {
		return nil, err
	}
	return &inboxStream{recv: s.Recv}, nil
}

// An inboxStream is a stream of the questions that wait. It returns a frame "caught up" when the list of questions is
// complete, and again for each later question.
type inboxStream struct {
	recv     func() (*tooldv1.WatchInboxResponse, error)
	complete bool
}

// An inboxFrame is a response that contains only a frame.
type inboxFrame struct{ frame *tooldv1.Frame }

func (f inboxFrame) GetFrame() *tooldv1.Frame { return f.frame }

func (s *inboxStream) Recv() (inboxFrame, error) {
	r, err := s.recv()
	f := &tooldv1.Frame{}
	switch {
	case r.GetHeartbeat() != nil:
		f.Control = &tooldv1.Frame_Heartbeat{Heartbeat: r.GetHeartbeat()}
	case r.GetClosing() != nil:
		f.Control = &tooldv1.Frame_Closing{Closing: r.GetClosing()}
	case r.GetCaughtUp() != nil, r.GetWaiting() != nil && s.complete:
		s.complete = true
		f.Control = &tooldv1.Frame_CaughtUp{CaughtUp: &tooldv1.CaughtUp{}}
	}
	return inboxFrame{f}, err
}

// WhoAmI returns the principal of the client, and what it may do with the open questions of these calls: one entry for each call.
func (c *Client) WhoAmI(ctx context.Context, calls ...*tooldv1.Call) (*tooldv1.WhoAmIResponse, error) {
	r := &tooldv1.WhoAmIRequest{}
	for _, call := range calls {
		r.SuspensionIds = append(r.SuspensionIds, call.GetSuspension().GetSuspensionId())
	}
	return again(ctx, c.patience, func() (*tooldv1.WhoAmIResponse, error) { return c.Calls.WhoAmI(ctx, r) })
}

// Claim tells others that the principal of the client looks at the open question of a call. The claim lasts for d, or 5 minutes when d is
// 0. Claim the question again to extend the time. Other people may still decide.
func (c *Client) Claim(ctx context.Context, call *tooldv1.Call, d time.Duration) (*tooldv1.Claim, error) {
	r := &tooldv1.ClaimSuspensionRequest{SuspensionId: call.GetSuspension().GetSuspensionId()}
	if d != 0 {
		r.Duration = durationpb.New(d)
	}
	return c.claim(ctx, r)
}

// Release ends a claim of the principal. It returns nil when there is none.
func (c *Client) Release(ctx context.Context, call *tooldv1.Call) error {
	_, err := c.claim(ctx, &tooldv1.ClaimSuspensionRequest{SuspensionId: call.GetSuspension().GetSuspensionId(), Release: true})
	return err
}

func (c *Client) claim(ctx context.Context, r *tooldv1.ClaimSuspensionRequest) (*tooldv1.Claim, error) {
	got, err := again(ctx, c.patience, func() (*tooldv1.ClaimSuspensionResponse, error) { return c.Calls.ClaimSuspension(ctx, r) })
	return got.GetClaim(), err
}
