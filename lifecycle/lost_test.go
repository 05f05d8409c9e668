package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// losing is a tool whose first attempts end as lost.
type losing struct {
	d    tool.Descriptor
	lose int64
	runs atomic.Int64
	keys [4]string
}

func (l *losing) Descriptor() tool.Descriptor {
	d := l.d
	d.ID, d.Parameters = "t", json.RawMessage(anyObject)
	return d
}

func (l *losing) Execute(_ context.Context, c *tool.Call) (*tool.Result, error) {
	n := l.runs.Add(1)
	l.keys[n] = c.IdempotencyKey()
	if n <= l.lose {
		return nil, fmt.Errorf("the worker is gone: %w", tool.ErrLost)
	}
	return tool.Text("done"), nil
}

func TestLostAttempt(t *testing.T) {
	readOnly := tool.Descriptor{Effects: tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}}
	tests := []struct {
		name     string
		d        tool.Descriptor
		lose     int64
		status   call.Status
		executed call.Executed
		runs     int64
	}{
		{"read-only runs again", readOnly, 1, call.Succeeded, call.Finished, 2},
		{"idempotent runs again", tool.Descriptor{Idempotent: true}, 2, call.Succeeded, call.Finished, 3},
		{"others are in doubt", tool.Descriptor{}, 1, call.Failed, call.ExecutedUnknown, 1},
		{"not for ever", readOnly, 3, call.Failed, call.ExecutedUnknown, 3},
		{"somebody is asked", tool.Descriptor{OnDoubt: tool.OnDoubtAsk}, 1, call.Suspended, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := &losing{d: tt.d, lose: tt.lose}
			inBubble(t, []tool.Tool{l}, nil, func(t *testing.T, w *world) {
				c := w.do(spec("t", `{"a":1}`))
				if c.Status != tt.status || tt.executed != "" && c.Executed != tt.executed || l.runs.Load() != tt.runs || len(c.Attempts) != int(tt.runs) {
					t.Errorf("ended %s, executed %s, %d attempts, %d runs; result %+v", c.Status, c.Executed, len(c.Attempts), l.runs.Load(), c.Result)
				}
				if tt.executed == call.ExecutedUnknown && c.Result.Error.Code != tool.InDoubt {
					t.Errorf("code %s", c.Result.Error.Code)
				}
				for n := int64(2); n <= l.runs.Load(); n++ {
					if l.keys[n] != l.keys[1] {
						t.Error("another idempotency key")
					}
				}
				w.checkLog(c.ID)
			})
		})
	}
}

// TestNotBegun checks a tool that reports that it could not begin. The call counts as not executed, although its intent is stored.
func TestNotBegun(t *testing.T) {
	inBubble(t, []tool.Tool{tool.Func(tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject)}, func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, fmt.Errorf("%w: %w", tool.ErrNotRun, tool.Errorf(tool.Upstream, "nobody is there"))
	})}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("t", `{"a":1}`))
		if c.Status != call.Failed || c.Executed != call.NotStarted || c.Result.Error.Code != tool.Upstream {
			t.Errorf("ended %s, executed %s: %+v", c.Status, c.Executed, c.Result.Error)
		}
	})
}
