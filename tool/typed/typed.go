// Package typed makes a tool from a function that takes its arguments as a Go value.
//
// The type says three things at once: what the model reads (the schema, with the text of `jsonschema` struct tags as
// descriptions), what is refused (members that the type does not have, values that do not fit), and what the function
// gets. A field is optional when its json tag says omitempty or omitzero.
//
// A tool that needs more of package tool than there are options here (Abandon, Reconcile) is a type of its own that
// calls [Decode].
package typed

import (
	"context"
	"errors"
	"reflect"

	"github.com/toold-dev/toold/tool"
)

// An Option adds to a tool what it may know how to do.
type Option[Args any] func(*typedTool[Args])

// WithValidate checks what a schema cannot say. It has the contract of [tool.Validator].
func WithValidate[Args any](validate func(Args) error) Option[Args] {
	return func(t *typedTool[Args]) { t.validate = validate }
}

// WithAssess says what a call with these arguments would do. It has the contract of [tool.Assessor].
func WithAssess[Args any](assess func(Args) tool.Effects) Option[Args] {
	return func(t *typedTool[Args]) { t.assess = assess }
}

// WithDescribe shows a person what a call would do. It has the contract of [tool.Describer].
func WithDescribe[Args any](describe func(ctx context.Context, call *tool.Call, args Args) (tool.Description, error)) Option[Args] {
	return func(t *typedTool[Args]) { t.describe = describe }
}

// New returns a tool that runs with its arguments as an Args, which is a struct. A descriptor without parameters gets
// the schema of Args; one that has its own keeps it, and values that it lets through but Args cannot hold are refused all
// the same, when the call is validated.
//
// New panics when Args has no schema: that is a bug of the program, found at its start.
func New[Args any](d tool.Descriptor, run func(ctx context.Context, call *tool.Call, args Args) (*tool.Result, error), opts ...Option[Args]) tool.Tool {
	schema, err := Schema[Args]()
	if err != nil {
		panic("typed: tool " + d.ID + ": " + err.Error())
	}
	if len(d.Parameters) == 0 {
		d.Parameters = schema
	}
	t := &typedTool[Args]{descriptor: d, decoder: newDecoder(reflect.TypeFor[Args]()), run: run}
	for _, opt := range opts {
		opt(t)
	}
	// What is not there must not be seen: the engine pays for a tool that can describe.
	if t.describe != nil {
		return describer[Args]{t}
	}
	return t
}

type typedTool[Args any] struct {
	descriptor tool.Descriptor
	decoder    *decoder
	run        func(context.Context, *tool.Call, Args) (*tool.Result, error)
	validate   func(Args) error
	assess     func(Args) tool.Effects
	describe   func(context.Context, *tool.Call, Args) (tool.Description, error)
}

// Descriptor implements [tool.Tool].
func (t *typedTool[Args]) Descriptor() tool.Descriptor { return t.descriptor }

// args returns the arguments as a Go value; what does not fit is an error of the kind InvalidArguments.
func (t *typedTool[Args]) args(arguments tool.Arguments) (args Args, err error) {
	value := arguments.Value()
	if value == nil {
		value = map[string]any{}
	}
	err = t.decoder.decode(value, reflect.ValueOf(&args).Elem())
	if err == nil {
		return args, nil
	}
	invalid := &tool.Error{Code: tool.InvalidArguments, Message: "The arguments do not fit: " + err.Error() + "."}
	if part, ok := errors.AsType[*DecodeError](err); ok {
		invalid.Message = "The arguments do not fit."
		invalid.Violations = []tool.Violation{{Field: part.Path, Description: part.Reason}}
	}
	return args, invalid
}

// Execute implements [tool.Tool].
func (t *typedTool[Args]) Execute(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	args, err := t.args(call.Arguments)
	if err != nil {
		return nil, err
	}
	return t.run(ctx, call, args)
}

// Validate implements [tool.Validator]. It decodes even when there is nothing else to check: what does not fit, such as
// an integer above 2^63, must be refused before anyone is asked to approve it.
func (t *typedTool[Args]) Validate(arguments tool.Arguments) error {
	args, err := t.args(arguments)
	if err != nil || t.validate == nil {
		return err
	}
	return t.validate(args)
}

// Assess implements [tool.Assessor].
func (t *typedTool[Args]) Assess(arguments tool.Arguments) tool.Effects {
	if t.assess == nil {
		return t.descriptor.Effects
	}
	args, err := t.args(arguments)
	if err != nil {
		return t.descriptor.Effects
	}
	return t.assess(args)
}

// A describer is a typedTool with a Describe.
type describer[Args any] struct{ *typedTool[Args] }

// Describe implements [tool.Describer].
func (t describer[Args]) Describe(ctx context.Context, call *tool.Call) (tool.Description, error) {
	args, err := t.args(call.Arguments)
	if err != nil {
		return tool.Description{}, err
	}
	return t.describe(ctx, call, args)
}
