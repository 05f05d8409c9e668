package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

// world is an engine with tools on an in-memory store. A test can crash the engine.
type world struct {
	t     *testing.T
	store *memory.Store
	cfg   lifecycle.Config
	e     *lifecycle.Engine
	tools *toolbox
	past  []*lifecycle.Engine // engines that crashed

	unowned int64  // number of calls that the owner checks of all engines should adopt
	check   func() // stops the owner checks of the engine e
}

// toolbox is a registry of tools by id.
type toolbox struct {
	mu sync.Mutex
	r  *registry.Registry
}

func (b *toolbox) Lookup(_, id string) (*lifecycle.Definition, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.r.Lookup(id)
	if !ok {
		return nil, false
	}
	return &lifecycle.Definition{Tool: e.Tool, Descriptor: &e.Descriptor, Digest: e.Digest, Schema: e}, true
}

func (b *toolbox) set(t *testing.T, tools ...tool.Tool) {
	t.Helper()
	b.put(tools...)
}

// put replaces all tools. The new tools must be valid.
func (b *toolbox) put(tools ...tool.Tool) {
	r := registry.New(registry.Config{})
	if err := register(r, tools); err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r = r
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

// people lists subjects by role, or by role and group as in "approver/finance".
type people map[string][]string

func (p people) CanApprove(_ string, a *tool.Approvers, not ...string) bool {
	others, roles := map[string]bool{}, a.Roles
	if len(a.Groups) > 0 {
		roles = nil
		for _, role := range a.Roles {
			for _, group := range a.Groups {
				roles = append(roles, role+"/"+group)
			}
		}
	}
	for _, role := range roles {
		for _, subject := range p[role] {
			if !contains(not, subject) {
				others[subject] = true
			}
		}
	}
	return len(others) >= max(a.Count, 1)
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// inBubble runs a test with a fake clock.
func inBubble(t *testing.T, tools []tool.Tool, change func(*lifecycle.Config), run func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tools, change)
		defer w.stop() // also after a failed test
		run(t, w)
	})
}

// behind is the clock of the store in most tests. It is far from the machine's clock, so that a test fails when the engine or the store
// compares times of the two clocks.
func behind() time.Time { return time.Now().Add(-5000 * time.Hour) }

func newWorld(t *testing.T, tools []tool.Tool, change func(*lifecycle.Config)) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(memory.Config{Now: behind}), tools: &toolbox{}}
	w.tools.set(t, tools...)
	w.cfg = lifecycle.Config{
		Tools: w.tools, Answers: answers{},
		MachineActions: gating.MachineActions{"frontend": "frontend", "subagent": "subagent:"},
	}
	if change != nil {
		change(&w.cfg)
	}
	if own, ok := w.cfg.Store.(*memory.Store); ok {
		w.store = own
	}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.cfg.Store = w.store
	e, err := lifecycle.New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := e.Recover(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.e = e
	w.checkOwners()
}

// checkOwners runs the owner checks, first each minute as in the daemon. The interval grows, because some tests cover weeks.
func (w *world) checkOwners() {
	if w.check != nil {
		w.check()
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.check = cancel
	go func(e *lifecycle.Engine) {
		for wait := time.Minute; ; wait += wait / 4 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
				_ = e.CheckOwners(ctx) // Ignore the error, because the journal may fail in this test.
			}
		}
	}(w.e)
}

// crash ends the daemon as kill -9 does, and starts the next one. Running calls can no longer write to the journal, and are stopped.
func (w *world) crash() {
	w.t.Helper()
	w.kill()
	w.open()
}

// kill ends the daemon as kill -9 does: its later writes have no effect.
func (w *world) kill() {
	w.store = w.store.Crash()
	w.past = append(w.past, w.e)
	drain(w.e)
}

// stop drains all engines, because no goroutine may remain in a synctest bubble.
func (w *world) stop() {
	w.check()
	synctest.Wait()
	for range 2 {
		_ = w.e.CheckOwners(context.Background())
	}
	drain(w.e)
	n := w.e.Stats().Unowned
	for _, e := range w.past {
		drain(e)
		n += e.Stats().Unowned
	}
	synctest.Wait()
	if n != w.unowned {
		w.t.Errorf("%d calls had no owner and were taken up by the checker; %d are expected", n, w.unowned)
	}
}

func drain(e *lifecycle.Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.Drain(ctx)
}

var (
	alice = tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"caller"}}
	bob   = tool.Principal{Namespace: "ns", Subject: "bob", Roles: []string{"approver"}}
	carol = tool.Principal{Namespace: "ns", Subject: "carol", Roles: []string{"operator"}}
	eve   = tool.Principal{Namespace: "other", Subject: "alice", Roles: []string{"caller", "approver", "operator", "viewer"}}
)

var nextID atomic.Int64

func newCallID() string {
	return fmt.Sprintf("call-%012d", nextID.Add(1))
}

func spec(id, args string) call.Spec {
	return call.Spec{Tool: id, Arguments: args, ID: newCallID(), Run: tool.Run{ID: "run-1", Thread: "thread-1"}}
}

// apart removes the call from its thread, so that it does not wait for other calls of the thread.
func apart(s call.Spec) call.Spec {
	s.Run.Thread = "thread of " + s.ID
	return s
}

// do executes a call and waits until it has ended or is suspended.
func (w *world) do(s call.Spec) *call.Call {
	w.t.Helper()
	watcher, err := w.e.Execute(w.t.Context(), alice, s, call.ExecuteOptions{})
	if err != nil {
		w.t.Fatalf("execute: %v", err)
	}
	c, err := watcher.Wait(w.t.Context(), time.Hour)
	if err != nil {
		w.t.Fatalf("wait: %v", err)
	}
	return c
}

// resume sends a decision and waits until the call has ended or is suspended again.
func (w *world) resume(p tool.Principal, c *call.Call, d tool.Decision) (*call.Call, error) {
	w.t.Helper()
	if d.ID == "" {
		d.ID = "decision-" + newCallID()
	}
	if d.ExpectedDigest == "" && c.Open() != nil {
		d.ExpectedDigest = c.Open().Digest
	}
	watcher, err := w.e.Resume(w.t.Context(), p, call.ResumeRequest{SuspensionID: c.LastRound().Suspension.ID, Decision: d})
	if err != nil {
		return nil, err
	}
	return watcher.Wait(w.t.Context(), time.Hour)
}

// events reads all frames of a watcher until it ends.
func events(t *testing.T, w call.Stream) (list []call.Event, controls []call.Frame) {
	t.Helper()
	defer w.Close()
	for {
		f, err := w.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return list, controls
		}
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		if len(f.Events) > 0 {
			list = append(list, f.Events...)
		} else {
			controls = append(controls, f)
		}
		if f.Closing {
			return list, controls
		}
	}
}

// types returns the types of events, whose sequences must be consecutive from first.
func types(t *testing.T, first int64, list []call.Event) string {
	t.Helper()
	var names []string
	for i, ev := range list {
		if ev.Sequence != first+int64(i) {
			t.Errorf("event %d has sequence %d, want %d", i, ev.Sequence, first+int64(i))
		}
		names = append(names, string(ev.Type))
	}
	return strings.Join(names, " ")
}

func wantRefusal(t *testing.T, err error, kind call.RefusalKind, reason string) {
	t.Helper()
	var r *call.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("error %v, want a refusal %s %s", err, kind, reason)
	}
	if r.Kind != kind || r.Reason != reason {
		t.Fatalf("refusal %s %s (%s), want %s %s", r.Kind, r.Reason, r.Message, kind, reason)
	}
}

// gate implements [hook.Gate] with a function.
type gate func(in *hook.Input) (hook.Verdict, error)

func (g gate) Check(_ context.Context, in *hook.Input) (hook.Verdict, error) { return g(in) }

func gates(named ...hook.Entry[hook.Gate]) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) { c.Hooks.Gate = named }
}

// namedGate returns a gate without a deadline, because it only computes. Most real gates are like this.
func namedGate(name string, g gate) hook.Entry[hook.Gate] {
	return hook.Entry[hook.Gate]{Name: name, Hook: g, Deadline: hook.NoDeadline}
}

// approval returns a gate that asks for approval. It allows the call when an answer for exactly the current arguments exists.
func approval(ticket tool.Ticket) gate {
	if ticket.Approvers == nil {
		ticket.Approvers = &tool.Approvers{}
	}
	return func(in *hook.Input) (hook.Verdict, error) {
		if in.Answer() != nil {
			return hook.Allow(), nil
		}
		return hook.Suspend(ticket), nil
	}
}

// The functions below return tools.

var (
	mutating = tool.Effects{}
	reading  = tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
)

const anyObject = `{"type":"object"}`

func echo(id string, e tool.Effects) tool.Tool {
	return tool.Func(tool.Descriptor{ID: id, Effects: e, Parameters: json.RawMessage(anyObject)},
		func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			return &tool.Result{Status: tool.StatusSuccess, Data: c.Arguments.Text()}, nil
		})
}

func made(id string, e tool.Effects, run func(ctx context.Context, c *tool.Call) (*tool.Result, error)) tool.Tool {
	return tool.Func(tool.Descriptor{ID: id, Effects: e, Parameters: json.RawMessage(anyObject)}, run)
}
