package lifecycle

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
)

// after passes the outcome to the After hooks. They may change the text for the model, but not the status of the call.
func (p *pipeline) after(ctx context.Context, out *outcome.Terminal) []store.Record {
	if c := p.l.peek(); out.Executed == call.NotStarted && c.Executed != call.NotStarted {
		out.Executed = c.Executed // An earlier attempt may have run the tool. That attempt ended with a question, or a crash interrupted it.
	}
	if !out.After || p.in == nil || len(p.hooks.After) == 0 {
		return nil
	}
	out.Result = outcome.CopyResult(out.Result) // The hooks must not change the tool's own result.
	ctx = context.WithoutCancel(ctx)
	var records []store.Record
	for i := range p.hooks.After {
		entry := &p.hooks.After[i]
		if !entry.Match.Holds(p.in) {
			continue
		}
		seen := hook.Outcome{Status: out.Status, Executed: out.Executed, Result: outcome.CopyResult(out.Result)}
		got, err := hooks.Timed(ctx, &p.found.hookRuns, "AFTER", entry, func(ctx context.Context) (hook.AfterResult, error) { return entry.Hook.After(ctx, p.in, seen) }, nil)
		if err == nil {
			err = hook.CheckEvents(got.Events)
		}
		if err != nil {
			p.l.e.stats.hookFailures.Add(1)
			p.l.e.log.Error("after hook failed", zap.String("hook", entry.Name), zap.String("call_id", p.l.key.ID), zap.Error(err))
			if entry.Required || hooks.Broken(entry.Name, err) != nil {
				out.Result = calllog.Withhold(out.Result, entry.Name)
			}
			continue
		}
		if got.Result != nil {
			out.Result.Data, out.Result.Message = got.Result.Data, got.Result.Message
			out.Result.Content, out.Result.Display, out.Result.Metadata = got.Result.Content, got.Result.Display, got.Result.Metadata
			if out.Result.Error != nil && got.Result.Error != nil {
				out.Result.Error.Message, out.Result.Error.Violations = got.Result.Error.Message, got.Result.Error.Violations
			}
		}
		out.Hooked = append(out.Hooked, got.Documents...)
		out.Events = calllog.AppendReadable(out.Events, got.Events)
		out.Actions = append(slices.Clip(out.Actions), got.Actions...)
		for _, r := range got.Records {
			records = append(records, store.Record(r))
		}
	}
	return records
}
