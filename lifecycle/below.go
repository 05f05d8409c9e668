package lifecycle

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/outcome"
)

// stopMost returns the maximum time that a tool has to end the nested calls of a call. [stopNested] waits for the tool up to endingTime longer.
func stopMost(grace time.Duration) time.Duration { return min(grace, 10*time.Second) + endingTime }

// leastStop is the minimum wait for nested calls, even after the drain period. Nested calls that are already stopping may need only a
// moment.
const leastStop = time.Second

// stopNested asks the tool of a call to end its nested calls, and waits for their end, at most for the sum of most and endingTime. The
// context of the tool ends after most, or endingTime after the end of the drain period. The outcome of the call is stored and published
// only after stopNested returns.
func stopNested(p *pipeline, most time.Duration) (left outcome.Nested) {
	s := p.def.Stopper()
	if s == nil {
		return left
	}
	e, wait := p.l.e, max(leastStop, most)
	var err error
	left.Unseen, err = hook.Bounded(context.Background(), wait+endingTime, func(ctx context.Context) ([]string, error) {
		ctx, stop := context.WithTimeout(ctx, wait)
		defer stop()
		go stopAfterDrain(ctx, e.drain.Over(), stop)
		return s.Stop(ctx, p.call(nil)), nil
	})
	if err != nil {
		left.Unknown = true
		e.log.Error("nested calls not stopped", zap.String("call_id", p.l.key.ID), zap.String("tool", p.def.Descriptor.ID), zap.Error(err))
	}
	return left
}

// stopAfterDrain invokes stop when endingTime has passed since the end of the drain period.
func stopAfterDrain(ctx context.Context, over <-chan struct{}, stop context.CancelFunc) {
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

// stopNestedAtEnd invokes stopNested for a pipeline run with a terminal outcome. It skips a tool that succeeded, because such a tool has no
// nested calls left. A call whose result is a person's answer is not skipped: its tool did not run to its end and may have nested calls.
// When the daemon stops, nested calls get only leastStop.
func stopNestedAtEnd(ctx context.Context, p *pipeline, out *outcome.Terminal) {
	most := stopMost(p.l.e.cfg.Grace)
	switch {
	case out.Status == call.Succeeded && out.Executed == call.Finished:
		return
	case errors.Is(context.Cause(ctx), outcome.Drained):
		most = 0
	}
	stopNested(p, most).AddTo(out)
}
