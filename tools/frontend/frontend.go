// Package frontend makes tools of what callers declare for their runs.
//
// Such a tool does nothing itself: its call suspends with the action frontend, and what the caller's frontend sends as the
// decision becomes the result.
package frontend

import (
	"context"

	"github.com/toold-dev/toold/tool"
)

// Source is the source of frontend tools.
const Source = "frontend"

// New returns the tool that a declaration describes. It confirms like any tool that changes something; no declaration makes
// it milder. Asking the frontend again after a crash does no harm, so that it is idempotent.
func New(f *tool.FrontendTool) tool.Tool {
	d := tool.Descriptor{
		ID: f.Name, Description: f.Description, Parameters: f.Parameters, ResultSchema: f.ResponseSchema, Idempotent: true,
		Effects: tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Confirm, OpenWorld: true},
	}
	return tool.Func(d, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.SuspendedWith(tool.Ticket{
			Action: "frontend", Message: "The frontend runs " + f.Name + " and sends its result.",
			ResponseSchema: f.ResponseSchema, ResumeMode: tool.UseDecisionAsToolResult,
		}), nil
	})
}
