package lifecycle_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// TestP7RefusedEndIsStored checks a journal that refuses the end of a call, for a while or because of its content. The call must not stay
// RUNNING: watchers must receive an end, and the journal must store it.
func TestP7RefusedEndIsStored(t *testing.T) {
	canceled := errors.New("canceling statement due to statement timeout")
	tests := []struct {
		name   string
		fail   error
		always bool // whether the journal refuses every change that contains the result
		status call.Status
		reason string
	}{
		{"not now", fmt.Errorf("%w: %w", store.ErrBusy, canceled), false, call.Succeeded, ""},
		{"no space", store.ErrFull, false, call.Succeeded, ""},
		{"content", errors.New("value too long"), true, call.Failed, "RESULT_NOT_STORED"},
	}
	for _, tt := range tests {
		for what, effects := range map[string]tool.Effects{"mutating": mutating, "read-only": reading} {
			if tt.always && what == "read-only" {
				continue // The end of a BEHIND call is published before it is stored.
			}
			t.Run(tt.name+", "+what, func(t *testing.T) {
				inBubble(t, []tool.Tool{echo("t", effects)}, nil, func(t *testing.T, w *world) {
					refused := 0
					w.useStore(nil, func(c *store.Change) error {
						if c.Call == nil || !c.Call.Status.Terminal() || !strings.Contains(c.Call.Result.Data, "a long text") || refused > 3 && !tt.always {
							return nil
						}
						refused++
						return tt.fail
					})
					s := spec("t", `{"text":"a long text"}`)
					c := w.do(s)
					if c.Status != tt.status || c.Executed != call.Finished || tt.reason != "" && c.Result.Error.Reason != tt.reason {
						t.Errorf("call is %s %s: %+v", c.Status, c.Executed, c.Result)
					}
					time.Sleep(time.Minute)
					if stored, err := w.store.Call(t.Context(), call.Key{Namespace: "ns", ID: s.ID}); err != nil || stored.Status != tt.status || refused == 0 {
						t.Errorf("the journal has %+v, %v, after %d refusals", stored, err, refused)
					}
					w.checkLog(s.ID)
				})
			})
		}
	}
}

// TestP7CompletionIsAcknowledgedWhenItIsStored checks that Complete returns an error when the journal refused to store the end of the
// operation.
func TestP7CompletionIsAcknowledgedWhenItIsStored(t *testing.T) {
	for _, fail := range []error{store.ErrFatal, store.ErrClosed} {
		t.Run(fail.Error(), func(t *testing.T) {
			r := &render{start: func(*tool.Call) *tool.Result { return tool.Continues(tool.Operation{ID: "op"}, "") }}
			operating(t, r, func(t *testing.T, w *world, poll func()) {
				var failing atomic.Bool
				w.useStore(nil, func(*store.Change) error {
					if failing.Load() {
						return fail
					}
					return nil
				})
				c := w.park(spec("render", ""))
				failing.Store(true)
				err := w.e.Complete("ns", "test", c.ID, "op", tool.Text("a picture"), nil)
				var refusal *call.Refusal
				if !errors.As(err, &refusal) || refusal.Kind != call.Unavailable {
					t.Errorf("completed while the journal failed: %v", err)
				}
				failing.Store(false)
				w.crash()
				poll()
				if err := w.e.Complete("ns", "test", c.ID, "op", tool.Text("a picture"), nil); err != nil {
					t.Errorf("completed again: %v", err)
				}
				synctest.Wait()
				if c := w.get(c.ID); c.Status != call.Succeeded {
					t.Errorf("call is %s", c.Status)
				}
			})
		})
	}
}
