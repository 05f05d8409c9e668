package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

func TestAllowedCallHasThreeEvents(t *testing.T) {
	for _, effects := range []tool.Effects{mutating, reading} {
		inBubble(t, []tool.Tool{echo("echo", effects)}, nil, func(t *testing.T, w *world) {
			s := spec("echo", `{"b":1,"a":2}`)
			watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{Attended: true})
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
			c, err := w.e.Records().Get(t.Context(), alice, s.ID)
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

// TestP12RequiredIsolation checks that a call never runs with less isolation than its tool requires (also T41).
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

// TestRequiredSecrets checks a call whose tool lacks a required secret. No person is asked about it, and DescribeCall reports the missing
// secret (T79).
func TestRequiredSecrets(t *testing.T) {
	ran := 0
	needs := tool.Func(tool.Descriptor{ID: "needs", RequiredSecrets: []string{"there", "db"}, Parameters: json.RawMessage(anyObject)},
		func(context.Context, *tool.Call) (*tool.Result, error) { ran++; return tool.Text("ran"), nil })
	var why error
	config := both(gates(namedGate("ask", approval(tool.Ticket{}))), func(c *lifecycle.Config) {
		c.Secret = func(namespace, id, name string) error {
			if namespace != "ns" || id != "needs" {
				t.Errorf("asked for %s, %s", namespace, id)
			}
			if name == "db" {
				return why
			}
			return nil
		}
	})
	inBubble(t, []tool.Tool{needs}, config, func(t *testing.T, w *world) {
		why = errors.New("for the operator alone")
		c := w.do(spec("needs", `{}`))
		e := c.Result.Error
		if c.Status != call.Failed || e.Code != tool.ExecutionFailed || e.Reason != "SECRET_UNAVAILABLE" || !e.Aborted || c.Executed != call.NotStarted ||
			c.Result.ModelText() != "Not run: secret db is not available to this tool" || strings.Contains(e.DeveloperMessage, "operator") {
			t.Errorf("call %+v %+v", c, e)
		}
		if got, err := w.e.Describe(t.Context(), alice, spec("needs", `{}`)); err != nil || got.Valid || got.Error.Reason != "SECRET_UNAVAILABLE" {
			t.Errorf("described as %+v, %v", got, err)
		}
		why = nil
		if c = w.do(spec("needs", `{}`)); c.Status != call.Suspended {
			t.Fatalf("call %+v", c)
		}
		why = errors.New("taken away while it waited")
		if c = w.answer(bob, c, yes()); c.Status != call.Failed || c.Result.Error.Reason != "SECRET_UNAVAILABLE" || ran != 0 {
			t.Errorf("call %+v, ran %d times", c, ran)
		}
	})
}

// factsHeld returns isolation facts with these names, all of which hold.
func factsHeld(names ...string) (facts []call.Fact) {
	for _, name := range names {
		facts = append(facts, call.Fact{Name: name, Held: true})
	}
	return facts
}
