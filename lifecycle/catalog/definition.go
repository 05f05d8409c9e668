package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A Definition is a tool in the form that the engine uses.
type Definition struct {
	Tool       tool.Tool
	Descriptor *tool.Descriptor // with defaults for effects that the tool does not declare
	Digest     string
	Schema     Schema
}

// A Schema validates the arguments and results of one tool.
type Schema interface {
	// ValidateArguments returns an [*tool.Error] of the kind InvalidArguments.
	ValidateArguments(args tool.Arguments) error
	// ValidateResult checks the data of a result. It returns nil when the tool has no result schema.
	ValidateResult(data string) error
}

// Validate checks the arguments with the schema and then with the tool. The tool must answer within the deadline that hooks have. This
// bounds the time for which a cancellation waits for Validate. hidden converts the text of an internal tool error to a text that the caller
// may read.
func (d *Definition) Validate(ctx context.Context, args tool.Arguments, hidden func(string) string) error {
	if err := d.Schema.ValidateArguments(args); err != nil {
		return err
	}
	v, ok := d.Tool.(tool.Validator)
	if !ok {
		return nil
	}
	err, failed := hook.Bounded(ctx, d.AskedWithin(0), func(context.Context) (error, error) { return v.Validate(args), nil })
	if failed != nil {
		return &tool.Error{Code: tool.Internal, Message: "The tool failed internally while it assessed the arguments", DeveloperMessage: hidden(failed.Error())}
	}
	var kinded *tool.Error
	if err != nil && !errors.As(err, &kinded) {
		return &tool.Error{Code: tool.InvalidArguments, Message: err.Error()}
	}
	if kinded != nil {
		e := *kinded
		e.DeveloperMessage = hidden(e.DeveloperMessage)
		return &e
	}
	return nil
}

// Assess returns the effects that the tool reports for these arguments. The effects of the descriptor apply instead when the tool panics,
// names invalid resources, or reports effects that are milder than its descriptor permits.
func (d *Definition) Assess(args tool.Arguments) tool.Effects {
	effects := d.Descriptor.Effects.Normal()
	a, ok := d.Tool.(tool.Assessor)
	if !ok {
		return effects
	}
	answer := effects
	err := hook.Safely(func() error { answer = a.Assess(args).Normal(); return nil })
	if err != nil || tool.CheckResources(answer.Resources) != nil || answer.MilderThan(d.Descriptor.MildestEffects()) {
		return effects
	}
	return answer
}

// AskedWithin returns the time limit for a method of the tool. There is no limit for a tool that only computes, because such a tool does
// not block.
func (d *Definition) AskedWithin(limit time.Duration) time.Duration {
	if _, ok := d.Tool.(tool.Prompt); ok {
		return hook.NoDeadline
	}
	return limit
}

// Describes reports whether the tool implements a description of its calls. A description may take time.
func (d *Definition) Describes() bool {
	_, ok := d.Tool.(tool.Describer)
	return ok
}

// Stopper returns the tool if it makes nested calls. Otherwise, or when d is nil because the tool does not exist, it returns nil.
func (d *Definition) Stopper() tool.Stopper {
	if d == nil {
		return nil
	}
	s, _ := d.Tool.(tool.Stopper)
	return s
}
