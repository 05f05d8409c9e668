package wire_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/subagent"
	"github.com/toold-dev/toold/tools/subagent/subagenttest"
)

var ann = tool.Principal{Namespace: "default", Subject: "ann", Roles: []string{"caller"}}

// farm is an engine with a subagent. The model of the subagent calls the tools that the task names.
type farm struct {
	t       *testing.T
	e       *lifecycle.Engine
	release chan struct{} // closed to end the calls of the tool "stubborn"
	running chan string   // receives the id of each call that begins to run
	gate    chan struct{} // the model answers after it is closed; nil means at once

	mu   sync.Mutex
	runs map[string]bool // running calls of the tools "slow" and "stubborn", by id
}

const grace = 2 * time.Second

func newFarm(t *testing.T, change func(*lifecycle.Config)) *farm {
	t.Helper()
	f := &farm{t: t, release: make(chan struct{}), running: make(chan string, 64), runs: map[string]bool{}}
	m := subagenttest.New(func(q *subagenttest.Question) subagenttest.Reply {
		if f.gate != nil {
			<-f.gate
		}
		if q.Turns() > 0 || q.Task() == "nothing" {
			return subagenttest.Reply{Text: "done"}
		}
		var list []subagenttest.Call
		for i, name := range strings.Fields(q.Task()) {
			list = append(list, subagenttest.Call{ID: "c" + string(rune('a'+i)), Name: name, Arguments: "{}"})
		}
		return subagenttest.Reply{Calls: list}
	})
	tools := registry.New(registry.Config{})
	helper, err := subagent.New(subagent.Config{
		Settings: subagent.Settings{Name: "helper", Protocol: subagent.OpenAI, Endpoint: m.Endpoint("openai"), Model: "small"}, FirstDelay: 10 * time.Millisecond,
		Caller: wire.Subagents(func() *lifecycle.Engine { return f.e }, tools, nil),
	})
	f.must(err)
	f.must(tools.Register("subagent:helper", helper))
	safe := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
	f.must(tools.Register("test", tool.Func(tool.Descriptor{ID: "quick", Effects: safe}, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("ok"), nil })))
	alone := tool.Effects{Tier: tool.Observe}
	f.must(tools.Register("test", tool.Func(tool.Descriptor{ID: "alone", Effects: alone}, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("ok"), nil })))
	f.must(tools.Register("test", tool.Func(tool.Descriptor{ID: "slow", Effects: safe}, f.slow)))
	f.must(tools.Register("test", tool.Func(tool.Descriptor{ID: "stubborn", Effects: safe}, f.stubborn)))
	f.must(tools.Register("test", tool.Func(tool.Descriptor{ID: "ask", Effects: safe}, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			return tool.Suspended("May I?"), nil
		}
		return f.slow(ctx, c)
	})))
	f.must(tools.Register("test", tool.Func(tool.Descriptor{ID: "ask_stubborn", Effects: safe}, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			return tool.Suspended("May I?"), nil
		}
		return f.stubborn(ctx, c)
	})))
	cfg := lifecycle.Config{Store: memory.New(memory.Config{}), Tools: wire.Definitions(tools), Answers: wire.Answers(tools), Grace: grace}
	if change != nil {
		change(&cfg)
	}
	f.e, err = lifecycle.New(cfg)
	f.must(err)
	t.Cleanup(func() {
		close(f.release)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		f.e.Drain(ctx)
		_ = helper.Close()
		m.Close()
	})
	return f
}

func (f *farm) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *farm) enter(id string) (leave func()) {
	f.mu.Lock()
	f.runs[id] = true
	f.mu.Unlock()
	f.running <- id
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.runs, id)
	}
}

// still returns the ids of the calls that are still running.
func (f *farm) still() (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.runs {
		ids = append(ids, id)
	}
	return ids
}

// slow is a tool that returns late in the grace period after a cancellation.
func (f *farm) slow(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	defer f.enter(c.ID)()
	<-ctx.Done()
	time.Sleep(grace / 2)
	return nil, ctx.Err()
}

// stubborn is a tool that ignores cancellation.
func (f *farm) stubborn(_ context.Context, c *tool.Call) (*tool.Result, error) {
	defer f.enter(c.ID)()
	<-f.release
	return tool.Text("at last"), nil
}

// ask starts the subagent with a task. If until is positive, ask returns when that many calls of the subagent run. Otherwise it returns
// when the call of the subagent ends or is suspended.
func (f *farm) ask(id, task string, until int) *call.Call {
	f.t.Helper()
	arguments, err := json.Marshal(map[string]string{"task": task})
	f.must(err)
	w, err := f.e.Execute(f.t.Context(), ann, call.Spec{Tool: "helper", ID: id, Arguments: string(arguments), Run: tool.Run{ID: "run of " + id, Thread: "thread of " + id}}, call.ExecuteOptions{})
	f.must(err)
	f.t.Cleanup(w.Close)
	if until == 0 {
		c := f.awaitPause(w)
		if c.Status != call.Suspended {
			f.t.Fatalf("it is %s and does not wait: %+v", c.Status, c.Result)
		}
		return c
	}
	for range until {
		f.begun()
	}
	return w.Call()
}

func (f *farm) begun() string {
	f.t.Helper()
	select {
	case id := <-f.running:
		return id
	case <-time.After(2 * time.Minute):
		f.t.Fatal("no call runs")
		return ""
	}
}

// awaitPause waits until a call has ended or is suspended.
func (f *farm) awaitPause(w call.Watcher) *call.Call {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		if c := w.Call(); c.Status.Terminal() || c.Status == call.Suspended {
			return c
		}
		_, err := w.Next(ctx)
		f.must(err)
	}
}

// below returns the calls that a call started, by tool.
func (f *farm) below(parent string) map[string]*call.Call {
	f.t.Helper()
	found := map[string]*call.Call{}
	page, err := f.e.Records().List(f.t.Context(), ann, call.Query{ParentCall: parent, Limit: 100})
	f.must(err)
	for _, c := range page.Calls {
		found[c.Tool] = c
	}
	return found
}

// decide answers the open question of a call. It does not wait for the call to continue.
func (f *farm) decide(c *call.Call, d tool.Decision) call.Watcher {
	f.t.Helper()
	open := c.Open()
	if open == nil {
		f.t.Fatalf("%s is %s and waits for nothing: %+v", c.ID, c.Status, c.Result)
	}
	d.ID = "decision-of-" + open.ID
	w, err := f.e.Resume(f.t.Context(), ann, call.ResumeRequest{SuspensionID: open.ID, Decision: d})
	f.must(err)
	f.t.Cleanup(w.Close)
	return w
}

// TestSubagentEndsAfterItsCalls checks the end of a subagent in each way in which it can be ended. The end is reported only when no call of
// the subagent runs. The result names calls that did not end in time.
func TestSubagentEndsAfterItsCalls(t *testing.T) {
	t.Parallel()
	cancel := func(f *farm, id string) *call.Call {
		c, err := f.e.Cancel(f.t.Context(), ann, id, "", 20*time.Second)
		f.must(err)
		return c
	}
	decline := func(f *farm, id string) *call.Call {
		c, err := f.e.Records().Get(f.t.Context(), ann, id)
		f.must(err)
		w := f.decide(c, tool.Decision{Action: tool.Cancel})
		for c := w.Call(); !c.Status.Terminal(); c = w.Call() {
			_, err := w.Next(f.t.Context())
			f.must(err)
		}
		return w.Call()
	}
	for name, tt := range map[string]struct {
		task     string
		suspends bool // the subagent is suspended; the test approves the first of its calls, which then runs
		end      func(f *farm, id string) *call.Call
		unseen   bool
	}{
		"cancelled":                      {"slow", false, cancel, false},
		"cancelled, one does not heed":   {"stubborn slow", false, cancel, true},
		"cancelled while it waits":       {"ask ask_stubborn", true, cancel, false},
		"declined":                       {"ask ask_stubborn", true, decline, false},
		"declined, one does not heed":    {"ask_stubborn ask", true, decline, true},
		"cancelled waiting, not heeding": {"ask_stubborn ask", true, cancel, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t, nil)
			const id = "subagent-parent-1"
			first, _, _ := strings.Cut(tt.task, " ")
			if tt.suspends {
				f.ask(id, tt.task, 0)
				f.decide(f.below(id)[first], tool.Decision{Action: tool.Resume})
				f.begun()
			} else {
				f.ask(id, tt.task, len(strings.Fields(tt.task)))
			}
			c := tt.end(f, id)
			still := f.still()
			if c.Status != call.Cancelled {
				t.Fatalf("it is %s", c.Status)
			}
			var want []string
			if tt.unseen {
				want = []string{f.below(id)[first].ID}
			}
			if !slices.Equal(still, want) {
				t.Errorf("after the end was reported, %v run, not %v", still, want)
			}
			if c.Result.Metadata[outcome.UnseenCalls] != strings.Join(want, "") || strings.Contains(c.Result.ModelText(), "nested calls that may still run") != tt.unseen || (c.Executed == call.ExecutedUnknown) != tt.unseen {
				t.Errorf("%s, it says %q with %v", c.Executed, c.Result.ModelText(), c.Result.Metadata)
			}
		})
	}
}

// TestSubagentEndsWhileTheDaemonStops cancels a subagent while the daemon stops. The subagent has a call that has not begun, and so never
// runs. The subagent must not wait for this call, and its result must not name it.
func TestSubagentEndsWhileTheDaemonStops(t *testing.T) {
	t.Parallel()
	f := newFarm(t, nil)
	const id = "subagent-parent-1"
	f.ask(id, "slow alone", 1)
	f.e.RefuseCalls()
	c, err := f.e.Cancel(t.Context(), ann, id, "", 20*time.Second)
	f.must(err)
	if below := f.below(id)["alone"]; below.Status != call.New || below.Cancel == nil {
		t.Errorf("what had not begun is %s", below.Status)
	}
	if c.Status != call.Cancelled || c.Result.Metadata[outcome.UnseenCalls] != "" || len(f.still()) > 0 {
		t.Errorf("it is %s with %v, %v run", c.Status, c.Result.Metadata, f.still())
	}
	if took := c.Ended.Sub(c.Cancel.Time); took >= grace+2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A subagent whose task is edited starts the new task after the calls of the old task have ended. Its result names calls that did not end
// in time.
func TestSubagentEditedEndsItsCalls(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"ask", "ask_stubborn"} {
		f := newFarm(t, nil)
		const id = "subagent-parent-1"
		parent := f.ask(id, first+" "+map[string]string{"ask": "ask_stubborn", "ask_stubborn": "ask"}[first], 0)
		child := f.below(id)[first]
		f.decide(child, tool.Decision{Action: tool.Resume})
		f.begun()
		c := f.awaitPause(f.decide(parent, tool.Decision{Action: tool.Resume, Arguments: `{"task":"nothing"}`}))
		if c.Status != call.Succeeded || c.Result.Message != "done" {
			t.Fatalf("it ended with %s %+v", c.Status, c.Result)
		}
		want := map[string]string{"ask_stubborn": child.ID}[first]
		if got := c.Result.Metadata[outcome.UnseenCalls]; got != want || strings.Join(f.still(), "") != want {
			t.Errorf("%s: it names %q, %v run", first, got, f.still())
		}
	}
}

// TestSubagentLendsWhileTheQueueIsFull checks a subagent that holds the only slot while the queue is full of calls that wait for it. The
// subagent lends its slot to these calls, and then its own calls can run.
func TestSubagentLendsWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	f := newFarm(t, func(c *lifecycle.Config) {
		c.Concurrency, c.QueueLength, c.NamespaceQueue, c.PrincipalQueue, c.QueueTimeout = 1, 1, 1, 1, time.Minute
	})
	f.gate = make(chan struct{})
	start := func(spec call.Spec) call.Watcher {
		w, err := f.e.Execute(t.Context(), ann, spec, call.ExecuteOptions{})
		f.must(err)
		t.Cleanup(w.Close)
		return w
	}
	until := func(what string, ok func() bool) {
		for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	parent := start(call.Spec{Tool: "helper", ID: "subagent-parent-1", Arguments: `{"task":"quick"}`, Run: tool.Run{Thread: "a"}})
	until("the subagent does not run", func() bool { return f.e.Stats().Running == 1 })
	other := start(call.Spec{Tool: "quick", ID: "waits-for-a-place", Arguments: "{}", Run: tool.Run{Thread: "b"}})
	until("the other call does not wait", func() bool { return f.e.Stats().Queued == 1 })
	close(f.gate)
	if c := f.awaitPause(other); c.Status != call.Succeeded {
		t.Errorf("the other call is %s: %+v", c.Status, c.Result)
	}
	if c := f.awaitPause(parent); c.Status != call.Succeeded {
		t.Errorf("the subagent is %s: %+v", c.Status, c.Result)
	}
}
