package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// TestEndRunTakesWhatItsCallsWriteAtTheirEnd checks the end of a run whose last calls write documents while they end. The end of the run
// must remove these documents too. The documents come from a hook of a cancelled call, and from a tool that already has its result.
func TestEndRunTakesWhatItsCallsWriteAtTheirEnd(t *testing.T) {
	key := tool.Key[int]{Scope: tool.RunScope, Name: "k"}
	late := func(id string, end func(context.Context) (*tool.Result, error)) tool.Tool {
		return made(id, mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return end(ctx)
		})
	}
	tools := []tool.Tool{
		late("cancelled", func(ctx context.Context) (*tool.Result, error) { return nil, context.Cause(ctx) }),
		late("ready", func(context.Context) (*tool.Result, error) { return tool.Text("ok").With(key.Set(2)), nil }),
		late("deaf", func(context.Context) (*tool.Result, error) {
			time.Sleep(time.Hour)
			return tool.Text("ok").With(key.Set(3)), nil
		}),
	}
	before := beforeFunc(func(*hook.Input) ([]tool.Command, error) { return []tool.Command{key.Set(1)}, nil })
	change := func(c *lifecycle.Config) { c.Hooks.Before = []hook.Entry[hook.Before]{{Name: "b", Hook: before}} }
	for _, x := range tools {
		id := x.Descriptor().ID
		t.Run(id, func(t *testing.T) {
			inBubble(t, tools, change, func(t *testing.T, w *world) {
				s := spec(id, "")
				s.Run = tool.Run{ID: "ends"}
				w.begin(s)
				synctest.Wait()
				if ids, err := w.e.EndRun(t.Context(), alice, "ends", "", ""); err != nil || len(ids) != 1 {
					t.Fatal(ids, err)
				}
				time.Sleep(2 * time.Hour)
				docs, err := w.e.Records().Documents(t.Context(), alice, tool.RunScope, "ends")
				if c := w.get(s.ID); err != nil || len(docs) > 0 || !c.Status.Terminal() {
					t.Errorf("%s left %v, %v", c.Status, docs, err)
				}
			})
		})
	}
}
