package subagent

import (
	"context"
	"errors"
	"time"

	"github.com/toold-dev/toold/tool"
)

// carry executes the tool calls of the newest answer. It returns nil when all calls have ended and the model can be asked again. Otherwise
// it returns the result of the attempt: usually a suspension until the waiting calls have ended.
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
			return w.suspend(waits)
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
		return w.withUsage(&tool.Result{Status: tool.StatusError, Error: &tool.Error{
			Code: tool.ExecutionFailed, Reason: "BLOCKED", Message: "The subagent was stopped: " + blocked,
		}}), nil
	}
	w.state.Messages = append(w.state.Messages, m)
	w.state.Pending = nil
	return nil, nil
}

// missing returns the calls of the turn that have no result yet.
func (w *work) missing() (open []Request) {
	for _, r := range w.state.Pending.Requests {
		if w.state.Pending.result(r.ModelID) == nil {
			open = append(open, r)
		}
	}
	return open
}

// turn returns the turn with all its calls, including those that have ended. A turn can be joined only with exactly the calls with which it
// was started.
func (w *work) turn(box *Toolbox) *Turn {
	return &Turn{Parent: w.call, Batch: w.state.batch(w.call.ID), Run: w.runOf(box), Calls: w.state.Pending.Requests}
}

// begin starts or joins the turn and waits for it. When the daemon has no capacity for the turn, begin tries again until the subagent's
// time is over.
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
	back := w.s.cfg.Caller.Lend(ctx) // The slot stays released while begin waits for capacity, because the calls in the queue may need it.
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

// collect stores the results of the calls that have ended and returns the outcomes of the calls that wait.
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
		case o.Missing:
			p.Results = append(p.Results, result{toolResult: toolResult{ID: id, Text: "The outcome of this call is no longer stored", Failed: true}})
		case !o.Ended:
			waits = append(waits, o)
		default:
			p.Results = append(p.Results, result{toolResult{ID: id, Text: clip(o.Text, maxResult), Failed: o.Failed}, o.Blocked})
		}
	}
	return waits
}

// suspend suspends the call until the calls in waits have ended. It saves the results so far, because the daemon may trim the ended calls
// before the other calls end.
func (w *work) suspend(waits []Outcome) (*tool.Result, error) {
	w.state.Waits = ids(waits)
	if err := w.save(); err != nil {
		return nil, err
	}
	return tool.SuspendedWith(waitTicket(waits)), nil
}

// cutShort returns the outcome of a subagent's call that cannot wait for the end of its turn. When the daemon stops, it suspends the call.
// For every other outcome, the engine then calls [Subagent.Stop], which ends the turn's calls.
func (w *work) cutShort(ctx context.Context, err error) (*tool.Result, error) {
	switch {
	case ctx.Err() == nil:
		return nil, err
	case drained(ctx):
		return w.suspend(nil)
	case errors.Is(context.Cause(ctx), errTime):
		return w.overTime(), nil
	}
	return nil, context.Cause(ctx)
}

// Stop implements [tool.Stopper]. It ends the calls of an unfinished turn.
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

// stopTime limits how long anew waits until the cancelled calls of the old task have ended. It is longer than the grace period after which
// the engine abandons a tool that ignores a cancel.
const stopTime = 10 * time.Second

// anew changes to another task. It first cancels the calls of the old task, because they were not approved for the new task.
func (w *work) anew(ctx context.Context) error {
	next := w.state.again(w.call)
	if w.state.Pending != nil {
		bound, stop := context.WithTimeout(ctx, stopTime)
		defer stop()
		unseen := w.s.cfg.Caller.Cancel(bound, w.turn(nil), "the subagent was given another task")
		if cause := context.Cause(ctx); cause != nil {
			return cause // The state is not saved, so the next attempt cancels the calls again.
		}
		next.Unseen = append(next.Unseen, unseen...)
	}
	w.state = next
	return w.save()
}

// shown is the content of the activity that shows a call of the turn in the log of the subagent's call.
type shown struct {
	CallID   string  `json:"call_id"`
	Tool     string  `json:"tool"`
	Status   string  `json:"status"`
	Message  string  `json:"message,omitempty"`
	Fraction float64 `json:"fraction,omitempty"`

	at time.Time
}

// showEvery is the minimum time between two progress reports of a call.
const showEvery = 200 * time.Millisecond

// show reports an event of a call of the turn in the log of the subagent's call.
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
	_ = w.call.Activity(e.Call, "call", s) // The error is ignored, because it only means that the subagent's call is over. The engine knows that.
}
