package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// reconcileDeadline is what a tool gets to find out what became of an attempt.
const reconcileDeadline = 30 * time.Second

// doubt takes up a call whose attempt a crash cut off and which may not simply run again. The tool is asked, if it can be,
// which may take time: the start does not wait for it. Until the answer is stored the call is RUNNING as before, so that
// another crash asks again.
func (r *recovery) doubt(ctx context.Context, p *pipeline) {
	l := p.l
	p.attempt = len(l.record().Attempts)
	switch asks := p.same() && p.canReconcile(); {
	case asks:
		run := counted(l, l.e.trace.follow(context.Background(), l.record()), func(ctx context.Context) { p.settleDoubt(ctx) })
		if p.stopper() != nil {
			r.later = append(r.later, run)
		} else {
			go run()
		}
	case p.stopper() != nil || l.e.cfg.Full():
		if p.stopper() != nil && !p.asksDoubt() {
			r.warnBelow(ctx, l, call.CancelRequest{By: l.record().Caller, Reason: "it is not known whether the call that made it ran", Cause: "PARENT", Time: time.Now()})
		}
		r.settleLater(l, context.Background(), func(ctx context.Context) {
			if !errors.Is(context.Cause(ctx), outcome.Drained) { // else the next daemon finds the call as this one did
				p.undecided(context.WithoutCancel(ctx))
			}
		})
	default:
		p.undecided(ctx)
	}
}

// same reports whether the call's tool is what it was when the call was accepted.
func (p *pipeline) same() bool { return p.def != nil && p.def.Digest == p.l.record().ToolDigest }

func (p *pipeline) canReconcile() bool {
	_, ok := p.def.Tool.(tool.Reconciler)
	return ok
}

// settleDoubt asks the tool and does what it says.
func (p *pipeline) settleDoubt(ctx context.Context) {
	l := p.l
	result, err := p.reconcile(ctx)
	l.e.cfg.FailPoint("reconciled")
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, outcome.Drained), errors.Is(cause, errJournal):
		// The next daemon finds the call as this one did.
	case cause != nil:
		p.finish(context.WithoutCancel(ctx), outcome.StoppedBy(cause, call.ExecutedUnknown))
	case errors.Is(err, tool.ErrNotRun):
		lookupPipeline(l).again()
		l.unwatched()
	case result.IsSuccess() || result.IsError() || result.IsPending() && result.Operation != nil:
		p.carryOut(ctx, p.conclusion(ctx, answer{result: result}))
	default:
		p.undecided(ctx)
	}
}

// reconcile asks the tool what became of the attempt.
func (p *pipeline) reconcile(ctx context.Context) (*tool.Result, error) {
	p.resume = lastInput(p.l.record())
	result, err := hook.Bounded(ctx, reconcileDeadline, func(ctx context.Context) (*tool.Result, error) {
		c := p.call(nil)
		c.Deadline, _ = ctx.Deadline()
		return p.def.Tool.(tool.Reconciler).Reconcile(ctx, c)
	})
	if err != nil && !errors.Is(err, tool.ErrNotRun) && ctx.Err() == nil {
		p.l.e.log.Warn("tool could not say what became of a call", zap.String("call_id", p.l.key.ID), zap.String("tool", p.def.Descriptor.ID), zap.Error(err))
	}
	return result, err
}

// asksDoubt reports whether somebody is asked what became of an attempt.
func (p *pipeline) asksDoubt() bool {
	return p.def != nil && p.def.Descriptor.OnDoubt == tool.OnDoubtAsk
}

// undecided ends a call of which nobody knows whether it ran, or asks somebody.
func (p *pipeline) undecided(ctx context.Context) {
	if !p.asksDoubt() {
		p.finish(ctx, outcome.InDoubt())
		return
	}
	p.attempt = 0 // its end stays unknown
	out := &outcome.Question{Ticket: doubtTicket(p.in.Description.Title), Origin: call.OriginDoubt, Executed: call.ExecutedUnknown}
	if s, err := p.suspension(out); err != nil || p.nobody(s, call.ExecutedUnknown) != nil {
		p.finish(ctx, outcome.InDoubt())
		return
	}
	p.suspend(ctx, out)
}

// doubtTicket is the question what became of an attempt. It is for whom a call of the tier CONFIRM would ask.
func doubtTicket(title string) *tool.Ticket {
	return &tool.Ticket{
		Action:         gating.ActionDoubt,
		Message:        "The daemon ended while this ran: " + title + ". Did it happen?",
		Approvers:      &tool.Approvers{},
		ResponseSchema: json.RawMessage(decision.DoubtSchema),
	}
}

// afterDoubt does what somebody said of an attempt in doubt.
func (p *pipeline) afterDoubt(ctx context.Context, d *tool.Decision, holds bool) {
	l := p.l
	a := decision.ParseDoubt(d.Result)
	switch {
	case a.Outcome == decision.Happened:
		p.settleRun(ctx, outcome.Answered(call.Finished, a.Result()))
	case a.Outcome == decision.RunAgain && holds && p.def != nil:
		p.rewritten, p.resume = true, lastInput(l.record())
		p.run(ctx)
	default: // given up, or the tool changed since
		p.settleRun(ctx, outcome.InDoubt())
	}
}
