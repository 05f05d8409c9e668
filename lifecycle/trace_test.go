package lifecycle_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

type requestKey struct{}

// tracer records the calls of its methods.
type tracer struct {
	mu    sync.Mutex
	open  map[string]int
	began []string // trace of the request and trace in the record, for each call of Begin
	ends  []string // status of the call, for each call of End
}

type passKey struct{}

func (t *tracer) Begin(request context.Context, c *call.Call) (context.Context, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from, _ := request.Value(requestKey{}).(string)
	t.open[c.ID]++
	t.began = append(t.began, from+"/"+c.Trace)
	return context.WithValue(context.Background(), passKey{}, c.ID), "trace-" + from
}

func (t *tracer) End(ctx context.Context, c *call.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Value(passKey{}) != c.ID {
		panic("the context of another pass")
	}
	t.open[c.ID]--
	t.ends = append(t.ends, string(c.Status))
}

func (t *tracer) check(tb testing.TB, began, ends []string) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Equal(t.began, began) || !slices.Equal(t.ends, ends) {
		tb.Errorf("began %q, ended %q; want %q, %q", t.began, t.ends, began, ends)
	}
	for id, n := range t.open {
		if n != 0 {
			tb.Errorf("%d passes of %s are open", n, id)
		}
	}
	t.began, t.ends = nil, nil
}

// TestTracer checks that each pipeline run begins and ends once. The tool must run in the context of the pipeline run, and later pipeline
// runs must get the trace of the first.
func TestTracer(t *testing.T) {
	seen := make(chan any, 10)
	looks := made("looks", reading, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		seen <- ctx.Value(passKey{})
		return tool.Text("done"), nil
	})
	deaf := made("deaf", mutating, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		time.Sleep(time.Minute)
		return tool.Text("late"), nil
	})
	tr := &tracer{open: map[string]int{}}
	inBubble(t, []tool.Tool{looks, deaf, asks("asks", tool.Ticket{})}, func(c *lifecycle.Config) { c.Tracer = tr }, func(t *testing.T, w *world) {
		ctx := context.WithValue(t.Context(), requestKey{}, "r")
		do := func(s call.Spec) *call.Call {
			t.Helper()
			watcher, err := w.e.Execute(ctx, alice, s, call.ExecuteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := watcher.Wait(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // Wait, because End of the tracer is called after the end of the call is published.
			return c
		}
		c := do(spec("looks", "{}"))
		if got := <-seen; got != c.ID {
			t.Errorf("the tool ran in the context of %v", got)
		}
		do(spec("unknown", "{}"))
		tr.check(t, []string{"r/", "r/"}, []string{"SUCCEEDED", "FAILED"})

		first, second, third := do(spec("asks", "{}")), do(spec("asks", "{}")), do(spec("asks", "{}"))
		tr.check(t, []string{"r/", "r/", "r/"}, []string{"SUSPENDED", "SUSPENDED", "SUSPENDED"})
		for c, d := range map[*call.Call]tool.Decision{first: {Action: tool.Cancel}, second: {Action: tool.Resume, Result: "1"}} {
			if _, err := w.resume(alice, c, d); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			tr.check(t, []string{"/trace-r"}, []string{map[*call.Call]string{first: "CANCELLED", second: "SUCCEEDED"}[c]})
		}
		w.crash() // The next daemon finds the trace in the record.
		tr.check(t, nil, nil)
		if _, err := w.resume(alice, third, tool.Decision{Action: tool.Resume, Result: "1"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		tr.check(t, []string{"/trace-r"}, []string{"SUCCEEDED"})

		s := spec("deaf", "{}")
		s.Timeouts.Attempt = time.Second
		do(s)
		time.Sleep(2 * time.Minute)
		tr.check(t, []string{"r/"}, []string{"FAILED"})
	})
}
