package service

import (
	"context"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// ExecuteBatch starts a batch or attaches to it, and streams it.
func (s *calls) ExecuteBatch(req *tooldv1.ExecuteBatchRequest, stream grpc.ServerStreamingServer[tooldv1.ExecuteBatchResponse]) error {
	ctx := stream.Context()
	w, err := s.startBatch(ctx, access.From(ctx), req)
	if err != nil {
		return err
	}
	return s.pump(ctx, w, nil, func(f outgoing) error {
		return stream.Send(&tooldv1.ExecuteBatchResponse{Frame: f.Frame})
	})
}

// startBatch starts a batch or attaches to it.
func (s *calls) startBatch(ctx context.Context, p *access.Identity, req *tooldv1.ExecuteBatchRequest) (call.Stream, error) {
	spec, err := translate.ToBatchSpec(req.GetSpec())
	for i := 0; err == nil && i < len(spec.Calls); i++ {
		err = p.MayActFor(spec.Calls[i].OnBehalfOf)
	}
	if err != nil {
		return nil, err
	}
	w, err := s.engine.ExecuteBatch(ctx, p.Principal, spec, call.ExecuteOptions{Cursor: req.GetCursor(), WaitForDecision: req.GetWaitForDecision()})
	if err != nil {
		return nil, inBatchSpec(err)
	}
	return w, nil
}

// cancelMany cancels the calls of a run, a thread or a batch.
func (s *calls) cancelMany(ctx context.Context, req *tooldv1.CancelCallsRequest) ([]string, error) {
	p := access.From(ctx).Principal
	ctx, cancel := untilDeadline(ctx)
	defer cancel()
	if batch := req.GetBatchId(); batch != "" {
		return s.engine.CancelBatch(ctx, p, batch, req.GetReason(), req.GetSupersededByRunId())
	}
	if req.GetRunId() == "" && req.GetThreadId() == "" {
		return nil, call.InvalidField("selector", "name a run, a thread or a batch")
	}
	return s.engine.CancelAll(ctx, p, req.GetRunId(), req.GetThreadId(), req.GetReason(), req.GetSupersededByRunId())
}
