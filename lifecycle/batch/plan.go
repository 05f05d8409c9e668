// Package batch carries the calls of one model turn out together.
//
//   - [Batch] is the plan: the rules of a batch and the state of each call, as one look found them. [Batch.Next] decides from
//     these alone. It reads no record, starts nothing and waits for nothing.
//   - [Service] has the batches in memory, each with a goroutine that looks, carries out what the plan says, and looks again, until
//     the plan is to rest. A restart, or a decision weeks later, therefore continues where the batch was.
//   - [Member] and [Run] are what it needs of a call and of a pipeline run.
package batch

import "github.com/toold-dev/toold/call"

// A State is where a call of a batch is.
type State int

// The states of a call in a batch.
const (
	Ended     State = iota // terminal, or its record cannot be read
	NotBegun               // it has not begun
	Asking                 // a gate's question is open
	Halting                // a question of its tool is open, or one about an attempt in doubt
	Decided                // a decision is stored, and no pipeline runs
	Running                // a pipeline runs
	Elsewhere              // its work continues outside of the daemon
	Stuck                  // the journal did not take its end: recovery decides
)

// A Call is a call of a batch.
type Call struct {
	State     State
	Cancelled bool // a request to cancel it is stored
	Declined  bool // Decided, Running: its decision ends it
	Halted    bool // Decided: the question was one of those of Halting
	Safe      bool // read-only, and safe to run concurrently
	Failed    bool // Ended: without success
	Blocks    bool // Ended: a gate blocks the run
	Pending   bool // Running: allowed, and waits until it may execute
	Stopped   bool // Pending: it was stopped meanwhile
}

// A Batch is the rules of a batch and its calls, in the order of the model.
type Batch struct {
	Strategy    call.Strategy
	Replay      call.Replay
	FailFast    bool
	MaxParallel int  // 0: no limit
	Held        bool // nothing may begin
	Calls       []Call
}

// An Action is what a plan is.
type Action int

// What a plan may ask for.
const (
	Rest      Action = iota // nothing moves until somebody decides
	Wait                    // until a call changes
	End                     // all calls have ended
	Begin                   // ask the gates of new calls, and run what may run
	Launch                  // run the pipelines of these calls to their end: pending ones, and new and decided ones that were cancelled
	Resume                  // resume these calls
	Interrupt               // end these calls without running them
	Withdraw                // leave these pending calls as they were
)

// A Plan is what to do next.
type Plan struct {
	Do    Action
	Calls []int
	Why   string // of Interrupt, for the model
}

// Next returns what to do.
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
	return Plan{Do: Rest}
}

// Parallel reports whether calls run together whatever they do.
func (b *Batch) Parallel() bool { return b.Strategy == call.Parallel }

// Alone reports whether a call runs alone. Its neighbours may run with it in a batch of the strategy AUTO when they are safe.
func (b *Batch) Alone(safe bool) bool {
	return b.Strategy == call.Sequential || b.Strategy == call.Auto && !safe
}

// interrupted returns the calls that do not run because of another call: those behind a Block, and with fail_fast all. Calls that run or
// that were declined are not among them.
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

// launched returns the calls whose pipelines run to their end now: those that were cancelled, and pending ones that may execute.
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

// resumed returns the decided calls that resume now. Unless the batch is PARALLEL they run as its strategy says: alone, or with safe
// neighbours.
func (b *Batch) resumed() (calls []int) {
	waits := b.Replay == call.AllDecided && (b.count(Asking, Halting, Running) > 0 || b.mayBegin())
	if waits || !b.Parallel() && b.count(Running, Stuck) > 0 {
		return nil
	}
	// With fail_fast a declined call ends the others, so none of them resumes before.
	declines := b.FailFast && len(b.which(func(c *Call) bool { return c.Declined })) > 0
	capacity := b.capacity()
	for i := range b.Calls {
		c := &b.Calls[i]
		if c.State != Decided || declines && !c.Declined {
			continue
		}
		safe := b.Strategy == call.Auto && c.Safe
		if !b.Parallel() && len(calls) > 0 && !safe || len(calls) >= capacity {
			break
		}
		if calls = append(calls, i); !b.Parallel() && !safe {
			break
		}
	}
	return calls
}

// mayBegin reports whether new calls may begin.
func (b *Batch) mayBegin() bool {
	switch {
	case b.count(NotBegun) == 0:
		return false
	case b.Parallel():
		return true
	case b.count(Running, Elsewhere, Stuck) > 0 || b.count(Decided) > 0 && b.Replay == call.Immediate:
		return false
	}
	// The calls of a SEQUENTIAL batch may need each other: a question of a tool, open or decided, stops those behind it.
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
