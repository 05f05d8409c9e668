package lifecycle_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/shell"
)

// late is a tool whose sandbox starts only read-only commands, because the daemon may no longer own its store.
type late struct{}

func (late) Run(_ context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	if spec.Harmless {
		return &sandbox.Exit{}, nil
	}
	return nil, fmt.Errorf("%s: %w", spec.Path, sandbox.ErrKept)
}

// TestT126LateCallIsNotStarted checks two calls of a daemon that may no longer own its store. The command that writes does not start, and
// its call ends as not executed. The read-only command starts.
func TestT126LateCallIsNotStarted(t *testing.T) {
	tools, _, err := shell.New(shell.Config{Exec: late{}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, tools[:1], nil, func(t *testing.T, w *world) {
		c := w.do(spec("bash", `{"command":"touch made"}`))
		if c.Status != call.Failed || c.Executed != call.NotStarted || c.Result.Error.Code != tool.Interrupted || !c.Result.Error.Retryable {
			t.Errorf("the call is %s, %s, %+v", c.Status, c.Executed, c.Result.Error)
		}
		types(t, 1, w.checkLog(c.ID))
		if c = w.do(spec("bash", `{"command":"ls"}`)); c.Status != call.Succeeded {
			t.Errorf("the call that reads is %s, %+v", c.Status, c.Result.Error)
		}
	})
}
