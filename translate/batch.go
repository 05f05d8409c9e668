package translate

import (
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// ToBatchSpec checks the request for a batch and translates it.
func ToBatchSpec(in *tooldv1.BatchSpec) (spec call.BatchSpec, err error) {
	if in == nil {
		return spec, call.InvalidField("spec", "is required")
	}
	spec.ID = in.GetBatchId()
	if spec.BatchOptions, err = ToBatchOptions(in, call.Sequential); err != nil {
		return spec, err
	}
	for i, c := range in.GetCalls() {
		one, err := ToSpec(c)
		if err != nil {
			return spec, ReplaceFieldPrefix(err, "spec", "spec.calls["+strconv.Itoa(i)+"]")
		}
		spec.Calls = append(spec.Calls, one)
	}
	return spec, nil
}

// batchOptions are the fields that requests for batches and turns share.
type batchOptions interface {
	GetStrategy() tooldv1.BatchStrategy
	GetMaxParallel() int32
	GetFailFast() bool
	GetReplay() tooldv1.BatchReplay
}

// ToBatchOptions translates the options of a batch or a turn. usual is the strategy of a request that does not name one.
func ToBatchOptions(in batchOptions, usual call.Strategy) (out call.BatchOptions, err error) {
	out = call.BatchOptions{MaxParallel: int(in.GetMaxParallel()), FailFast: in.GetFailFast()}
	switch in.GetStrategy() {
	case tooldv1.BatchStrategy_BATCH_STRATEGY_UNSPECIFIED:
		out.Strategy = usual
	case tooldv1.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL:
		out.Strategy = call.Sequential
	case tooldv1.BatchStrategy_BATCH_STRATEGY_AUTO:
		out.Strategy = call.Auto
	case tooldv1.BatchStrategy_BATCH_STRATEGY_PARALLEL:
		out.Strategy = call.Parallel
	default:
		return out, UnknownEnum("spec.strategy", int32(in.GetStrategy()))
	}
	switch in.GetReplay() {
	case tooldv1.BatchReplay_BATCH_REPLAY_UNSPECIFIED, tooldv1.BatchReplay_BATCH_REPLAY_IMMEDIATE:
		out.Replay = call.Immediate
	case tooldv1.BatchReplay_BATCH_REPLAY_ALL_DECIDED:
		out.Replay = call.AllDecided
	default:
		return out, UnknownEnum("spec.replay", int32(in.GetReplay()))
	}
	return out, nil
}

// ReplaceFieldPrefix changes the field names in a refusal: it replaces the prefix before by the prefix after.
func ReplaceFieldPrefix(err error, before, after string) error {
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

// MaxFrame is the maximum size in bytes of the results in a batch_finished frame. Results that exceed it are left out.
const MaxFrame = 1 << 20

func fromBatchFinished(b *call.BatchFinished) *tooldv1.BatchFinished {
	out := &tooldv1.BatchFinished{BatchId: b.BatchID, Open: b.Open}
	capacity := MaxFrame
	for _, c := range b.Calls {
		r := &tooldv1.BatchResult{CallId: c.ID, ModelCallId: c.ModelCallID, Status: FromStatus(c.Status), Executed: FromExecuted(c.Executed)}
		if s := c.Open(); s != nil {
			r.SuspensionId = s.ID
		}
		if c.Status.Terminal() {
			r.Result = FromResult(c.Result)
			if capacity -= proto.Size(r.Result); capacity < 0 {
				capacity += proto.Size(r.Result)
				r.Result, r.LeftOut = nil, true
			}
		}
		out.Results = append(out.Results, r)
	}
	return out
}
