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

// A Tool describes a function. Zero values mean the strictest treatment: the tool changes things, and a person must approve each call.
type Tool struct {
	ID          string // required
	Description string // for the model
	DisplayName string
	Category    string
	Guidance    string
	Version     string

	ReadOnly        bool // changes nothing, so it may run again after a crash
	Observe         bool // needs no approval
	ConcurrencySafe bool // calls of one thread may run concurrently
	OpenWorld       bool // reaches systems that the operator does not own
	Idempotent      bool // an unfinished attempt may run again with the same idempotency key
	AskOnDoubt      bool // when the outcome of an attempt is unknown, a person decides; otherwise the call fails
	Timeout         time.Duration
	Documents       []*tooldv1.WorkerDocument // documents that the daemon sends to the worker with each call
	Metadata        map[string]string         // for operators and programs; models never see it

	// Parameters and Result are JSON Schemas that replace those of the function's types.
	Parameters, Result json.RawMessage

	// Validate checks rules that the schema cannot express; [Call.Decode] reads the arguments. If it returns an error, the model reads the
	// error and the call does not run. It is called before an approver sees the call, and again before the function runs.
	Validate func(ctx context.Context, c *Call) error
	// Assess returns what a call with these arguments would do, if that differs from the tool's own fields. Its answer cannot be milder
	// than Mildest; a nil Mildest means the tool's own fields. After an error the tool's own fields apply. Describe returns a description
	// of the call for approvers, within 200 ms. Neither function may change anything.
	Assess   func(ctx context.Context, c *Call) (*tooldv1.Assessment, error)
	Mildest  *tooldv1.Assessment
	Describe func(ctx context.Context, c *Call) (*tooldv1.Description, error)
	// Reconcile finds out after a crash what happened to an attempt. It returns the result of the attempt. If the attempt changed nothing,
	// it returns [ErrNotRun], and the tool runs again. If the outcome is unknown, it returns nil and no error.
	Reconcile func(ctx context.Context, c *Call) (*tooldv1.WorkerResult, error)
	// Poll returns the result of an operation ([Continue]) when it has ended, and nil while it continues. It may return another question or
	// operation, like the function, or an error from [Fail]. Any other error means that the state is unknown, and toold polls again.
	Poll func(ctx context.Context, c *Call) (*tooldv1.WorkerResult, error)
	// Abandon is called when a question will not be answered, or when an operation is no longer needed ([Call.GetOperationId]).
	Abandon func(ctx context.Context, c *Call)
}

// ErrNotRun is returned by [Tool.Reconcile] when the attempt changed nothing.
var ErrNotRun = errors.New("the attempt changed nothing")

// Add adds a tool to the worker. The schema of the struct In becomes the parameters, and the returned value becomes the data of the result.
// A string Out is also the text for the model. An Out of type *[tooldv1.WorkerResult] is used unchanged. Add panics when a type has no
// schema or the id is already used, because both are programming errors.
func Add[In, Out any](w *Worker, t Tool, run func(ctx context.Context, c *Call, in In) (Out, error)) {
	if t.Parameters == nil {
		schema, err := jsonschema.For[In](nil)
		if err != nil {
			panic(fmt.Sprintf("worker: tool %s: %v", t.ID, err))
		}
		t.Parameters = json.RawMessage(mustJSON(schema))
	}
	if w.tools[t.ID] != nil {
		panic("worker: tool " + t.ID + " is defined twice")
	}
	w.tools[t.ID] = &entry{tool: &t, offer: t.offer(), ask: t.ask, run: func(ctx context.Context, c *Call) (*tooldv1.WorkerResult, error) {
		var in In
		if err := c.Decode(&in); err != nil {
			return nil, &Failure{Code: tooldv1.ErrorCode_ERROR_CODE_INVALID_ARGUMENTS, Message: err.Error(), Aborted: true}
		}
		if err := t.valid(ctx, c); err != nil { // Validate here too, because a call without an approval may not have been validated yet.
			return nil, err
		}
		out, err := run(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return Success(out), nil
	}}
}

// Success returns a successful result with v as its data.
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
		Parameters: string(t.Parameters), ResultSchema: string(t.Result), Idempotent: t.Idempotent, Metadata: t.Metadata,
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

// A Failure is an error result that the model reads. Aborted says that the tool did not run to its end.
type Failure struct {
	Code    tooldv1.ErrorCode // unspecified means EXECUTION_FAILED
	Reason  string            // the tool's own error code, UPPER_SNAKE_CASE
	Message string
	Aborted bool // the tool did not run to its end
}

func (f *Failure) Error() string { return f.Message }

// Fail returns an error that becomes an ERROR result with the tool's own code.
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

// A Question suspends the call until it is answered. Then the function starts again from its beginning.
type Question struct{ Ticket *tooldv1.WorkerTicket }

func (q *Question) Error() string { return "waits for an answer: " + q.Ticket.GetMessage() }

// Ask returns a question with this text. answer is a JSON Schema for the answer; nil means none.
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
