package toold

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/grpc/codes"

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
