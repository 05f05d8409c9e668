// Package frontend makes tools from the declarations that callers add to their runs.
//
// Such a tool does nothing itself. Its call suspends with the action frontend. The caller's frontend sends a decision, which becomes the
// result.
package frontend

import (
	"context"

	"github.com/toold-dev/toold/tool"
)

// Source is the source of frontend tools, Action the action of their tickets.
const (
	Source = "frontend"
	Action = "frontend"
)

// New returns the tool for a declaration. It has the tier CONFIRM, like any tool that changes something; no declaration can lower that. It
// is idempotent, because asking the frontend again after a crash does no harm.
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
