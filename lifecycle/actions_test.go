package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

var operator = tool.Principal{Namespace: "ns", Subject: "olga", Roles: []string{"operator"}}

// handler is an action handler that records its inputs.
type handler struct {
	do func(ctx context.Context, in *hook.ActionInput) (hook.ActionResult, error)

	mu    sync.Mutex
	asked []hook.ActionInput
}

func (h *handler) Handle(ctx context.Context, in *hook.ActionInput) (hook.ActionResult, error) {
	h.mu.Lock()
	h.asked = append(h.asked, *in)
	h.mu.Unlock()
	if h.do == nil {
		return hook.ActionResult{}, nil
	}
	return h.do(ctx, in)
}

// received returns phase, payload, round and attempt of all inputs, in order.
func (h *handler) received() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var inputs []string
	for _, in := range h.asked {
		inputs = append(inputs, fmt.Sprintf("%s %s %d.%d", in.Phase, in.Payload, in.Round, in.Attempt))
	}
	return strings.Join(inputs, ", ")
}

func (h *handler) wantReceived(t *testing.T, want string) {
	t.Helper()
	if got := h.received(); got != want {
		t.Errorf("handler was asked %q, want %q", got, want)
	}
}

func handlers(named map[string]*handler) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) {
		for name, h := range named {
			c.Hooks.Handler = append(c.Hooks.Handler, hook.Entry[hook.Handler]{Name: name, Hook: h})
		}
	}
}

// act executes actions until none is due.
func (w *world) act() {
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- w.e.Outbox().Run(ctx) }()
	synctest.Wait()
	stop()
	if err := <-done; err != nil {
		w.t.Errorf("Act = %v", err)
	}
}

func (w *world) deadLetters() []call.DeadLetter {
	w.t.Helper()
	dead, err := w.e.Outbox().DeadLetters(w.t.Context(), operator, 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	return dead
}

func do(phase tool.Phase, payload string) tool.Action {
	return tool.Action{Handler: "h", Phase: phase, Payload: payload}
}

// asksFor returns a tool whose result requests these actions.
func asksFor(actions ...tool.Action) tool.Tool {
	return made("t", reading, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text("done").Then(actions...), nil
	})
}

func TestActionsFollowTheCommit(t *testing.T) {
	n := tool.Key[int]{Scope: tool.RunScope, Name: "n"}
	var seen int
	h := &handler{}
	h.do = func(_ context.Context, in *hook.ActionInput) (hook.ActionResult, error) {
		d, _, err := in.Documents.Get(tool.RunScope, "n")
		fmt.Sscan(d.Value, &seen)
		return hook.ActionResult{Documents: []tool.Command{n.Add(10), tool.Key[string]{Scope: tool.NamespaceScope, Name: "all"}.Set("x")}}, err
	}
	after := hook.Entry[hook.After]{Name: "a", Hook: afterFunc(func(hook.Outcome) (hook.AfterResult, error) {
		return hook.AfterResult{Actions: []tool.Action{do(tool.AfterCommit, `"after"`)}}, nil
	})}
	config := func(c *lifecycle.Config) {
		handlers(map[string]*handler{"h": h})(c)
		c.Hooks.After = []hook.Entry[hook.After]{after}
	}
	asking := made("t", reading, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text("done").With(n.Set(1)).Then(do(tool.AfterCommit, ""), do(tool.BatchEnd, `"batch"`)), nil
	})
	inBubble(t, []tool.Tool{asking}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		h.wantReceived(t, "")
		w.act()
		h.wantReceived(t, `AFTER_COMMIT null 1.1, BATCH_END "batch" 1.1, AFTER_COMMIT "after" 1.1`)
		if in := h.asked[0]; in.CallID != c.ID || in.Run != "run-1" || in.Thread != "thread-1" || in.Caller != alice.Subject || in.ID == "" || seen != 21 {
			t.Errorf("input %+v, seen %d", in, seen)
		}
		w.wantValues(`NAMESPACE all="x"@3`, "RUN n=31@4")
		w.act()
		if len(h.asked) != 3 {
			t.Errorf("asked again: %s", h.received())
		}
	})
}

// TestActionsThatAreNotTaken checks that the actions and documents of a tool that returns an error are dropped. It also checks that a
// malformed action is dropped while the other actions are kept.
func TestActionsThatAreNotTaken(t *testing.T) {
	h := &handler{}
	tools := []tool.Tool{
		made("fails", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
			return tool.Text("x").Then(do(tool.AfterCommit, "1")), errors.New("no")
		}),
		asksFor(do("LATER", ""), do(tool.AfterCommit, "{"), tool.Action{Phase: tool.AfterCommit}, do(tool.AfterCommit, `"`+strings.Repeat("x", 64<<10)+`"`), do(tool.AfterCommit, "2")),
	}
	inBubble(t, tools, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("fails", ""))
		if c := w.do(spec("t", "")); c.Status != call.Succeeded {
			t.Errorf("call %s", c.Status)
		}
		w.act()
		h.wantReceived(t, "AFTER_COMMIT 2 1.1")
	})
}

func TestActionsSurviveACrash(t *testing.T) {
	h := &handler{}
	inBubble(t, []tool.Tool{asksFor(do(tool.AfterCommit, "1"))}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("t", ""))
		w.crash()
		w.act()
		h.wantReceived(t, "AFTER_COMMIT 1 1.1")
		w.crash()
		w.act()
		h.wantReceived(t, "AFTER_COMMIT 1 1.1")
	})
	// The daemon dies after the handler has acted and before the outcome is stored. The next daemon calls the handler again with the same
	// action id.
	h = &handler{}
	inBubble(t, []tool.Tool{asksFor(do(tool.AfterCommit, "1"))}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		ctx, kill := context.WithCancel(t.Context())
		h.do = func(ctx context.Context, _ *hook.ActionInput) (hook.ActionResult, error) {
			kill()
			return hook.ActionResult{}, nil
		}
		w.do(spec("t", ""))
		if err := w.e.Outbox().Run(ctx); err != nil {
			t.Error(err)
		}
		w.crash()
		h.do = nil
		w.act()
		if h.wantReceived(t, "AFTER_COMMIT 1 1.1, AFTER_COMMIT 1 1.1"); h.asked[0].ID != h.asked[1].ID {
			t.Errorf("ids %s and %s", h.asked[0].ID, h.asked[1].ID)
		}
	})
}

func TestDeadLetters(t *testing.T) {
	broken := true
	h := &handler{do: func(context.Context, *hook.ActionInput) (hook.ActionResult, error) {
		if broken {
			panic("it does not work")
		}
		return hook.ActionResult{}, nil
	}}
	inBubble(t, []tool.Tool{asksFor(do(tool.AfterCommit, "1"), tool.Action{Handler: "nobody", Phase: tool.AfterCommit})}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("t", ""))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.e.Outbox().Run(ctx) }()
		time.Sleep(10 * time.Minute)
		dead := w.deadLetters()
		if len(dead) != 2 || dead[1].Handler != "h" && dead[0].Handler != "h" {
			t.Fatalf("dead letters %+v", dead)
		}
		slices.SortFunc(dead, func(a, b call.DeadLetter) int { return strings.Compare(a.Handler, b.Handler) })
		if dead[0].Attempts != 5 || !strings.Contains(dead[0].Error, "it does not work") || dead[1].Attempts != 1 {
			t.Errorf("dead letters %+v", dead)
		}
		h.wantReceived(t, "AFTER_COMMIT 1 1.1, AFTER_COMMIT 1 1.2, AFTER_COMMIT 1 1.3, AFTER_COMMIT 1 1.4, AFTER_COMMIT 1 1.5")
		_, err := w.e.Outbox().RetryDeadLetter(t.Context(), tool.Principal{Namespace: "other", Subject: "eve", Roles: []string{"operator"}}, dead[0].ID)
		wantRefusal(t, err, call.NotFound, "DEAD_LETTER_NOT_FOUND")
		broken = false
		if _, err := w.e.Outbox().RetryDeadLetter(t.Context(), operator, dead[0].ID); err != nil {
			t.Fatal(err)
		}
		_, err = w.e.Outbox().RetryDeadLetter(t.Context(), operator, dead[0].ID)
		wantRefusal(t, err, call.NotFound, "DEAD_LETTER_NOT_FOUND")
		synctest.Wait()
		if dead := w.deadLetters(); len(dead) != 1 || dead[0].Handler != "nobody" {
			t.Errorf("dead letters %+v", dead)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRoundsOfActionsEnd(t *testing.T) {
	h := &handler{do: func(context.Context, *hook.ActionInput) (hook.ActionResult, error) {
		return hook.ActionResult{Actions: []tool.Action{do(tool.AfterCommit, "1")}}, nil
	}}
	inBubble(t, []tool.Tool{asksFor(do(tool.AfterCommit, "1"))}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("t", ""))
		w.act()
		if len(h.asked) != 16 || h.asked[15].Round != 16 {
			t.Errorf("asked %s", h.received())
		}
		if dead := w.deadLetters(); len(dead) != 1 || dead[0].Round != 17 || !strings.Contains(dead[0].Error, "16 rounds") {
			t.Errorf("dead letters %+v", dead)
		}
	})
}

// TestActionsAtTheEndOfARun checks that the documents of a run still exist while the actions for its end are executed, and that they are
// removed afterwards.
func TestActionsAtTheEndOfARun(t *testing.T) {
	n := tool.Key[int]{Scope: tool.RunScope, Name: "n"}
	var seen []string
	h := &handler{}
	h.do = func(_ context.Context, in *hook.ActionInput) (hook.ActionResult, error) {
		d, _, err := in.Documents.Get(tool.RunScope, "n")
		seen = append(seen, d.Value)
		if in.Round == 1 {
			return hook.ActionResult{Documents: []tool.Command{n.Add(1)}, Actions: []tool.Action{do(tool.RunEnd, `"then"`)}}, err
		}
		return hook.ActionResult{}, err
	}
	asking := made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text("done").With(n.Add(1)).Then(do(tool.RunEnd, "1")), nil
	})
	inBubble(t, []tool.Tool{asking}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("t", ""))
		w.act()
		h.wantReceived(t, "")
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
			t.Fatal(err)
		}
		if h.wantReceived(t, `RUN_END 1 1.1, RUN_END "then" 2.1`); !slices.Equal(seen, []string{"1", "2"}) {
			t.Errorf("seen %q", seen)
		}
		w.act()
		h.wantReceived(t, `RUN_END 1 1.1, RUN_END "then" 2.1`)
		w.wantValues()
	})
	// When no client ends the run, its actions are executed after a time limit.
	h.asked = nil
	inBubble(t, []tool.Tool{asking}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("t", ""))
		time.Sleep(25 * time.Hour)
		w.act()
		h.wantReceived(t, `RUN_END 1 1.1, RUN_END "then" 2.1`)
	})
}

// TestHandlerThatHangs checks that a handler that hangs delays the end of a run only for a limited time.
func TestHandlerThatHangs(t *testing.T) {
	h := &handler{do: func(ctx context.Context, _ *hook.ActionInput) (hook.ActionResult, error) {
		<-ctx.Done()
		return hook.ActionResult{}, ctx.Err()
	}}
	inBubble(t, []tool.Tool{asksFor(do(tool.RunEnd, "1"))}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("t", ""))
		began := time.Now()
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil || time.Since(began) > 20*time.Second {
			t.Errorf("EndRun = %v after %v", err, time.Since(began))
		}
		due, err := w.store.Actions(t.Context(), store.ActionQuery{State: store.ActionPending, Due: true})
		if err != nil || len(due) != 1 || due[0].Attempts != 0 {
			t.Errorf("due %+v, %v", due, err)
		}
	})
}

// TestActionsOfACopyAreHeld checks that the actions of a copied store are not executed until an operator releases its calls.
func TestActionsOfACopyAreHeld(t *testing.T) {
	h := &handler{}
	tools := []tool.Tool{asksFor(do(tool.AfterCommit, "1")), made("asks", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) { return tool.Suspended("?"), nil })}
	inBubble(t, tools, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("asks", ""))
		w.do(spec("t", ""))
		w.store.SetMoved(true)
		w.crash()
		w.act()
		h.wantReceived(t, "")
		if _, _, err := w.e.Release(t.Context(), operator, call.HeldSelector{All: true}, false, ""); err != nil {
			t.Fatal(err)
		}
		w.act()
		h.wantReceived(t, "AFTER_COMMIT 1 1.1")
	})
}
