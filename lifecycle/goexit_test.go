package lifecycle_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// A tool that ends its goroutine ends its call as one that panics does, and a drain does not wait for it.
func TestToolThatEndsItsGoroutine(t *testing.T) {
	for _, effects := range []tool.Effects{reading, mutating} {
		gone := made("t", effects, func(context.Context, *tool.Call) (*tool.Result, error) { runtime.Goexit(); return nil, nil })
		inBubble(t, []tool.Tool{gone}, func(c *lifecycle.Config) { c.Concurrency = 1 }, func(t *testing.T, w *world) {
			for range 2 { // the place is given back
				c := w.do(spec("t", ""))
				if c.Status != call.Failed || c.Executed != call.Started || c.Result.Error.Code != tool.Internal {
					t.Errorf("call %s, %s: %+v", c.Status, c.Executed, c.Result)
				}
			}
		})
	}
}
