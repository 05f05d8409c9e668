// Package preferences is a tool that keeps a typed document for each thread.
package preferences

import (
	"context"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// Args are the name of a preference and, to set it, its new value.
type Args struct {
	Name  string  `json:"name" jsonschema:"Which preference, such as language."`
	Value *string `json:"value,omitempty" jsonschema:"The new value. Leave it out to read the one that is set."`
}

// Key identifies the document with the preferences of a thread. A hook uses the same key to read them.
var Key = tool.Key[map[string]string]{Scope: tool.ThreadScope, Name: "preferences"}

var reading = tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}

// New returns the preference tool.
func New() tool.Tool {
	return typed.New(tool.Descriptor{
		ID:          "preference",
		Description: "Reads or sets a preference of the user in this conversation.",
		// The strictest case: setting a preference changes the document. Assess returns a milder assessment for calls that only read.
		Effects: tool.Effects{Mutability: tool.Mutating, Tier: tool.Observe},
		Mildest: &reading,
	}, preference, typed.WithAssess(func(args Args) tool.Effects {
		if args.Value == nil {
			return reading
		}
		return tool.Effects{Mutability: tool.Mutating, Tier: tool.Observe}
	}))
}

func preference(_ context.Context, call *tool.Call, args Args) (*tool.Result, error) {
	all, revision, err := Key.Get(call) // the document when this attempt began
	if err != nil {
		return nil, err
	}
	if args.Value == nil {
		value, ok := all[args.Name]
		if !ok {
			return tool.Fail("no preference %q is set", args.Name), nil
		}
		return tool.Text(value), nil
	}
	if all == nil {
		all = map[string]string{}
	}
	all[args.Name] = *args.Value
	// The document changes when the call commits, unless another call has changed it since: revision is the one that this call read.
	return tool.Text("set").With(Key.SetAt(all, revision)), nil
}
