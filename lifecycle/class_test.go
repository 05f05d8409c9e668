package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// TestP3AssessedMutatingHasADurableIntent checks a tool whose descriptor is read-only but which assesses a call as mutating. Such a call
// starts only after its intent is durably stored.
func TestP3AssessedMutatingHasADurableIntent(t *testing.T) {
	beside := mutating
	beside.ConcurrencySafe = true
	for name, effects := range map[string]tool.Effects{"alone": mutating, "beside others": beside} {
		p := held()
		stricter := &whole{
			d:       tool.Descriptor{ID: "t", Effects: reading, Parameters: json.RawMessage(anyObject)},
			assess:  func(tool.Arguments) tool.Effects { return effects },
			execute: func(ctx context.Context, c *tool.Call) (*tool.Result, error) { return p.run(ctx, c) },
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, []tool.Tool{stricter}, nil, func(t *testing.T, w *world) {
				s := spec("t", "")
				w.start(s, call.ExecuteOptions{}).Close()
				synctest.Wait()
				stored, err := w.store.Call(t.Context(), call.Key{Namespace: "ns", ID: s.ID})
				if err != nil || stored.Status != call.Running || stored.Class != call.Sync || len(stored.Attempts) != 1 {
					t.Errorf("the tool runs; the journal has %+v, %v", stored, err)
				}
				w.store = w.store.LosePower()
				w.past = append(w.past, w.e)
				drain(w.e)
				w.open()
				if c := w.get(s.ID); c.Status != call.Failed || c.Result.Error.Code != tool.InDoubt || p.runs.Load() != 1 {
					t.Errorf("call is %s after %d runs", c.Status, p.runs.Load())
				}
				w.checkLog(s.ID)
			})
		})
	}
}

// TestP3CallThatKillsTheDaemonEndsInDoubt checks a read-only call that kills the daemon. It runs three times and then ends in doubt,
// whether the first restart finds it RUNNING or NEW.
func TestP3CallThatKillsTheDaemonEndsInDoubt(t *testing.T) {
	for name, inGate := range map[string]bool{"found RUNNING": false, "found NEW": true} {
		p := held()
		var waits atomic.Bool
		waits.Store(inGate)
		slow := hook.Entry[hook.Gate]{Name: "slow", Deadline: time.Hour, Hook: gate(func(*hook.Input) (hook.Verdict, error) {
			if waits.Swap(false) {
				time.Sleep(time.Minute)
			}
			return hook.Allow(), nil
		})}
		t.Run(name, func(t *testing.T) {
			inBubble(t, []tool.Tool{p.tool("t", reading)}, gates(slow), func(t *testing.T, w *world) {
				s := spec("t", "")
				w.start(s, call.ExecuteOptions{}).Close()
				time.Sleep(time.Second) // In the case "found NEW" the gate waits now, so the journal has the call but no attempt.
				for range 20 {
					w.crash()
					synctest.Wait()
				}
				c := w.get(s.ID)
				if c.Status != call.Failed || c.Executed != call.ExecutedUnknown || c.Result.Error.Code != tool.InDoubt || p.runs.Load() != 3 {
					t.Errorf("call is %s after %d runs", c.Status, p.runs.Load())
				}
				w.checkLog(s.ID)
				time.Sleep(time.Minute) // until the gate has returned
			})
		})
	}
}

// TestP3CallThatGetsFurtherRunsAgain checks that a lost attempt that saved a new checkpoint does not count towards the limit of lost
// attempts. Saving the same checkpoint again does not count as progress.
func TestP3CallThatGetsFurtherRunsAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		saves func(run int32) string
		runs  int32
	}{
		"further each time": {func(run int32) string { return fmt.Sprint(run) }, 21},
		"the same again":    {func(int32) string { return "begun" }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int32
			long := &whole{d: tool.Descriptor{ID: "t", Effects: reading}, execute: func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
				if err := c.SaveCheckpoint([]byte(tt.saves(runs.Add(1)))); err != nil {
					return nil, err
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}}
			inBubble(t, []tool.Tool{long}, nil, func(t *testing.T, w *world) {
				s := spec("t", "")
				w.start(s, call.ExecuteOptions{}).Close()
				for range 20 {
					synctest.Wait()
					w.crash()
				}
				synctest.Wait()
				if n := runs.Load(); n != tt.runs {
					t.Errorf("the tool ran %d times, want %d", n, tt.runs)
				}
				w.checkLog(s.ID)
			})
		})
	}
}
