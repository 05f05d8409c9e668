// Package typed makes a tool from a function that gets its arguments as a Go value.
//
// The Go type determines three things:
//   - what the model reads: the schema, with the text of `jsonschema` struct tags as descriptions
//   - what is rejected: members that the type does not have, and values that do not fit
//   - what the function gets
//
// A field is optional when its json tag has omitempty or omitzero.
//
// The options here support only some of the optional interfaces in package tool. A tool that needs others, such as Abandoner or Reconciler,
// must be a separate type that calls [Decode].
package typed

import (
	"context"
	"errors"
	"reflect"

	"github.com/toold-dev/toold/tool"
)

// An Option adds an optional capability to a tool.
type Option[Args any] func(*typedTool[Args])

// WithValidate adds a check for what a schema cannot express. validate must follow the contract of [tool.Validator].
func WithValidate[Args any](validate func(Args) error) Option[Args] {
	return func(t *typedTool[Args]) { t.validate = validate }
}

// WithAssess adds the assessment of a call's effects. assess must follow the contract of [tool.Assessor].
func WithAssess[Args any](assess func(Args) tool.Effects) Option[Args] {
	return func(t *typedTool[Args]) { t.assess = assess }
}

// WithDescribe adds the description of a call for people. describe must follow the contract of [tool.Describer].
func WithDescribe[Args any](describe func(ctx context.Context, call *tool.Call, args Args) (tool.Description, error)) Option[Args] {
	return func(t *typedTool[Args]) { t.describe = describe }
}

// New returns a tool that invokes run with the arguments as an Args, which must be a struct. When the descriptor has no parameters, New
// sets them to the schema of Args. When it has parameters, they may permit values that do not fit Args; such values are rejected when the
// call is validated.
//
// New panics when Args has no schema, because that is a programming error.
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
	// The result implements Describer only when there is a describe function, because the engine spends time on each Describer.
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

func (t *typedTool[Args]) Descriptor() tool.Descriptor { return t.descriptor }

// args returns the arguments as a Go value. When they do not fit, it returns an error with the code InvalidArguments.
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

func (t *typedTool[Args]) Execute(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	args, err := t.args(call.Arguments)
	if err != nil {
		return nil, err
	}
	return t.run(ctx, call, args)
}

// Validate implements [tool.Validator]. It decodes the arguments even when there is no other check. Values that do not fit, such as an
// integer above 2^63, must be rejected before an approver is asked.
func (t *typedTool[Args]) Validate(arguments tool.Arguments) error {
	args, err := t.args(arguments)
	if err != nil || t.validate == nil {
		return err
	}
	return t.validate(args)
}

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

// A describer is a typedTool with a Describe method.
type describer[Args any] struct{ *typedTool[Args] }

func (t describer[Args]) Describe(ctx context.Context, call *tool.Call) (tool.Description, error) {
	args, err := t.args(call.Arguments)
	if err != nil {
		return tool.Description{}, err
	}
	return t.describe(ctx, call, args)
}
