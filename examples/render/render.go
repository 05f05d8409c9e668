// Package render is an example of a tool whose work continues elsewhere.
package render

import (
	"context"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A State is the progress of a job.
type State struct {
	Fraction     float64
	Done, Failed bool
	Why          string
}

// A Farm renders jobs.
type Farm interface {
	Start(ctx context.Context, key string) (job string, err error) // returns the same job for the same key
	State(ctx context.Context, job string) (State, error)
	Cancel(ctx context.Context, job string)
}

// Render is the tool.
type Render struct{ Farm Farm }

// Descriptor implements [tool.Tool].
func (t *Render) Descriptor() tool.Descriptor {
	return tool.Descriptor{ID: "render", Description: "Renders the scene."}
}

// Execute starts the job, and returns a result that makes the call wait for it.
func (t *Render) Execute(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	job, err := t.Farm.Start(ctx, call.IdempotencyKey())
	if err != nil {
		return nil, err
	}
	return tool.Continues(tool.Operation{ID: job, PollAfter: 30 * time.Second, ExpiresIn: 6 * time.Hour}, "it renders"), nil
}

// Poll returns the job's result, or reports that it still runs.
func (t *Render) Poll(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	state, err := t.Farm.State(ctx, call.Operation.ID)
	switch {
	case err != nil:
		return nil, err // the state is unknown: toold asks again, less often
	case state.Failed:
		return tool.Fail("the render failed: %s", state.Why), nil
	case !state.Done:
		return nil, call.Progress(tool.ProgressRunning, state.Fraction, "")
	}
	return tool.Success(state), nil
}
