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
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A pipeline is one run of a call along the path: from its start, or from a decision, to a conclusion.
type pipeline struct {
	l      *activeCall
	hooks  *hooks.Set
	def    *Definition
	stages []stage            // that are before it
	early  outcome.Conclusion // from a goroutine that is not its own

	arguments call.Parsed  // as requested; on resume as stored or as the decision brought
	basis     gating.Basis // of the effective arguments: from here on only these count
	resume    *tool.ResumeInput
	in        *hook.Input
	unread    *hook.Input // the same before the arguments were read, when no hook holds it
	documents *documents.Snapshot

	fresh     bool // of a call that begins
	rewritten bool // the arguments are effective ones: Rewrite hooks have seen them
	ahead     bool // it continues in the goroutine of its caller
	tentative bool // calls before it run first if a gate intercepts it
	outlived  bool // its attempt began before the daemon started

	capacity   capacity
	group      string // of calls that run together: the Before hooks of all come before its tool
	attempt    int
	owner      atomic.Int32 // of the attempt: its goroutine until it returned, or the one that abandoned it
	process    *tool.ProcessReport
	found      findings
	commands   []tool.Command // of Before hooks, which commit with the call
	suppressed []call.Event   // what filters let go for a question that was not stored
	room
}

// capacity is what a pipeline run waits for before its tool runs, and holds until it ends: its turn in the thread, a slot, the circuit
// of its source, and what Admit hooks gave it.
type capacity struct {
	p           *pipeline
	queued      time.Time // since when it waits; zero: it did not have to
	slot        limit.Slot
	visit       limit.Visit // of its source
	leaveThread func()      // ends its turn in its thread; nil: it has none
	releases    []func()    // of Admit hooks
}

// room is memory for what most calls need once.
type room struct {
	one     [1]call.Event      // the event of a step, which is not kept
	success outcome.Terminal   // of a tool that succeeded
	seen    documents.Snapshot // what documents is in the beginning
}

// start counts a pipeline run and makes the call's context from what [Engine.follow] returned. The caller calls run.
func (l *activeCall) start(base context.Context) context.Context {
	l.e.drain.Enter()
	return l.started(base)
}

// started is start for a pipeline run that counts already.
func (l *activeCall) started(base context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(base)
	l.mu.Lock()
	l.cancel, l.ctx = cancel, ctx
	wish := l.c.Cancel
	l.mu.Unlock()
	l.retain()
	if wish != nil { // it came between the decision and this start
		cancel(outcome.Wished(wish))
	}
	if l.e.drain.Stopped() {
		cancel(outcome.Drained)
	}
	return ctx
}

// endPipeline ends the context of a pipeline run. The next one may have begun: a call can be decided as soon as its question is published.
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

// run carries a call along the path and stores how that ended.
func (p *pipeline) run(ctx context.Context) {
	l := p.l
	returned := false
	defer func() {
		if returned {
			l.release()
			return
		}
		go func() { // with runtime.Goexit: this goroutine cannot continue
			defer l.release()
			p.conclude(ctx, p.deserted())
		}()
	}()
	out := p.guarded(ctx)
	returned = true
	p.conclude(ctx, out)
}

// deserted is how a pipeline run ends whose goroutine was ended by a tool or a hook. That is no better than a panic.
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

// conclude ends a pipeline run: it gives back what the run holds and stores the conclusion. nil is the conclusion of an attempt that was
// abandoned: the goroutine that abandoned it ends the run.
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
	if errors.Is(context.Cause(ctx), errJournal) {
		l.lose(refusal.OfCall(store.ErrFatal, l.key.ID)) // the content of the journal is unknown: recovery decides
	} else {
		p.carryOut(ctx, out)
	}
	p.settled(ctx)
	if p.capacity.leaveThread != nil { // the next call of the thread finds the effects of this one
		p.capacity.leaveThread()
	}
	if out == (outcome.Lost{}) {
		takeUpLost(ctx, l)
	}
	l.endPipeline(ctx)
	l.e.trace.End(ctx, l.record, rounds)
	l.e.output.Spool.Release(l.key)
}

// carryOut stores a conclusion.
func (p *pipeline) carryOut(ctx context.Context, c outcome.Conclusion) {
	switch c := c.(type) {
	case *outcome.Terminal:
		p.finish(ctx, c)
	case *outcome.Question:
		p.suspend(ctx, c)
	case *outcome.Continued:
		p.park(ctx, c)
	case outcome.Unaccepted:
		p.refuse(ctx, c.Err, false)
	case outcome.Lost, outcome.Postponed: // the call does not change
	}
}

// A stage is a part of the path of a call. It returns nil when the call continues.
type stage struct {
	name string
	run  func(*pipeline, context.Context) outcome.Conclusion
}

// newPath returns the path of a call, from top to bottom. The tool runs behind it.
func newPath() []stage {
	return []stage{
		{stageValidate, (*pipeline).validate},
		{stageRewrite, (*pipeline).rewrite},
		{"assess", (*pipeline).assess},
		{"isolate", (*pipeline).isolate},
		{"secrets", (*pipeline).secrets},
		{stageGate, (*pipeline).gate},
		{stageQueue, func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.queue(ctx) }}, // before it no call waits
		{"admit", func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.admit(ctx) }},
		{"before", (*pipeline).before},
		{"intent", (*pipeline).intent},
	}
}

// newGroupPath returns the path behind the gates of calls that run together. They wait for slots after the Before hooks of all, or the calls
// that have a slot would wait for the calls that have none.
func newGroupPath() []stage {
	return []stage{
		{"admit", func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.admit(ctx) }},
		{"before", (*pipeline).before},
		{stageQueue, func(p *pipeline, ctx context.Context) outcome.Conclusion { return p.capacity.queue(ctx) }},
		{"intent", (*pipeline).intent},
	}
}

// The stages up to which a pipeline run can go alone, and all of them.
const (
	stageValidate = "validate"
	stageRewrite  = "rewrite"
	stageGate     = "gate"
	stageQueue    = "queue"
	allStages     = ""
)

// newPipeline returns a pipeline at the beginning of the path.
func newPipeline(l *activeCall) *pipeline {
	p := &pipeline{l: l, hooks: l.e.hooks.Load(), stages: l.e.path}
	p.capacity.p = p
	return p
}

// lookupPipeline returns a pipeline run for the end of a call that is stored, with what hooks need to see it.
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

// guarded is the path with the last recover: a bug of the engine or of a hook ends the call, not the daemon.
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

// walk takes the stages before the one of that name.
func (p *pipeline) walk(ctx context.Context, to string) outcome.Conclusion {
	for ; len(p.stages) > 0 && p.stages[0].name != to; p.stages = p.stages[1:] {
		stage := &p.stages[0]
		if stage.name != stageValidate { // a stopped call is validated first: After hooks see its arguments
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

// check takes the stages up to the one of that name, and all of them when the call is ahead and has to wait for nothing. A new call does this
// in the goroutine of its caller, whose stack is large enough already: validation on a fresh stack costs twice as much, and the events so far
// go out in one frame.
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
			out = p.deserted() // the result reaches no caller
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

// startsAtOnce reports whether a call that its gates allowed has to wait for nothing.
func (p *pipeline) startsAtOnce() bool {
	return !p.capacity.ownTurn() && p.basis.Unwritten && !p.l.e.hold.Holds(p.l.record()) && p.capacity.takeSlot()
}

// validate ends calls of tools that do not exist for their caller, and calls with wrong arguments.
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

// stopped returns the outcome of a call that was stopped before its tool started; nil when ctx is not done.
func (p *pipeline) stopped(ctx context.Context) outcome.Conclusion {
	if ctx.Err() == nil {
		return nil
	}
	return outcome.StoppedBy(context.Cause(ctx), begun(p.l.record()))
}

// findings is what a pipeline run found out for the record; each of its steps writes it. Writing the record for each thing that
// is found out would copy it as often.
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

// event is a step's only one.
func (p *pipeline) event(e call.Event) []call.Event {
	p.one[0] = e
	return p.one[:]
}
