package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// using is a tool whose calls name the resources in their argument "use", and wait until the test lets them end.
type using struct {
	tool.Tool
	desk *desk
}

func (u using) Assess(args tool.Arguments) tool.Effects {
	var a struct{ Use []tool.Resource }
	if err := json.Unmarshal([]byte(args.Text()), &a); err != nil {
		panic(err)
	}
	for i := range a.Use {
		a.Use[i].ID = u.desk.target(a.Use[i].ID)
	}
	return tool.Effects{Resources: a.Use}
}

// A desk knows which calls execute. Each execution waits until the desk ends it.
type desk struct {
	mu    sync.Mutex
	open  map[string]chan struct{}
	links map[string]string // what the ids in arguments refer to
	moves []string          // what the id "moving" refers to at its next assessments; the last value stays
}

func (d *desk) target(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if to, ok := d.links[id]; ok {
		return to
	}
	if id == "moving" {
		id = d.moves[0]
		d.moves = d.moves[min(1, len(d.moves)-1):]
	}
	return id
}

func (d *desk) link(id, to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links = map[string]string{id: to}
}

func (d *desk) execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	over := make(chan struct{})
	d.mu.Lock()
	if d.open == nil {
		d.open = map[string]chan struct{}{}
	}
	d.open[c.ID] = over
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.open[c.ID] == over {
			delete(d.open, c.ID)
		}
	}()
	select {
	case <-over:
		return tool.Text("ok"), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// executing returns the indexes of the calls that execute when no call can change by itself any more.
func (d *desk) executing(calls []call.Spec) (now []int) {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range calls {
		if d.open[calls[i].ID] != nil {
			now = append(now, i)
		}
	}
	return now
}

func (d *desk) end(s call.Spec) {
	d.mu.Lock()
	close(d.open[s.ID])
	d.mu.Unlock()
	synctest.Wait()
}

// tools returns three tools: "use" names its resources, "bash" names none, and "read" is read-only and concurrency-safe.
func (d *desk) tools() []tool.Tool {
	do := func(id string, e tool.Effects, mildest *tool.Effects) tool.Tool {
		return tool.Func(tool.Descriptor{ID: id, Effects: e, Mildest: mildest, Idempotent: true, Parameters: json.RawMessage(anyObject)}, d.execute)
	}
	permits := &tool.Effects{Resources: []tool.Resource{{Kind: "file", Shared: true}, {Kind: "table"}}}
	return []tool.Tool{using{do("use", mutating, permits), d}, do("bash", mutating, nil), do("read", reading, nil), using{do("untrusted", mutating, nil), d}}
}

// uses returns a call that uses resources, which are written as "a", or "a?" when they are shared.
func uses(ids ...string) call.Spec {
	var list []tool.Resource
	for _, id := range ids {
		name, shared := strings.CutSuffix(id, "?")
		list = append(list, tool.Resource{Kind: "file", ID: name, Shared: shared})
	}
	text, _ := json.Marshal(map[string]any{"use": list})
	return spec("use", string(text))
}

func drawCalls(t *rapid.T) []call.Spec {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) call.Spec {
		switch kind := rapid.SampledFrom([]string{"use", "use", "use", "use", "bash", "read"}).Draw(t, "tool"); kind {
		case "use":
			return uses(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a?", "b", "b?", "c", "a/b", "a/c?", "ab", ""}), 1, 2).Draw(t, "ids")...)
		default:
			return spec(kind, "{}")
		}
	}), 1, 8).Draw(t, "calls")
}

// overlap reports whether two calls must not run beside each other. A reading call overlaps no call in the queue of a thread; in a batch it
// overlaps every call that changes something.
func overlap(a, b call.Spec, inBatch bool) bool {
	if a.Tool == "read" || b.Tool == "read" {
		return inBatch && a.Tool != b.Tool
	}
	of := func(s call.Spec) []tool.Resource {
		return using{nil, &desk{}}.Assess(tool.NewArguments(s.Arguments, nil)).Resources
	}
	return tool.Overlap(of(a), of(b))
}

// wanted returns the calls that must execute. In the queue of a thread these are the calls that overlap no earlier call that has not ended.
// In a batch they are the next calls that do not overlap each other.
func wanted(calls []call.Spec, ended []bool, inBatch bool) (now []int) {
	for i := range calls {
		if inBatch && ended[i] {
			continue
		}
		first := true
		for j := range i {
			first = first && (ended[j] || !overlap(calls[j], calls[i], inBatch))
		}
		switch {
		case first && !ended[i]:
			now = append(now, i)
		case !first && inBatch:
			return now
		}
	}
	return now
}

// TestOverlappingCallsNeverRunTogether makes random calls of one thread, alone or in an AUTO batch, and ends the executing calls in a
// random order. Whenever no call can change by itself any more, exactly the right calls must execute. Overlapping calls never run together,
// and run in the order of the model. All other calls run at once.
func TestOverlappingCallsNeverRunTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		calls, inBatch := drawCalls(rt), rapid.Bool().Draw(rt, "batch")
		order := rapid.SliceOfN(rapid.IntRange(0, 100), len(calls), len(calls)).Draw(rt, "order")
		crash := inBatch && rapid.IntRange(0, 3).Draw(rt, "crash") == 0
		for i := range calls {
			calls[i].ID = newCallID()
		}
		var failed error
		d := &desk{}
		inBubble(t, d.tools(), nil, func(t *testing.T, w *world) {
			w.beginAll(calls, inBatch)
			failed = d.play(w, calls, order, inBatch, crash)
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

func (w *world) beginAll(calls []call.Spec, inBatch bool) {
	if inBatch {
		w.launch(batchOf(call.Auto, calls...))
		return
	}
	for _, s := range calls {
		w.begin(s)
	}
}

func (d *desk) play(w *world, calls []call.Spec, order []int, inBatch, crash bool) error {
	ended := make([]bool, len(calls))
	group := wanted(calls, ended, inBatch)
	for step, pick := range order {
		now := d.executing(calls)
		if !inBatch {
			group = wanted(calls, ended, false)
		} else if group = slices.DeleteFunc(group, func(i int) bool { return ended[i] }); len(group) == 0 {
			group = wanted(calls, ended, true) // A batch begins the next calls after all calls of a group have ended.
		}
		if !slices.Equal(now, group) {
			return fmt.Errorf("step %d: %v execute, want %v: %+v", step, now, group, calls)
		}
		if crash && step == len(order)/2 {
			w.crash()
			if again := d.executing(calls); !slices.Equal(again, now) {
				return fmt.Errorf("%v execute after a crash, want %v: %+v", again, now, calls)
			}
		}
		i := now[pick%len(now)]
		d.end(calls[i])
		ended[i] = true
		if c := w.get(calls[i].ID); c.Status != call.Succeeded {
			return fmt.Errorf("call %d ended %s", i, c.Status)
		}
	}
	return nil
}

// TestResourcesOfADecidedCall checks calls of a batch that are decided together. They resume together when their resources do not overlap.
// A call with edited arguments resumes alone, because its resources are not known yet.
func TestResourcesOfADecidedCall(t *testing.T) {
	for edited, together := range map[string]bool{"": true, uses("a").Arguments: false, uses("c").Arguments: false, "result": false} {
		d := &desk{}
		inBubble(t, d.tools(), gates(namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
			ticket := tool.Ticket{}
			if edited == "result" && strings.Contains(in.Arguments.Text(), `"b"`) {
				ticket.ResumeMode = tool.PassDecisionToTool
			}
			return approval(ticket)(in)
		})), func(t *testing.T, w *world) {
			b := batchOf(call.Auto, uses("a"), uses("b"))
			b.Replay = call.AllDecided
			w.launch(b)
			w.decide(bob, b.Calls[0].ID, yes())
			second := yes()
			if second.Arguments = edited; edited == "result" {
				second.Arguments, second.Result = "", uses("c").Arguments
			}
			w.decide(bob, b.Calls[1].ID, second)
			if now := d.executing(b.Calls); (len(now) == 2) != together {
				t.Errorf("edited %q: %v execute", edited, now)
			}
			for range 2 {
				for _, i := range d.executing(b.Calls) {
					d.end(b.Calls[i])
				}
			}
			w.wantBatch(b, "SUCCEEDED SUCCEEDED")
		})
	}
}

// TestResourcesAreAssessedAtTheTurn checks calls that wait behind a call that changes what their names refer to. They must not run beside a
// call that they overlap then.
func TestResourcesAreAssessedAtTheTurn(t *testing.T) {
	d := &desk{}
	inBubble(t, d.tools(), nil, func(t *testing.T, w *world) {
		calls := []call.Spec{spec("bash", "{}"), uses("link"), uses("x"), uses("y")}
		w.beginAll(calls, false)
		d.link("link", "x")
		d.end(calls[0])
		if now := d.executing(calls); len(now) != 2 || !slices.Contains(now, 3) {
			t.Errorf("%v execute; 1 and 2 overlap now, and 3 overlaps none", now)
		}
		for range 2 {
			for _, i := range d.executing(calls) {
				d.end(calls[i])
			}
		}
		if c := w.get(calls[1].ID); c.Status != call.Succeeded || len(c.Assessment.Resources) != 1 || c.Assessment.Resources[0].ID != "x" {
			t.Errorf("%s with %+v, want the resource that it had when it ran", c.Status, c.Assessment)
		}
	})
}

// TestResourcesThatKeepChanging checks a call whose resources differ at each assessment. It waits until it is alone.
func TestResourcesThatKeepChanging(t *testing.T) {
	d := &desk{moves: []string{"m1", "m2", "m3"}}
	inBubble(t, d.tools(), nil, func(t *testing.T, w *world) {
		calls := []call.Spec{spec("bash", "{}"), uses("moving"), uses("y")}
		w.beginAll(calls, false)
		for _, want := range []int{0, 2, 1} {
			if now := d.executing(calls); !slices.Equal(now, []int{want}) {
				t.Fatalf("%v execute, want %d alone", now, want)
			}
			d.end(calls[want])
		}
		if c := w.get(calls[1].ID); c.Status != call.Succeeded || len(c.Assessment.Resources) > 0 {
			t.Errorf("%s with %+v", c.Status, c.Assessment)
		}
	})
}

// TestFilteredResources checks that filters change the ids in the record, and that the queue compares the real ids.
func TestFilteredResources(t *testing.T) {
	d := &desk{}
	inBubble(t, d.tools(), scrubs(&scrubber{}), func(t *testing.T, w *world) {
		calls := []call.Spec{uses(hushed), uses("***"), uses(hushed + "/a")}
		w.beginAll(calls, false)
		for _, want := range [][]int{{0, 1}, {1, 2}, {2}} {
			if now := d.executing(calls); !slices.Equal(now, want) {
				t.Fatalf("%v execute, want %v", now, want)
			}
			d.end(calls[want[0]])
		}
		if c := w.get(calls[2].ID); c.Status != call.Succeeded || c.Assessment.Resources[0].ID != "***/a" {
			t.Errorf("%s with %+v", c.Status, c.Assessment)
		}
	})
}

// TestHostileResources checks that only a descriptor that permits resources makes a call less exclusive, and that a call with invalid
// resources is exclusive.
func TestHostileResources(t *testing.T) {
	many := slices.Repeat([]string{"z"}, tool.MaxResources+1)
	other := spec("use", `{"use":[{"kind":"account","id":"z"}]}`)
	shared := spec("use", `{"use":[{"kind":"table","id":"z","shared":true}]}`)
	untrusted := uses("z")
	untrusted.Tool = "untrusted"
	for name, s := range map[string]call.Spec{
		"a tool without permission": untrusted, "another kind": other, "shared without permission": shared, "too many": uses(many...),
		"an unreadable id": uses("z\x00"), "an absolute path": uses("/z"), "a long id": uses(strings.Repeat("z", tool.MaxResourceID+1)),
	} {
		d := &desk{}
		inBubble(t, d.tools(), nil, func(t *testing.T, w *world) {
			calls := []call.Spec{uses("a"), s, uses("b")}
			w.beginAll(calls, false)
			for want := range 3 {
				if now := d.executing(calls); !slices.Equal(now, []int{want}) {
					t.Errorf("%s: %v execute, want %d alone", name, now, want)
				}
				d.end(calls[want])
			}
			if c := w.get(s.ID); len(c.Assessment.Resources) > 0 {
				t.Errorf("%s: recorded %+v", name, c.Assessment)
			}
		})
	}
}

// TestResourcesInRecords checks who sees the resources of a call. They can show where links of the workspace lead, so they are treated like
// the rest of the description: no event has them, and the caller does not see them while a gate asks.
func TestResourcesInRecords(t *testing.T) {
	d := &desk{}
	asks := namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
		if in.Answer() == nil && strings.Contains(in.Arguments.Text(), "ask") {
			return hook.Suspend(tool.Ticket{Approvers: &tool.Approvers{Roles: []string{"approver"}}}), nil
		}
		return hook.Allow(), nil
	})
	inBubble(t, d.tools(), gates(asks), func(t *testing.T, w *world) {
		plain, asked := uses("a"), uses("ask")
		w.begin(plain)
		d.end(plain)
		if c := w.get(plain.ID); len(c.Assessment.Resources) != 1 || c.Assessment.Resources[0] != (tool.Resource{Kind: "file", ID: "a"}) {
			t.Errorf("record %+v", c.Assessment)
		}
		if a := begins(t, w.checkLog(plain.ID)); len(a.Assessment.Resources) > 0 {
			t.Errorf("accepted %+v", a.Assessment)
		}
		w.begin(asked)
		c, err := w.e.Records().Get(t.Context(), alice, asked.ID)
		if err != nil || c.Status != call.Suspended || len(c.Assessment.Resources) > 0 {
			t.Errorf("the caller sees %+v, %v", c, err)
		}
		preview, err := w.e.Describe(t.Context(), alice, uses("a", "b?"))
		if err != nil || len(preview.Assessment.Resources) != 2 {
			t.Errorf("preview %+v, %v", preview, err)
		}
		if preview, err = w.e.Describe(t.Context(), alice, uses("ask")); err != nil || len(preview.Assessment.Resources) > 0 {
			t.Errorf("preview of a question %+v, %v", preview, err)
		}
	})
}
