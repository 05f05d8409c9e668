package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
)

// finish stores the outcome of a call and publishes it afterwards. One transaction stores the documents, the records, the result, the
// status and the terminal event.
func (p *pipeline) finish(ctx context.Context, out *outcome.Terminal) settlement {
	l := p.l
	asked := unanswered(l.peek())
	stopNestedAtEnd(ctx, p, out)
	records := p.after(ctx, out)
	s := p.finalStep(out)
	s.records = records
	l.e.cfg.FailPoint("before-result")
	if err := p.storeEnd(s, out); err != nil {
		l.e.log.Error("result not stored; recovery decides", zap.String("call_id", l.key.ID), zap.Error(err))
		return l.lose(err)
	}
	l.e.cfg.FailPoint("after-result")
	if asked != nil {
		p.abandoned(&asked.Suspension)
	}
	return settlement{}
}

// unanswered returns the round whose question gets no answer if the call ends now, or nil. A result in the tool's place is no answer to the
// tool.
func unanswered(c *call.Call) *call.Round {
	if r := gating.Instead(c); r != nil {
		return r
	}
	if r := c.LastRound(); r != nil && r.Decision == nil {
		return r
	}
	return nil
}

// storeEnd stores the last step of a call. While the journal may accept the step later, storeEnd tries again, because without an end the
// call would stay RUNNING until a restart. If the journal refuses the content of the step, storeEnd stores an end without that content.
func (p *pipeline) storeEnd(s step, out *outcome.Terminal) error {
	l := p.l
	replaced := false
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := l.advance(s)
		switch {
		case err == nil || l.e.drain.Ending():
			return err
		case refusal.Transient(err):
		case !refusal.RejectsContent(err) || replaced && errors.Is(err, store.ErrCorrupt):
			return err
		case !replaced:
			l.e.log.Error("result not stored: the journal refused it", zap.String("call_id", l.key.ID), zap.Error(err))
			p.commands, p.suppressed, replaced = nil, nil, true
			out = outcome.ResultNotStored(out)
			s = p.finalStep(out)
			continue
		}
		time.Sleep(wait)
	}
}

// finalStep returns the last step of a call. The terminal event comes last, after the events in before, the events of After hooks and the
// document events.
func (p *pipeline) finalStep(out *outcome.Terminal, before ...call.Event) step {
	l := p.l
	c := l.peek()
	result := outcome.CopyResult(out.Result)
	calllog.ReadableResult(result)
	result.ToolName = c.Tool
	result.Process = p.process
	now := time.Now()
	if n := len(c.Attempts); n > 0 && p.attempt == n {
		result.Duration = now.Sub(c.Attempts[n-1].Started)
	}
	documents, events := p.documentChanges(out.Commands, out.Hooked)
	finished := call.Event{Type: call.EventFinished, Time: now, Outcome: &call.Outcome{Status: out.Status, Executed: out.Executed, Result: result}}
	for _, e := range out.Events {
		e.Time = now
		before = append(before, e)
	}
	if len(before)+len(events) == 0 {
		events = p.event(finished)
	} else {
		events = append(append(before, events...), finished)
	}
	events, kept, result := l.intake.end(events, out)
	if len(p.suppressed) > 0 {
		events = append(p.suppressed, events...)
	}
	shortener := p.shortener()
	if err := errors.Join(shortener.Shorten(result), l.intake.output.NoteCut(result)); err != nil {
		l.e.log.Error("long output not kept", zap.String("call_id", l.key.ID), zap.Error(err))
		*result = *calllog.Withhold(result, "spool") // Change the result in place, because the event shares it.
	}
	status, executed := out.Status, out.Executed
	s := step{
		durability: store.Full, documents: documents, group: p.group, events: events, filtered: true, kept: kept, actions: p.storedActions(out.Actions),
		apply: func(c *call.Call) {
			p.found.write(c)
			c.Status, c.Executed, c.Result, c.Ended = status, executed, result, now
			endAttempt(c, p.attempt, now)
			closeRound(c, false)
		},
	}
	if out.Block != "" && c.Run.ID != "" {
		s.run = &store.Run{Namespace: c.Namespace, ID: c.Run.ID, Owner: c.Caller.Subject, State: call.RunBlocked, Reason: out.Block, CallID: c.ID}
	}
	return s
}

func endAttempt(c *call.Call, number int, now time.Time) {
	if number == 0 || number > len(c.Attempts) {
		return
	}
	c.Attempts = slices.Clone(c.Attempts)
	c.Attempts[number-1].Ended = now
}

// closeRound marks the last round as closed. expired reports that its question expired.
func closeRound(c *call.Call, expired bool) {
	n := len(c.Rounds)
	if n == 0 || c.Rounds[n-1].Closed {
		return
	}
	c.Rounds = slices.Clone(c.Rounds)
	c.Rounds[n-1].Closed, c.Rounds[n-1].Expired = true, expired
}

// shortener returns a Shortener with the output budget of the tool.
func (p *pipeline) shortener() calllog.Shortener {
	s := calllog.Shortener{Output: &p.l.intake.output, CallID: p.l.key.ID, Thread: p.l.thread(), Budget: p.l.e.cfg.OutputBudget, Compact: p.l.e.cfg.Compact}
	if p.def != nil {
		s.Budget = or(p.def.Descriptor.OutputBudget, s.Budget)
	}
	return s
}
