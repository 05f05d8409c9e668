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

// A Member is a call of a batch in memory.
type Member interface {
	State() State
	Record() *call.Call
	// SetConcurrent says whether the other calls of the batch run at the same time, whatever they do.
	SetConcurrent(bool)
	// Enter begins a pipeline run from the start of the path.
	Enter() Run
	// Resume carries out the stored decision, without waiting.
	Resume()
	// Interrupt ends the call without running it; why is for the model.
	Interrupt(why string)
	Release()
}

// A Run is a pipeline run of a call. It ends with Launch, Settle or Release.
type Run interface {
	Member() Member
	// Gates takes the run to the gates, and Queue to the queue; they report whether the run ended on the way. With tentative
	// a gate that intercepts the call ends the run, too, and asks nobody.
	Gates(tentative bool) (ended bool)
	Queue() (ended bool)
	// Blocks reports whether the run ended with the verdict of a gate that blocks the agent's run.
	Blocks() bool
	// Safe reports whether the call is read-only and may run concurrently.
	Safe() bool
	// Group makes the run one of several: all of their Before hooks run before the first of their tools.
	Group(id string)
	// Interrupt makes the run end without its tool.
	Interrupt(why string)
	// Cancel stops the run when a request to cancel its call is stored.
	Cancel()
	// Stopped reports whether the run was stopped, and Drained whether the daemon's end stopped it: the next daemon begins
	// the call.
	Stopped() bool
	Drained() bool
	// Launch carries the run to its end without waiting, Settle waits.
	Launch()
	Settle()
	// Release ends the run and leaves the call as it was.
	Release()
}

// A loop is a batch of which something moves, or may: it begins the pipeline runs of its calls, and ends when nothing can move
// any more. What it does next follows from the records of its calls alone, so that a restart, or a decision weeks later, continues
// where it was. One goroutine does all of that.
type loop struct {
	s   *Service
	key call.Key

	ready   chan struct{} // closed when the record is there, or err says why not
	err     error
	record  *call.Batch
	members []Member // in the order of the model; nil: the record cannot be read

	signal  chan struct{} // has room for one: something of the batch changed
	pending []Run         // allowed, and waiting for capacity to execute
	ended   bool          // and that is stored
}

// takeUp loads a batch and does what can be done.
func (b *loop) takeUp() {
	if b.load(); b.err == nil {
		b.carry()
		return
	}
	b.s.cfg.Log.Error("batch not carried on", zap.String("batch_id", b.key.ID), zap.Error(b.err))
	b.s.drop(b, true)
	b.s.cfg.Drain.Leave()
	b.s.cfg.Rests(b.key)
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

// carry does what can be done until nothing moves.
func (b *loop) carry() {
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
	b.s.cfg.Rests(b.key)
}

// end stores the end of the batch, once. What the journal may take later is tried again.
func (b *loop) end() {
	if b.ended || !b.record.Ended.IsZero() {
		return
	}
	b.s.cfg.FailPoint("before-batch-end")
	ctx := context.Background()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := b.s.cfg.End(ctx, b.key.Namespace, b.key.ID)
		if err == nil {
			err = b.s.cfg.Store.EndBatch(ctx, b.key, b.s.cfg.Store.Now()) // last: a crash before it repeats all
		}
		if b.ended = err == nil; b.ended {
			return
		}
		if errors.Is(err, store.ErrFatal) {
			b.s.cfg.Fatal(err)
		}
		if !refusal.Transient(err) || b.s.cfg.Drain.Ending() {
			b.s.cfg.Log.Error("end of a batch not stored; the next start does it", zap.String("batch_id", b.key.ID), zap.Error(err))
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

// look returns where all calls of the batch are. It reads the states before the rest: a call that is seen to have ended is seen to have
// failed, too.
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
		s.Cancelled, s.Safe = c.Cancel != nil, Safe(c.Assessment)
		switch {
		case c.Status.Terminal() && c.Result != nil:
			s.Failed, s.Blocks = c.Status != call.Succeeded, c.Result.Error != nil && c.Result.Error.TerminateRun
		case c.Status == call.Resuming:
			round := c.LastRound()
			s.Declined = round.Decision != nil && round.Decision.Action == tool.Cancel // nil: it was cancelled
			s.Halted = s.State == Decided && round.Suspension.AfterGates()
		}
	}
	for _, r := range b.pending {
		s := &at.Calls[position(r)]
		s.Pending, s.Stopped = true, r.Stopped()
	}
	return at
}

// Safe reports whether calls with these effects run together in a batch of the strategy AUTO.
func Safe(e tool.Effects) bool { return e.Mutability == tool.ReadOnly && e.ConcurrencySafe }

func (b *loop) parallel() bool { return b.record.Strategy == call.Parallel }

// isHeld reports whether nothing may begin: the daemon stops, a request cancels all calls, or the store is a copy whose calls
// an operator did not release.
func (b *loop) isHeld() bool {
	if b.s.cfg.Drain.Refusing() || b.s.cfg.Drain.Err() != nil {
		return true
	}
	for _, m := range b.members {
		if m != nil && b.s.cfg.Held(m.Record()) {
			return true
		}
	}
	return b.s.isHeld(b.key) // last: an operator who releases calls holds their batch before
}

// advance carries out plans until nothing moves.
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

// launch runs the pipelines of calls to their end. A cancelled call ends there, because the request was first.
func (b *loop) launch(calls []int) {
	for _, i := range calls {
		r := b.takePending(i)
		if r == nil {
			r = b.members[i].Enter()
		} else {
			r.Cancel() // the goroutine that stored the request may not have done so yet
		}
		r.Launch()
	}
}

// takePending removes a call from those that wait to execute; nil: it does not.
func (b *loop) takePending(i int) Run {
	at := slices.IndexFunc(b.pending, func(r Run) bool { return position(r) == i })
	if at < 0 {
		return nil
	}
	r := b.pending[at]
	b.pending = slices.Delete(b.pending, at, at+1)
	return r
}

// position is the index of the call of a run in its batch.
func position(r Run) int { return r.Member().Record().BatchPosition - 1 }

// resume resumes decided calls.
func (b *loop) resume(calls []int) {
	for _, i := range calls {
		if b.state(i) == Decided {
			b.members[i].Resume()
		}
	}
}

// withdraw takes the calls back that wait for capacity to execute.
func (b *loop) withdraw() {
	for _, r := range b.pending {
		r.Release()
	}
	b.pending = nil
}

// begin asks the gates of calls that have not begun, in the order of the model, and executes those that may run now: of a PARALLEL
// batch all when all gates were asked, of the others one, or neighbours that are safe together. A call that does not simply run
// is left as it was behind others that may: they run first, and then it is looked at anew.
func (b *loop) begin(at *Batch) {
	var group []Run
	for i, m := range b.members {
		if b.state(i) != NotBegun {
			continue
		}
		r := m.Enter()
		tentative := !b.parallel() && len(group) > 0
		ended := r.Gates(tentative)
		alone := at.Alone(ended || r.Safe())
		if !ended && !(tentative && alone) {
			ended = r.Queue()
		}
		if tentative && (ended || alone) || ended && r.Drained() {
			r.Release()
			break
		}
		if ended {
			r.Settle()
			if r.Blocks() || !b.parallel() {
				break // what follows from it is seen to first
			}
			continue
		}
		if group = append(group, r); alone {
			break
		}
	}
	b.execute(group)
}

// execute runs calls that were allowed: together, all of their Before hooks run before the first of their tools.
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
