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

// stopMost returns how long a call waits for its nested calls to end before it publishes its own outcome.
func stopMost(grace time.Duration) time.Duration { return min(grace, 10*time.Second) + endingTime }

// leastStop is the minimum wait for nested calls, even after the drain period. Nested calls that are already stopping may need only a
// moment.
const leastStop = time.Second

// nestedState describes the nested calls of a call at its end: which of them may still run.
type nestedState struct {
	unseen  []string
	unknown bool // the tool could not report its nested calls
}

// stopper returns the tool of a call if the tool makes nested calls. Otherwise, or when the tool does not exist, it returns nil.
func (d *Definition) stopper() tool.Stopper {
	if d == nil {
		return nil
	}
	s, _ := d.Tool.(tool.Stopper)
	return s
}

// stopNested asks the tool of a call to end its nested calls, and waits for their end. It waits at most most plus endingTime, and at most
// endingTime after the drain period. The outcome of the call is stored and published only after stopNested returns.
func stopNested(p *pipeline, most time.Duration) (left nestedState) {
	s := p.def.stopper()
	if s == nil {
		return left
	}
	e, wait := p.l.e, max(leastStop, most)
	var err error
	left.unseen, err = hook.Bounded(context.Background(), wait+endingTime, func(ctx context.Context) ([]string, error) {
		ctx, stop := context.WithTimeout(ctx, wait)
		defer stop()
		go stopAfterDrain(ctx, e.drain.Over(), stop)
		return s.Stop(ctx, p.call(nil)), nil
	})
	if err != nil {
		left.unknown = true
		e.log.Error("nested calls not stopped", zap.String("call_id", p.l.key.ID), zap.String("tool", p.def.Descriptor.ID), zap.Error(err))
	}
	return left
}

// stopAfterDrain calls stop when endingTime has passed since the end of the drain period.
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

// stopNestedAtEnd calls stopNested for a pipeline run with a terminal outcome. It skips a tool that succeeded, because such a tool has no nested
// calls left. A call that an answer completed may still have some. When the daemon stops, nested calls get only leastStop.
func stopNestedAtEnd(ctx context.Context, p *pipeline, out *outcome.Terminal) {
	most := stopMost(p.l.e.cfg.Grace)
	switch {
	case out.Status == call.Succeeded && out.Executed == call.Finished:
		return
	case errors.Is(context.Cause(ctx), outcome.Drained):
		most = 0
	}
	stopNested(p, most).addTo(out)
}

// UnseenCalls is the key in a result's metadata under which the ids of some nested calls are listed: those whose end is not confirmed. They
// may still run although the call has ended.
const UnseenCalls = "unseen_calls"

// addTo adds the nested calls without a confirmed end to the result.
func (b nestedState) addTo(out *outcome.Terminal) {
	if len(b.unseen) == 0 && !b.unknown {
		return
	}
	text := "it is not known whether its nested calls have ended"
	if !b.unknown {
		text = "nested calls that may still run: " + strings.Join(b.unseen, ", ")
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
