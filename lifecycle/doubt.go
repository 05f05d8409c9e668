package lifecycle

import (
	"cmp"
	"context"
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

// reconcileDeadline is the time limit for a tool to report what happened to an attempt.
const reconcileDeadline = 30 * time.Second

// errNoOutcome is the answer of a tool that returned neither an outcome nor an error.
var errNoOutcome = errors.New("the tool returned no outcome")

// A doubt is a pipeline run of a call whose newest attempt may or may not have completed.
type doubt struct{ p *pipeline }

// doubt resolves a call whose attempt was interrupted by a crash and cannot simply run again. If the tool can reconcile, doubt asks it in
// the background, because that may take time. The call stays RUNNING until the tool's answer is stored. After another crash, the tool is
// therefore asked again.
func (r *recovery) doubt(ctx context.Context, p *pipeline) settlement {
	l := p.l
	p.attempt = len(l.record().Attempts)
	switch asks := p.same() && (doubt{p}).canReconcile(); {
	case asks:
		run := counted(l.e.trace.Begin(context.Background(), l.record()), l, doubt{p}.settle)
		if p.def.Stopper() != nil {
			r.later = append(r.later, run)
		} else {
			go run()
		}
	case p.def.Stopper() != nil || l.e.cfg.Full():
		if p.def.Stopper() != nil && !(doubt{p}).asks() {
			r.requestNestedCancel(ctx, l, call.CancelRequest{By: l.record().Caller, Reason: "it is not known whether its parent call ran", Cause: "PARENT", Time: time.Now()})
		}
		r.settleLater(context.Background(), l, func(ctx context.Context) settlement {
			if errors.Is(context.Cause(ctx), outcome.Drained) {
				return settlement{} // If the daemon drains, nothing is stored: the next daemon finds the call unchanged.
			}
			return doubt{p}.undecided(context.WithoutCancel(ctx), nil)
		})
	default:
		return doubt{p}.undecided(ctx, nil)
	}
	return settlement{} // The call ends later, in the background.
}

// same reports whether the definition of the tool is unchanged since the call was accepted.
func (p *pipeline) same() bool { return p.def != nil && p.def.Digest == p.l.record().ToolDigest }

func (d doubt) canReconcile() bool {
	p := d.p
	_, ok := p.def.Tool.(tool.Reconciler)
	return ok
}

// settle asks the tool about the attempt and continues or ends the call accordingly.
func (d doubt) settle(ctx context.Context) settlement {
	p := d.p
	l := p.l
	result, err := d.reconcile(ctx)
	l.e.cfg.FailPoint("reconciled")
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, outcome.Drained), errors.Is(cause, errJournal):
		// Nothing is stored: the next daemon finds the call unchanged.
	case cause != nil:
		return p.finish(context.WithoutCancel(ctx), outcome.StoppedBy(cause, call.ExecutedUnknown))
	case errors.Is(err, tool.ErrNotRun):
		lookupPipeline(l).again()
		l.unwatched()
	case result.IsSuccess() || result.IsError() || result.IsPending() && result.Operation != nil:
		return p.storeConclusion(ctx, returned{p}.conclusion(ctx, answer{result: result}))
	default:
		return d.undecided(ctx, cmp.Or(err, errNoOutcome))
	}
	return settlement{}
}

// reconcile asks the tool for the result of the interrupted attempt.
func (d doubt) reconcile(ctx context.Context) (*tool.Result, error) {
	p := d.p
	p.resume = p.l.record().LastInput()
	result, err := hook.Bounded(ctx, reconcileDeadline, func(ctx context.Context) (*tool.Result, error) {
		c := p.call(nil)
		c.Deadline, _ = ctx.Deadline()
		return p.def.Tool.(tool.Reconciler).Reconcile(ctx, c)
	})
	if err != nil && !errors.Is(err, tool.ErrNotRun) && ctx.Err() == nil {
		p.l.e.log.Warn("tool could not reconcile a call", zap.String("call_id", p.l.key.ID), zap.String("tool", p.def.Descriptor.ID), zap.Error(err))
	}
	return result, err
}

// asks reports whether the tool's descriptor lets toold ask a person about an attempt in doubt.
func (d doubt) asks() bool {
	p := d.p
	return p.def != nil && p.def.Descriptor.OnDoubt == tool.OnDoubtAsk
}

// undecided ends a call in doubt, or suspends it with a question to a person. reported is what the tool answered, or nil if the daemon did not
// ask the tool.
func (d doubt) undecided(ctx context.Context, reported error) settlement {
	p := d.p
	if !d.asks() {
		return p.finish(ctx, outcome.InDoubt())
	}
	p.attempt = 0 // Leave the attempt without an end in the record, because its end is unknown.
	out := &outcome.Question{Ticket: decision.DoubtTicket(p.in.Description.Title, reported, p.call(nil).IdempotencyKey()), Origin: call.OriginDoubt, Executed: call.ExecutedUnknown}
	s, err := suspension(p, out)
	if err != nil {
		return p.finish(ctx, outcome.InDoubt())
	}
	if _, missing := gating.Missing(p.l.e.cfg.People, p.l.record(), s.Approvers); missing != "" {
		return p.finish(ctx, outcome.InDoubt())
	}
	return p.suspend(ctx, out)
}

// answered applies a person's answer about the attempt. holds reports that the tool has not changed since the question.
func (d doubt) answered(ctx context.Context, answer *tool.Decision, holds bool) {
	p := d.p
	l := p.l
	a := decision.ParseDoubt(answer.Result)
	switch {
	case a.Outcome == decision.Happened:
		p.settleRun(ctx, outcome.Answered(call.Finished, a.Result()))
	case a.Outcome == decision.RunAgain && holds && p.def != nil:
		p.rewritten, p.resume = true, l.record().LastInput()
		p.run(ctx)
	default: // The person gave up, or the tool has changed since.
		p.settleRun(ctx, outcome.InDoubt())
	}
}
