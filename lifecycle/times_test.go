package lifecycle_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// attemptEnds returns how the attempts of a call ended.
func attemptEnds(c *call.Call) string {
	ends := make([]call.AttemptEnd, len(c.Attempts))
	for i := range ends {
		ends[i] = c.AttemptEnd(i)
	}
	return fmt.Sprint(ends)
}

func TestAttemptEnd(t *testing.T) {
	readOnly := tool.Descriptor{Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}}
	tests := []struct {
		name string
		tool tool.Tool
		then func(w *world, id string) *call.Call // nil when the call has ended
		want string
	}{
		{"returned", echo("t", mutating), nil, "[RETURNED]"},
		{"timed out", held().toolAs(tool.Descriptor{ID: "t", Timeouts: tool.Timeouts{Attempt: time.Second}}), nil, "[TIMED_OUT]"},
		{"panicked", made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { panic("no") }), nil, "[FAILED]"},
		{"lost and run again", &losing{d: readOnly, lose: 1}, nil, "[LOST RETURNED]"},
		{"in doubt", &losing{lose: 1}, nil, "[LOST]"},
		{"asked", asks("t", tool.Ticket{Message: "?"}), nil, "[SUSPENDED]"},
		{"asked, then answered", asks("t", tool.Ticket{Message: "?"}), func(w *world, id string) *call.Call {
			return w.answer(alice, w.get(id), tool.Decision{Action: tool.Resume, Result: `1`})
		}, "[SUSPENDED RETURNED]"},
		{"asked, then declined", asks("t", tool.Ticket{Message: "?"}), func(w *world, id string) *call.Call {
			time.Sleep(time.Second)
			return w.answer(alice, w.get(id), no("no"))
		}, "[SUSPENDED]"},
		{"runs, then is stopped", held().toolAs(tool.Descriptor{ID: "t"}), func(w *world, id string) *call.Call {
			if c := w.get(id); attemptEnds(c) != "[]" {
				w.t.Errorf("while it runs: %s", attemptEnds(c))
			}
			_, err := w.e.Cancel(w.t.Context(), alice, id, "", time.Minute)
			if err != nil {
				w.t.Error(err)
			}
			return w.get(id)
		}, "[STOPPED]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, []tool.Tool{tt.tool}, nil, func(t *testing.T, w *world) {
				var c *call.Call
				if tt.then == nil {
					c = w.do(spec("t", ""))
				} else {
					id := w.begin(spec("t", ""))
					synctest.Wait()
					c = tt.then(w, id)
				}
				if got := attemptEnds(c); got != tt.want {
					t.Errorf("%s, want %s; call %s", got, tt.want, c.Status)
				}
			})
		})
	}
}

// TestTimesOfHooks checks that the record has the time and duration of each gate, and of each other hook that may wait, over all pipeline
// runs of a call.
func TestTimesOfHooks(t *testing.T) {
	slow := func(d time.Duration) beforeFunc {
		return func(*hook.Input) ([]tool.Command, error) { time.Sleep(d); return nil, nil }
	}
	change := func(c *lifecycle.Config) {
		c.Hooks.Gate = []hook.Entry[hook.Gate]{{Name: "g", Hook: gate(func(*hook.Input) (hook.Verdict, error) {
			time.Sleep(70 * time.Millisecond)
			return hook.Allow(), nil
		})}}
		c.Hooks.Before = []hook.Entry[hook.Before]{
			{Name: "computes", Hook: slow(0), Deadline: hook.NoDeadline},
			{Name: "waits", Hook: slow(30 * time.Millisecond)},
			{Name: "fails", Hook: slow(2 * time.Second)},
		}
		c.Hooks.After = []hook.Entry[hook.After]{{Name: "after", Hook: &afterHook{}}}
	}
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{Message: "?"})}, change, func(t *testing.T, w *world) {
		c := w.answer(alice, w.do(spec("t", "")), tool.Decision{Action: tool.Resume, Result: `1`})
		if v := c.Verdicts[0]; v.Took != 70*time.Millisecond || !v.Asked.After(c.Created) {
			t.Errorf("%+v, call of %v", v, c.Created)
		}
		got := ""
		for _, r := range c.HookRuns {
			got += fmt.Sprintf("%s %s %v %t; ", r.Kind, r.Hook, r.Took, r.Failed)
		}
		time.Sleep(2 * time.Second) // The hook that did not answer in time ends now.
		want := "BEFORE waits 30ms false; BEFORE fails 1s true; BEFORE waits 30ms false; BEFORE fails 1s true; AFTER after 0s false; "
		if c.Status != call.Succeeded || got != want {
			t.Errorf("%s: got  %s\nwant %s", c.Status, got, want)
		}
	})
}

func TestQueuedHasTheReason(t *testing.T) {
	tests := []struct {
		name   string
		change func(*lifecycle.Config)
		want   call.Queued
	}{
		{"thread", nil, call.Queued{Reason: "THREAD", Ahead: 2}},
		{"tool", func(c *lifecycle.Config) { c.ToolConcurrency = []call.ToolLimit{{Tools: "t", Calls: 1}} }, call.Queued{Reason: "TOOL", Ahead: 1, Limit: 1}},
		{"principal", func(c *lifecycle.Config) { c.PrincipalConcurrency = 1 }, call.Queued{Reason: "PRINCIPAL", Ahead: 1, Limit: 1}},
		{"namespace", func(c *lifecycle.Config) { c.NamespaceConcurrency = 1 }, call.Queued{Reason: "NAMESPACE", Ahead: 1, Limit: 1}},
		{"daemon", func(c *lifecycle.Config) { c.Concurrency = 1 }, call.Queued{Reason: "DAEMON", Ahead: 1, Limit: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := held()
			inBubble(t, []tool.Tool{p.tool("t", mutating)}, tt.change, func(t *testing.T, w *world) {
				var last string
				for range 3 {
					s := spec("t", "")
					if tt.change != nil {
						s = apart(s)
					}
					last = w.begin(s)
					synctest.Wait()
				}
				log := w.log(last)
				if len(log) != 2 || log[1].Queued == nil || *log[1].Queued != tt.want {
					t.Errorf("%+v, want %+v", log[len(log)-1].Queued, tt.want)
				}
				p.free()
				synctest.Wait()
			})
		})
	}
}
