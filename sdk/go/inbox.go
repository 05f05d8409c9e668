package toold

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Waiting returns the calls that wait for a decision, oldest first.
func (c *Client) Waiting(ctx context.Context, r *tooldv1.ListCallsRequest) iter.Seq2[*tooldv1.Call, error] {
	return func(yield func(*tooldv1.Call, error) bool) {
		r.Statuses, r.Order = []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}, tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST
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

// Inbox returns the calls that wait for a decision, as [Client.Waiting] does, and then each call that begins to wait, until ctx ends. A
// call comes once for each of its questions. Inbox watches the run or the thread of the request, or the namespace, which needs the role
// viewer or operator. A client that may not watch lists the calls every two seconds.
func (c *Client) Inbox(ctx context.Context, r *tooldv1.ListCallsRequest) iter.Seq2[*tooldv1.Call, error] {
	return func(yield func(*tooldv1.Call, error) bool) {
		shown := map[string]bool{}
		for err := range c.changes(ctx, r) {
			if err != nil {
				yield(nil, err)
				return
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

const pollEvery = 2 * time.Second

// changes yields nil when the calls that wait may have changed.
func (c *Client) changes(ctx context.Context, r *tooldv1.ListCallsRequest) iter.Seq[error] {
	return func(yield func(error) bool) {
		for f, err := range c.Watch(ctx, watchOf(r)) {
			var e *Error
			if errors.As(err, &e) && (e.Code == codes.PermissionDenied || e.Code == codes.NotFound) {
				break // it may not watch, or the run does not exist yet
			}
			if (err != nil || asks(f)) && !yield(err) || err != nil {
				return
			}
		}
		for yield(nil) {
			if err := pause(ctx, pollEvery, 0.8, 1.2); err != nil {
				yield(err)
				return
			}
		}
	}
}

func watchOf(r *tooldv1.ListCallsRequest) *tooldv1.WatchCallsRequest {
	w := &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true}
	switch {
	case r.GetRunId() != "":
		w.Selector = &tooldv1.WatchCallsRequest_RunId{RunId: r.GetRunId()}
	case r.GetThreadId() != "":
		w.Selector = &tooldv1.WatchCallsRequest_ThreadId{ThreadId: r.GetThreadId()}
	}
	return w
}

// asks reports whether a call may have begun to wait before this frame.
func asks(f *tooldv1.Frame) bool {
	for _, e := range f.GetEvents() {
		if e.GetSuspended() != nil {
			return true
		}
	}
	return f.GetCaughtUp() != nil || f.GetGap() != nil
}

// WhoAmI returns the principal of the client, and what it may do with the open questions of these calls: one entry for each call.
func (c *Client) WhoAmI(ctx context.Context, calls ...*tooldv1.Call) (*tooldv1.WhoAmIResponse, error) {
	r := &tooldv1.WhoAmIRequest{}
	for _, call := range calls {
		r.SuspensionIds = append(r.SuspensionIds, call.GetSuspension().GetSuspensionId())
	}
	return again(ctx, c.patience, func() (*tooldv1.WhoAmIResponse, error) { return c.Calls.WhoAmI(ctx, r) })
}

// Claim says that the principal of the client looks at the open question of a call, for d or, when d is 0, for 5 minutes. Claim it again to
// extend the time. A claim does not prevent other people from deciding.
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
