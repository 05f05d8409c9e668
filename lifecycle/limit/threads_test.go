package limit_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/limit"
	"github.com/toold-dev/toold/tool"
)

type queued struct {
	resources []tool.Resource
	turn      <-chan struct{}
	leave     func()
}

func (q *queued) runs() bool {
	select {
	case <-q.turn:
		return true
	default:
		return false
	}
}

// TestThreadsSerialiseWhatOverlaps makes random calls enter and leave one queue. After each step a call must run if and only if no earlier
// call that overlaps it is in the queue. Overlapping calls therefore never run together, and run in their order of arrival. No call waits
// for a call that it does not overlap.
func TestThreadsSerialiseWhatOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threads := &limit.New(call.Limits{QueueLength: 5}).Threads
		var calls []*queued
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(calls) == 0 || rapid.IntRange(0, 2).Draw(t, "step") > 0 {
				q := &queued{resources: drawResources(t)}
				waits := len(slices.DeleteFunc(slices.Clone(calls), (*queued).runs))
				overlaps := slices.ContainsFunc(calls, func(c *queued) bool { return tool.Overlap(c.resources, q.resources) })
				var ok bool
				if q.turn, _, q.leave, ok = threads.Enter(limit.Thread{Thread: "t"}, q.resources); ok != (!overlaps || waits < 5) {
					t.Fatalf("accepted %t while %d wait", ok, waits)
				}
				if ok {
					calls = append(calls, q)
				}
			} else {
				at := rapid.IntRange(0, len(calls)-1).Draw(t, "leaves")
				calls[at].leave()
				calls = slices.Delete(calls, at, at+1)
			}
			waiting := 0
			for i, c := range calls {
				first := !slices.ContainsFunc(calls[:i], func(earlier *queued) bool { return tool.Overlap(earlier.resources, c.resources) })
				if c.runs() != first {
					t.Fatalf("call %d runs: %t, want %t", i, c.runs(), first)
				}
				if !first {
					waiting++
				}
			}
			if n := threads.Waiting(); n != waiting {
				t.Fatalf("%d wait, want %d", n, waiting)
			}
		}
	})
}

func drawResources(t *rapid.T) []tool.Resource {
	one := rapid.Custom(func(t *rapid.T) tool.Resource {
		return tool.Resource{
			Kind: rapid.SampledFrom([]string{"file", "file", "table"}).Draw(t, "kind"), Shared: rapid.Bool().Draw(t, "shared"),
			ID: rapid.SampledFrom([]string{"a", "b", "c", "a/b", "ab", ""}).Draw(t, "id"),
		}
	})
	return rapid.SliceOfN(one, 0, 2).Draw(t, "resources")
}
