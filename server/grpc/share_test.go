package grpcserver_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// TestWatchersOfOneCallCompressedAndPlain checks that watchers of a call with and without compression all receive the same events. Only
// watchers without compression share encoded messages.
func TestWatchersOfOneCallCompressedAndPlain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	const steps, watchers = 20, 16
	step := make(chan struct{})
	must(t, w.tools.Register("more", tool.Func(tool.Descriptor{ID: "steps", Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}},
		func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			for range step {
				if err := c.Progress(tool.ProgressRunning, 0.5, "on"); err != nil {
					return nil, err
				}
			}
			return tool.Text("done"), nil
		})))
	ctx := within(t)
	first, err := w.calls("alice").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec("steps", "shared")})
	must(t, err)
	_, err = first.Recv()
	must(t, err)
	seen := make(chan error, watchers*(steps+3)) // large enough that no watcher blocks
	for n := range watchers {
		var o []grpc.CallOption
		if n%2 == 0 {
			o = append(o, grpc.UseCompressor(gzip.Name))
		}
		watch, err := w.calls("alice").WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: longID("shared")}, Follow: true}, o...)
		must(t, err)
		go func() {
			for {
				m, err := watch.Recv()
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					seen <- err
					return
				}
				for _, kind := range kinds([]*tooldv1.Frame{m.GetFrame()}) {
					if kind == "caught_up" || kind == "progress" || kind == "finished" {
						seen <- nil
					}
				}
			}
		}()
	}
	for n := range 1 + steps { // The first round waits until all watchers have caught up. Each later round waits until all have seen the step.
		for range watchers {
			if err := <-seen; err != nil {
				t.Fatal(err)
			}
		}
		if n < steps {
			step <- struct{}{}
		}
	}
	close(step)
	for range watchers {
		must(t, <-seen)
	}
}
