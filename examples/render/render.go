// Package render is an example of a tool whose work continues elsewhere.
package render

import (
	"context"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A State is how far a job is.
type State struct {
	Fraction     float64
	Done, Failed bool
	Why          string
}

// A Farm renders.
type Farm interface {
	Start(ctx context.Context, key string) (job string, err error) // the same job for the same key
	State(ctx context.Context, job string) (State, error)
	Cancel(ctx context.Context, job string)
}

// Render is the tool.
type Render struct{ Farm Farm }

// Descriptor implements [tool.Tool].
func (t *Render) Descriptor() tool.Descriptor {
	return tool.Descriptor{ID: "render", Description: "Renders the scene."}
}

// Execute implements [tool.Tool].
func (t *Render) Execute(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	job, err := t.Farm.Start(ctx, call.IdempotencyKey())
	if err != nil {
		return nil, err
	}
	return tool.Continues(tool.Operation{ID: job, PollAfter: 30 * time.Second, ExpiresIn: 6 * time.Hour}, "it renders"), nil
}

// Poll implements [tool.Poller].
func (t *Render) Poll(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	state, err := t.Farm.State(ctx, call.Operation.ID)
	switch {
	case err != nil:
		return nil, err // it could not be found out: toold asks again, less often
	case state.Failed:
		return tool.Fail("the render failed: %s", state.Why), nil
	case !state.Done:
		return nil, call.Progress(tool.ProgressRunning, state.Fraction, "")
	}
	return tool.Success(state), nil
}
