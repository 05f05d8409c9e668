package lifecycle_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

// TestToolThatEndsItsGoroutine checks a tool that calls runtime.Goexit. The call ends as after a panic, and a drain does not wait for it.
func TestToolThatEndsItsGoroutine(t *testing.T) {
	for _, effects := range []tool.Effects{reading, mutating} {
		exits := made("t", effects, func(context.Context, *tool.Call) (*tool.Result, error) { runtime.Goexit(); return nil, nil })
		inBubble(t, []tool.Tool{exits}, func(c *lifecycle.Config) { c.Concurrency = 1 }, func(t *testing.T, w *world) {
			for range 2 { // The second call shows that the slot was released.
				c := w.do(spec("t", ""))
				if c.Status != call.Failed || c.Executed != call.Started || c.Result.Error.Code != tool.Internal {
					t.Errorf("call %s, %s: %+v", c.Status, c.Executed, c.Result)
				}
			}
		})
	}
}

// leaver calls runtime.Goexit while it validates arguments.
type leaver struct{ tool.Tool }

func (leaver) Validate(tool.Arguments) error { runtime.Goexit(); return nil }

// TestHookThatEndsItsGoroutine checks hooks and tools that panic or call runtime.Goexit before the tool runs. Only the call ends: its
// published events are stored, its slot is released, and a drain does not wait for it. A quick call runs in the goroutine of its request,
// so the request ends too.
func TestHookThatEndsItsGoroutine(t *testing.T) {
	leave := func() { runtime.Goexit() }
	kinds := map[string]func(c *lifecycle.Config, d time.Duration, fail func()){
		"rewrite": func(c *lifecycle.Config, d time.Duration, fail func()) {
			c.Hooks.Rewrite = []hook.Entry[hook.Rewrite]{{Name: "h", Deadline: d, Hook: rewriteFunc(func(*hook.Input) (string, error) { fail(); return "", nil })}}
		},
		"gate": func(c *lifecycle.Config, d time.Duration, fail func()) {
			c.Hooks.Gate = []hook.Entry[hook.Gate]{{Name: "h", Deadline: d, Hook: gate(func(*hook.Input) (hook.Verdict, error) { fail(); return hook.Allow(), nil })}}
		},
		"admit": func(c *lifecycle.Config, d time.Duration, fail func()) {
			c.Hooks.Admit = []hook.Entry[hook.Admit]{{Name: "h", Deadline: d, Hook: admitFunc(func(*hook.Input) (func(), error) { fail(); return nil, nil })}}
		},
		"before": func(c *lifecycle.Config, d time.Duration, fail func()) {
			c.Hooks.Before = []hook.Entry[hook.Before]{{Name: "h", Required: true, Deadline: d, Hook: beforeFunc(func(*hook.Input) ([]tool.Command, error) { fail(); return nil, nil })}}
		},
		"validate": func(*lifecycle.Config, time.Duration, func()) {},
	}
	for kind, change := range kinds {
		for _, deadline := range []time.Duration{0, hook.NoDeadline} {
			for how, fail := range map[string]func(){"goexit": leave, "panic": func() { panic("h") }} {
				for _, effects := range []tool.Effects{reading, mutating} {
					t.Run(kind+" "+deadline.String()+" "+how+" "+string(effects.Mutability), func(t *testing.T) {
						made := echo("t", effects)
						if kind == "validate" {
							made = leaver{made}
						}
						inBubble(t, []tool.Tool{made}, func(c *lifecycle.Config) { c.Concurrency = 1; change(c, deadline, fail) }, endsTwice)
					})
				}
			}
		}
	}
}

func endsTwice(t *testing.T, w *world) {
	for range 2 { // The second call shows that the slot was released.
		s := spec("t", "")
		go func() {
			if watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{}); err != nil {
				t.Error(err)
			} else {
				watcher.Close()
			}
		}()
		time.Sleep(time.Minute)
		if c := w.get(s.ID); c.Status != call.Failed || c.Executed != call.NotStarted {
			t.Errorf("call %s, %s: %+v", c.Status, c.Executed, c.Result)
		}
		w.checkLog(s.ID)
	}
	synctest.Wait()
	if st := w.e.Stats(); st.Active != 0 || st.Running != 0 || st.Watchers != 0 {
		t.Errorf("left behind: %+v", st)
	}
}

// TestHooksBehindTheToolCannotHoldUpTheEnd checks After hooks and releases of Admit hooks that hang, panic or call runtime.Goexit. They run
// in a separate goroutine with a deadline, so the result of the call is always stored.
func TestHooksBehindTheToolCannotHoldUpTheEnd(t *testing.T) {
	for how, fail := range map[string]func(){"goexit": func() { runtime.Goexit() }, "panic": func() { panic("h") }, "wait": func() { time.Sleep(time.Hour) }} {
		t.Run(how, func(t *testing.T) {
			change := func(c *lifecycle.Config) {
				c.Hooks.After = []hook.Entry[hook.After]{{Name: "h", Required: true, Hook: afterFunc(func(hook.Outcome) (hook.AfterResult, error) { fail(); return hook.AfterResult{}, nil })}}
				c.Hooks.Admit = []hook.Entry[hook.Admit]{{Name: "a", Hook: admitFunc(func(*hook.Input) (func(), error) { return fail, nil })}}
			}
			inBubble(t, []tool.Tool{echo("t", mutating)}, change, func(t *testing.T, w *world) {
				before := time.Now()
				c := w.do(spec("t", ""))
				if c.Status != call.Succeeded || c.Result.Metadata["after_failed"] != "h" || time.Since(before) > 3*time.Second {
					t.Errorf("call %s %+v after %v", c.Status, c.Result, time.Since(before))
				}
				time.Sleep(time.Hour)
			})
		})
	}
	endless := []hook.Entry[hook.After]{{Name: "h", Deadline: hook.NoDeadline, Hook: afterFunc(nil)}}
	cfg := lifecycle.Config{Store: memory.New(memory.Config{}), Tools: &toolbox{}, Answers: answers{}, Hooks: hook.Set{After: endless}}
	if _, err := lifecycle.New(cfg); err == nil {
		t.Error("an After hook without a deadline is taken")
	}
}
