package custody_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/custody"
	"github.com/toold-dev/toold/tool"
)

// journal holds the unfinished calls and their batches.
type journal struct {
	calls   []*call.Call
	batches map[string]*call.Batch
}

func (j *journal) Unfinished(_ context.Context, visit func(call.Key, *call.Call, error) error) error {
	for _, c := range j.calls {
		if err := visit(c.Key(), c, nil); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) Batch(_ context.Context, key call.Key) (*call.Batch, error) {
	return j.batches[key.ID], nil
}

func (j *journal) Call(_ context.Context, key call.Key) (*call.Call, error) {
	i := slices.IndexFunc(j.calls, func(c *call.Call) bool { return c.ID == key.ID })
	return j.calls[i], nil
}

func TestChecker(t *testing.T) {
	j := &journal{batches: map[string]*call.Batch{
		"idle": {ID: "idle", Calls: []string{"runs", "next"}},
		"lost": {ID: "lost", Calls: []string{"first"}},
	}}
	add := func(id, batch string, s call.Status) *call.Call {
		c := &call.Call{Namespace: "n", ID: id, BatchID: batch, Status: s, Revision: 1}
		j.calls = append(j.calls, c)
		return c
	}
	add("owned", "", call.Running)
	moved := add("moved", "", call.Running)
	add("alone", "", call.New)
	add("runs", "idle", call.Running)
	add("next", "idle", call.New)
	add("first", "lost", call.New)
	var adopted []string
	k := &custody.Checker{
		Journal: j,
		Owned:   func(key call.Key, _ *call.Call) bool { return key.ID == "owned" || key.ID == "runs" },
		Moves:   func(call.Key) bool { return false },
		Adopt: func(_ context.Context, key call.Key) error {
			adopted = append(adopted, key.ID)
			return nil
		},
	}
	for range 2 {
		if err := k.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if moved.Revision == 1 && len(adopted) > 0 {
			t.Fatalf("the first check took up %q", adopted)
		}
		moved.Revision = 2
	}
	slices.Sort(adopted)
	if want := []string{"alone", "first"}; !slices.Equal(adopted, want) {
		t.Errorf("took up %q, want %q", adopted, want)
	}
	adopted = nil
	if err := k.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"moved"}; !slices.Equal(adopted, want) { // The call "moved" has not changed since the second check. That check adopted the other calls, so they count as found for the first time again.
		t.Errorf("the third check took up %q, want %q", adopted, want)
	}
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &call.Call{Namespace: "n", ID: "1", Run: tool.Run{Thread: "t"}}
		other := &call.Call{Namespace: "n", ID: "2", Run: tool.Run{Thread: "other"}}
		none := custody.NewHold(0)
		if none.Keep(c); none.Began() || none.Holds(c) {
			t.Error("a hold of no time holds a call")
		}
		h := custody.NewHold(time.Minute)
		if h.Keep(c); !h.Holds(c) || h.Holds(other) {
			t.Errorf("holds %t, another thread %t", h.Holds(c), h.Holds(other))
		}
		began := time.Now()
		<-h.Over()
		if d := time.Since(began); d != time.Minute {
			t.Errorf("over after %v", d)
		}
		if !h.Holds(c) {
			t.Error("the thread is free before the calls are recovered")
		}
		if h.End(); h.Holds(c) {
			t.Error("the thread is held after the end")
		}
	})
}
