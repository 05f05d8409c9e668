package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/plugins/remote"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

// toolbox is the registry as the daemon uses it.
type toolbox struct{ *registry.Registry }

func (b toolbox) Lookup(_, id string) (*lifecycle.Definition, bool) {
	e, ok := b.Registry.Lookup(id)
	if !ok {
		return nil, false
	}
	return &lifecycle.Definition{Tool: e.Tool, Descriptor: &e.Descriptor, Digest: e.Digest, Schema: e}, true
}

type answers struct{}

func (answers) Compile(schema json.RawMessage) error {
	_, err := registry.New(registry.Config{}).CompileSchema(schema)
	return err
}

func (answers) Validate(schema json.RawMessage, v any) ([]tool.Violation, error) {
	s, err := registry.New(registry.Config{}).CompileSchema(schema)
	if err != nil {
		return nil, err
	}
	return s.Validate(v), nil
}

var alice = tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"caller", "operator"}}

func newEngine(t *testing.T, hooks hook.Set, tools ...tool.Tool) *lifecycle.Engine {
	t.Helper()
	return newEngineOn(t, memory.New(memory.Config{}), hooks, tools...)
}

func newEngineOn(t *testing.T, journal store.Store, hooks hook.Set, tools ...tool.Tool) *lifecycle.Engine {
	t.Helper()
	r := registry.New(registry.Config{})
	if err := r.Register("test", tools...); err != nil {
		t.Fatal(err)
	}
	e, err := lifecycle.New(lifecycle.Config{Store: journal, Tools: toolbox{r}, Answers: answers{}, Hooks: hooks})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Drain(ctx)
	})
	return e
}

func echo(id string) tool.Tool {
	d := tool.Descriptor{ID: id, Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true}, Parameters: json.RawMessage(`{"type":"object"}`)}
	return tool.Func(d, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		_ = c.Output("stdout", []byte("a sec"))
		_ = c.Output("stdout", []byte("ret"))
		return tool.Text("the secret"), nil
	})
}

// TestT94HangingGate starts ten thousand calls whose gate does not answer before its deadline. All of them must be refused. The number of
// goroutines and the heap must stay limited, whatever the size of the arguments. Calls of another tool must not be delayed.
func TestT94HangingGate(t *testing.T) {
	address := serve(t, &service{gate: func(ctx context.Context, _ *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	h := newHook(t, address, func(c *remote.Config) { c.AtOnce = 64 })
	journal, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()}) // The journal is on disk, because the test measures memory.
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	f := &flood{t: t, e: newEngineOn(t, journal, hook.Set{Gate: []hook.Entry[hook.Gate]{{
		Name: "far", Hook: h, Deadline: 6 * time.Second, Match: hook.Match{Tools: []string{"gated"}},
	}}}, echo("gated"), echo("free"))}
	const many, arguments = 10_000, 8 << 10
	goroutines, heap := runtime.NumGoroutine(), inUse()
	mostGoroutines, mostHeap := goroutines, heap
	for n := range many {
		f.waiting = append(f.waiting, f.start("gated", n, arguments))
		mostGoroutines = max(mostGoroutines, runtime.NumGoroutine())
		if n%100 == 0 {
			c, err := f.start("free", n, 1).Wait(t.Context(), time.Minute)
			if err != nil || c.Status != call.Succeeded {
				t.Fatalf("a call of another tool: %+v, %v", c, err)
			}
			f.leaveEnded()
		}
		if n%1000 == 999 {
			mostHeap = max(mostHeap, inUse())
		}
	}
	for _, w := range f.waiting {
		f.refused(w)
	}
	// Each waiting call has one goroutine for the pipeline run and one for the gate. In addition there are a few for gRPC, and those of
	// calls that were just refused.
	if bound := 3 * (64 + external.MaxWaiting); mostGoroutines-goroutines > bound {
		t.Errorf("%d goroutines more, want at most %d", mostGoroutines-goroutines, bound)
	}
	// Waiting calls, and ended calls that are being stored, take 60 to 120 MiB, or 240 MiB on a busy machine. Without the limit they would
	// take nearly 400 MiB.
	if bound := int64(300 << 20); mostHeap-heap > bound {
		t.Errorf("%d MiB more, want at most %d", (mostHeap-heap)>>20, bound>>20)
	}
	t.Logf("%d goroutines and %d MiB more", mostGoroutines-goroutines, (mostHeap-heap)>>20)
	asked := h.Health().Asked
	for late := time.Now().Add(2 * time.Minute); asked != many && time.Now().Before(late); asked = h.Health().Asked {
		time.Sleep(time.Millisecond) // Waits, because the call ends before its question is counted.
	}
	if f.busy == 0 || asked != many {
		t.Errorf("%d were not let in, of %d", f.busy, asked)
	}
}

// inUse returns the bytes in use by heap and stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// A flood is a large number of calls of one caller.
type flood struct {
	t       *testing.T
	e       *lifecycle.Engine
	waiting []call.Watcher
	busy    int // number of calls that were not admitted
}

func (f *flood) start(id string, n, arguments int) call.Watcher {
	f.t.Helper()
	spec := call.Spec{Tool: id, ID: fmt.Sprintf("%s-call-%012d", id, n), Arguments: fmt.Sprintf(`{"n":"%0*d"}`, arguments, n)}
	w, err := f.e.Execute(f.t.Context(), alice, spec, call.ExecuteOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

// leaveEnded checks the calls that have ended and removes them from the list.
func (f *flood) leaveEnded() {
	f.waiting = slices.DeleteFunc(f.waiting, func(w call.Watcher) bool {
		if !w.Call().Status.Terminal() {
			return false
		}
		f.refused(w)
		return true
	})
}

// refused checks the end of a call whose gate hangs.
func (f *flood) refused(w call.Watcher) {
	f.t.Helper()
	c, err := w.Wait(f.t.Context(), time.Minute)
	if err != nil || c.Status != call.Failed || c.Result.Error.Code != tool.Denied || c.Result.Error.Reason != "HOOK_FAILED" {
		f.t.Fatalf("call %+v, %v", c, err)
	}
	if c.Result.Error.DeveloperMessage == external.ErrBusy.Error() {
		f.busy++
	}
}

// TestT112RemoteFilterInTheEngine checks that text that a service removed is in no event and no record. When the service fails, all text
// that it has not seen is hidden.
func TestT112RemoteFilterInTheEngine(t *testing.T) {
	var fails atomic.Bool
	s := &service{filter: func(stream grpc.BidiStreamingServer[tooldv1.FilterRequest, tooldv1.FilterResponse]) error {
		if fails.Load() {
			return fmt.Errorf("no database")
		}
		return redacting(stream)
	}}
	h := newHook(t, serve(t, s))
	e := newEngine(t, hook.Set{Filter: []hook.Entry[hook.Filter]{{Name: "far", Hook: h}}}, echo("t"))
	for _, broken := range []bool{false, true} {
		fails.Store(broken)
		w, err := e.Execute(t.Context(), alice, call.Spec{Tool: "t", ID: fmt.Sprintf("call-%t-000000000001", broken)}, call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.Wait(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		want := "the ***"
		if broken {
			want = `The result is not shown: the hook "far" failed`
		}
		if c.Status != call.Succeeded || c.Result.ModelText() != want {
			t.Errorf("broken %t: call %s %+v", broken, c.Status, c.Result)
		}
		printed, err := e.Artifacts().ReadArtifact(t.Context(), alice, c.ID, "stdout", 0, 100)
		switch {
		case !broken && (err != nil || string(printed.Bytes) != "a ***"):
			t.Errorf("stdout %q, %v", printed.Bytes, err)
		case broken && err == nil && len(printed.Bytes) > 0:
			t.Errorf("stdout of a call whose filter failed: %q", printed.Bytes)
		}
	}
}
