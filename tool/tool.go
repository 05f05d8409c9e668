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
// Execute is called concurrently. ctx ends when the call is cancelled or out of time, and [context.Cause] gives the reason. A tool that
// still runs after the grace period (5 s) is abandoned, and its result is dropped.
type Tool interface {
	Descriptor() Descriptor
	Execute(ctx context.Context, call *Call) (*Result, error)
}

// A Validator checks what JSON Schema cannot express. It must be pure. It is called after the arguments were validated against the schema.
// An [*Error] keeps its code; every other error counts as [InvalidArguments].
type Validator interface {
	Validate(args Arguments) error
}

// An Assessor returns the effects of a call with these arguments. It must be pure. The descriptor's effects apply instead when it panics or
// returns effects that are milder than [Descriptor.MildestEffects].
type Assessor interface {
	Assess(args Arguments) Effects
}

// A Describer shows a person what a call would do. It may read data (files, an index) for up to 200 ms and must not change anything. The
// engine fills in the empty fields. An error, a panic or a late answer gives a degraded description.
type Describer interface {
	Describe(ctx context.Context, call *Call) (Description, error)
}

// A Prompt tool's Validate and Describe only compute: they read nothing and never block. The engine calls them in the goroutine of the
// call, which is cheaper, without a limit of time.
type Prompt interface {
	Prompt()
}

// A Claimer has a descriptor that contains settings of the operator. Claimed returns the descriptor of the source alone. Only that is
// compared with the trusted definition, so the operator's own changes need no consent.
type Claimer interface {
	Claimed() Descriptor
}

// An Abandoner is notified when a suspended call will not be resumed, or when its [Operation] is no longer needed.
type Abandoner interface {
	Abandon(ctx context.Context, call *Call)
}

// A Stopper is a tool that makes calls itself. When one of its calls ends without success, the engine calls Stop to end the calls it made.
// Stop is called with the last checkpoint before the outcome is stored. It is called again if the daemon crashes in between. It returns
// when the calls have ended, or soon after ctx is done. unseen holds the ids of calls without a confirmed end, for the call's result.
type Stopper interface {
	Stop(ctx context.Context, call *Call) (unseen []string)
}

// A Reconciler determines the outcome of an attempt that a crash interrupted. Reconcile returns one of these:
//   - the attempt's result, which becomes the result of the call
//   - [ErrNotRun] when the attempt changed nothing; the call then runs again
//   - nil and no error when the outcome is unknown; any other error, and an answer after 30 s, count as this
//
// Reconcile must change nothing. After another crash it is called again. The call is that of the attempt, with its last checkpoint, and
// cannot report.
type Reconciler interface {
	Reconcile(ctx context.Context, call *Call) (*Result, error)
}

// A Continuer is a tool whose attempts run in another program and may outlive the daemon.
type Continuer interface {
	// Expect prepares for an attempt that an earlier daemon began and that may still run. It returns at once.
	Expect(call *Call) Expected
	// Continue does the same as Execute for an expected attempt whose program has reconnected. The attempt does not start again.
	Continue(ctx context.Context, call *Call) (*Result, error)
}

// Expected is an attempt that may still run.
type Expected struct {
	Back   <-chan struct{} // closed when the program with the attempt has reconnected; a call of [Continuer.Continue] follows soon
	Within time.Duration   // how long the program may stay disconnected
	Forget func()          // called instead of Continue when the attempt no longer counts
}

// A Settler is notified when the journal has the outcome of an attempt.
type Settler interface {
	Settled(namespace, id string, attempt int)
}

// ErrNotRun means that an attempt changed nothing. A [Reconciler] returns it. A tool returns it, or an error that wraps it, when it never
// began.
var ErrNotRun = errors.New("the attempt changed nothing")

// ErrLost means that the outcome of an attempt is unknown, for example because another program did the work and is gone. The engine handles
// the call as after a crash. It runs the call again when that is safe. Otherwise it asks the tool ([Reconciler]) or treats the call as in
// doubt.
var ErrLost = errors.New("nobody saw the end of the attempt")

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

// ValidName returns nil when id is a valid name of a tool. Models and toold use the same name, and it is compared byte by byte.
func ValidName(id string) error {
	if name.MatchString(id) {
		return nil
	}
	return fmt.Errorf("tool id %q: want 1 to 64 of a-z, A-Z, 0-9, _ and -, not starting with a digit or -", id)
}
