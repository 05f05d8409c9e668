package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Tool says what a function is. The zero value of each field but the id is the strictest reading: it changes things, and somebody
// agrees to each call.
type Tool struct {
	ID          string // required
	Description string // what the model reads
	DisplayName string
	Category    string
	Guidance    string
	Version     string

	ReadOnly        bool // it changes nothing: it may run again after a crash
	Observe         bool // nobody has to agree
	ConcurrencySafe bool // calls of one thread may run beside each other
	OpenWorld       bool // it reaches things that the operator does not own
	Idempotent      bool // started and unfinished, it may run again with the same idempotency key
	AskOnDoubt      bool // somebody is asked what became of an attempt whose end nobody saw; else the call fails
	Timeout         time.Duration
	Documents       []*tooldv1.WorkerDocument // that its calls get

	// Parameters and Result are JSON Schemas in the place of those of the function's types.
	Parameters, Result json.RawMessage

	// Validate checks what the schema cannot say ([Call.Decode]): an error is what the model reads, and the call does not run. It is asked before a person is
	// asked about the call, and again before the function runs.
	Validate func(ctx context.Context, c *Call) error
	// Assess says what a call with these arguments would do, where that is milder or worse than the tool's own fields say; never milder
	// than Mildest, nil: the same. An error leaves it as they say. Describe shows people what a call would do, within 200 ms. Both change nothing.
	Assess   func(ctx context.Context, c *Call) (*tooldv1.Assessment, error)
	Mildest  *tooldv1.Assessment
	Describe func(ctx context.Context, c *Call) (*tooldv1.Description, error)
	// Reconcile says, after a crash, what became of an attempt: its result; [ErrNotRun], and it runs again; or nil and no error.
	Reconcile func(ctx context.Context, c *Call) (*tooldv1.WorkerResult, error)
	// Poll says how far an operation is ([Continue]): its result, when it has ended; nil when it continues. It may answer with another
	// question or operation, as the function does, and with [Fail]; every other error says that it could not find out.
	Poll func(ctx context.Context, c *Call) (*tooldv1.WorkerResult, error)
	// Abandon is called for a question that will not be answered, and for an operation that is not needed any more ([Call.GetOperationId]).
	Abandon func(ctx context.Context, c *Call)
}

// ErrNotRun is what Reconcile answers of an attempt that changed nothing.
var ErrNotRun = errors.New("the attempt changed nothing")

// Add gives the worker a tool. The parameters are the schema of In, a struct; what the function returns is the data of the result. An
// Out that is a string is the text for the model, too; a *[tooldv1.WorkerResult] is taken as it is. It panics when a type has no
// schema, or the id is taken: wiring is wrong then.
func Add[In, Out any](w *Worker, t Tool, run func(ctx context.Context, c *Call, in In) (Out, error)) {
	if t.Parameters == nil {
		schema, err := jsonschema.For[In](nil)
		if err != nil {
			panic(fmt.Sprintf("worker: tool %s: %v", t.ID, err))
		}
		t.Parameters = json.RawMessage(mustJSON(schema))
	}
	if w.tools[t.ID] != nil {
		panic("worker: tool " + t.ID + " is there twice")
	}
	w.tools[t.ID] = &entry{tool: &t, offer: t.offer(), ask: t.ask, run: func(ctx context.Context, c *Call) (*tooldv1.WorkerResult, error) {
		var in In
		if err := c.Decode(&in); err != nil {
			return nil, &Failure{Code: tooldv1.ErrorCode_ERROR_CODE_INVALID_ARGUMENTS, Message: err.Error(), Aborted: true}
		}
		if err := t.valid(ctx, c); err != nil { // nobody may have been there to be asked
			return nil, err
		}
		out, err := run(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return Success(out), nil
	}}
}

// Success is the result with this data.
func Success(v any) *tooldv1.WorkerResult {
	if r, ok := v.(*tooldv1.WorkerResult); ok {
		return r
	}
	r := &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: mustJSON(v)}
	if text, ok := v.(string); ok {
		r.Message = readable(text)
	}
	return r
}

func (t *Tool) ask(ctx context.Context, kind tooldv1.WorkKind, c *Call) (*tooldv1.WorkerResult, bool) {
	switch {
	case kind == tooldv1.WorkKind_WORK_KIND_RECONCILE && t.Reconcile != nil:
		r, err := t.Reconcile(ctx, c)
		if err != nil {
			r = nil
		}
		return r, errors.Is(err, ErrNotRun)
	case kind == tooldv1.WorkKind_WORK_KIND_POLL && t.Poll != nil:
		r, err := t.Poll(ctx, c)
		if failure, question, goesOn := new(Failure), new(Question), new(Operation); err != nil &&
			!errors.As(err, &failure) && !errors.As(err, &question) && !errors.As(err, &goesOn) {
			return nil, true
		}
		return resultOf(ctx, r, err), false
	case kind == tooldv1.WorkKind_WORK_KIND_ABANDON && t.Abandon != nil:
		t.Abandon(ctx, c)
	}
	return nil, false
}

func (t *Tool) offer() *tooldv1.WorkerTool {
	d := &tooldv1.Descriptor{
		Id: t.ID, DisplayName: t.DisplayName, Description: t.Description, Category: t.Category, Guidance: t.Guidance, Version: t.Version,
		Parameters: string(t.Parameters), ResultSchema: string(t.Result), Idempotent: t.Idempotent,
		Mildest: t.Mildest, Effects: &tooldv1.Assessment{ConcurrencySafe: t.ConcurrencySafe, OpenWorld: t.OpenWorld},
	}
	if t.ReadOnly {
		d.Effects.Mutability, d.Effects.Safety = tooldv1.Mutability_MUTABILITY_READ_ONLY, tooldv1.Safety_SAFETY_READ_ONLY
	}
	if t.Observe {
		d.Effects.Tier = tooldv1.Tier_TIER_OBSERVE
	}
	if t.AskOnDoubt {
		d.OnDoubt = tooldv1.OnDoubt_ON_DOUBT_ASK
	}
	if t.Timeout > 0 {
		d.Timeouts = &tooldv1.Timeouts{Attempt: durationpb.New(t.Timeout)}
	}
	o := &tooldv1.WorkerTool{Descriptor_: d, Documents: t.Documents, Questions: t.questions()}
	if t.Reconcile != nil {
		o.Answers = append(o.Answers, tooldv1.WorkKind_WORK_KIND_RECONCILE)
	}
	if t.Poll != nil {
		o.Answers = append(o.Answers, tooldv1.WorkKind_WORK_KIND_POLL)
	}
	if t.Abandon != nil {
		o.Answers = append(o.Answers, tooldv1.WorkKind_WORK_KIND_ABANDON)
	}
	return o
}

// A Failure is an answer that the model reads: the tool ran to its end.
type Failure struct {
	Code    tooldv1.ErrorCode // unspecified is EXECUTION_FAILED
	Reason  string            // the tool's own code, UPPER_SNAKE_CASE
	Message string
	Aborted bool // the tool did not come to its end
}

func (f *Failure) Error() string { return f.Message }

// Fail is an ERROR result with the tool's own code.
func Fail(reason, format string, args ...any) error {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (f *Failure) result() *tooldv1.WorkerResult {
	code := f.Code
	if code == tooldv1.ErrorCode_ERROR_CODE_UNSPECIFIED {
		code = tooldv1.ErrorCode_ERROR_CODE_EXECUTION_FAILED
	}
	return &tooldv1.WorkerResult{
		Status: tooldv1.ResultStatus_RESULT_STATUS_ERROR, Error: &tooldv1.ToolError{Code: code, Reason: f.Reason, Message: readable(f.Message), Aborted: f.Aborted},
	}
}

// A Question suspends the call until it is answered. The function starts again from its beginning then.
type Question struct{ Ticket *tooldv1.WorkerTicket }

func (q *Question) Error() string { return "waits for an answer: " + q.Ticket.GetMessage() }

// Ask is the question with this text and, unless it is nil, a JSON Schema for the answer.
func Ask(message string, answer any) error {
	t := &tooldv1.WorkerTicket{Action: "input", Message: readable(message)}
	if answer != nil {
		t.ResponseSchema = mustJSON(answer)
	}
	return &Question{t}
}

func (q *Question) result() *tooldv1.WorkerResult {
	return &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_PENDING, Message: q.Ticket.GetMessage(), Ticket: q.Ticket}
}
