package wire_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFullDisk checks that the engine refuses new calls while the disk is full, and still serves existing ones. When there is space, it
// accepts new calls again.
func TestFullDisk(t *testing.T) {
	tools := registry.New(registry.Config{})
	noop := tool.Func(tool.Descriptor{ID: "noop"}, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("ok"), nil })
	if err := tools.Register("test", noop); err != nil {
		t.Fatal(err)
	}
	var full atomic.Bool
	e, err := lifecycle.New(lifecycle.Config{Full: full.Load, Store: memory.New(memory.Config{}), Tools: wire.Definitions(tools), Answers: wire.Answers(tools)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Drain(context.Background())
	p := tool.Principal{Namespace: "default", Subject: "ann", Roles: []string{"caller"}}
	execute := func(id string) error {
		w, err := e.Execute(context.Background(), p, call.Spec{Tool: "noop", ID: id}, call.ExecuteOptions{})
		if err != nil {
			return err
		}
		_, err = w.Wait(context.Background(), 10*time.Second)
		return err
	}
	refused := func(err error) bool {
		var r *call.Refusal
		return errors.As(err, &r) && r.Kind == call.ResourceExhausted && r.Reason == "STORAGE_FULL"
	}
	steps := []struct {
		name, id string
		full     bool
		refused  bool
	}{
		{"there is room", "known-0000000001", false, false},
		{"a known call", "known-0000000001", true, false},
		{"a new one", "fresh-0000000001", true, true},
		{"one without an id", "", true, true},
		{"room again, the same id", "fresh-0000000001", false, false},
	}
	for _, s := range steps {
		full.Store(s.full)
		if err := execute(s.id); refused(err) != s.refused || err != nil && !s.refused {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
