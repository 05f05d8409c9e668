package shell_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/shell"
)

// late is an Exec of a daemon that may have lost its store to another daemon. It starts only harmless commands.
type late struct{}

func (late) Run(_ context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	if spec.Harmless {
		return &sandbox.Exit{}, nil
	}
	return nil, fmt.Errorf("%s: %w", spec.Path, sandbox.ErrKept)
}

// The test checks a daemon that may have lost its store. A command that changes something is not started, and the client may send the call
// again. A command that changes nothing is started.
func TestT126LateCommandIsNotStarted(t *testing.T) {
	x := bash(t, shell.Config{Exec: late{}})
	c := newCall(nil, object{"command": "true"})
	if _, err := x.Execute(t.Context(), c); !errors.Is(err, tool.ErrNotRun) || tool.AsError(err).Code != tool.Interrupted || !tool.AsError(err).Retryable {
		t.Errorf("Execute = %v", err)
	}
	c.ReadOnly = true
	if _, err := x.Execute(t.Context(), c); err != nil {
		t.Errorf("a read-only command: %v", err)
	}
}
