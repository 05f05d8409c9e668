package lifecycle_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a call in the same way as a stream of the API, and returns the watcher of the call.
func (w *world) start(s call.Spec, o call.ExecuteOptions) call.Watcher {
	w.t.Helper()
	watcher, err := w.e.Execute(w.t.Context(), alice, s, o)
	if err != nil {
		w.t.Fatalf("execute: %v", err)
	}
	return watcher
}

// begin starts a detached call. It returns when the call has ended or waits for something.
func (w *world) begin(s call.Spec) string {
	w.t.Helper()
	w.start(s, call.ExecuteOptions{}).Close()
	synctest.Wait()
	return s.ID
}

func (w *world) get(id string) *call.Call {
	w.t.Helper()
	c, err := w.e.Records().Get(w.t.Context(), carol, id)
	if err != nil {
		w.t.Fatalf("get %s: %v", id, err)
	}
	return c
}

// log returns the whole log of a call, as a late watcher receives it.
func (w *world) log(id string) []call.Event {
	w.t.Helper()
	watcher, err := w.e.Watch(w.t.Context(), carol, id, "c1.1.0", false)
	if err != nil {
		w.t.Fatalf("watch %s: %v", id, err)
	}
	list, _ := events(w.t, watcher)
	return list
}

// answer answers the open question of a call, and waits until the call has ended or is suspended again.
func (w *world) answer(p tool.Principal, c *call.Call, d tool.Decision) *call.Call {
	w.t.Helper()
	next, err := w.resume(p, c, d)
	if err != nil {
		w.t.Fatalf("resume: %v", err)
	}
	return next
}

func yes() tool.Decision { return tool.Decision{Action: tool.Resume} }
func no(reason string) tool.Decision {
	return tool.Decision{Action: tool.Cancel, Reason: reason}
}

// checkLog checks the rules that hold for every log. It is numbered from 1. It has at most one terminal event, which is the last event and
// equals the record.
func (w *world) checkLog(id string) []call.Event {
	w.t.Helper()
	c, list := w.get(id), w.log(id)
	types(w.t, 1, list)
	terminal := 0
	for i, ev := range list {
		if ev.Type != call.EventFinished {
			continue
		}
		terminal++
		if i != len(list)-1 {
			w.t.Errorf("event %d of %d is terminal", i+1, len(list))
		}
		if ev.Outcome.Status != c.Status || ev.Outcome.Executed != c.Executed || ev.Outcome.Result.ModelText() != c.Result.ModelText() {
			w.t.Errorf("published %s %s %q; the record has %s %s %q", ev.Outcome.Status, ev.Outcome.Executed, ev.Outcome.Result.ModelText(),
				c.Status, c.Executed, c.Result.ModelText())
		}
	}
	if want := map[bool]int{true: 1}[c.Status.Terminal()]; terminal != want {
		w.t.Errorf("call %s is %s and has %d terminal events", id, c.Status, terminal)
	}
	return list
}

// both combines several changes of a configuration.
func both(changes ...func(*lifecycle.Config)) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) {
		for _, change := range changes {
			change(c)
		}
	}
}

// afterHook records the inputs of After hooks.
type afterHook struct {
	mu   sync.Mutex
	seen map[string][]hook.Outcome
}

func (h *afterHook) After(_ context.Context, in *hook.Input, o hook.Outcome) (hook.AfterResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[string][]hook.Outcome{}
	}
	h.seen[in.CallID] = append(h.seen[in.CallID], o)
	return hook.AfterResult{}, nil
}

// saw reports whether the After hook received the outcome of the call exactly once, equal to the record.
func (h *afterHook) saw(c *call.Call) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, o := range h.seen[c.ID] {
		if o.Status == c.Status && o.Executed == c.Executed {
			n++
		}
	}
	return n == 1
}

// Function types that implement hooks.
type (
	rewriteFunc func(in *hook.Input) (string, error)
	admitFunc   func(in *hook.Input) (func(), error)
	beforeFunc  func(in *hook.Input) ([]tool.Command, error)
	afterFunc   func(o hook.Outcome) (hook.AfterResult, error)
	filterFunc  func(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record)
)

func (f rewriteFunc) Rewrite(_ context.Context, in *hook.Input) (string, error)       { return f(in) }
func (f admitFunc) Admit(_ context.Context, in *hook.Input) (func(), error)           { return f(in) }
func (f beforeFunc) Before(_ context.Context, in *hook.Input) ([]tool.Command, error) { return f(in) }
func (f filterFunc) Filter(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	return f(in)
}
func (f afterFunc) After(_ context.Context, _ *hook.Input, o hook.Outcome) (hook.AfterResult, error) {
	return f(o)
}

// probe is a tool that counts its executions. It can also make them wait.
type probe struct {
	hold bool // executions wait until free is called
	deaf bool // executions ignore their cancellation
	runs atomic.Int64

	mu    sync.Mutex
	open  chan struct{}
	calls []tool.Call
}

func held() *probe { return &probe{hold: true} }

// opened returns the channel that free closes. It creates the channel at its first call, because a channel belongs to the synctest bubble
// that creates it.
func (p *probe) opened() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = make(chan struct{})
	}
	return p.open
}

// free lets all current and later executions continue.
func (p *probe) free() { close(p.opened()) }

func (p *probe) tool(id string, e tool.Effects) tool.Tool {
	return p.toolAs(tool.Descriptor{ID: id, Effects: e})
}

func (p *probe) toolAs(d tool.Descriptor) tool.Tool {
	d.Parameters = json.RawMessage(anyObject)
	return tool.Func(d, p.run)
}

func (p *probe) run(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	p.runs.Add(1)
	p.mu.Lock()
	p.calls = append(p.calls, *c)
	p.mu.Unlock()
	done := ctx.Done()
	if p.deaf {
		done = nil
	}
	if p.hold {
		select {
		case <-p.opened():
		case <-done:
			return nil, context.Cause(ctx)
		}
	}
	return &tool.Result{Status: tool.StatusSuccess, Data: c.Arguments.Text()}, nil
}

func (p *probe) seen() []tool.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]tool.Call(nil), p.calls...)
}

// asks returns a tool that asks a question until it is answered.
func asks(id string, t tool.Ticket) tool.Tool {
	return made(id, mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			return tool.SuspendedWith(t), nil
		}
		return &tool.Result{Status: tool.StatusSuccess, Data: c.Resume.Result}, nil
	})
}

const year = 365 * 24 * time.Hour

var everything = call.Query{Namespace: "ns", Limit: 1000, OldestFirst: true}

// change is a change that the journal of a test receives.
type change struct{ *store.Change }

func (c *change) ends() bool { return c.Call != nil && c.Call.Status.Terminal() }

// failing returns a function that refuses a change with ErrFull if the function which returns true for it. n is the number of the change,
// counted from 1.
func failing(which func(n int, c *change) bool) func(*store.Change) error {
	var mu sync.Mutex
	n := 0
	return func(c *store.Change) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		if which(n, &change{c}) {
			return store.ErrFull
		}
		return nil
	}
}

// useStore restarts the engine on a new journal with the given clock and faults. A nil argument selects the default.
func (w *world) useStore(now func() time.Time, fail func(*store.Change) error) {
	w.t.Helper()
	w.past = append(w.past, w.e)
	w.store = memory.New(memory.Config{Now: now, Fail: fail})
	w.open()
}
