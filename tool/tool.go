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
// Execute is called concurrently. ctx ends when the call is cancelled or out of time and [context.Cause] says why; a
// tool that still runs after the grace period (5 s) is abandoned and its result is dropped.
type Tool interface {
	Descriptor() Descriptor
	Execute(ctx context.Context, call *Call) (*Result, error)
}

// A Validator checks what JSON Schema cannot say. It is pure and is asked after the schema was met. An [*Error] keeps
// its kind; every other error counts as [InvalidArguments].
type Validator interface {
	Validate(args Arguments) error
}

// An Assessor says what a call with these arguments would do. It is pure. An answer milder than
// [Descriptor.MildestEffects], and a panic, count as the descriptor's effects.
type Assessor interface {
	Assess(args Arguments) Effects
}

// A Describer shows a person what a call would do. It may read (files, an index) within 200 ms and must not change
// anything. The engine fills what it leaves empty; an error, a panic or a late answer gives a degraded description.
type Describer interface {
	Describe(ctx context.Context, call *Call) (Description, error)
}

// A Prompt tool's Validate and Describe only compute: they read nothing and wait for nobody. The engine asks them in the
// goroutine of the call, which is cheaper, and nothing bounds their time.
type Prompt interface {
	Prompt()
}

// A Claimer has a descriptor in which the operator has a say too. What its source alone says of it is held against what was
// trusted: the operator's own change needs nobody's consent.
type Claimer interface {
	Claimed() Descriptor
}

// An Abandoner is told that a call which it suspended will not be resumed, or that its [Operation] is not needed any more.
type Abandoner interface {
	Abandon(ctx context.Context, call *Call)
}

// A Stopper makes calls of its own, and ends them when a call of it ends without having succeeded, whatever its tool did. Stop comes
// before that end is stored, with the call's last checkpoint, and after a crash between the two once more; it returns when they have
// ended, or soon after ctx is done, with the ids of those whose end nobody saw: the call's result names them.
type Stopper interface {
	Stop(ctx context.Context, call *Call) (unseen []string)
}

// A Reconciler is asked after a crash what became of an attempt whose end nobody saw. It returns the attempt's result,
// which becomes the call's; [ErrNotRun] when the attempt changed nothing, and the call runs again; or nil and no error when
// it does not know, as any other error and an answer after 30 s count. It looks and changes nothing: a crash of its own
// makes it be asked again. The call is as the attempt had it, with its last checkpoint, and cannot report.
type Reconciler interface {
	Reconcile(ctx context.Context, call *Call) (*Result, error)
}

// A Continuer is a tool whose attempts run in another program and may outlive the daemon.
type Continuer interface {
	// Expect prepares for an attempt that an earlier daemon began and that may run still. It returns at once.
	Expect(call *Call) Expected
	// Continue is Execute for an expected attempt whose program has come back: the attempt does not begin anew.
	Continue(ctx context.Context, call *Call) (*Result, error)
}

// Expected is an attempt that may run still.
type Expected struct {
	Back   <-chan struct{} // closed when the program that runs the attempt has come back; [Continuer.Continue] follows soon
	Within time.Duration   // how long the program may stay away
	Forget func()          // the attempt does not count any more; called instead of Continue
}

// A Settler is a tool that learns when the journal has the outcome of an attempt.
type Settler interface {
	Settled(namespace, id string, attempt int)
}

// ErrNotRun is what a [Reconciler] answers of an attempt that changed nothing, and what a tool returns, or wraps, that never
// began.
var ErrNotRun = errors.New("the attempt changed nothing")

// ErrLost is what a tool returns that did not see how its attempt ended, such as one whose work another program did that is
// gone. The call is taken up as after a crash: it runs again when that is safe, else the tool is asked ([Reconciler]), else it is
// in doubt.
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

// The names that OpenAI, Anthropic, Gemini and MCP clients all accept.
var name = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)

// ValidName returns nil when id may name a tool: it is compared byte by byte and is the same for models and for toold.
func ValidName(id string) error {
	if name.MatchString(id) {
		return nil
	}
	return fmt.Errorf("tool id %q: want 1 to 64 of a-z, A-Z, 0-9, _ and -, not starting with a digit or -", id)
}
