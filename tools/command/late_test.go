package command_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// late simulates the Exec of a daemon that may have lost its store to another daemon. Like the sandbox of such a daemon, it starts only
// harmless programs.
type late struct{}

func (late) Run(_ context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	if spec.Harmless {
		return &sandbox.Exit{}, nil
	}
	return nil, fmt.Errorf("%s: %w", spec.Path, sandbox.ErrKept)
}

// The test checks a daemon that may have lost its store (T126). A program that changes something is not started, and the client may send
// the call again. A program that only reads is started.
func TestT126LateProgramIsNotStarted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.Exec = late{}
	c := newClient(t, s.load("id: x\nrun: {program: /bin/true}\n", ""))
	if _, err := c.run("{}"); !errors.Is(err, tool.ErrNotRun) || tool.AsError(err).Code != tool.Interrupted || !tool.AsError(err).Retryable {
		t.Errorf("the call ended with %v", err)
	}
	c.call.ReadOnly = true
	if _, err := c.run("{}"); err != nil {
		t.Errorf("the call that reads ended with %v", err)
	}
}
