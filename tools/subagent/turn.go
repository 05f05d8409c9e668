package subagent

import (
	"context"
	"errors"
	"time"

	"github.com/toold-dev/toold/tool"
)

// carry carries the tool calls of the newest answer out. It returns the end of the call when it must not continue: mostly a
// suspension, until those that wait have ended.
func (w *work) carry(ctx context.Context) (*tool.Result, error) {
	p := w.state.Pending
	if open := w.missing(); len(open) > 0 {
		outcomes, err := w.begin(ctx, open)
		if err != nil {
			return w.cutShort(ctx, err)
		}
		waits := w.collect(outcomes)
		if ctx.Err() != nil {
			return w.cutShort(ctx, ctx.Err())
		}
		if len(waits) > 0 {
			return w.rest(waits)
		}
	}
	m := message{Role: roleTool}
	blocked := ""
	for _, id := range p.Order {
		r := p.result(id)
		m.Results = append(m.Results, r.toolResult)
		if r.Blocked {
			blocked = r.Text
		}
	}
	if blocked != "" {
		return w.told(&tool.Result{Status: tool.StatusError, Error: &tool.Error{
			Code: tool.ExecutionFailed, Reason: "BLOCKED", Message: "The subagent was stopped: " + blocked,
		}}), nil
	}
	w.state.Messages = append(w.state.Messages, m)
	w.state.Pending = nil
	return nil, nil
}

// missing are the calls of which there is no result yet.
func (w *work) missing() (open []Request) {
	for _, r := range w.state.Pending.Requests {
		if w.state.Pending.result(r.ModelID) == nil {
			open = append(open, r)
		}
	}
	return open
}

// turn is all of the calls, also those that have ended: a turn that is joined is the same as it was.
func (w *work) turn(box *Toolbox) *Turn {
	return &Turn{Parent: w.call, Batch: w.state.batch(w.call.ID), Run: w.runOf(box), Calls: w.state.Pending.Requests}
}

// begin starts the turn, or joins it, and follows it. One for which there is no room now is tried again until the time is over.
func (w *work) begin(ctx context.Context, open []Request) ([]Outcome, error) {
	box, err := w.tools()
	if err != nil {
		return nil, err
	}
	names := ""
	for i, r := range open {
		if i < maxNamed {
			names += " " + r.Tool
		}
	}
	t := w.turn(&box)
	back := w.s.cfg.Caller.Lend(ctx) // also while there is no room for the turn: the place may be what the queue waits for
	outcomes, err := w.sent(ctx, t, names)
	if err == nil {
		err = back(ctx)
	}
	return outcomes, err
}

func (w *work) sent(ctx context.Context, t *Turn, names string) ([]Outcome, error) {
	for delay := w.s.cfg.FirstDelay; ; delay = min(2*delay, maxDelay) {
		w.progress("tools:" + names)
		outcomes, err := w.s.cfg.Caller.Carry(ctx, t, w.show)
		refused, ok := errors.AsType[*tool.Error](err)
		if err == nil || !ok || !refused.Retryable {
			return outcomes, err
		}
		timer := time.NewTimer(max(delay, refused.RetryAfter))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// collect takes in what has ended and returns the others.
func (w *work) collect(outcomes []Outcome) (waits []Outcome) {
	p := w.state.Pending
	model := map[string]string{}
	for _, r := range p.Requests {
		model[r.ID] = r.ModelID
	}
	for _, o := range outcomes {
		id, mine := model[o.ID]
		switch {
		case !mine || p.result(id) != nil:
		case o.Gone:
			p.Results = append(p.Results, result{toolResult: toolResult{ID: id, Text: "What came of this call is not kept any more", Failed: true}})
		case !o.Ended:
			waits = append(waits, o)
		default:
			p.Results = append(p.Results, result{toolResult{ID: id, Text: clip(o.Text, maxResult), Failed: o.Failed}, o.Blocked})
		}
	}
	return waits
}

// rest suspends the call until these calls have ended. What has ended is kept: it may be trimmed before they do.
func (w *work) rest(waits []Outcome) (*tool.Result, error) {
	w.state.Waits = ids(waits)
	if err := w.save(); err != nil {
		return nil, err
	}
	return tool.SuspendedWith(waitTicket(waits)), nil
}

// cutShort is the end of a call that cannot wait for its turn: the engine has its calls end before ([Subagent.Stop]). When the
// daemon stops they do so by themselves.
func (w *work) cutShort(ctx context.Context, err error) (*tool.Result, error) {
	switch {
	case ctx.Err() == nil:
		return nil, err
	case drained(ctx):
		return w.rest(nil)
	case errors.Is(context.Cause(ctx), errTime):
		return w.overTime(), nil
	}
	return nil, context.Cause(ctx)
}

// Stop implements [tool.Stopper]: it ends the calls of the turn that was not over.
func (s *Subagent) Stop(ctx context.Context, c *tool.Call) (unseen []string) {
	st, err := decode(c.Checkpoint)
	if err != nil || st == nil {
		return nil
	}
	unseen = st.Unseen
	if st.Pending != nil {
		w := &work{s: s, call: c, state: st}
		unseen = append(unseen, s.cfg.Caller.Cancel(ctx, w.turn(nil), "the subagent has ended")...)
	}
	return unseen
}

// stopTime is what the calls of a task that was edited may take to end. It is more than a tool gets that ignores its cancel.
const stopTime = 10 * time.Second

// anew begins with another task than the one before, whose calls end first: nobody agreed to them for this one.
func (w *work) anew(ctx context.Context) error {
	next := w.state.again(w.call)
	if w.state.Pending != nil {
		bound, stop := context.WithTimeout(ctx, stopTime)
		defer stop()
		unseen := w.s.cfg.Caller.Cancel(bound, w.turn(nil), "the subagent was given another task")
		if cause := context.Cause(ctx); cause != nil {
			return cause // the next attempt waits for them again
		}
		next.Unseen = append(next.Unseen, unseen...)
	}
	w.state = next
	return w.save()
}

// shown is what the parent's log shows of a call.
type shown struct {
	CallID   string  `json:"call_id"`
	Tool     string  `json:"tool"`
	Status   string  `json:"status"`
	Message  string  `json:"message,omitempty"`
	Fraction float64 `json:"fraction,omitempty"`

	at time.Time
}

// showEvery is how often mere progress of a call is shown again.
const showEvery = 200 * time.Millisecond

// show reports in the parent's log what happens to a call of its turn.
func (w *work) show(e Event) {
	s := w.shown[e.Call]
	if s == nil {
		s = &shown{CallID: e.Call}
		w.shown[e.Call] = s
	}
	if e.Tool != "" {
		s.Tool = e.Tool
	}
	now := time.Now()
	if e.Status == s.Status && now.Sub(s.at) < showEvery {
		return
	}
	s.Status, s.Message, s.Fraction, s.at = e.Status, clip(e.Message, 1<<10), e.Fraction, now
	_ = w.call.Activity(e.Call, "call", s) // the engine ends a call that is over
}
