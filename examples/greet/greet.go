// Package greet is a tool with typed arguments. The Go type defines the schema.
package greet

import (
	"context"
	"strings"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// Args are the arguments that the model sends. The model reads the jsonschema tags. A field with omitempty is optional.
type Args struct {
	Name  string `json:"name" jsonschema:"Who is greeted."`
	Times int    `json:"times,omitempty" jsonschema:"How often, at most 10; once when left out."`
}

// New returns the tool. Calls may run concurrently, so the tool keeps no state of a call.
func New() tool.Tool {
	return typed.New(tool.Descriptor{
		ID:          "greet",
		Description: "Greets a person.",
		// Without this line toold would assume that the tool changes things and needs an approval.
		Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true},
	}, greet, typed.WithValidate(validate))
}

// validate checks rules that the schema cannot express. The model reads the error and corrects its arguments; greet does not run.
func validate(args Args) error {
	if args.Times < 0 || args.Times > 10 {
		return tool.Errorf(tool.InvalidArguments, "times is %d; it must be from 1 to 10", args.Times)
	}
	return nil
}

func greet(_ context.Context, call *tool.Call, args Args) (*tool.Result, error) {
	if err := call.Progress(tool.ProgressRunning, 0.5, "clearing my throat"); err != nil {
		return nil, err // the call was cancelled or timed out
	}
	greeting := strings.TrimSpace(strings.Repeat("Hello "+args.Name+"! ", max(1, args.Times)))
	// Programs read the data, the model reads the message.
	return tool.SuccessMessage(map[string]string{"greeting": greeting}, "%s", greeting), nil
}
