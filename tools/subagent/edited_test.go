package subagent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/toold-dev/toold/tools/subagent"
	"github.com/toold-dev/toold/tools/subagent/subagenttest"
)

// TestGivenAnotherTask checks what happens when an approver answers the ticket of a waiting subagent with another task. The subagent
// cancels the calls of the old task and works on the new one. The tokens of the old task still count.
func TestGivenAnotherTask(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, protocol string) {
		b := newBench(t, protocol, func(q *subagenttest.Question) subagenttest.Reply {
			if q.Turns() == 0 {
				return calls(subagenttest.Call{ID: "1", Name: "ask", Arguments: `{"of":"` + q.Task() + `"}`})
			}
			return subagenttest.Reply{In: 10, Out: 5, Text: q.Task() + ": " + q.Last().Results[0].Text}
		}, nil)
		b.d.waits = map[string]bool{"ask": true}
		b.task = "old"
		if r := b.result(t); !r.IsPending() {
			t.Fatalf("it stands at %+v", r)
		}
		if r := b.result(t); !r.IsPending() || len(b.d.cancelled) != 0 {
			t.Fatalf("asked again with the same task it stands at %+v; cancelled: %q", r, b.d.cancelled)
		}
		b.task = "new"
		if r := b.result(t); !r.IsPending() || !slices.Equal(b.d.cancelled, []string{"the subagent was given another task"}) {
			t.Fatalf("it stands at %+v; cancelled: %q", r, b.d.cancelled)
		}
		b.d.waits = nil
		r := b.result(t)
		if r.Message != `new: ask {"of":"new"}` || r.Metadata["turns"] != "3" || r.Metadata["input_tokens"] != "30" || len(b.d.cancelled) != 1 {
			t.Errorf("it ended with %+v; cancelled: %q", r, b.d.cancelled)
		}
		if len(b.d.ran) != 1 || len(b.d.known) != 2 {
			t.Errorf("these ran: %+v of %+v", b.d.ran, b.d.known)
		}
		asked, _ := b.m.Asked()
		keys := map[string]bool{}
		for _, q := range asked {
			keys[q.Idempotency] = true
		}
		if len(asked) != 3 || len(keys) != 3 {
			t.Errorf("the model was asked %d times, with %d keys", len(asked), len(keys))
		}
	})
}

// The test gives a subagent another task when the time of the subagent is over. It checks that the subagent still cancels its old calls.
// The timeout of an attempt includes overtime for that.
func TestGivenAnotherTaskTooLate(t *testing.T) {
	t.Parallel()
	reply := func(*subagenttest.Question) subagenttest.Reply {
		time.Sleep(2 * time.Millisecond) // longer than the time limit of the second bench, 1 ms
		return calls(subagenttest.Call{ID: "1", Name: "ask", Arguments: "{}"})
	}
	first := newBench(t, "openai", reply, nil)
	first.d.waits = map[string]bool{"ask": true}
	if r := first.result(t); !r.IsPending() {
		t.Fatalf("it stands at %+v", r)
	}
	b := newBench(t, "openai", reply, func(c *subagent.Config) { c.Time = time.Millisecond })
	b.log.checkpoint, b.task = first.log.checkpoint, "new"
	r := b.result(t)
	if !slices.Equal(b.d.cancelled, []string{"the subagent was given another task"}) || r.Error == nil || r.Error.Reason != "TIME" {
		t.Errorf("it ended with %+v; cancelled: %q", r, b.d.cancelled)
	}
}
