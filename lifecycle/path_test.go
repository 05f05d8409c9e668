package lifecycle_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

func TestAllowedCallHasThreeEvents(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		inBubble(t, []tool.Tool{echo("echo", effects)}, nil, func(t *testing.T, w *world) {
			s := spec("echo", `{"b":1,"a":2}`)
			watcher, err := w.e.Execute(t.Context(), alice, s, lifecycle.ExecuteOptions{Attended: true})
			if err != nil {
				t.Fatal(err)
			}
			list, _ := events(t, watcher)
			if got, want := types(t, 1, list), "accepted attempt_started finished"; got != want {
				t.Errorf("events %q, want %q", got, want)
			}
			o := list[2].Outcome
			if o.Status != call.Succeeded || o.Executed != call.Finished || o.Result.Data != `{"a":2,"b":1}` {
				t.Errorf("outcome %+v %+v", o, o.Result)
			}
			c, err := w.e.Get(t.Context(), alice, s.ID)
			if err != nil || c.Status != call.Succeeded || c.Requested != `{"b":1,"a":2}` || c.Effective != `{"a":2,"b":1}` {
				t.Errorf("call %+v, %v", c, err)
			}
		})
	}
}

func TestSuspendDecideFinish(t *testing.T) {
	inBubble(t, []tool.Tool{echo("echo", mutating)}, gates(namedGate("ask", approval(tool.Ticket{Message: "sure?"}))), func(t *testing.T, w *world) {
		c := w.do(spec("echo", `{"x":1}`))
		if c.Status != call.Suspended || c.Open() == nil {
			t.Fatalf("call %+v", c)
		}
		w.crash()
		c, err := w.resume(bob, c, tool.Decision{Action: tool.Resume})
		if err != nil {
			t.Fatal(err)
		}
		if c.Status != call.Succeeded || c.Result.Data != `{"x":1}` {
			t.Errorf("call %+v %+v", c, c.Result)
		}
		watcher, err := w.e.Watch(t.Context(), alice, c.ID, "c1.1.0", true)
		if err != nil {
			t.Fatal(err)
		}
		list, _ := events(t, watcher)
		if got, want := types(t, 1, list), "accepted gate_decided suspended resumed attempt_started finished"; got != want {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// P12, T41: a call never runs below the isolation that its tool requires.
func TestP12RequiredIsolation(t *testing.T) {
	ran := 0
	isolated := tool.Func(tool.Descriptor{ID: "isolated", RequiredIsolation: tool.IsolationFull, Parameters: json.RawMessage(anyObject)},
		func(context.Context, *tool.Call) (*tool.Result, error) { ran++; return tool.Text("ran"), nil })
	facts := factsHeld("fs_read", "fs_write", "processes_killed")
	inBubble(t, []tool.Tool{isolated}, func(c *lifecycle.Config) { c.Isolation = func(*tool.Descriptor) []call.Fact { return facts } }, func(t *testing.T, w *world) {
		c := w.do(spec("isolated", `{}`))
		if e := c.Result.Error; c.Status != call.Failed || e.Code != tool.Sandbox || e.Reason != "net" || c.Executed != call.NotStarted || ran != 0 {
			t.Errorf("call %+v %+v, ran %d times", c, e, ran)
		}
		facts = factsHeld("fs_read", "fs_write", "processes_killed", "net")
		if c := w.do(spec("isolated", `{}`)); c.Status != call.Succeeded || !c.Isolation.Holds("net") || ran != 1 {
			t.Errorf("call %+v, ran %d times", c, ran)
		}
	})
}

// factsHeld is facts of isolation that hold.
func factsHeld(names ...string) (facts []call.Fact) {
	for _, name := range names {
		facts = append(facts, call.Fact{Name: name, Held: true})
	}
	return facts
}
