package lifecycle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Limits of questions. GetInfo reports them to clients.
const (
	MaxTicket = gating.MaxTicket
	MaxExpiry = gating.MaxExpiry
)

// maxPolicy bounds the length of a policy version, in bytes.
const maxPolicy = 128

// mayAsk counts a question of the call against the limits of open questions. It returns an outcome if the call may not ask, else nil.
func mayAsk(p *pipeline, s *call.Suspension, origin string, executed call.Executed) *outcome.Terminal {
	if refused := unattended(p, s, executed); refused != nil {
		return refused
	}
	if why := gating.AskedTooOften(p.l.peek(), origin); why != "" {
		return outcome.TooManyRounds(why, executed)
	}
	if full := p.l.e.limits.Questions.Reserve(p.l.peek(), origin); full != "" {
		return outcome.TooManyQuestions(full, executed)
	}
	return nil
}

// suspend stores a question and publishes it. From then on the call uses no goroutine, process or slot.
func (p *pipeline) suspend(ctx context.Context, out *outcome.Question) settlement {
	l := p.l
	executed := or(out.Executed, call.NotStarted)
	s, err := suspension(p, out)
	switch {
	case err != nil && out.Origin == call.OriginTool:
		return p.finish(ctx, outcome.Unaskable(p.forOperators(err.Error())))
	case err != nil:
		return p.finish(ctx, outcome.HookFailed(out.Origin, p.forOperators(err.Error())))
	}
	if who, missing := gating.Missing(p.l.e.cfg.People, p.l.record(), s.Approvers); missing != "" {
		return p.finish(ctx, outcome.NoApprover(who, missing, executed))
	}
	if refused := mayAsk(p, s, out.Origin, executed); refused != nil {
		ended := p.finish(ctx, refused)
		p.abandoned(s)
		return ended
	}
	now := time.Now()
	documents, events := p.documentChanges(out.Commands, nil)
	l.slot.Take()
	if cause := p.mustEnd(ctx); cause != nil { // The cancel request came first. It takes effect, because the question is not a result.
		l.unslot()
		l.e.limits.Questions.Closed(l.peek())
		return p.finish(ctx, outcome.StoppedBy(cause, executed))
	}
	events, kept := l.intake.question(append(events, call.Event{Type: call.EventSuspended, Suspension: s}))
	err = l.commitSlotted(step{
		durability: store.Full, documents: documents, group: p.group, events: events, filtered: true, kept: kept, actions: p.storedActions(out.Actions),
		apply: func(c *call.Call) {
			p.found.write(c)
			c.Status = call.Suspended
			c.Rounds = append(slices.Clip(c.Rounds), call.Round{Suspension: *s})
			c.Detached = true
			if out.Executed != "" {
				c.Executed = out.Executed
			}
			endAttempt(c, p.attempt, now)
		},
	})
	l.unslot()
	if err != nil {
		l.e.limits.Questions.Closed(l.peek())
		p.suppressed = slices.DeleteFunc(events, func(ev call.Event) bool { return !calllog.Reports(ev.Type) })
		return p.unasked(ctx, out.Origin, err)
	}
	l.e.expiry.Asked(s.ExpiresAt)
	l.e.cfg.FailPoint("after-suspend")
	return settlement{}
}

// mustEnd returns why a call must end although its tool has returned a question. It returns nil when the call may be suspended. A drain or
// the timeout of the attempt does not prevent that, because the tool has returned.
func (p *pipeline) mustEnd(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, outcome.Drained) && !outcome.AttemptTimedOut(cause) {
		return cause
	}
	if wish := p.l.record().Cancel; wish != nil {
		return outcome.CancelRequested(wish)
	}
	return nil
}

// unasked ends a call whose question was not stored.
func (p *pipeline) unasked(ctx context.Context, origin string, err error) settlement {
	out := p.outcomeWithout(err)
	switch {
	case out == nil:
		return p.refuse(ctx, err, origin == call.OriginTool)
	case origin == call.OriginTool:
		out = outcome.CutOff(p.forOperators(err.Error()))
	case origin == call.OriginDoubt:
		out = outcome.InDoubt()
	}
	return p.finish(ctx, out)
}

// suspension returns the question in its stored form.
func suspension(p *pipeline, out *outcome.Question) (*call.Suspension, error) {
	t, c := *out.Ticket, p.l.record()
	p.scrubber().Ticket(&t)
	if len(t.ResponseSchema) > 0 {
		if err := p.l.e.cfg.Answers.Compile(t.ResponseSchema); err != nil {
			return nil, fmt.Errorf("response schema: %w", err)
		}
	}
	now := p.l.e.store.Now()
	s := &call.Suspension{
		ID: "s-" + rand.Text(), Round: len(c.Rounds) + 1, Origin: out.Origin,
		Action: or(t.Action, gating.ActionApproval), Message: t.Message, Parameters: t.Parameters, ResponseSchema: t.ResponseSchema,
		ResumeMode: or(t.ResumeMode, tool.ReplayToolCall), Approvers: p.l.e.cfg.Approvers.Of(c.Namespace, t.Approvers), DefaultResult: t.DefaultResult,
		RememberOptions: policy.Options(&t, p.in.Assessment, out.Origin),
		Pending:         call.Pending{ID: c.ID, Name: c.Tool, Arguments: p.basis.Arguments.Text()},
		Description:     p.in.Description, Created: now, Rule: out.Rule, Reason: out.Reason,
		ExpiresAt: now.Add(or(t.ExpiresIn, p.l.e.cfg.Expiry)).Truncate(time.Microsecond),
	}
	s.Policy = calllog.Readable(out.Policy[:min(len(out.Policy), maxPolicy)])
	s.Digest = p.basis.Digest(c, s)
	return s, nil
}
