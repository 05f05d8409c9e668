package service

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// WatchInbox streams the questions that the principal may see.
func (s *calls) WatchInbox(req *tooldv1.WatchInboxRequest, stream grpc.ServerStreamingServer[tooldv1.WatchInboxResponse]) error {
	ctx := stream.Context()
	id := access.From(ctx)
	mask, err := newMask(req.GetReadMask())
	if err != nil {
		return err
	}
	leave, err := s.watchers.acquire(id)
	if err != nil {
		return err
	}
	refused := mayDecide(id)
	return s.pump(ctx, s.engine.WatchInbox(id.Principal), leave, func(f outgoing) error {
		return stream.Send(fromInbox(f, mask, refused))
	})
}

// fromInbox translates a frame of the inbox. If the principal may not answer any question, refused is the reason, otherwise nil.
func fromInbox(f outgoing, m mask, refused error) *tooldv1.WatchInboxResponse {
	out, in := &tooldv1.WatchInboxResponse{}, f.inbox
	switch {
	case f.GetCaughtUp() != nil:
		out.Change = &tooldv1.WatchInboxResponse_CaughtUp{CaughtUp: &tooldv1.InboxCaughtUp{More: in.More}}
	case f.GetClosing() != nil:
		out.Change = &tooldv1.WatchInboxResponse_Closing{Closing: f.GetClosing()}
	case f.GetHeartbeat() != nil:
		out.Change = &tooldv1.WatchInboxResponse_Heartbeat{Heartbeat: f.GetHeartbeat()}
	case in.Settled != "":
		settled := &tooldv1.SettledQuestion{CallId: in.CallID, SuspensionId: in.SuspensionID, Settlement: translate.FromSettlement(in.Settled)}
		if in.Call != nil {
			settled.Status = translate.FromStatus(in.Call.Status)
		}
		if in.Decision != nil {
			d := *in.Decision
			d.Result, d.Arguments, d.ResultInstead, d.Votes = "", "", nil, nil
			settled.Decision = translate.FromDecision(&d, &call.Suspension{ID: in.SuspensionID})
		}
		out.Change = &tooldv1.WatchInboxResponse_Settled{Settled: settled}
	default:
		rights := in.Rights
		if refused != nil {
			rights = call.NoRights(in.SuspensionID, refused)
			rights.CallID = in.CallID
		}
		record := m.apply(translate.FromCall(in.Call))
		translate.Fit(record)
		out.Change = &tooldv1.WatchInboxResponse_Waiting{Waiting: &tooldv1.InboxQuestion{Call: record, Rights: translate.FromRights(&rights)}}
	}
	return out
}

// CountCalls counts the calls that have not ended, and the open questions.
func (s *calls) CountCalls(ctx context.Context, _ *tooldv1.CountCallsRequest) (*tooldv1.CountCallsResponse, error) {
	counts, err := s.engine.Count(ctx, access.From(ctx).Principal)
	if err != nil {
		return nil, err
	}
	resp := &tooldv1.CountCallsResponse{AtLeast: counts.AtLeast}
	for _, status := range []call.Status{call.New, call.Running, call.Suspended, call.Resuming} {
		if n := counts.Statuses[status]; n > 0 {
			resp.Statuses = append(resp.Statuses, &tooldv1.StatusCount{Status: translate.FromStatus(status), Count: int64(n)})
		}
	}
	for _, action := range slices.Sorted(maps.Keys(counts.Actions)) {
		resp.Actions = append(resp.Actions, &tooldv1.ActionCount{Action: action, Count: int64(counts.Actions[action])})
	}
	return resp, nil
}
