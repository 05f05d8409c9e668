package lifecycle

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/limit"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A pipeline is one pipeline run of a call. It begins with the call or with a decision, and ends with a conclusion.
type pipeline struct {
	l      *activeCall
	hooks  *hooks.Set
	def    *Definition
	stages []stage            // stages that have not run yet
	early  outcome.Conclusion // conclusion that was determined before the call of run

	arguments call.Parsed  // the requested arguments; on resume, the stored ones or those of the decision
	basis     gating.Basis // basis of the effective arguments, for all later stages
	resume    *tool.ResumeInput
	in        *hook.Input
	unread    *hook.Input // the input for hooks before the arguments were parsed; nil when a hook may hold it
	documents *documents.Snapshot

	fresh     bool // this is the first pipeline run of the call
	rewritten bool // the arguments are final: the Rewrite hooks have run
	ahead     bool // the goroutine of the request runs all stages if the call need not wait
	tentative bool // if a gate intercepts the call, the pipeline run ends as Postponed, because earlier calls must run first
	outlived  bool // the attempt began under the previous daemon

	capacity   capacity
	group      string // group of calls that run together: the Before hooks of all calls run before the first tool
	attempt    int
	owner      atomic.Int32 // which goroutine ends the attempt: the goroutine of the tool after the tool has returned, or the goroutine that abandoned the attempt
	process    *tool.ProcessReport
	found      findings
	commands   []tool.Command // document commands of Before hooks, stored with the call
	suppressed []call.Event   // events that filters held back and then released with a question. The question was not stored, so they are published when the call ends
	preallocated
}

// capacity holds the resources that a pipeline run acquires before its tool starts and releases at its end: the turn in the thread, a slot,
// the visit of the source, and the admissions of Admit hooks.
type capacity struct {
	p           *pipeline
	queued      time.Time // when the wait began; zero when the call did not wait
	slot        limit.Slot
	visit       limit.Visit // visit of the call's source
	leaveThread func()      // ends the turn in the thread; nil when the call has no turn
	releases    []func()    // release functions of Admit hooks
}

// preallocated is memory for values that most pipeline runs need once. It is part of the pipeline, to save allocations.
type preallocated struct {
	one     [1]call.Event      // for the event of the current step
	success outcome.Terminal   // for the outcome of a tool that succeeded
	seen    documents.Snapshot // for the first value of pipeline.documents
}

// start counts a pipeline run, so that a drain waits for it. It returns the context of the pipeline run, derived from base. The caller must
// then end the pipeline run, for example with run.
func (l *activeCall) start(base context.Context) context.Context {
	l.e.drain.Enter()
	return l.started(base)
}

// started is like start, for a pipeline run that was counted before.
func (l *activeCall) started(base context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(base)
	l.mu.Lock()
	l.cancel, l.ctx = cancel, ctx
	wish := l.c.Cancel
	l.mu.Unlock()
	l.retain()
	if wish != nil { // The cancel request was stored after the decision, but before this start.
		cancel(outcome.CancelRequested(wish))
	}
	if l.e.drain.Stopped() {
		cancel(outcome.Drained)
	}
	return ctx
}

// endPipeline cancels the context of a pipeline run. It leaves the fields of the call unchanged when the next pipeline run has begun: a
// call can be decided as soon as its question is published.
func (l *activeCall) endPipeline(ctx context.Context) {
	l.mu.Lock()
	if l.ctx == ctx {
		l.cancel(nil)
		l.cancel, l.attempt = nil, nil
	}
	c := l.c
	l.mu.Unlock()
	if c.BatchID != "" {
		l.e.batches.Wake(call.Key{Namespace: c.Namespace, ID: c.BatchID})
	}
}

// run executes the stages and the tool of a call, and stores the conclusion.
func (p *pipeline) run(ctx context.Context) {
	l := p.l
	returned := false
	defer func() {
		if returned {
			l.release()
			return
		}
		go func() { // Another goroutine must conclude, because this goroutine cannot continue after runtime.Goexit.
			defer l.release()
			p.conclude(ctx, p.goroutineEnded())
		}()
	}()
	out := p.guarded(ctx)
	returned = true
	p.conclude(ctx, out)
}

// goroutineEnded returns the conclusion of a pipeline run in which a tool or a hook called runtime.Goexit. It is handled like a panic.
func (p *pipeline) goroutineEnded() outcome.Conclusion {
	if !p.owner.CompareAndSwap(attemptRuns, attemptReturned) && p.owner.Load() == attemptAbandoned {
		return nil
	}
	executed := call.NotStarted
	if began(p.l.record()) {
		executed = call.Started
	}
	return p.panicked(errors.New("the goroutine of the call was ended"), executed)
}

// conclude ends a pipeline run: it stores the conclusion and releases the resources. A nil conclusion means that the attempt was abandoned.
// In that case the goroutine that abandoned it ends the pipeline run.
func (p *pipeline) conclude(ctx context.Context, out outcome.Conclusion) {
	l := p.l
	if out == nil {
		return
	}
	defer l.e.drain.Leave()
	rounds := l.e.trace.Rounds(l.record)
	p.capacity.slot.Return()
	p.capacity.leaveSource(out)
	for _, release := range p.capacity.releases {
		p.capacity.giveBack(release)
	}
	var s settlement
	if errors.Is(context.Cause(ctx), errJournal) {
		s = l.lose(store.ErrFatal) // It is unknown what the journal contains. The next daemon recovers the call.
	} else {
		s = p.storeConclusion(ctx, out)
	}
	if s.is == committed {
		p.settled()
	}
	if p.capacity.leaveThread != nil { // Leave the thread only now, so that the next call of the thread sees the effects of this call.
		p.capacity.leaveThread()
	}
	if s.is == committed && out == (outcome.Lost{}) {
		recoverLost(ctx, l)
	}
	l.endPipeline(ctx)
	l.e.trace.End(ctx, l.record, rounds)
	l.e.output.Spool.Release(l.key)
}

func (p *pipeline) storeConclusion(ctx context.Context, c outcome.Conclusion) settlement {
	switch c := c.(type) {
	case *outcome.Terminal:
		return p.finish(ctx, c)
	case *outcome.Question:
		return p.suspend(ctx, c)
	case *outcome.Continued:
		return p.park(ctx, c)
	case outcome.Unaccepted:
		return p.refuse(ctx, c.Err, false)
	}
	return settlement{} // outcome.Lost and outcome.Postponed: the record of the call does not change
}

// A stage is a step of a pipeline run. It returns a conclusion, or nil when the pipeline run continues.
type stage struct {
	name string
	run  func(*pipeline, context.Context) outcome.Conclusion
}

// newPath returns the stages of a call in their order. The tool runs after the last stage.
func newPath() []stage {
	return []stage{
		{stageValidate, (*pipeline).validate},
		{stageRewrite, (*pipeline).rewrite},
		{"assess", (*pipeline).assess},
		{"isolate", (*pipeline).isolate},
		{"secrets", (*pipeline).secrets},
		{stageGate, (*pipeline).gate},
		{stageQueue, func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.queue(ctx) }}, // The stages before the queue do not wait for capacity.
		{"admit", func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.admit(ctx) }},
		{"before", (*pipeline).before},
		{"intent", (*pipeline).intent},
	}
}

// newGroupPath returns the stages after the gates, for calls that run together. The calls wait for slots only after the Before hooks of all
// calls have run. Otherwise a call with a slot would wait for a call without one.
func newGroupPath() []stage {
	return []stage{
		{"admit", func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.admit(ctx) }},
		{"before", (*pipeline).before},
		{stageQueue, func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.queue(ctx) }},
		{"intent", (*pipeline).intent},
	}
}

// newInsteadPath returns the stages of a call to which a person gave a result in the tool's place: the gates decide again, but nothing runs.
func newInsteadPath() []stage {
	return []stage{
		{stageValidate, (*pipeline).validate},
		{"assess", (*pipeline).assess},
		{stageGate, (*pipeline).gate},
		{"answer", func(p *pipeline, _ context.Context) outcome.Conclusion {
			return outcome.AnsweredInstead(gating.Instead(p.l.peek()).Decision)
		}},
	}
}

// Names of the stages at which a pipeline run can pause, and of its end.
const (
	stageValidate = "validate"
	stageRewrite  = "rewrite"
	stageGate     = "gate"
	stageQueue    = "queue"
	allStages     = ""
)

// newPipeline returns a pipeline run at the first stage.
func newPipeline(l *activeCall) *pipeline {
	p := &pipeline{l: l, hooks: l.e.hooks.Load(), stages: l.e.path}
	p.capacity.p = p
	return p
}

// lookupPipeline returns a pipeline run of a stored call. If the tool exists, the pipeline run has the stored arguments and the input for
// hooks.
func lookupPipeline(l *activeCall) *pipeline {
	c := l.record()
	p := newPipeline(l)
	p.arguments, p.found.hookRuns = call.Parse(c.Effective), c.HookRuns
	if def, ok := l.e.catalog.Lookup(c); ok {
		p.def = def
		args, _ := p.arguments.Arguments(p.def.Descriptor.MaxArguments)
		p.freeze(args)
		p.makeInput()
		in := *p.in
		in.Assessment, in.Description = c.Assessment, c.Description
		p.in = &in
	}
	return p
}

// guarded runs the stages and recovers panics, so that a bug in the engine or a hook ends the call and not the daemon.
func (p *pipeline) guarded(ctx context.Context) (out outcome.Conclusion) {
	defer func() {
		if r := recover(); r != nil {
			out = p.panicked(r, call.NotStarted)
		}
	}()
	if p.outlived {
		return p.execute(ctx)
	}
	if p.early != nil {
		if out := p.stopped(ctx); out != nil {
			return out
		}
		return p.early
	}
	if out := p.walk(ctx, allStages); out != nil {
		return out
	}
	return p.execute(ctx)
}

// walk runs the stages up to, but not including, the stage named to.
func (p *pipeline) walk(ctx context.Context, to string) outcome.Conclusion {
	for ; len(p.stages) > 0 && p.stages[0].name != to; p.stages = p.stages[1:] {
		stage := &p.stages[0]
		if stage.name != stageValidate { // A stopped call is still validated, because After hooks must see its arguments.
			if out := p.stopped(ctx); out != nil {
				return out
			}
		}
		if out := stage.run(p, ctx); out != nil {
			if stopped := p.stopped(ctx); stopped != nil {
				return stopped
			}
			return out
		}
	}
	return nil
}

// check runs the stages before the stage named to. If the field ahead is set and the call need not wait, check runs all stages. For a new
// call, the goroutine of the request runs check, because its stack has already grown: validation on a new stack takes twice as long. All
// events that check publishes fit into one frame.
func (p *pipeline) check(ctx context.Context, to string) (out outcome.Conclusion) {
	returned := false
	defer func() {
		p.ahead = false
		if returned {
			return
		}
		if r := recover(); r != nil {
			out = p.panicked(r, call.NotStarted)
		} else {
			out = p.goroutineEnded() // The caller does not get this value, because the goroutine ends.
		}
		p.early = out
	}()
	out = p.walk(ctx, to)
	if out == nil && p.ahead && p.startsAtOnce() {
		out = p.walk(ctx, allStages)
	}
	returned = true
	return out
}

// startsAtOnce reports whether the call can run without waiting. If so, the call has a slot.
func (p *pipeline) startsAtOnce() bool {
	return !p.capacity.ownTurn() && p.basis.Unwritten && !p.l.e.hold.Holds(p.l.peek()) && p.capacity.takeSlot()
}

// validate returns an outcome if the tool does not exist for the caller, or if the arguments are invalid.
func (p *pipeline) validate(ctx context.Context) outcome.Conclusion {
	if p.def != nil {
		return p.parse(ctx)
	}
	c := p.l.record()
	why := ""
	if absent := p.l.e.cfg.Absent; absent != nil {
		if why = absent(c.Caller, c.Tool); why != "" {
			p.l.e.log.Warn("a call named a tool that does not exist", zap.String("call_id", c.ID), zap.String("why", why))
		}
	}
	return outcome.NoTool(c.Tool, why)
}

// stopped returns the outcome of a call that was stopped before its tool started. It returns nil when ctx is not done.
func (p *pipeline) stopped(ctx context.Context) outcome.Conclusion {
	if ctx.Err() == nil {
		return nil
	}
	return outcome.StoppedBy(context.Cause(ctx), begun(p.l.record()))
}

// findings holds the record fields that a pipeline run determines. Each step of the pipeline run writes all of them. Writing each field
// when it is determined would copy the record each time.
type findings struct {
	rewritten, assessed, gated bool

	effective string
	rewriters []string

	assessment  tool.Effects
	description tool.Description
	digest      string
	isolation   call.Isolation

	verdicts []call.GateVerdict
	hookRuns []call.HookRun // begins with the runs of the record
}

func (f *findings) write(c *call.Call) {
	if f.rewritten {
		c.Effective, c.Rewriters = f.effective, f.rewriters
	}
	if f.assessed {
		c.Assessment, c.Description = f.assessment, f.description
		c.ToolDigest, c.Isolation = f.digest, f.isolation
	}
	if f.gated {
		c.Verdicts = f.verdicts
	}
	if len(f.hookRuns) > 0 {
		c.HookRuns = f.hookRuns
	}
}

// event returns a slice that contains only e. It uses preallocated memory.
func (p *pipeline) event(e call.Event) []call.Event {
	p.one[0] = e
	return p.one[:]
}
