package wire

import (
	"context"
	"errors"
	"io"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/registry/export"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/subagent"
)

// Subagents lets subagents call the tools of the daemon. Their calls are ordinary batches. engine is a function, because the tools are
// created before the engine.
func Subagents(engine func() *lifecycle.Engine, r *registry.Registry, hide Hide) subagent.Caller {
	return subagents{engine, tools{r, hide}}
}

type subagents struct {
	engine func() *lifecycle.Engine
	tools  tools
}

// turnsParallel is how many calls of a turn run at once, if their tools are safe to run concurrently.
const turnsParallel = 8

// Tools implements [subagent.Caller].
func (s subagents) Tools(parent *tool.Call, agent tool.Agent, p subagent.Protocol) (subagent.Toolbox, error) {
	offer := s.tools.listed(parent.Caller, nil)
	offer.Allow, offer.Exclude = parent.Run.Agent.Allow, parent.Run.Agent.Exclude
	var list []*tool.Descriptor
	for _, e := range s.tools.r.View(offer).List() {
		if agent.Offers(&e.Descriptor) {
			list = append(list, &e.Descriptor)
		}
	}
	box := subagent.Toolbox{Names: map[string]string{}}
	if len(list) == 0 {
		return box, nil
	}
	f := map[subagent.Protocol]export.Format{subagent.OpenAI: export.OpenAI, subagent.Anthropic: export.Anthropic}[p]
	done, err := export.Export(f, list)
	if err != nil {
		return box, err
	}
	for _, t := range done.Tools {
		box.Names[t.Name] = t.ID
	}
	if len(done.Tools) > 0 {
		box.Tools, box.Guidance = export.Join(f, done.Tools), export.Guidance(done.Tools)
	}
	return box, nil
}

// Lend implements [subagent.Caller].
func (subagents) Lend(ctx context.Context) (back func(context.Context) error) {
	return lifecycle.LendSlot(ctx)
}

// Carry implements [subagent.Caller].
func (s subagents) Carry(ctx context.Context, t *subagent.Turn, report func(subagent.Event)) ([]subagent.Outcome, error) {
	spec := call.BatchSpec{ID: t.Batch, BatchOptions: call.BatchOptions{Strategy: call.Auto, MaxParallel: turnsParallel}}
	for i := range t.Calls {
		r := &t.Calls[i]
		spec.Calls = append(spec.Calls, call.Spec{
			Tool: r.Tool, Arguments: r.Arguments, ID: r.ID, ModelCallID: r.ModelID, Run: t.Run, OnBehalfOf: t.Parent.OnBehalfOf,
		})
	}
	w, err := s.engine().ExecuteBatch(ctx, t.Parent.Caller, spec, call.ExecuteOptions{})
	if err != nil {
		return nil, refusedTurn(err)
	}
	defer w.Close()
	for {
		f, err := w.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, io.EOF), err == nil && f.Closing:
			return nil, stopping()
		case err != nil:
			return nil, refusedTurn(err)
		}
		for i := range f.Events {
			if e, ok := subagentEvent(f.Key.ID, &f.Events[i]); ok {
				report(e)
			}
		}
		if f.BatchFinished != nil {
			return outcomes(f.BatchFinished.Calls), nil
		}
	}
}

// Cancel implements [subagent.Caller].
func (s subagents) Cancel(ctx context.Context, t *subagent.Turn, reason string) (unseen []string) {
	lasting := context.WithoutCancel(ctx) // Do not stop when ctx ends: a status that is already known must still be read.
	// Ignore errors. When a cancellation could not be stored, the call does not end in time, and Cancel returns its id.
	_, _ = s.engine().CancelBatch(lasting, t.Parent.Caller, t.Batch, reason, "")
	for i := range t.Calls {
		w, err := s.engine().Watch(lasting, t.Parent.Caller, t.Calls[i].ID, "", true)
		switch {
		case err == nil && !seenEnd(ctx, w, s.engine().Draining), err != nil && !past(err):
			unseen = append(unseen, t.Calls[i].ID)
		}
	}
	return unseen
}

// seenEnd waits for the end of a call and reports whether the daemon observed it. While the daemon stops, a cancelled call that has not
// begun also counts as ended: it will never begin, although only the next daemon will store its end.
func seenEnd(ctx context.Context, w call.Watcher, draining func() bool) bool {
	defer w.Close()
	unborn := func(c *call.Call) bool {
		return c.Status == call.New && len(c.Attempts) == 0 && c.Cancel != nil && draining()
	}
	for c := w.Call(); !c.Status.Terminal() && !unborn(c); c = w.Call() {
		if _, err := w.Next(ctx); err != nil {
			break
		}
	}
	c := w.Call()
	return c.Status.Terminal() && c.Executed != call.ExecutedUnknown || unborn(c)
}

func stopping() error {
	return &tool.Error{Code: tool.Interrupted, Reason: "DRAINING", Message: "The daemon is stopping", Retryable: true}
}

// refusedTurn converts a refusal to an error of a tool. The error is retryable if the engine may accept the same request later.
func refusedTurn(err error) error {
	r, ok := errors.AsType[*call.Refusal](err)
	if !ok {
		return err
	}
	e := &tool.Error{Code: tool.ExecutionFailed, Reason: r.Reason, Message: "The subagent cannot call tools: " + r.Message, RetryAfter: r.RetryAfter}
	switch r.Kind {
	case call.ResourceExhausted:
		e.Code, e.Retryable = tool.ResourceExhausted, true
	case call.Unavailable:
		e.Retryable = true
	}
	return e
}

func outcomes(calls []*call.Call) []subagent.Outcome {
	list := make([]subagent.Outcome, len(calls))
	for i, c := range calls {
		o := &list[i]
		o.ID, o.Tool = c.ID, c.Tool
		switch {
		case c.Status == "" || c.Purge != nil:
			o.Missing = true
		case c.Status.Terminal():
			o.Ended, o.Failed, o.Text = true, c.Status != call.Succeeded, c.Result.ModelText()
			o.Blocked = c.Result != nil && c.Result.Error != nil && c.Result.Error.TerminateRun
		default:
			if s := c.Open(); s != nil {
				o.Waits = s.Action
			}
		}
	}
	return list
}

// Above returns a function for calls that subagents make. The function lists the permission modes of the run and the thread that the
// subagent itself belongs to, because these modes apply to the call too. It ignores a run or thread of another caller, because any caller
// may name it.
func Above(p *policy.Policies) func(in *hook.Input) []string {
	return func(in *hook.Input) (modes []string) {
		if in.Run.Origin != subagent.Origin {
			return nil
		}
		for _, r := range subagent.Above(&in.Run) {
			modes = append(modes, p.OwnModes(in.Namespace, in.Caller.Subject, r.Run, r.Thread)...)
		}
		return modes
	}
}

var subagentStatus = map[call.Status]string{call.Succeeded: "done", call.Failed: "failed", call.Cancelled: "cancelled"}

// subagentEvent converts an event of a subagent's call to the form that the subagent reports. It reports false for events that subagents do
// not report.
func subagentEvent(id string, e *call.Event) (subagent.Event, bool) {
	out := subagent.Event{Call: id}
	switch e.Type {
	case call.EventAccepted:
		out.Tool, out.Status = e.Accepted.Tool, "pending"
	case call.EventAttemptStarted:
		out.Status = "running"
	case call.EventProgress:
		out.Status, out.Message, out.Fraction = "running", e.Progress.Message, e.Progress.Fraction
	case call.EventSuspended:
		out.Status, out.Message = "waiting", e.Suspension.Action
	case call.EventFinished:
		out.Status = subagentStatus[e.Outcome.Status]
	default:
		return out, false
	}
	return out, true
}
