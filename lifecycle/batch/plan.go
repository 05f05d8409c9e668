// Package batch executes the calls of one model turn together.
//
//   - [Batch] holds the rules of a batch and the current state of each call. [Batch.Next] decides the next step from these alone. It reads no record, starts nothing and does not wait.
//   - [Service] holds the batches in memory. Each has a goroutine that reads the states, executes the next step, and repeats until there is nothing to do. A batch therefore continues correctly after a restart, or after a decision weeks later.
//   - [Member] and [Run] are the interfaces to a call and a pipeline run.
package batch

import (
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A State is the state of a call in a batch.
type State int

// The states.
const (
	Ended     State = iota // the call is terminal, or its record cannot be read
	NotBegun               // no pipeline run has begun
	Asking                 // a gate's question is open
	Halting                // an open question comes from the tool, or is about an attempt in doubt
	Decided                // a decision is stored, but no pipeline runs yet
	Running                // a pipeline runs
	Elsewhere              // the work continues outside the daemon
	Stuck                  // the journal did not store the outcome; recovery decides
)

// A Call is what the plan needs to know of a call.
type Call struct {
	State     State
	Cancelled bool         // a cancel request is stored
	Declined  bool         // only with Decided and Running: the decision ends the call
	Halted    bool         // only with Decided: the state before was Halting
	Effects   tool.Effects // what the call does, by its newest assessment; zero when the decision changes its arguments
	Failed    bool         // only with Ended: the call did not succeed
	Blocks    bool         // only with Ended: a gate blocks the agent's run
	Pending   bool         // only with Running: the call is allowed and waits for capacity
	Stopped   bool         // only with Pending: the pipeline run was stopped
}

// A Batch holds the rules of a batch and its calls, in the order of the model.
type Batch struct {
	Strategy    call.Strategy
	Replay      call.Replay
	FailFast    bool
	MaxParallel int  // 0 means no limit
	Held        bool // no call may begin: the batch is held or cancelled, or the daemon stops
	Calls       []Call
}

// An Action is the next step of a batch.
type Action int

// The actions.
const (
	Idle      Action = iota // stop processing until a decision or an operation changes a call
	Wait                    // wait until a call changes
	End                     // all calls have ended
	Begin                   // pass new calls through the gates, and run those that may run
	Launch                  // run the pipelines of these calls to their end: pending calls, and cancelled calls that have not begun or are decided
	Resume                  // resume these calls
	Interrupt               // end these calls without running them
	Withdraw                // return these pending calls to NotBegun
)

// A Plan is the next step of a batch and the indexes of its calls.
type Plan struct {
	Do    Action
	Calls []int
	Why   string // only with Interrupt: the message for the model
}

// Next returns the next step.
func (b *Batch) Next() Plan {
	if b.Held {
		if calls := b.which(func(c *Call) bool { return c.Pending }); len(calls) > 0 {
			return Plan{Do: Withdraw, Calls: calls}
		}
	} else {
		if calls, why := b.interrupted(); len(calls) > 0 {
			return Plan{Do: Interrupt, Calls: calls, Why: why}
		}
		if calls := b.launched(); len(calls) > 0 {
			return Plan{Do: Launch, Calls: calls}
		}
		if calls := b.resumed(); len(calls) > 0 {
			return Plan{Do: Resume, Calls: calls}
		}
		if b.mayBegin() {
			return Plan{Do: Begin}
		}
	}
	switch {
	case b.count(Running) > 0:
		return Plan{Do: Wait}
	case b.count(Ended) == len(b.Calls):
		return Plan{Do: End}
	}
	return Plan{Do: Idle}
}

// Parallel reports whether calls run together whatever their effects.
func (b *Batch) Parallel() bool { return b.Strategy == call.Parallel }

// Alone reports whether a call with these effects must run alone.
func (b *Batch) Alone(e *tool.Effects) bool {
	return b.Strategy == call.Sequential || b.Strategy == call.Auto && !safe(e) && len(e.Resources) == 0
}

// Joins reports whether a call with these effects may run together with the calls of a group. With the strategy AUTO, two adjacent calls
// may run together when both are safe, or when both name resources that do not overlap.
func (b *Batch) Joins(group []*tool.Effects, e *tool.Effects) bool {
	if len(group) == 0 || b.Parallel() {
		return true
	}
	return b.Strategy == call.Auto && !slices.ContainsFunc(group, func(other *tool.Effects) bool { return !together(other, e) })
}

func together(a, b *tool.Effects) bool {
	return safe(a) && safe(b) || !tool.Overlap(a.Resources, b.Resources)
}

// safe reports whether a call is read-only and may run concurrently.
func safe(e *tool.Effects) bool { return e.Mutability == tool.ReadOnly && e.ConcurrencySafe }

// interrupted returns the calls that must not run because of another call. After a Block these are the calls behind the blocked call. After
// a failure with fail_fast they are all calls. Calls that already run or were declined are not included.
func (b *Batch) interrupted() (calls []int, why string) {
	blocked, failed := -1, false
	for i := range b.Calls {
		c := &b.Calls[i]
		failed = failed || c.Failed && b.FailFast
		if c.Blocks && blocked < 0 {
			blocked = i
		}
	}
	if why = "Not run: an earlier call was blocked"; blocked < 0 {
		why = "Not run: another call of the batch failed"
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		waits := (c.State == NotBegun || c.State == Decided && !c.Declined) && !c.Cancelled
		if (failed || blocked >= 0 && i > blocked) && (waits || c.Pending) {
			calls = append(calls, i)
		}
	}
	return calls, why
}

// launched returns the calls whose pipelines now run to their end: cancelled or stopped calls, and pending calls for which there is
// capacity.
func (b *Batch) launched() (calls []int) {
	capacity := b.capacity()
	for i := range b.Calls {
		c := &b.Calls[i]
		switch {
		case (c.State == NotBegun || c.State == Decided) && c.Cancelled:
			calls = append(calls, i)
		case c.Pending && (c.Cancelled || c.Stopped || capacity > 0):
			calls = append(calls, i)
			capacity--
		}
	}
	return calls
}

// capacity returns how many more calls may execute.
func (b *Batch) capacity() int {
	if b.MaxParallel == 0 {
		return len(b.Calls)
	}
	return b.MaxParallel - b.count(Running) + len(b.which(func(c *Call) bool { return c.Pending }))
}

// resumed returns the decided calls that resume now. In a batch that is not PARALLEL, a call resumes alone or together with the next
// decided calls that [Batch.Joins] permits.
func (b *Batch) resumed() (calls []int) {
	waits := b.Replay == call.AllDecided && (b.count(Asking, Halting, Running) > 0 || b.mayBegin())
	if waits || !b.Parallel() && b.count(Running, Stuck) > 0 {
		return nil
	}
	// With fail_fast a declined call ends the other calls, so no other call may resume before it.
	declines := b.FailFast && len(b.which(func(c *Call) bool { return c.Declined })) > 0
	capacity := b.capacity()
	var group []*tool.Effects
	for i := range b.Calls {
		c := &b.Calls[i]
		if c.State != Decided || declines && !c.Declined {
			continue
		}
		if len(calls) >= capacity || !b.Joins(group, &c.Effects) {
			break
		}
		calls, group = append(calls, i), append(group, &c.Effects)
		if b.Alone(&c.Effects) {
			break
		}
	}
	return calls
}

func (b *Batch) mayBegin() bool {
	switch {
	case b.count(NotBegun) == 0:
		return false
	case b.Parallel():
		return true
	case b.count(Running, Elsewhere, Stuck) > 0 || b.count(Decided) > 0 && b.Replay == call.Immediate:
		return false
	}
	// The calls of a SEQUENTIAL batch may depend on each other. A question of a tool, open or decided, therefore stops the calls behind it.
	return b.Strategy != call.Sequential || len(b.which(func(c *Call) bool { return c.State == Halting || c.Halted })) == 0
}

func (b *Batch) count(states ...State) int {
	return len(b.which(func(c *Call) bool {
		for _, s := range states {
			if c.State == s {
				return true
			}
		}
		return false
	}))
}

func (b *Batch) which(is func(c *Call) bool) (calls []int) {
	for i := range b.Calls {
		if is(&b.Calls[i]) {
			calls = append(calls, i)
		}
	}
	return calls
}
