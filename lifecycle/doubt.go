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

// A doubt is a pipeline run of a call whose newest attempt may or may not have run to its end.
type doubt struct{ p *pipeline }

// doubt takes up a call whose attempt a crash cut off and which may not simply run again. The tool is asked, if it can be,
// which may take time: the start does not wait for it. Until the answer is stored the call is RUNNING as before, so that
// another crash asks again.
func (r *recovery) doubt(ctx context.Context, p *pipeline) {
	l := p.l
	p.attempt = len(l.record().Attempts)
	switch asks := p.same() && (doubt{p}).canReconcile(); {
	case asks:
		run := counted(l.e.trace.Begin(context.Background(), l.record()), l, func(ctx context.Context) { doubt{p}.settle(ctx) })
		if p.def.stopper() != nil {
			r.later = append(r.later, run)
		} else {
			go run()
		}
	case p.def.stopper() != nil || l.e.cfg.Full():
		if p.def.stopper() != nil && !(doubt{p}).asks() {
			r.warnBelow(ctx, l, call.CancelRequest{By: l.record().Caller, Reason: "it is not known whether the call that made it ran", Cause: "PARENT", Time: time.Now()})
		}
		r.settleLater(context.Background(), l, func(ctx context.Context) {
			if !errors.Is(context.Cause(ctx), outcome.Drained) { // else the next daemon finds the call as this one did
				doubt{p}.undecided(context.WithoutCancel(ctx))
			}
		})
	default:
		doubt{p}.undecided(ctx)
	}
}

// same reports whether the call's tool is what it was when the call was accepted.
func (p *pipeline) same() bool { return p.def != nil && p.def.Digest == p.l.record().ToolDigest }

func (d doubt) canReconcile() bool {
	p := d.p
	_, ok := p.def.Tool.(tool.Reconciler)
	return ok
}

// settle asks the tool and acts on its answer.
func (d doubt) settle(ctx context.Context) {
	p := d.p
	l := p.l
	result, err := d.reconcile(ctx)
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
		p.carryOut(ctx, returned{p}.conclusion(ctx, answer{result: result}))
	default:
		d.undecided(ctx)
	}
}

// reconcile asks the tool what became of the attempt.
func (d doubt) reconcile(ctx context.Context) (*tool.Result, error) {
	p := d.p
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

// asks reports whether a person is asked what happened to the attempt.
func (d doubt) asks() bool {
	p := d.p
	return p.def != nil && p.def.Descriptor.OnDoubt == tool.OnDoubtAsk
}

// undecided ends a call in doubt, or asks a person.
func (d doubt) undecided(ctx context.Context) {
	p := d.p
	if !d.asks() {
		p.finish(ctx, outcome.InDoubt())
		return
	}
	p.attempt = 0 // its end stays unknown
	out := &outcome.Question{Ticket: doubtTicket(p.in.Description.Title), Origin: call.OriginDoubt, Executed: call.ExecutedUnknown}
	if s, err := suspension(p, out); err != nil || nobody(p, s, call.ExecutedUnknown) != nil {
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

// answered does what a person said about the attempt.
func (d doubt) answered(ctx context.Context, said *tool.Decision, holds bool) {
	p := d.p
	l := p.l
	a := decision.ParseDoubt(said.Result)
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
