package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// answer is what a tool returned.
type answer struct {
	result   *tool.Result
	err      error
	panicked *end
}

// abandon ends a call whose tool does not heed its cancellation. What it says later is stored and never applied.
func (p *pass) abandon(ctx context.Context, cause error) {
	p.l.e.stats.abandoned.Add(1)
	p.l.e.log.Error("tool ignores its cancellation; abandoned", zap.String("tool", p.def.Descriptor.ID), zap.String("call_id", p.l.key.ID))
	out := endOf(cause, call.ExecutedUnknown)
	out.result.Error.DeveloperMessage = fmt.Sprintf("the tool did not return within %v of its cancellation", p.l.e.cfg.Grace)
	p.l.conclude(ctx, p, out)
}

// keepLate stores what an abandoned attempt answered after all, beside the call: it is never applied.
func (p *pass) keepLate(a answer) {
	p.l.e.stats.late.Add(1)
	late := lateResult{Attempt: p.attempt, Result: a.result}
	if a.err != nil {
		late.Error = a.err.Error()
	}
	if !p.scrub(func(s hook.Scrubber) {
		late.Error = s.Text(late.Error)
		if late.Result != nil {
			late.Result = s.Result(late.Result)
		}
	}) {
		late.Result, late.Error = nil, notShown
	}
	b, err := json.Marshal(late)
	if err == nil {
		err = p.l.e.putLate(p.l.key, b)
	}
	if err != nil {
		p.l.e.log.Warn("late result not stored", zap.String("call_id", p.l.key.ID), zap.Error(err))
	}
}

// putLate stores a late answer unless the content of its call was erased meanwhile.
func (e *Engine) putLate(key call.Key, b []byte) error {
	ctx := context.Background()
	l, err := e.acquire(ctx, key)
	if err != nil {
		return err
	}
	defer l.release()
	l.slot.take()
	defer l.unslot()
	if l.record().Purge != nil {
		return nil
	}
	return e.store.PutRecord(ctx, key.Namespace, store.Record{Kind: LateResults, Key: key.ID, Bytes: b})
}

// LateResults is the kind of the records that hold what abandoned attempts answered; the key is the call's id.
const LateResults = "late_result"

type lateResult struct {
	Attempt int          `json:"attempt"`
	Result  *tool.Result `json:"result,omitempty"`
	Error   string       `json:"error,omitempty"`
}

// outcome turns what a tool returned into how the pass ends.
func (p *pass) outcome(ctx context.Context, a answer) end {
	if a.panicked != nil {
		return *a.panicked
	}
	if a.result != nil {
		p.process = a.result.Process
	}
	if a.err != nil {
		return p.aborted(ctx, a)
	}
	switch {
	case a.result.IsSuccess():
		if out := p.checkData(a.result); out != nil {
			return *out
		}
		return end{status: call.Succeeded, executed: call.Finished, after: true, result: a.result, commands: a.result.Documents, actions: a.result.Actions}
	case a.result.IsError():
		r := *a.result
		e := tool.Error{Code: tool.ExecutionFailed, Message: or(r.Message, "The tool failed without saying why")}
		if r.Error != nil {
			e = *r.Error
			if e.Code != tool.ExecutionFailed && e.Reason == "" {
				e.Reason = string(e.Code)
			}
			if !ownCode(e.Code) {
				e.Code = tool.ExecutionFailed
			}
		}
		e.DeveloperMessage = p.forOperators(e.DeveloperMessage)
		r.Error = &e
		return end{status: call.Failed, executed: call.Finished, after: true, result: &r, commands: r.Documents, actions: r.Actions}
	case a.result.IsPending() && a.result.Operation != nil:
		return p.continues(a.result)
	case a.result.IsPending():
		return p.asks(a.result)
	}
	return end{status: call.Failed, executed: call.Finished, after: true, result: failure(&tool.Error{
		Code: tool.Internal, Aborted: true, Message: "The tool ended without a result",
	})}
}

// ownCode reports whether an ERROR result keeps its code: limits and upstream failures are met by tools alone.
func ownCode(c tool.Code) bool { return c == tool.ResourceExhausted || c == tool.Upstream }

// asks is the end of a pass whose tool has a question.
func (p *pass) asks(r *tool.Result) end {
	t := tool.Ticket{Message: r.Message}
	if r.Suspension != nil {
		t = *r.Suspension
	}
	t.Action = or(t.Action, "tool:"+p.def.Descriptor.ID)
	err := checkTicket(t, true)
	if err == nil {
		err = ownAction(t.Action, p.def.Descriptor.Source)
	}
	if err != nil {
		return p.unaskable(call.OriginTool, err)
	}
	return end{ticket: &t, origin: call.OriginTool, commands: r.Documents, actions: r.Actions, executed: call.Started}
}

// aborted is the end of a pass whose tool returned an error: what it wanted to store is dropped.
func (p *pass) aborted(ctx context.Context, a answer) end {
	executed := call.Started
	switch {
	case errors.Is(a.err, tool.ErrLost) && ctx.Err() == nil:
		return end{lost: true}
	case errors.Is(a.err, tool.ErrLost):
		executed = call.ExecutedUnknown
	case errors.Is(a.err, tool.ErrNotRun):
		executed = p.notRun()
	}
	if ctx.Err() != nil {
		return endOf(context.Cause(ctx), executed)
	}
	e := *tool.AsError(a.err)
	e.Aborted, e.DeveloperMessage = true, p.forOperators(e.DeveloperMessage)
	out := end{status: call.Failed, executed: call.Finished, after: true, result: failure(&e)}
	switch {
	case errors.Is(a.err, tool.ErrNotRun):
		out.executed = executed
	case e.Code == tool.Cancelled || errors.Is(a.err, context.Canceled):
		e.Code, out.status = tool.Cancelled, call.Cancelled
	case errors.Is(a.err, context.DeadlineExceeded):
		e.Code = tool.Timeout
	case e.Code == tool.Sandbox:
		out.executed = call.NotStarted
	}
	return out
}

// notRun is how far a call came whose attempt never began.
func (p *pass) notRun() call.Executed {
	for _, earlier := range p.l.record().Attempts[:p.attempt-1] {
		if earlier.Ended.IsZero() {
			return call.ExecutedUnknown
		}
	}
	return call.NotStarted
}

// checkData holds a result to its schema.
func (p *pass) checkData(r *tool.Result) *end {
	err := p.def.Schema.ValidateResult(r.JSON())
	if err == nil {
		return nil
	}
	return &end{status: call.Failed, executed: call.Finished, after: true, commands: r.Documents, actions: r.Actions, result: failure(&tool.Error{
		Code: tool.ExecutionFailed, Reason: "RESULT_SCHEMA", DeveloperMessage: err.Error(),
		Message: "The tool ran, but its result is not what it promises",
	})}
}

// call builds what the tool gets.
func (p *pass) call(r tool.Reporter) *tool.Call {
	p.l.mu.Lock()
	defer p.l.mu.Unlock() // an attempt that was abandoned meanwhile is ended by another goroutine
	c := p.l.c
	return &tool.Call{
		Namespace: c.Namespace, ID: c.ID, ModelCallID: c.ModelCallID, Tool: c.Tool, Attempt: max(p.attempt, 1), Epoch: p.l.e.epoch, ReadOnly: c.Assessment.Mutability == tool.ReadOnly,
		Run: c.Run, Caller: c.Caller, OnBehalfOf: c.OnBehalfOf, Arguments: p.effective, Documents: p.documents,
		Resume: p.resume, Checkpoint: c.Checkpoint, Reporter: r,
	}
}
