package lifecycle

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/lifecycle/view"
)

// asked holds the combined verdicts of all gates of a call.
type asked struct {
	gating.Verdicts
	failed *outcome.Terminal // the outcome when a failed gate refuses the call
}

// intercepts reports whether the gates do anything other than allow the call.
func (a *asked) intercepts() bool { return a.failed != nil || a.Verdict.Kind() != hook.KindAllow }

// gate calls all gates and acts on the combined verdict.
func (p *pipeline) gate(ctx context.Context) outcome.Conclusion {
	if len(p.hooks.Gate) == 0 {
		return nil
	}
	a := askGates(ctx, p)
	if p.tentative && a.intercepts() {
		return outcome.Postponed{}
	}
	p.found.gated, p.found.verdicts = true, a.All
	for i := range a.All {
		v := &a.All[i]
		if v.Kind != string(hook.KindAllow) {
			_ = p.l.emit(call.Event{Type: call.EventGateDecided, Verdict: v}) // Ignore the error: the verdict takes effect even without its event.
		}
	}
	if k := a.Verdict.Kind(); k != hook.KindAllow && k != hook.KindSuspend || a.failed != nil {
		p.found.description, p.found.assessment.Resources = view.Bare(p.found.description), nil
	}
	switch {
	case a.Verdict.Kind() == hook.KindBlock: // A block takes effect even when another gate fails.
		return outcome.Blocked(a.Verdict.Reason())
	case a.failed != nil:
		return a.failed
	}
	switch a.Verdict.Kind() {
	case hook.KindSuspend:
		t := a.Verdict.Ticket()
		return &outcome.Question{Ticket: &t, Origin: a.Gate, Policy: a.Verdict.Policy(), Rule: a.Verdict.Rule().Name, Reason: a.Verdict.Rule().Reason}
	case hook.KindSetResult:
		return outcome.SetResult(a.Verdict.Result())
	}
	return nil
}

// askGates calls every gate that applies, in the configured order, and combines their verdicts.
func askGates(ctx context.Context, p *pipeline) asked {
	out := asked{Verdicts: gating.NewVerdicts()}
	asked := time.Now()
	for i := range p.hooks.Gate {
		entry := &p.hooks.Gate[i]
		if !entry.Match.Holds(p.in) {
			continue
		}
		in := p.in
		answer := p.basis.Answer(p.l.peek(), entry.Name)
		if answer != nil {
			in = in.WithAnswer(answer)
		}
		v, err := hook.Bounded(ctx, entry.Deadline, func(ctx context.Context) (hook.Verdict, error) {
			v, err := entry.Hook.Check(ctx, in)
			if err == nil {
				err = gating.CheckVerdict(v, p.l.e.cfg.MachineActions)
			}
			return v, err
		})
		if err != nil && ctx.Err() != nil {
			return out // The gate did not fail: the call was stopped.
		}
		if err != nil {
			v = failedGate(p, entry, err, &out)
		}
		record := call.GateVerdict{Gate: entry.Name, Kind: gating.ShownKind(v), Reason: gating.Reason(v), Answered: answer != nil, Rule: v.Rule().Name, Asked: asked}
		now := time.Now() // one reading of the clock for each gate
		record.Took, asked = now.Sub(asked), now
		if err != nil {
			record.Kind, record.Reason = "FAILED", p.forOperators(err.Error())
		} else if p.hooks.Scrubs {
			record.Reason = p.scrubber().Text(record.Reason)
		}
		if counts, overruled := out.Add(entry.Name, v, record); overruled != "" {
			p.l.e.stats.conflicts.Add(1)
			p.l.e.log.Info("gates disagree", zap.String("call_id", p.l.key.ID), zap.String("stands", counts), zap.String("overruled", overruled))
		}
	}
	return out
}

// failedGate handles the error of a gate according to its failure mode, and returns the verdict to use.
func failedGate(p *pipeline, entry *hook.Entry[hook.Gate], err error, out *asked) hook.Verdict {
	p.l.e.stats.hookFailures.Add(1)
	p.l.e.log.Error("gate failed", zap.String("gate", entry.Name), zap.String("call_id", p.l.key.ID), zap.Error(err))
	onFailure := entry.OnFailure
	if hooks.Broken(entry.Name, err) != nil {
		onFailure = hook.FailBlock
	}
	switch onFailure {
	case hook.FailAllow:
		return hook.Allow()
	case hook.FailBlock:
		return hook.Block(fmt.Sprintf("the gate %q failed", entry.Name))
	}
	if out.failed == nil {
		out.failed = outcome.HookFailed(entry.Name, p.forOperators(err.Error()))
	}
	return hook.Verdict{}
}
