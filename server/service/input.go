package service

import (
	"context"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// SendInput sends input to a running call.
func (s *calls) SendInput(ctx context.Context, req *tooldv1.SendInputRequest) (*tooldv1.SendInputResponse, error) {
	if err := translate.Required("call_id", req.GetCallId()); err != nil {
		return nil, err
	}
	in := call.Input{Data: req.GetData(), Position: req.Position, Attempt: int(req.GetAttempt()), End: req.GetEndOfInput()}
	if size := req.GetResize(); size != nil {
		if min(size.GetRows(), size.GetColumns()) < 1 {
			return nil, call.InvalidField("resize", "is %d by %d; want 1 to 1,000 each", size.GetRows(), size.GetColumns())
		}
		in.Rows, in.Columns = int(size.GetRows()), int(size.GetColumns())
	}
	if req.Signal != nil {
		if in.Signal = translate.ToSignal(req.GetSignal()); in.Signal == "" {
			return nil, call.InvalidField("signal", "%v is not a signal that can be sent", req.GetSignal())
		}
	}
	state, err := s.engine.SendInput(ctx, access.From(ctx).Principal, req.GetCallId(), in)
	if err != nil {
		return nil, err
	}
	return &tooldv1.SendInputResponse{Position: state.Position, Attempt: int32(state.Attempt), Unread: int64(state.Unread)}, nil
}
