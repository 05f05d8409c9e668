package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

func batchOf(strategy call.Strategy, calls ...call.Spec) call.BatchSpec {
	return call.BatchSpec{ID: "batch-" + newCallID(), BatchOptions: call.BatchOptions{Strategy: strategy}, Calls: calls}
}

// of returns a list with one call for each tool.
func of(tools ...string) (calls []call.Spec) {
	for _, id := range tools {
		calls = append(calls, spec(id, `{}`))
	}
	return calls
}

// turn starts a batch and returns its watcher.
func (w *world) turn(b call.BatchSpec, o call.ExecuteOptions) call.Stream {
	w.t.Helper()
	watcher, err := w.e.ExecuteBatch(w.t.Context(), alice, b, o)
	if err != nil {
		w.t.Fatalf("execute batch: %v", err)
	}
	return watcher
}

// batch runs a batch until no call can change by itself.
func (w *world) batch(b call.BatchSpec) *call.BatchFinished {
	w.t.Helper()
	_, done := followed(w.t, w.turn(b, call.ExecuteOptions{}))
	if done == nil {
		w.t.Fatal("the stream ended without batch_finished")
	}
	return done
}

// launch starts a batch without a watcher, and returns when no call can change by itself any more.
func (w *world) launch(b call.BatchSpec) {
	w.t.Helper()
	w.turn(b, call.ExecuteOptions{}).Close()
	synctest.Wait()
}

// followed reads a stream to its end. It returns the events of each call in order, and the content of the batch_finished frame.
func followed(t *testing.T, watcher call.Stream) (logs map[string][]call.Event, done *call.BatchFinished) {
	t.Helper()
	defer watcher.Close()
	logs = map[string][]call.Event{}
	for {
		f, err := watcher.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return logs, done
		}
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		if done != nil {
			t.Errorf("a frame behind batch_finished: %+v", f)
		}
		logs[f.Key.ID] = append(logs[f.Key.ID], f.Events...)
		done = f.BatchFinished
		if f.Closing {
			return logs, nil
		}
	}
}

// statuses returns the statuses of calls in order.
func statuses(calls []*call.Call) string {
	var names []string
	for _, c := range calls {
		name := string(c.Status)
		if c.Result != nil && c.Result.Error != nil {
			name += "/" + string(c.Result.Error.Code)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (w *world) wantBatch(b call.BatchSpec, want string) []*call.Call {
	w.t.Helper()
	var calls []*call.Call
	for _, s := range b.Calls {
		calls = append(calls, w.get(s.ID))
	}
	if got := statuses(calls); got != want {
		w.t.Errorf("calls are %s, want %s", got, want)
	}
	return calls
}

// A track records when tools begin and end, and which gates are called, in order.
type track struct {
	mu    sync.Mutex
	notes []string
}

func (r *track) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *track) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.notes, " ")
}

// tool returns a tool that records its begin and end, and yields in between.
func (r *track) tool(id string, e tool.Effects) tool.Tool {
	return made(id, e, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		r.note("+%s", id)
		time.Sleep(time.Millisecond)
		r.note("-%s", id)
		return &tool.Result{Status: tool.StatusSuccess, Data: c.Arguments.Text()}, nil
	})
}

// gate returns a gate that records the tool of each call, and then returns the verdict of next. A nil next allows the call.
func (r *track) gate(next gate) hook.Entry[hook.Gate] {
	return namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
		r.note("?%s", in.Descriptor.ID)
		if next == nil {
			return hook.Allow(), nil
		}
		return next(in)
	})
}

// TestBatchSequentialIsTheDefault checks that calls run one after another in model order by default.
func TestBatchSequentialIsTheDefault(t *testing.T) {
	var r track
	inBubble(t, []tool.Tool{r.tool("a", mutating), r.tool("b", reading), r.tool("c", mutating)}, gates(r.gate(nil)), func(t *testing.T, w *world) {
		b := batchOf("", of("a", "b", "c")...)
		done := w.batch(b)
		if got := statuses(done.Calls); got != "SUCCEEDED SUCCEEDED SUCCEEDED" || len(done.Open) > 0 {
			t.Errorf("finished %s, open %v", got, done.Open)
		}
		if got := r.String(); got != "?a +a -a ?b +b -b ?c +c -c" {
			t.Errorf("happened: %s", got)
		}
		for i, s := range b.Calls {
			c := w.get(s.ID)
			if c.BatchID != b.ID || c.BatchPosition != i+1 || c.Class != call.Sync || !c.Detached {
				t.Errorf("record of call %d: %+v", i, c)
			}
			w.checkLog(s.ID)
		}
		record, err := w.store.Batch(t.Context(), call.Key{Namespace: "ns", ID: b.ID})
		if err != nil || record.Ended == 0 {
			t.Errorf("batch %+v, %v: want it ended", record, err)
		}
	})
}
