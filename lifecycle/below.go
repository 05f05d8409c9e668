package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// stopMost returns how long a call waits for the end of its nested calls before its outcome is published.
func stopMost(grace time.Duration) time.Duration { return min(grace, 10*time.Second) + endingTime }

// leastStop is the shortest wait, even after the drain period, because nested calls that are stopping may need only a moment.
const leastStop = time.Second

// below is the state of a call's nested calls when the call ends.
type below struct {
	unseen  []string
	unknown bool // the tool could not report it
}

// stopper returns the tool if it makes nested calls. Otherwise it returns nil, also when the tool does not exist.
func (d *Definition) stopper() tool.Stopper {
	if d == nil {
		return nil
	}
	s, _ := d.Tool.(tool.Stopper)
	return s
}

// stopBelow asks the tool of a call to end its nested calls. It returns when they have ended, after at most most plus endingTime, or
// endingTime after the drain period is over. The outcome of the call is stored afterwards, so it is not published while nested calls run.
func stopBelow(p *pipeline, most time.Duration) (left below) {
	s := p.def.stopper()
	if s == nil {
		return left
	}
	e, wait := p.l.e, max(leastStop, most)
	var err error
	left.unseen, err = hook.Bounded(context.Background(), wait+endingTime, func(ctx context.Context) ([]string, error) {
		ctx, stop := context.WithTimeout(ctx, wait)
		defer stop()
		go hasten(ctx, e.drain.Over(), stop)
		return s.Stop(ctx, p.call(nil)), nil
	})
	if err != nil {
		left.unknown = true
		e.log.Error("calls of a call not stopped", zap.String("call_id", p.l.key.ID), zap.String("tool", p.def.Descriptor.ID), zap.Error(err))
	}
	return left
}

// hasten calls stop when endingTime has passed after the drain period.
func hasten(ctx context.Context, over <-chan struct{}, stop context.CancelFunc) {
	select {
	case <-ctx.Done():
		return
	case <-over:
	}
	timer := time.NewTimer(endingTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		stop()
	}
}

// ending is stopBelow for a pipeline run with a terminal outcome. A tool that succeeded has no nested calls left. A call that succeeded
// through an answer may have some. When the daemon stops, nested calls have only leastStop.
func ending(ctx context.Context, p *pipeline, out *outcome.Terminal) {
	most := stopMost(p.l.e.cfg.Grace)
	switch {
	case out.Status == call.Succeeded && out.Executed == call.Finished:
		return
	case errors.Is(context.Cause(ctx), outcome.Drained):
		most = 0
	}
	stopBelow(p, most).name(out)
}

// UnseenCalls is the key in a result's metadata that lists nested calls whose end is not confirmed. They may still run although the call
// has ended.
const UnseenCalls = "unseen_calls"

// name lists the nested calls with an unconfirmed end in the result.
func (b below) name(out *outcome.Terminal) {
	if len(b.unseen) == 0 && !b.unknown {
		return
	}
	text := "it is not known whether the calls that it made have ended"
	if !b.unknown {
		text = "nobody saw the end of calls that it made: " + strings.Join(b.unseen, ", ")
	}
	out.Executed = call.ExecutedUnknown
	r := copyResult(out.Result)
	if r.Error != nil {
		r.Error.Message = strings.TrimRight(r.Error.Message, ".") + "; " + text
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	r.Metadata[UnseenCalls] = strings.Join(slices.Sorted(slices.Values(b.unseen)), " ")
	out.Result = r
}
