// Package frontend makes tools from the declarations that callers add to their runs.
//
// Such a tool does no work. Its call suspends with the action frontend. The caller's frontend does the work and sends a decision, whose
// result becomes the result of the call.
package frontend

import (
	"context"

	"github.com/toold-dev/toold/tool"
)

// Source is the source of frontend tools. Action is the action of their tickets.
const (
	Source = "frontend"
	Action = "frontend"
)

// New returns the tool for a declaration. Its tier is always CONFIRM, because toold does not know what the frontend does. It is idempotent,
// because toold may ask the frontend again after a crash.
func New(f *tool.FrontendTool) tool.Tool {
	d := tool.Descriptor{
		ID: f.Name, Description: f.Description, Parameters: f.Parameters, ResultSchema: f.ResponseSchema, Idempotent: true,
		Effects: tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Confirm, OpenWorld: true},
	}
	return tool.Func(d, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.SuspendedWith(tool.Ticket{
			Action: Action, Message: "The frontend runs " + f.Name + " and sends its result.",
			ResponseSchema: f.ResponseSchema, ResumeMode: tool.UseDecisionAsToolResult,
		}), nil
	})
}
