package tool

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// A Tool is something that a model can call.
//
// Execute is called concurrently. ctx ends when the call is cancelled or its time is over, and [context.Cause] gives the reason. When
// Execute has not returned 5 s later (the grace period), the engine abandons it and drops its result.
type Tool interface {
	Descriptor() Descriptor
	Execute(ctx context.Context, call *Call) (*Result, error)
}

// A Validator checks what JSON Schema cannot express. Validate must be pure. It is called after the arguments were validated against the
// schema. The engine keeps the code of an [*Error]; every other error counts as [InvalidArguments].
type Validator interface {
	Validate(args Arguments) error
}

// An Assessor returns the effects of a call with these arguments. Assess must be pure, except that it may look up what a name in the
// arguments refers to, such as the target of a symbolic link. For a call with resources the engine therefore calls Assess again when it is
// the call's turn. When Assess panics, names invalid resources, or returns effects that are milder than [Descriptor.MildestEffects], the
// effects of the descriptor apply.
type Assessor interface {
	Assess(args Arguments) Effects
}

// A Describer describes for a person what a call would do. Describe may read data (files, an index) for up to 200 ms and must not change
// anything. The engine fills in the fields that Describe leaves empty. After an error, a panic or the time limit, the engine uses a
// description with Degraded set.
type Describer interface {
	Describe(ctx context.Context, call *Call) (Description, error)
}

// A Prompt is a tool whose Validate and Describe only compute: they read no data and never block. The engine calls them in the goroutine of
// the call and without a time limit, which is cheaper.
type Prompt interface {
	Prompt()
}

// A Claimer is a tool whose descriptor contains settings of the operator. Claimed returns the descriptor as the source sent it, without
// these settings. Only this descriptor is compared with the trusted definition, so the operator's own changes need no new trust.
type Claimer interface {
	Claimed() Descriptor
}

// An Abandoner is notified when a suspended call will not be resumed, or when its [Operation] is no longer needed.
type Abandoner interface {
	Abandon(ctx context.Context, call *Call)
}

// A Stopper is a tool that makes calls itself. When a call of the tool ends without success, the engine calls Stop, which ends the calls
// that the tool made. The engine calls Stop with the last checkpoint, before it stores the outcome, and calls it again if the daemon
// crashes in between. Stop returns when these calls have ended, or soon after ctx is done. unseen contains the ids of calls whose end is
// not confirmed; they become part of the result.
type Stopper interface {
	Stop(ctx context.Context, call *Call) (unseen []string)
}

// A Reconciler determines the outcome of an attempt that a crash interrupted. Reconcile returns one of these:
//   - the attempt's result, which becomes the result of the call
//   - [ErrNotRun] when the attempt changed nothing; the call then runs again
//   - nil and no error when the outcome is unknown; any other error, or no answer within 30 s, means the same
//
// Reconcile must change nothing, because it is called again after another crash. It gets the call of the interrupted attempt with the last
// checkpoint. This call has no reporter.
type Reconciler interface {
	Reconcile(ctx context.Context, call *Call) (*Result, error)
}

// A Continuer is a tool whose attempts run in another program and may outlive the daemon.
type Continuer interface {
	// Expect prepares for an attempt that an earlier daemon began and that may still run. It returns at once.
	Expect(call *Call) Expected
	// Continue waits for an expected attempt whose program has reconnected, and returns its result as Execute does. It does not start the
	// attempt again.
	Continue(ctx context.Context, call *Call) (*Result, error)
}

// Expected is an attempt that may still run.
type Expected struct {
	Back   <-chan struct{} // closed when the program that runs the attempt has reconnected; the engine then calls [Continuer.Continue]
	Within time.Duration   // how long the program may stay disconnected
	Forget func()          // called instead of Continue when the result of the attempt is no longer needed
}

// A Settler is notified when the journal has the outcome of an attempt.
type Settler interface {
	Settled(namespace, id string, attempt int)
}

// ErrNotRun means that an attempt changed nothing. A [Reconciler] returns it. A tool returns it, or an error that wraps it, when its work
// did not begin.
var ErrNotRun = errors.New("the attempt changed nothing")

// ErrLost means that the outcome of an attempt is unknown, for example because another program did the work and the connection to it is
// lost. The engine handles the call as after a crash. It runs the call again when that is safe. Otherwise it asks the tool ([Reconciler]),
// or the call is in doubt ([OnDoubt]).
var ErrLost = errors.New("the end of the attempt was not observed")

// Func returns a tool that runs fn.
func Func(d Descriptor, fn func(ctx context.Context, call *Call) (*Result, error)) Tool {
	return funcTool{d, fn}
}

type funcTool struct {
	descriptor Descriptor
	run        func(ctx context.Context, call *Call) (*Result, error)
}

func (t funcTool) Descriptor() Descriptor { return t.descriptor }

func (t funcTool) Execute(ctx context.Context, call *Call) (*Result, error) { return t.run(ctx, call) }

// name matches the names that OpenAI, Anthropic, Gemini and MCP clients all accept.
var name = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)

// ValidName returns nil when id is a valid name of a tool. Models use the same name as toold. Names are compared byte by byte.
func ValidName(id string) error {
	if name.MatchString(id) {
		return nil
	}
	return fmt.Errorf("tool id %q: want 1 to 64 of the characters a-z, A-Z, 0-9, _ and -, not starting with a digit or -", id)
}
