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

// stopMost is how long a call waits for the calls that it made to end, before its own outcome is published.
func stopMost(grace time.Duration) time.Duration { return min(grace, 10*time.Second) + endingTime }

// leastStop is the shortest wait, even when the drain is over: calls that were already stopping may need only a moment.
const leastStop = time.Second

// below is the state of the calls that a call made, at its end.
type below struct {
	unseen  []string
	unknown bool // the tool could not tell
}

// stopper returns the tool when it makes calls itself; else nil, as for a tool that does not exist.
func (d *Definition) stopper() tool.Stopper {
	if d == nil {
		return nil
	}
	s, _ := d.Tool.(tool.Stopper)
	return s
}

// stopBelow has the tool of a call end the calls that it made. It returns when they have ended, or that has taken too long, or the drain
// period is over and they had endingTime since. The outcome of the call is stored after that: it is never published while they run.
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

// hasten ends a wait some time after the drain period is over.
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

// ending is stopBelow for a call whose pipeline run ends so. A tool that came to its own success has none; an answer may have ended the call
// in its place. When the daemon stops, they have only leastStop: the call ends now.
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

// UnseenCalls is the entry of a result's metadata that names the calls of a call that may still do something, though it has ended.
const UnseenCalls = "unseen_calls"

// name lists in the result the calls whose end is not confirmed.
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
