package mcp_test

import (
	"errors"
	"testing"

	"github.com/toold-dev/toold/tool"
)

// The test checks that a tool that runs only as a task is not listed, and that the source says why. This also holds for a list from Memory.
func TestTaskAloneIsNotOffered(t *testing.T) {
	t.Parallel()
	m := newMemory()
	w := connect(t, m, nil, own(t, "w", "task")).ready()
	remembered := connect(t, m, nil, own(t, "w", "mute"))
	for _, w := range []*world{w, remembered} {
		if _, ok := w.tools.Lookup("w__task_alone"); ok {
			t.Error("a tool is offered that always fails")
		}
		if _, ok := w.tools.Lookup("w__optional"); !ok {
			t.Error("a tool is not offered that runs without a task")
		}
		why := ""
		for _, r := range w.hub.Sources()[0].Refused {
			if r.Name == "task_alone" {
				why = r.Reason
			}
		}
		contains(t, why, "only runs as a task")
	}
}

// The test checks that the call fails when the server starts a task without being asked, because its answer contains no result.
func TestTaskIsNoResult(t *testing.T) {
	t.Parallel()
	w := connect(t, newMemory(), nil, own(t, "w", "task")).ready()
	for _, id := range []string{"w__bash", "w__a_b"} {
		c, _ := newCall(t, `{}`)
		if r, err := w.do(id, c); !errors.Is(err, tool.ErrLost) {
			t.Errorf("%s ended with %+v, %v", id, r, err)
		}
	}
	contains(t, w.text("w__optional", `{}`), "does not support, such as tasks: tasks are required")
}
