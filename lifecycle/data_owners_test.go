package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// forgetful is a hook that records the runs and calls whose data it was asked to remove.
type forgetful struct {
	admitFunc
	removed []string
}

func (k *forgetful) EndRun(namespace, run string) {
	k.removed = append(k.removed, namespace+" run "+run)
}
func (k *forgetful) PurgeCalls(namespace string, ids []string) {
	k.removed = append(k.removed, fmt.Sprint(namespace, " calls ", ids))
}

func TestHooksAreNotifiedOfPurges(t *testing.T) {
	k := &forgetful{admitFunc: func(*hook.Input) (func(), error) { return nil, nil }}
	change := func(c *lifecycle.Config) { c.Hooks.Admit = []hook.Entry[hook.Admit]{{Name: "owner", Hook: k}} }
	inBubble(t, []tool.Tool{echo("echo", mutating)}, change, func(t *testing.T, w *world) {
		c := w.do(spec("echo", `{}`))
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{c.ID}}); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(k.removed), fmt.Sprint([]string{"ns run run-1", "ns calls [" + c.ID + "]"}); got != want {
			t.Errorf("asked to remove %s, want %s", got, want)
		}
	})
}
