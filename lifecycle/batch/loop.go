package batch

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A Member is an active call of a batch.
type Member interface {
	State() State
	Record() *call.Call
	// SetConcurrent sets whether the other calls of the batch may run at the same time, whatever the effects of this call.
	SetConcurrent(bool)
	// Enter begins a pipeline run from the first step.
	Enter() Run
	// Resume continues the call with its stored decision. It returns without waiting.
	Resume()
	// Interrupt ends the call without running it. why is the message for the model.
	Interrupt(why string)
	Release()
}

// A Run is a pipeline run of a call. It ends with Launch, Settle or Release.
type Run interface {
	Member() Member
	// Gates runs the pipeline up to and including the gates. Queue runs it up to the queue for capacity. Both report whether the pipeline
	// run ended. If tentative is true and a gate intercepts the call, the pipeline run ends without a question.
	Gates(tentative bool) (ended bool)
	Queue() (ended bool)
	// Blocks reports whether the pipeline run ended because a gate blocks the agent's run.
	Blocks() bool
	// Effects returns the assessment of the call, once Gates has run the pipeline up to it.
	Effects() *tool.Effects
	// Group adds the pipeline run to a group. All Before hooks of a group run before the first tool of the group.
	Group(id string)
	// Interrupt makes the pipeline run end without running its tool. why is the message for the model.
	Interrupt(why string)
	// Cancel stops the pipeline run if a cancel request for its call is stored.
	Cancel()
	// Stopped reports whether the pipeline run was stopped. Drained reports whether it was stopped because the daemon stops. In that case
	// the next daemon begins the call.
	Stopped() bool
	Drained() bool
	// Launch completes the pipeline run without waiting. Settle completes it and waits.
	Launch()
	Settle()
	// Release ends the pipeline run and leaves the call unchanged.
	Release()
}

// A loop processes one batch. One goroutine begins the pipeline runs of the calls. The goroutine ends when the batch is idle: each call has
// ended, or waits for a decision or for work outside the daemon. It decides each step only from the records of the calls. The batch
// therefore continues correctly after a restart, or after a decision weeks later.
type loop struct {
	s   *Service
	key call.Key

	ready   chan struct{} // closed when record or err is set
	err     error
	record  *call.Batch
	members []Member // in the order of the model's calls; nil when the record cannot be read

	signal  chan struct{} // capacity 1; receives a value when a call of the batch changed
	pending []Run         // calls that are allowed and wait for capacity
	ended   bool          // the journal has stored the end of the batch
}

// start loads a batch that is not in memory, and processes it.
func (b *loop) start() {
	if b.load(); b.err == nil {
		b.process()
		return
	}
	b.s.cfg.Log.Error("batch not continued", zap.String("batch_id", b.key.ID), zap.Error(b.err))
	b.s.drop(b, true)
	b.s.cfg.Drain.Leave()
	b.s.cfg.Idle(b.key)
}

// load reads a batch and its calls.
func (b *loop) load() {
	defer close(b.ready)
	ctx := context.Background()
	if b.record, b.err = b.s.cfg.Store.Batch(ctx, b.key); b.err != nil {
		return
	}
	b.members = make([]Member, len(b.record.Calls))
	for i, id := range b.record.Calls {
		m, err := b.s.cfg.Acquire(ctx, call.Key{Namespace: b.key.Namespace, ID: id})
		if err != nil {
			b.s.cfg.Log.Error("call of a batch cannot be read; the others continue", zap.String("batch_id", b.key.ID), zap.String("call_id", id), zap.Error(err))
			continue
		}
		m.SetConcurrent(b.parallel())
		b.members[i] = m
	}
}

// process processes the batch until it is idle.
func (b *loop) process() {
	defer b.s.cfg.Drain.Leave()
	for {
		b.advance()
		if b.s.drop(b, false) {
			break
		}
		<-b.signal
	}
	for _, m := range b.members {
		if m != nil {
			m.Release()
		}
	}
	b.s.cfg.Idle(b.key)
}

// end stores the end of the batch. If the journal is temporarily unable to store it, end tries again.
func (b *loop) end() {
	if b.ended || b.record.Ended != 0 {
		return
	}
	b.s.cfg.FailPoint("before-batch-end")
	ctx := context.Background()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := b.s.cfg.End(ctx, b.key.Namespace, b.key.ID)
		if err == nil {
			err = b.s.cfg.Store.EndBatch(ctx, b.key) // This comes last, so that after a crash everything before it is repeated.
		}
		if b.ended = err == nil; b.ended {
			return
		}
		if errors.Is(err, store.ErrFatal) {
			b.s.cfg.Fatal(err)
		}
		if !refusal.Transient(err) || b.s.cfg.Drain.Ending() {
			b.s.cfg.Log.Error("end of a batch not stored; the next start stores it", zap.String("batch_id", b.key.ID), zap.Error(err))
			return
		}
		time.Sleep(wait)
	}
}

func (b *loop) state(i int) State {
	if b.members[i] == nil {
		return Ended
	}
	return b.members[i].State()
}

// look returns the batch with the current states of all calls. It reads the states before the other fields. A call that it reads as Ended
// therefore also has its outcome.
func (b *loop) look() *Batch {
	r := b.record
	at := &Batch{Strategy: r.Strategy, Replay: r.Replay, FailFast: r.FailFast, MaxParallel: r.MaxParallel, Calls: make([]Call, len(b.members))}
	for i := range b.members {
		at.Calls[i].State = b.state(i)
	}
	at.Held = b.isHeld()
	for i, m := range b.members {
		if m == nil {
			continue
		}
		c, s := m.Record(), &at.Calls[i]
		s.Cancelled, s.Effects = c.Cancel != nil, c.Assessment
		switch {
		case c.Status.Terminal() && c.Result != nil:
			s.Failed, s.Blocks = c.Status != call.Succeeded, c.Result.Error != nil && c.Result.Error.TerminateRun
		case c.Status == call.Resuming:
			round := c.LastRound()
			s.Declined = round.Decision != nil && round.Decision.Action == tool.Cancel // The decision is nil when the call was cancelled.
			s.Halted = s.State == Decided && round.Suspension.AfterGates()
			if d := round.Decision; d != nil && (d.Arguments != "" || round.Suspension.ResumeMode == tool.PassDecisionToTool) {
				s.Effects = tool.Effects{}
			}
		}
	}
	for _, r := range b.pending {
		s := &at.Calls[position(r)]
		s.Pending, s.Stopped = true, r.Stopped()
	}
	return at
}

func (b *loop) parallel() bool { return b.record.Strategy == call.Parallel }

// isHeld reports whether no call may begin: the daemon stops, a request cancels all calls, or the calls of a copied store are not released.
func (b *loop) isHeld() bool {
	if b.s.cfg.Drain.Refusing() || b.s.cfg.Drain.Err() != nil {
		return true
	}
	for _, m := range b.members {
		if m != nil && b.s.cfg.Held(m.Record()) {
			return true
		}
	}
	return b.s.isHeld(b.key) // Check this hold last. A release by an operator first holds the batch and then marks the call as released.
}

// advance executes the next steps of the batch until there is none.
func (b *loop) advance() {
	for {
		at := b.look()
		switch next := at.Next(); next.Do {
		case Withdraw:
			b.withdraw()
		case Interrupt:
			b.interrupt(at, next)
		case Launch:
			b.launch(next.Calls)
		case Resume:
			b.resume(next.Calls)
		case Begin:
			b.begin(at)
		case Wait:
			<-b.signal
		case End:
			b.end()
			return
		default:
			return
		}
	}
}

// interrupt ends calls without running them.
func (b *loop) interrupt(at *Batch, plan Plan) {
	for _, i := range plan.Calls {
		if r := b.takePending(i); r != nil {
			r.Interrupt(plan.Why)
			r.Launch()
		} else if b.state(i) == at.Calls[i].State {
			b.members[i].Interrupt(plan.Why)
		}
	}
}

// launch runs the pipelines of calls to their end. A cancelled call ends there without running.
func (b *loop) launch(calls []int) {
	for _, i := range calls {
		r := b.takePending(i)
		if r == nil {
			r = b.members[i].Enter()
		} else {
			r.Cancel() // Without this, the pipeline run could continue: the goroutine that stored the cancel request may not have stopped the call yet.
		}
		r.Launch()
	}
}

// takePending removes the pending pipeline run of a call from the list and returns it. It returns nil when there is none.
func (b *loop) takePending(i int) Run {
	at := slices.IndexFunc(b.pending, func(r Run) bool { return position(r) == i })
	if at < 0 {
		return nil
	}
	r := b.pending[at]
	b.pending = slices.Delete(b.pending, at, at+1)
	return r
}

// position returns the index in the batch of the call to which the pipeline run belongs.
func position(r Run) int { return r.Member().Record().BatchPosition - 1 }

func (b *loop) resume(calls []int) {
	for _, i := range calls {
		if b.state(i) == Decided {
			b.members[i].Resume()
		}
	}
}

// withdraw releases the pipeline runs that wait for capacity. Their calls return to NotBegun.
func (b *loop) withdraw() {
	for _, r := range b.pending {
		r.Release()
	}
	b.pending = nil
}

// begin passes new calls through the gates, in the order of the model, and executes those that may run now. In a PARALLEL batch it executes
// all calls, after the gates have checked each of them. In other batches it executes one call, or several adjacent calls that may run
// together. It stops at the first later call that a gate intercepts or that must not run together with the others. That call stays
// unchanged and is checked again after the others have run.
func (b *loop) begin(at *Batch) {
	var group []Run
	var effects []*tool.Effects
	for i, m := range b.members {
		if b.state(i) != NotBegun {
			continue
		}
		r := m.Enter()
		tentative := !b.parallel() && len(group) > 0
		ended := r.Gates(tentative)
		joins := ended || at.Joins(effects, r.Effects())
		if !ended && joins {
			ended = r.Queue()
		}
		if tentative && (ended || !joins) || ended && r.Drained() {
			r.Release()
			break
		}
		if ended {
			r.Settle()
			if r.Blocks() || !b.parallel() {
				break // Plan again before other calls begin, because this outcome may interrupt them.
			}
			continue
		}
		group, effects = append(group, r), append(effects, r.Effects())
		if at.Alone(r.Effects()) {
			break
		}
	}
	b.execute(group)
}

// execute runs allowed calls together. The Before hooks of all calls run before the first tool.
func (b *loop) execute(group []Run) {
	if len(group) == 1 && !b.parallel() {
		group[0].Launch()
		return
	}
	for _, r := range group {
		r.Group(b.key.ID + "/" + group[0].Member().Record().ID)
		switch ended := r.Queue(); {
		case !ended:
			b.pending = append(b.pending, r)
		case r.Drained():
			r.Release()
		default:
			r.Settle()
		}
	}
}
