package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

var strategies = []call.Strategy{call.Sequential, call.Auto, call.Parallel}

// beside returns which tools ran at the same time, in order. For example, "a+b c" means that a and b ran together and then c.
func (r *track) beside() string {
	var groups []string
	var group, open []string
	for _, note := range strings.Fields(r.String()) {
		switch id := note[1:]; note[0] {
		case '+':
			group, open = append(group, id), append(open, id)
		case '-':
			if open = slices.DeleteFunc(open, func(o string) bool { return o == id }); len(open) == 0 {
				slices.Sort(group)
				groups, group = append(groups, strings.Join(group, "+")), nil
			}
		}
	}
	return strings.Join(groups, " ")
}

// TestBatchStrategiesAndMaxParallel checks the strategies. With AUTO, consecutive calls that are read-only and concurrency-safe run
// together, and each of the remaining calls runs alone. With PARALLEL all calls run together. max_parallel limits how many calls run at the
// same time.
func TestBatchStrategiesAndMaxParallel(t *testing.T) {
	lonely := tool.Effects{Mutability: tool.ReadOnly} // read-only, but not concurrency-safe
	for _, tt := range []struct {
		strategy call.Strategy
		most     int
		want     string
	}{
		{call.Sequential, 0, "r1 r2 m1 r3 l1 r4 r5 m2 m3"},
		{call.Auto, 0, "r1+r2 m1 r3 l1 r4+r5 m2 m3"},
		{call.Parallel, 0, "l1+m1+m2+m3+r1+r2+r3+r4+r5"},
		{call.Parallel, 1, "r1 r2 m1 r3 l1 r4 r5 m2 m3"},
		{call.Auto, 1, "r1 r2 m1 r3 l1 r4 r5 m2 m3"},
	} {
		t.Run(fmt.Sprint(tt.strategy, tt.most), func(t *testing.T) {
			var r track
			var tools []tool.Tool
			ids := []string{"r1", "r2", "m1", "r3", "l1", "r4", "r5", "m2", "m3"}
			for _, id := range ids {
				tools = append(tools, r.tool(id, map[byte]tool.Effects{'r': reading, 'm': mutating, 'l': lonely}[id[0]]))
			}
			inBubble(t, tools, nil, func(t *testing.T, w *world) {
				b := batchOf(tt.strategy, of(ids...)...)
				b.MaxParallel = tt.most
				w.batch(b)
				if got := r.beside(); got != tt.want {
					t.Errorf("ran %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// TestBatchMaxParallelIsUsed checks that exactly max_parallel calls run at once when more calls could run.
func TestBatchMaxParallelIsUsed(t *testing.T) {
	running, most := 0, 0
	var mu sync.Mutex
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		running += n
		most = max(most, running)
	}
	busy := made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		count(1)
		time.Sleep(time.Second)
		count(-1)
		return tool.Text("ok"), nil
	})
	inBubble(t, []tool.Tool{busy}, nil, func(t *testing.T, w *world) {
		b := batchOf(call.Parallel, of("t", "t", "t", "t", "t", "t", "t")...)
		b.MaxParallel = 3
		w.batch(b)
		if most != 3 {
			t.Errorf("at most %d ran at once, want 3", most)
		}
	})
}

// seen is a document that the calls write, and that the gates of later calls read.
var seen = tool.Key[int]{Scope: tool.RunScope, Name: "seen"}

func seenIn(in *hook.Input) (int, error) {
	n, _, err := seen.Get(&tool.Call{Documents: in.Documents})
	return n, err
}

func leaves(id string, e tool.Effects) tool.Tool {
	return made(id, e, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text("ok").With(seen.Set(1)), nil
	})
}

// TestBatchInterceptedCallIsAskedAgainOnTheNewDocuments checks when gates are called. With SEQUENTIAL and AUTO, an intercepted call waits
// until the earlier allowed calls have committed. Then its gates are called again with the new documents, and their second verdict counts.
// With PARALLEL all gates are called once, before any call runs.
func TestBatchInterceptedCallIsAskedAgainOnTheNewDocuments(t *testing.T) {
	for _, tt := range []struct {
		strategy call.Strategy
		effects  tool.Effects
		asked    string
		status   string
	}{
		{call.Sequential, mutating, "?a ?b:1 ?c", "SUCCEEDED SUCCEEDED SUCCEEDED"},
		{call.Auto, mutating, "?a ?b:1 ?c", "SUCCEEDED SUCCEEDED SUCCEEDED"},
		{call.Auto, reading, "?a ?b:0 ?b:1 ?c", "SUCCEEDED SUCCEEDED SUCCEEDED"},
		{call.Parallel, reading, "?a ?b:0 ?c", "SUCCEEDED SUSPENDED SUCCEEDED"},
	} {
		t.Run(fmt.Sprint(tt.strategy, tt.effects.Mutability), func(t *testing.T) {
			var r track
			ask := namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
				if in.Descriptor.ID != "b" {
					r.note("?%s", in.Descriptor.ID)
					return hook.Allow(), nil
				}
				n, err := seenIn(in)
				r.note("?b:%d", n)
				if err != nil || n == 0 {
					return hook.Suspend(tool.Ticket{Message: "?"}), err
				}
				return hook.Allow(), nil
			})
			inBubble(t, []tool.Tool{leaves("a", tt.effects), echo("b", tt.effects), echo("c", tt.effects)}, gates(ask), func(t *testing.T, w *world) {
				b := batchOf(tt.strategy, of("a", "b", "c")...)
				w.batch(b)
				calls := w.wantBatch(b, tt.status)
				if got := r.String(); got != tt.asked {
					t.Errorf("asked %s, want %s", got, tt.asked)
				}
				if log := types(t, 1, w.checkLog(calls[1].ID)); strings.Contains(log, "gate_decided") != (tt.strategy == call.Parallel) {
					t.Errorf("the log has an answer that did not count, or lacks one that did: %s", log)
				}
			})
		})
	}
}

// TestBatchBeforeHooksRunBeforeTheFirstExecution checks that all Before hooks of a parallel group run before its first tool, even with a
// single slot.
func TestBatchBeforeHooksRunBeforeTheFirstExecution(t *testing.T) {
	for _, strategy := range []call.Strategy{call.Auto, call.Parallel} {
		var r track
		before := func(c *lifecycle.Config) {
			c.Concurrency = 1
			c.Hooks.Before = []hook.Entry[hook.Before]{{Name: "b", Hook: beforeFunc(func(in *hook.Input) ([]tool.Command, error) {
				r.note("b:%s", in.Descriptor.ID)
				return nil, nil
			})}}
		}
		inBubble(t, []tool.Tool{r.tool("a", reading), r.tool("b", reading), r.tool("c", reading)}, before, func(t *testing.T, w *world) {
			w.batch(batchOf(strategy, of("a", "b", "c")...))
			if got := r.String(); !strings.HasPrefix(got, "b:a b:b b:c +") || len(strings.Fields(r.beside())) != 3 {
				t.Errorf("%s: %s", strategy, got)
			}
		})
	}
}

// TestBatchBehindABlock checks the calls after a Block. They do not start, end FAILED INTERRUPTED with reason BATCH, and are not passed to
// After hooks. Earlier calls run to their end.
func TestBatchBehindABlock(t *testing.T) {
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			h := &afterHook{}
			block := namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
				if in.Descriptor.ID == "bad" {
					return hook.Block("not here"), nil
				}
				return hook.Allow(), nil
			})
			p := &probe{}
			change := both(gates(block), func(c *lifecycle.Config) { c.Hooks.After = []hook.Entry[hook.After]{{Name: "h", Hook: h}} })
			inBubble(t, []tool.Tool{p.tool("ok", reading), echo("bad", reading)}, change, func(t *testing.T, w *world) {
				b := batchOf(strategy, of("ok", "bad", "ok", "ok")...)
				done := w.batch(b)
				calls := w.wantBatch(b, "SUCCEEDED FAILED/DENIED FAILED/INTERRUPTED FAILED/INTERRUPTED")
				for _, c := range calls[2:] {
					if e := c.Result.Error; e.Reason != call.ReasonBatch || c.Executed != call.NotStarted || e.Message != "Not run: an earlier call was blocked" || len(h.seen[c.ID]) > 0 {
						t.Errorf("call behind the block: %s %+v, seen %v", c.Executed, e, h.seen[c.ID])
					}
					w.checkLog(c.ID)
				}
				if p.runs.Load() != 1 || len(done.Open) > 0 {
					t.Errorf("%d runs, open %v", p.runs.Load(), done.Open)
				}
			})
		})
	}
}

// TestBatchOneFailureStopsNothingUnlessFailFast checks that a failure stops other calls only with fail_fast. With fail_fast, calls that
// have not begun end FAILED INTERRUPTED, and running calls continue.
func TestBatchOneFailureStopsNothingUnlessFailFast(t *testing.T) {
	fails := made("fails", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Fail("no"), nil })
	slow := made("slow", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		time.Sleep(time.Minute)
		return tool.Text("ok"), nil
	})
	for _, tt := range []struct {
		strategy call.Strategy
		failFast bool
		most     int
		want     string
	}{
		{call.Sequential, false, 0, "FAILED/EXECUTION_FAILED SUCCEEDED SUCCEEDED"},
		{call.Auto, false, 0, "FAILED/EXECUTION_FAILED SUCCEEDED SUCCEEDED"},
		{call.Parallel, false, 0, "FAILED/EXECUTION_FAILED SUCCEEDED SUCCEEDED"},
		{call.Sequential, true, 0, "FAILED/EXECUTION_FAILED FAILED/INTERRUPTED FAILED/INTERRUPTED"},
		{call.Auto, true, 0, "FAILED/EXECUTION_FAILED FAILED/INTERRUPTED FAILED/INTERRUPTED"},
		{call.Parallel, true, 2, "FAILED/EXECUTION_FAILED SUCCEEDED FAILED/INTERRUPTED"},
	} {
		t.Run(fmt.Sprint(tt.strategy, tt.failFast), func(t *testing.T) {
			inBubble(t, []tool.Tool{fails, slow}, nil, func(t *testing.T, w *world) {
				b := batchOf(tt.strategy, of("fails", "slow", "slow")...)
				b.FailFast, b.MaxParallel = tt.failFast, tt.most
				w.batch(b)
				for _, c := range w.wantBatch(b, tt.want) {
					w.checkLog(c.ID)
				}
			})
		})
	}
}

// TestBatchWithCallsThatCannotRun checks that a call with invalid arguments or an unknown tool fails alone, and that the other calls run.
func TestBatchWithCallsThatCannotRun(t *testing.T) {
	for _, strategy := range strategies {
		inBubble(t, []tool.Tool{echo("ok", reading)}, nil, func(t *testing.T, w *world) {
			b := batchOf(strategy, of("ok", "absent", "ok", "ok")...)
			b.Calls[2].Arguments = `{"x":`
			w.batch(b)
			w.wantBatch(b, "SUCCEEDED FAILED/NOT_FOUND FAILED/INVALID_ARGUMENTS SUCCEEDED")
		})
	}
}
