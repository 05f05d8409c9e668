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

// A pipeline is one pipeline run of a call: from its start, or from a decision, to a conclusion.
type pipeline struct {
	l      *activeCall
	hooks  *hooks.Set
	def    *Definition
	stages []stage            // remaining stages
	early  outcome.Conclusion // conclusion from another goroutine

	arguments call.Parsed  // as requested; on resume as stored or as in the decision
	basis     gating.Basis // basis with the effective arguments, which all later stages use
	resume    *tool.ResumeInput
	in        *hook.Input
	unread    *hook.Input // the input before the arguments were parsed, when no hook holds it
	documents *documents.Snapshot

	fresh     bool // the call begins
	rewritten bool // the arguments are the effective ones, after the Rewrite hooks
	ahead     bool // continues in the goroutine of its caller
	tentative bool // if a gate intercepts the call, earlier calls run first
	outlived  bool // the attempt began before the daemon started

	capacity   capacity
	group      string // calls of a group run together; the Before hooks of all run before its tool
	attempt    int
	owner      atomic.Int32 // owner of the attempt: its goroutine until the tool has returned, or the goroutine that abandoned it
	process    *tool.ProcessReport
	found      findings
	commands   []tool.Command // document commands of Before hooks, stored with the call
	suppressed []call.Event   // events that filters released for a question that was not stored
	room
}

// capacity holds the resources of a pipeline run from before its tool runs until it ends: the turn in the thread, a slot, the circuit of
// its source, and the admissions of Admit hooks.
type capacity struct {
	p           *pipeline
	queued      time.Time // start of the wait; zero when the call did not wait
	slot        limit.Slot
	visit       limit.Visit // visit of the source
	leaveThread func()      // ends the turn in the thread; nil without one
	releases    []func()    // release functions of Admit hooks
}

// room is preallocated memory that most pipeline runs need once.
type room struct {
	one     [1]call.Event      // event of the current step
	success outcome.Terminal   // outcome of a tool that succeeded
	seen    documents.Snapshot // first value of pipeline.documents
}

// start counts a pipeline run for a drain, and returns its context, derived from base. The caller then calls run.
func (l *activeCall) start(base context.Context) context.Context {
	l.e.drain.Enter()
	return l.started(base)
}

// started is like start, for a pipeline run that is counted already.
func (l *activeCall) started(base context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(base)
	l.mu.Lock()
	l.cancel, l.ctx = cancel, ctx
	wish := l.c.Cancel
	l.mu.Unlock()
	l.retain()
	if wish != nil { // The cancel request was stored after the decision and before this start.
		cancel(outcome.Wished(wish))
	}
	if l.e.drain.Stopped() {
		cancel(outcome.Drained)
	}
	return ctx
}

// endPipeline ends the context of a pipeline run. The next pipeline run may have begun already, because a call can be decided as soon as
// its question is published.
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

// run executes the stages of a call and stores the conclusion.
func (p *pipeline) run(ctx context.Context) {
	l := p.l
	returned := false
	defer func() {
		if returned {
			l.release()
			return
		}
		go func() { // After runtime.Goexit this goroutine cannot continue.
			defer l.release()
			p.conclude(ctx, p.deserted())
		}()
	}()
	out := p.guarded(ctx)
	returned = true
	p.conclude(ctx, out)
}

// deserted returns the conclusion of a pipeline run whose goroutine was ended by a tool or a hook. It is handled like a panic.
func (p *pipeline) deserted() outcome.Conclusion {
	if !p.owner.CompareAndSwap(attemptRuns, attemptReturned) && p.owner.Load() == attemptAbandoned {
		return nil
	}
	executed := call.NotStarted
	if began(p.l.record()) {
		executed = call.Started
	}
	return p.panicked(errors.New("the goroutine of the call was ended"), executed)
}

// conclude ends a pipeline run: it releases its resources and stores the conclusion. A nil conclusion means that the attempt was abandoned;
// the goroutine that abandoned it ends the pipeline run.
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
		s = l.lose(store.ErrFatal) // The content of the journal is unknown; recovery decides.
	} else {
		s = p.carryOut(ctx, out)
	}
	if s.is == committed {
		p.settled()
	}
	if p.capacity.leaveThread != nil { // Now the next call of the thread sees the effects of this one.
		p.capacity.leaveThread()
	}
	if s.is == committed && out == (outcome.Lost{}) {
		takeUpLost(ctx, l)
	}
	l.endPipeline(ctx)
	l.e.trace.End(ctx, l.record, rounds)
	l.e.output.Spool.Release(l.key)
}

// carryOut stores a conclusion.
func (p *pipeline) carryOut(ctx context.Context, c outcome.Conclusion) settlement {
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

// A stage is a step of a pipeline run. It returns nil when the call continues.
type stage struct {
	name string
	run  func(*pipeline, context.Context) outcome.Conclusion
}

// newPath returns the stages of a call in order. The tool runs after them.
func newPath() []stage {
	return []stage{
		{stageValidate, (*pipeline).validate},
		{stageRewrite, (*pipeline).rewrite},
		{"assess", (*pipeline).assess},
		{"isolate", (*pipeline).isolate},
		{"secrets", (*pipeline).secrets},
		{stageGate, (*pipeline).gate},
		{stageQueue, func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.queue(ctx) }}, // The stages before this one do not wait.
		{"admit", func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.admit(ctx) }},
		{"before", (*pipeline).before},
		{"intent", (*pipeline).intent},
	}
}

// newGroupPath returns the stages after the gates for calls that run together. They wait for slots only after the Before hooks of all
// calls. Otherwise calls with a slot would wait for calls without one.
func newGroupPath() []stage {
	return []stage{
		{"admit", func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.admit(ctx) }},
		{"before", (*pipeline).before},
		{stageQueue, func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.queue(ctx) }},
		{"intent", (*pipeline).intent},
	}
}

// The names of stages at which a pipeline run can pause, and of the end.
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

// lookupPipeline returns a pipeline run for ending a stored call, with the input for its hooks.
func lookupPipeline(l *activeCall) *pipeline {
	c := l.record()
	p := newPipeline(l)
	p.arguments = call.Parse(c.Effective)
	if def, ok := l.e.catalog.lookup(c); ok {
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

// guarded runs the stages and recovers panics: a bug in the engine or a hook ends the call and not the daemon.
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

// walk runs the stages before the stage named to.
func (p *pipeline) walk(ctx context.Context, to string) outcome.Conclusion {
	for ; len(p.stages) > 0 && p.stages[0].name != to; p.stages = p.stages[1:] {
		stage := &p.stages[0]
		if stage.name != stageValidate { // A stopped call is still validated, so that After hooks see its arguments.
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

// check runs the stages up to the stage named to. It runs all stages when the call is ahead and need not wait. A new call does this in the
// goroutine of its caller, whose stack is large enough already. Validation on a new stack costs twice as much, and all events so far fit
// into one frame.
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
			out = p.deserted() // The result does not reach the caller.
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

// startsAtOnce reports whether an allowed call need not wait.
func (p *pipeline) startsAtOnce() bool {
	return !p.capacity.ownTurn() && p.basis.Unwritten && !p.l.e.hold.Holds(p.l.record()) && p.capacity.takeSlot()
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
			p.l.e.log.Warn("a tool was called that is not there", zap.String("call_id", c.ID), zap.String("why", why))
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

// findings holds the fields of the record that a pipeline run determines. Each step of the pipeline run writes them; writing each field
// separately would copy the record each time.
type findings struct {
	rewritten, assessed, gated bool

	effective string
	rewriters []string

	assessment  tool.Effects
	description tool.Description
	digest      string
	isolation   call.Isolation

	verdicts []call.GateVerdict
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
}

// event returns a slice with only e, without an allocation.
func (p *pipeline) event(e call.Event) []call.Event {
	p.one[0] = e
	return p.one[:]
}
