package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// answer is the result and the error that a tool returned.
type answer struct {
	result   *tool.Result
	err      error
	panicked *outcome.Terminal
}

// abandon ends a call whose tool did not return within the grace period after its cancellation. If the tool returns a result later, the
// result is stored but never used.
func (p *pipeline) abandon(ctx context.Context, cause error) {
	p.l.e.stats.abandoned.Add(1)
	p.l.e.log.Error("tool ignores its cancellation; abandoned", zap.String("tool", p.def.Descriptor.ID), zap.String("call_id", p.l.key.ID))
	out := outcome.StoppedBy(cause, call.ExecutedUnknown)
	out.Result.Error.DeveloperMessage = fmt.Sprintf("the tool did not return within %v of its cancellation", p.l.e.cfg.Grace)
	p.conclude(ctx, out)
}

// keepLate stores the late result of an abandoned attempt as a record of the call. The result never changes the call.
func (p *pipeline) keepLate(a answer) {
	p.l.e.stats.late.Add(1)
	late := lateResult{Attempt: p.attempt, Result: a.result}
	if a.err != nil {
		late.Error = a.err.Error()
	}
	if !p.scrubber().Scrub(func(s hook.Scrubber) {
		late.Error = s.Text(late.Error)
		if late.Result != nil {
			late.Result = s.Result(late.Result)
		}
	}) {
		late.Result, late.Error = nil, hooks.NotShown
	}
	b, err := json.Marshal(late)
	if err == nil {
		err = putLate(p.l.e, p.l.key, b)
	}
	if err != nil {
		p.l.e.log.Warn("late result not stored", zap.String("call_id", p.l.key.ID), zap.Error(err))
	}
}

// putLate stores a late result, unless the content of its call was erased meanwhile.
func putLate(e *Engine, key call.Key, b []byte) error {
	ctx := context.Background()
	l, err := e.acquire(ctx, key)
	if err != nil {
		return err
	}
	defer l.release()
	l.slot.Take()
	defer l.unslot()
	if l.record().Purge != nil {
		return nil
	}
	return e.store.PutRecord(ctx, key.Namespace, store.Record{Kind: LateResults, Key: key.ID, Bytes: b})
}

// LateResults is the kind of the records that hold late results of abandoned attempts. The key of such a record is the call's id.
const LateResults = "late_result"

type lateResult struct {
	Attempt int          `json:"attempt"`
	Result  *tool.Result `json:"result,omitempty"`
	Error   string       `json:"error,omitempty"`
}

// returned converts what a tool returned into a conclusion of the pipeline run.
type returned struct{ p *pipeline }

// conclusion returns how the pipeline run ends after the tool returned a.
func (r returned) conclusion(ctx context.Context, a answer) outcome.Conclusion {
	p := r.p
	if a.panicked != nil {
		return a.panicked
	}
	if a.result != nil {
		p.process = a.result.Process
	}
	switch {
	case a.err != nil && ctx.Err() != nil:
		return outcome.StoppedBy(context.Cause(ctx), r.stoppedWith(a.err))
	case errors.Is(a.err, tool.ErrLost):
		return outcome.Lost{}
	case a.err != nil:
		return r.failedWith(a.err)
	case a.result.IsSuccess():
		if out := r.checkData(a.result); out != nil {
			return out
		}
		p.success = outcome.Succeeded(a.result)
		return &p.success
	case a.result.IsError():
		return outcome.ReturnedError(a.result, p.forOperators)
	case a.result.IsPending() && a.result.Operation != nil:
		return r.continues(a.result)
	case a.result.IsPending():
		return r.asks(a.result)
	}
	return outcome.NoResult()
}

// failedWith returns the outcome of a call whose tool returned an error.
func (r returned) failedWith(err error) *outcome.Terminal {
	p := r.p
	if foreign := (*tool.PanicError)(nil); errors.As(err, &foreign) {
		return p.panicked(foreign, call.Started)
	}
	out := outcome.ReturnedErr(err, p.forOperators)
	if errors.Is(err, tool.ErrNotRun) {
		out.Executed = p.beforeAttempt()
	}
	return out
}

// panicked logs a panic of toold, of a tool or of a hook. It returns the outcome of the call in which the panic occurred.
func (p *pipeline) panicked(r any, executed call.Executed) *outcome.Terminal {
	id := newID()
	p.l.e.log.Error("panic", zap.String("id", id), zap.String("call_id", p.l.key.ID), zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
	return outcome.Panicked(id, executed)
}

// stoppedWith returns how far the tool got in an attempt that was stopped. err is the error that the tool returned after the stop.
func (r returned) stoppedWith(err error) call.Executed {
	p := r.p
	switch {
	case errors.Is(err, tool.ErrLost):
		return call.ExecutedUnknown
	case errors.Is(err, tool.ErrNotRun):
		return p.beforeAttempt()
	}
	return call.Started
}

// beforeAttempt returns how far the earlier attempts of a call got, when its newest attempt did not begin.
func (p *pipeline) beforeAttempt() call.Executed {
	for _, earlier := range p.l.record().Attempts[:p.attempt-1] {
		if earlier.Ended.IsZero() {
			return call.ExecutedUnknown
		}
	}
	return call.NotStarted
}

// checkData returns an outcome if the result does not satisfy its schema, else nil.
func (r returned) checkData(result *tool.Result) *outcome.Terminal {
	p := r.p
	if err := p.def.Schema.ValidateResult(result.JSON()); err != nil {
		return outcome.WrongData(result, err)
	}
	return nil
}

// asks returns how the pipeline run ends when the tool asks a question.
func (r returned) asks(result *tool.Result) outcome.Conclusion {
	p := r.p
	t := tool.Ticket{Message: result.Message}
	if result.Suspension != nil {
		t = *result.Suspension
	}
	t.Action = or(t.Action, "tool:"+p.def.Descriptor.ID)
	err := gating.CheckTicket(t, true)
	if err == nil {
		err = p.l.e.cfg.MachineActions.Check(t.Action, p.def.Descriptor.Source)
	}
	if err != nil {
		return outcome.Unaskable(p.forOperators(err.Error()))
	}
	return &outcome.Question{Ticket: &t, Origin: call.OriginTool, Executed: call.Started, Writes: outcome.WritesOf(result)}
}

// call returns the [tool.Call] that is passed to the tool.
func (p *pipeline) call(r tool.Reporter) *tool.Call {
	p.l.mu.Lock()
	defer p.l.mu.Unlock() // Needs the lock: after an abandoned attempt, another goroutine may end the attempt at the same time.
	c := p.l.c
	return &tool.Call{
		Namespace: c.Namespace, ID: c.ID, ModelCallID: c.ModelCallID, Tool: p.def.Descriptor.OwnID(), Attempt: max(p.attempt, 1), Epoch: p.l.e.epoch, ReadOnly: c.Assessment.Mutability == tool.ReadOnly,
		Run: c.Run, Caller: c.Caller, OnBehalfOf: c.OnBehalfOf, Arguments: p.basis.Arguments, Documents: p.documents,
		Resume: p.resume, Checkpoint: c.Checkpoint, Reporter: r,
	}
}
