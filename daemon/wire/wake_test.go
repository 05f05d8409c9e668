package wire_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// TestWakerSeesWhatIsStored checks that a waiting subagent is resumed even when the waker finds its post before the record in memory has
// changed. The journal has both at the same time, so the waker must not conclude from the old record that there is nothing to do.
func TestWakerSeesWhatIsStored(t *testing.T) {
	t.Parallel()
	waker := wire.NewWaker([]string{"helper"})
	f := newFarm(t, func(c *lifecycle.Config) {
		c.Hooks.Notifier = []hook.Entry[hook.Notifier]{{Name: wire.SubagentWaker, Hook: waker}}
		c.FailPoint = func(point string) {
			if point == "after-commit" {
				waker.Wake("")
				time.Sleep(10 * time.Millisecond) // time in which the waker reads the post
			}
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { waker.Run(ctx, f.e, zap.NewNop()) })
	parent := f.ask("subagent-wakes-1", "ask", 0)
	f.decide(f.below(parent.ID)["ask"], tool.Decision{Action: tool.Cancel})
	w, err := f.e.Watch(t.Context(), ann, parent.ID, "", true)
	f.must(err)
	defer w.Close()
	bounded, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	for c := w.Call(); c.Status != call.Succeeded; c = w.Call() {
		if _, err := w.Next(bounded); err != nil {
			t.Fatalf("the subagent is %s: %v", c.Status, err)
		}
	}
}
