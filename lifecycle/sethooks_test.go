package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// TestSetHooks checks that a running call keeps its hooks until it ends, and that a suspended call resumes with the new gates.
func TestSetHooks(t *testing.T) {
	answering := func(text string) []hook.Entry[hook.After] {
		return []hook.Entry[hook.After]{{Name: "say", Hook: afterFunc(func(hook.Outcome) (hook.AfterResult, error) {
			return hook.AfterResult{Result: &tool.Result{Message: text}}, nil
		})}}
	}
	resumePipeline := make(chan struct{})
	slow := made("slow", mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-resumePipeline
		return tool.Text("done"), nil
	})
	before := hook.Set{Gate: []hook.Entry[hook.Gate]{{Name: "ask", Hook: approval(tool.Ticket{}), Match: hook.Match{Tools: []string{"t"}}}}, After: answering("old")}
	synctest.Test(t, func(t *testing.T) {
		resumePipeline = make(chan struct{})
		w := newWorld(t, []tool.Tool{echo("t", mutating), slow}, func(c *lifecycle.Config) { c.Hooks = before })
		defer w.stop()
		waits := w.do(spec("t", ""))
		running := spec("slow", "")
		watcher, err := w.e.Execute(t.Context(), alice, running, call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		next := hook.Set{Gate: []hook.Entry[hook.Gate]{{Name: "ask", Hook: gate(allow)}, {Name: "no", Hook: gate(func(*hook.Input) (hook.Verdict, error) { return hook.Deny("not any more"), nil })}}, After: answering("new")}
		if err := w.e.SetHooks(next); err != nil {
			t.Fatal(err)
		}
		close(resumePipeline)
		c, err := watcher.Wait(t.Context(), time.Hour)
		if err != nil || c.Result.ModelText() != "old" {
			t.Errorf("the call that ran: %+v, %v", c.Result, err)
		}
		c, err = w.resume(bob, waits, tool.Decision{Action: tool.Resume})
		if err != nil || c.Status != call.Failed || c.Result.ModelText() != "not any more" {
			t.Errorf("the call that waited: %s %+v, %v", c.Status, c.Result, err)
		}
		if err := w.e.SetHooks(hook.Set{Gate: []hook.Entry[hook.Gate]{{Name: call.OriginTool, Hook: gate(allow)}}}); err == nil {
			t.Error("a gate with the name of a tool's questions is accepted")
		}
	})
}

// TestT95ProtocolErrorBlocks checks a hook that returns something that its kind of hook may not return. Such a hook blocks the call, even
// if the configuration tolerates its failures. An After hook cannot block, so its error hides the result.
func TestT95ProtocolErrorBlocks(t *testing.T) {
	wrong := &hook.ProtocolError{Message: "a gate has no arguments"}
	tests := map[string]hook.Set{
		"gate":    {Gate: []hook.Entry[hook.Gate]{{Name: "h", OnFailure: hook.FailAllow, Hook: gate(func(*hook.Input) (hook.Verdict, error) { return hook.Verdict{}, wrong })}}},
		"rewrite": {Rewrite: []hook.Entry[hook.Rewrite]{{Name: "h", Hook: rewriteFunc(func(*hook.Input) (string, error) { return "", wrong })}}},
		"admit":   {Admit: []hook.Entry[hook.Admit]{{Name: "h", Hook: admitFunc(func(*hook.Input) (func(), error) { return nil, wrong })}}},
		"before":  {Before: []hook.Entry[hook.Before]{{Name: "h", Hook: beforeFunc(func(*hook.Input) ([]tool.Command, error) { return nil, wrong })}}},
	}
	for kind, set := range tests {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, []tool.Tool{echo("t", mutating)}, func(c *lifecycle.Config) { c.Hooks = set }, func(t *testing.T, w *world) {
				c := w.do(spec("t", ""))
				if c.Status != call.Failed || c.Result.Error.Reason != "BLOCKED" || !c.Result.Error.TerminateRun || c.Executed != call.NotStarted {
					t.Errorf("call %s %+v", c.Status, c.Result)
				}
				if w.e.Stats().HookFailures != 1 {
					t.Errorf("%d failures counted", w.e.Stats().HookFailures)
				}
			})
		})
	}
	t.Run("after", func(t *testing.T) {
		set := hook.Set{After: []hook.Entry[hook.After]{{Name: "h", Hook: afterFunc(func(hook.Outcome) (hook.AfterResult, error) { return hook.AfterResult{}, wrong })}}}
		inBubble(t, []tool.Tool{echo("t", mutating)}, func(c *lifecycle.Config) { c.Hooks = set }, func(t *testing.T, w *world) {
			if c := w.do(spec("t", `{"s":"secret"}`)); c.Status != call.Succeeded || c.Result.Metadata["after_failed"] != "h" || c.Result.Data != "" {
				t.Errorf("call %s %+v", c.Status, c.Result)
			}
		})
	})
}

// fallible is a filter that fails at the second report of each call.
type fallible struct{ filterFunc }

func (fallible) FilterOrFail(*hook.Input) func(call.Event) ([]call.Event, []hook.Record, error) {
	seen := 0
	return func(ev call.Event) ([]call.Event, []hook.Record, error) {
		if ev.Progress != nil {
			seen++
		}
		if seen > 1 {
			return nil, nil, errors.New("nobody answers")
		}
		return []call.Event{ev}, nil, nil
	}
}

func TestFilterThatErrsWithholds(t *testing.T) {
	config := func(c *lifecycle.Config) { c.Hooks.Filter = []hook.Entry[hook.Filter]{{Name: "far", Hook: fallible{}}} }
	talk := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		for _, text := range []string{"first", "secret", "secret"} {
			_ = c.Progress(tool.ProgressRunning, 0, text)
		}
		return tool.Text("secret"), nil
	})
	inBubble(t, []tool.Tool{talk}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if c.Status != call.Succeeded || c.Result.Metadata["after_failed"] != "far" || c.Result.Data != "" {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
		if got := types(t, 1, w.checkLog(c.ID)); got != "accepted attempt_started progress finished" {
			t.Errorf("events %s", got)
		}
		if w.e.Stats().HookFailures != 1 {
			t.Errorf("%d failures counted", w.e.Stats().HookFailures)
		}
	})
}
