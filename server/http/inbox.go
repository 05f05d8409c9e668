package httpserver

import (
	"context"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
)

// watchInbox streams the inbox of the principal. It sends "waiting" with the call for each question, "caught_up" after the first complete
// list, and "settled" when a question no longer waits. The events have no ids: a client that connects again gets the complete list again.
func (s *Server) watchInbox(ctx context.Context, out *eventWriter) error {
	send := func(res *tooldv1.WatchInboxResponse) error { return sendInbox(out, res) }
	return service.Stream(ctx, s.cfg.Service, tooldv1.CallService_WatchInbox_FullMethodName, s.cfg.Service.Calls.WatchInbox, &tooldv1.WatchInboxRequest{},
		service.Out[tooldv1.WatchInboxResponse]{Send: send, Abort: abort(ctx), Apart: true})
}

func sendInbox(out *eventWriter, res *tooldv1.WatchInboxResponse) error {
	switch change := res.GetChange().(type) {
	case *tooldv1.WatchInboxResponse_Waiting:
		return out.event("waiting", change.Waiting.GetCall())
	case *tooldv1.WatchInboxResponse_Settled:
		// Send a call, as in "waiting", so that clients can handle both events in the same way.
		settled := &tooldv1.Call{CallId: change.Settled.GetCallId(), Status: change.Settled.GetStatus(), Suspension: &tooldv1.Suspension{SuspensionId: change.Settled.GetSuspensionId()}}
		if d := change.Settled.GetDecision(); d != nil {
			settled.Decisions = []*tooldv1.Decision{d}
		}
		return out.event("settled", settled)
	case *tooldv1.WatchInboxResponse_CaughtUp:
		return out.event("caught_up", &tooldv1.CaughtUp{})
	case *tooldv1.WatchInboxResponse_Closing:
		return out.frame(&tooldv1.Frame{Control: &tooldv1.Frame_Closing{Closing: change.Closing}})
	default:
		return out.frame(&tooldv1.Frame{Control: &tooldv1.Frame_Heartbeat{Heartbeat: res.GetHeartbeat()}})
	}
}
