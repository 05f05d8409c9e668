package server

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// ExecuteBatch starts a batch or attaches to it, and streams it.
func (s *calls) ExecuteBatch(req *tooldv1.ExecuteBatchRequest, stream grpc.ServerStreamingServer[tooldv1.ExecuteBatchResponse]) error {
	ctx := stream.Context()
	w, err := s.startBatch(ctx, principal(ctx), req)
	if err != nil {
		return err
	}
	return s.pump(ctx, w, nil, func(f outgoing) error {
		return stream.Send(&tooldv1.ExecuteBatchResponse{Frame: f.Frame})
	})
}

// startBatch starts a batch or attaches to it.
func (s *calls) startBatch(ctx context.Context, p *identity, req *tooldv1.ExecuteBatchRequest) (call.Stream, error) {
	spec, err := toBatchSpec(p, req.GetSpec())
	if err != nil {
		return nil, err
	}
	w, err := s.engine.ExecuteBatch(ctx, p.Principal, *spec, call.ExecuteOptions{Cursor: req.GetCursor(), WaitForDecision: req.GetWaitForDecision()})
	if err != nil {
		return nil, inBatchSpec(err)
	}
	return w, nil
}

// toBatchSpec checks what an orchestrator asks for and translates it.
func toBatchSpec(p *identity, in *tooldv1.BatchSpec) (*call.BatchSpec, error) {
	if in == nil {
		return nil, call.InvalidField("spec", "is required")
	}
	spec := &call.BatchSpec{ID: in.GetBatchId(), BatchOptions: call.BatchOptions{MaxParallel: int(in.GetMaxParallel()), FailFast: in.GetFailFast()}}
	switch in.GetStrategy() {
	case tooldv1.BatchStrategy_BATCH_STRATEGY_UNSPECIFIED, tooldv1.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL:
		spec.Strategy = call.Sequential
	case tooldv1.BatchStrategy_BATCH_STRATEGY_AUTO:
		spec.Strategy = call.Auto
	case tooldv1.BatchStrategy_BATCH_STRATEGY_PARALLEL:
		spec.Strategy = call.Parallel
	default:
		return nil, unknownEnum("spec.strategy", int32(in.GetStrategy()))
	}
	switch in.GetReplay() {
	case tooldv1.BatchReplay_BATCH_REPLAY_UNSPECIFIED, tooldv1.BatchReplay_BATCH_REPLAY_IMMEDIATE:
		spec.Replay = call.Immediate
	case tooldv1.BatchReplay_BATCH_REPLAY_ALL_DECIDED:
		spec.Replay = call.AllDecided
	default:
		return nil, unknownEnum("spec.replay", int32(in.GetReplay()))
	}
	for i, c := range in.GetCalls() {
		one, err := toSpec(p, c)
		if err != nil {
			return nil, placed(err, "spec", "spec.calls["+strconv.Itoa(i)+"]")
		}
		spec.Calls = append(spec.Calls, one)
	}
	return spec, nil
}

// inBatchSpec gives the fields that the engine found wrong in a batch their place in the request.
func inBatchSpec(err error) error {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) || len(refusal.Violations) != 1 || refusal.Violations[0].Field == "cursor" {
		return err
	}
	return placed(err, "", "spec.")
}

// placed gives a refused field another beginning.
func placed(err error, before, after string) error {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) || len(refusal.Violations) != 1 {
		return err
	}
	v, out := refusal.Violations[0], *refusal
	rest, ok := strings.CutPrefix(v.Field, before)
	if !ok {
		return err
	}
	field := after + rest
	out.Violations = []tool.Violation{{Field: field, Description: v.Description}}
	out.Message = field + ": " + v.Description
	return &out
}

// finishedBytes bounds the results in a batch_finished.
const finishedBytes = 1 << 20

func fromBatchFinished(b *call.BatchFinished) *tooldv1.BatchFinished {
	out := &tooldv1.BatchFinished{BatchId: b.BatchID, Open: b.Open}
	room := finishedBytes
	for _, c := range b.Calls {
		r := &tooldv1.BatchResult{CallId: c.ID, ModelCallId: c.ModelCallID, Status: fromStatus(c.Status), Executed: fromExecuted(c.Executed)}
		if s := c.Open(); s != nil {
			r.SuspensionId = s.ID
		}
		if c.Status.Terminal() {
			r.Result = fromResult(c.Result)
			if room -= proto.Size(r.Result); room < 0 {
				room += proto.Size(r.Result)
				r.Result, r.LeftOut = nil, true
			}
		}
		out.Results = append(out.Results, r)
	}
	return out
}

// cancelMany asks the calls of a run, a thread or a batch to end.
func (s *calls) cancelMany(ctx context.Context, req *tooldv1.CancelCallsRequest) ([]string, error) {
	p := principal(ctx).Principal
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
