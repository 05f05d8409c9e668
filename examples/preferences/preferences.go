// Package preferences is a tool that remembers: it keeps a typed document of the thread.
package preferences

import (
	"context"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// Args name a preference, and its new value when there is one.
type Args struct {
	Name  string  `json:"name" jsonschema:"Which preference, such as language."`
	Value *string `json:"value,omitempty" jsonschema:"The new value. Leave it out to read the one that is set."`
}

// Key is where the preferences of a thread are kept. A hook that wants to read them uses the same key.
var Key = tool.Key[map[string]string]{Scope: tool.ThreadScope, Name: "preferences"}

var reading = tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}

// New returns the tool.
func New() tool.Tool {
	return typed.New(tool.Descriptor{
		ID:          "preference",
		Description: "Reads or sets a preference of the user in this conversation.",
		// While the arguments are unknown it may change something; a call that only reads is milder.
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
	all, revision, err := Key.Get(call) // as they were when this attempt began
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
	// The document changes when the call commits, unless another call was faster: revision is what this call saw.
	return tool.Text("set").With(Key.SetAt(all, revision)), nil
}
