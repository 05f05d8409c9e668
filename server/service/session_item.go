package service

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/translate"
)

// An item is one request of a session.
type item struct {
	id    string
	req   *tooldv1.SessionItem
	ctx   context.Context
	stop  context.CancelCauseFunc
	waits atomic.Int64 // age of the session when an answer of the item began to wait; 0 when no answer waits
	sent  chan error   // receives the result of the send
	ended bool         // the final answer is queued
	leave func()       // called after the final answer was sent, to stop counting the item as a watcher; nil when the item is not counted
}

// serve serves an item as a request for the method that it names.
func (c *session) serve(it *item) {
	defer c.items.Done()
	defer it.stop(nil)
	name, run := c.method(it.req)
	c.end(it, c.service.item(it.ctx, c.id, name, func(context.Context) error { return run(it) }))
}

// method returns the full name of the method of an item, and its handler.
func (c *session) method(req *tooldv1.SessionItem) (string, func(*item) error) {
	switch req.GetItem().(type) {
	case *tooldv1.SessionItem_Execute:
		return tooldv1.CallService_ExecuteTool_FullMethodName, c.execute
	case *tooldv1.SessionItem_Batch:
		return tooldv1.CallService_ExecuteBatch_FullMethodName, c.batch
	case *tooldv1.SessionItem_Turn:
		return tooldv1.CallService_ExecuteTurn_FullMethodName, c.turn
	case *tooldv1.SessionItem_Resume:
		return tooldv1.CallService_ResumeTool_FullMethodName, c.resume
	case *tooldv1.SessionItem_Watch:
		return tooldv1.CallService_WatchCalls_FullMethodName, c.watchItem
	case *tooldv1.SessionItem_Cancel:
		return tooldv1.CallService_CancelCall_FullMethodName, c.cancel
	}
	return tooldv1.CallService_Session_FullMethodName, func(*item) error {
		return call.InvalidField("item", "is required: execute, batch, turn, resume, watch, cancel or leave")
	}
}

func (c *session) execute(it *item) error {
	w, err := c.startTool(it.ctx, c.id, it.req.GetExecute())
	if err != nil {
		return err
	}
	return c.follow(it, w, true)
}

func (c *session) batch(it *item) error {
	w, err := c.startBatch(it.ctx, c.id, it.req.GetBatch())
	if err != nil {
		return err
	}
	return c.follow(it, w, false)
}

func (c *session) turn(it *item) error {
	w, err := c.startTurn(it.ctx, c.id, it.req.GetTurn())
	if err != nil {
		return err
	}
	return c.follow(it, w, false)
}

func (c *session) resume(it *item) error {
	w, err := c.decide(it.ctx, c.id, it.req.GetResume())
	if err != nil {
		return err
	}
	return c.follow(it, w, true)
}

func (c *session) watchItem(it *item) error {
	w, leave, err := c.enterWatch(it.ctx, it.req.GetWatch())
	if err != nil {
		return err
	}
	it.leave = leave
	_, one := it.req.GetWatch().GetSelector().(*tooldv1.WatchCallsRequest_CallId)
	return c.follow(it, w, one && it.req.GetWatch().GetFollow())
}

func (c *session) cancel(it *item) error {
	resp, err := c.CancelCall(it.ctx, it.req.GetCancel())
	if err != nil {
		return err
	}
	n := proto.Size(resp)
	if err := c.countWatcher(it, n); err != nil {
		return err
	}
	c.sendLast(it, &tooldv1.SessionAnswer{Cancelled: resp}, n)
	return nil
}

// follow sends the frames of a watcher until the watcher ends, and then closes it. one is true when the watcher follows a single call; the
// terminal event of that call is then the last event.
func (c *session) follow(it *item, w call.Stream, one bool) error {
	defer w.Close()
	total, cursor := 0, w.Cursor()
	for {
		f, err := w.Next(it.ctx)
		if err != nil {
			return c.endFollow(it, cursor, err)
		}
		out := frameFor(&f)
		if f.Heartbeat {
			if err := c.heartbeat(out.Frame); err != nil {
				return err
			}
			continue
		}
		if f.Snapshot != nil {
			cursor = "" // A client without a cursor must start again, and then gets the snapshot again.
		}
		n := size(&f, out)
		total += n
		if err := c.countWatcher(it, total); err != nil {
			return (&pump{cursor: cursor}).withCursor(err)
		}
		if f.Closing || one && ends(f.Events) {
			c.sendLast(it, &tooldv1.SessionAnswer{Frame: out.Frame}, n)
			return nil
		}
		if err := c.sendAnswer(it.ctx, it, &tooldv1.SessionAnswer{Frame: out.Frame}, n); err != nil {
			return c.endFollow(it, cursor, err)
		}
		cursor = f.Cursor
	}
}

// countWatcher counts an item as a watcher when it has sent more bytes than the transport accepts without waiting for the client.
func (c *session) countWatcher(it *item, bytes int) (err error) {
	if bytes > unread && it.leave == nil {
		it.leave, err = c.watchers.acquire(c.id)
	}
	return err
}

// ends reports whether the last event is the terminal event of its call.
func ends(events []call.Event) bool {
	return len(events) > 0 && events[len(events)-1].Type == call.EventFinished
}

// endFollow ends an item whose watcher returned an error. cursor is the cursor of the newest frame that was sent.
func (c *session) endFollow(it *item, cursor string, err error) error {
	var last *tooldv1.Frame
	switch cause := context.Cause(it.ctx); {
	case errors.Is(err, io.EOF):
		return nil
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx) // The client has left, or its credential has expired.
	case errors.Is(cause, errDeadlineNear):
		last = translate.Closing(tooldv1.ClosingReason_CLOSING_REASON_DEADLINE, cursor)
	case errors.Is(cause, errStopping):
		last = translate.Closing(tooldv1.ClosingReason_CLOSING_REASON_DRAIN, cursor)
	case errors.Is(cause, errLagged):
		last = &tooldv1.Frame{Cursor: cursor, Control: &tooldv1.Frame_Lagged{Lagged: &tooldv1.Lagged{}}}
	default:
		return err
	}
	c.sendLast(it, &tooldv1.SessionAnswer{Frame: last}, 0)
	return nil
}

// end sends the status of an item to the client, unless a final answer is already queued.
func (c *session) end(it *item, err error) {
	if it.ended {
		return
	}
	body := &tooldv1.SessionAnswer{}
	if status.Code(err) != codes.OK {
		body.Error = statusOf(err)
	}
	c.sendLast(it, body, proto.Size(body))
}
