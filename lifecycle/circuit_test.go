package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// upstream is a tool whose upstream service fails on demand.
type upstream struct {
	runs atomic.Int64
	how  atomic.Value // a string that selects the outcome of the next call
}

func (u *upstream) tool(id string) tool.Tool {
	u.how.Store("ok")
	return made(id, mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.runs.Add(1)
		switch u.how.Load().(string) {
		case "fails":
			return nil, tool.Errorf(tool.Upstream, "connection refused")
		case "answers with an error":
			return &tool.Result{Status: tool.StatusError, Error: tool.Errorf(tool.Upstream, "502")}, nil
		case "says no":
			return tool.Fail("no such thing"), nil
		case "asks":
			return tool.Suspended("?"), nil
		case "hangs":
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return tool.Text("ok"), nil
	})
}

func circuitAfter(n int) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) { c.CircuitFailures, c.CircuitOpen = n, 30*time.Second }
}

func TestCircuitOpensAndTriesAgain(t *testing.T) {
	u, other := &upstream{}, &upstream{}
	inBubble(t, []tool.Tool{u.tool("far"), other.tool("farther")}, circuitAfter(3), func(t *testing.T, w *world) {
		u.how.Store("fails")
		other.how.Store("answers with an error")
		w.do(apart(spec("far", "")))
		w.do(apart(spec("farther", ""))) // another tool of the same source
		if c := w.do(apart(spec("far", ""))); c.Result.Error.Code != tool.Upstream || c.Result.Error.Reason == "CIRCUIT_OPEN" || len(w.e.Stats().OpenCircuits) != 1 {
			t.Fatalf("the third failure: %+v, open %v", c.Result.Error, w.e.Stats().OpenCircuits)
		}
		refused := func(least, most time.Duration) {
			t.Helper()
			before := u.runs.Load()
			c := w.do(apart(spec("far", "")))
			e := c.Result.Error
			if c.Status != call.Failed || c.Executed != call.NotStarted || e == nil || e.Code != tool.Upstream || e.Reason != "CIRCUIT_OPEN" || !e.Retryable ||
				e.RetryAfter < least || e.RetryAfter > most || u.runs.Load() != before {
				t.Fatalf("%s %s %+v", c.Status, c.Executed, e)
			}
			if !strings.Contains(e.Message, "failed 3 times in a row") && !strings.Contains(e.Message, "failed 4 times") || len(c.Attempts) > 0 {
				t.Errorf("%q, %d attempts", e.Message, len(c.Attempts))
			}
		}
		refused(30*time.Second, 30*time.Second)
		time.Sleep(29 * time.Second)
		refused(time.Second, time.Second)
		time.Sleep(time.Second)
		w.do(apart(spec("far", ""))) // The circuit lets one call try the source; this call fails.
		refused(30*time.Second, 30*time.Second)

		time.Sleep(30 * time.Second)
		u.how.Store("hangs")
		probe := w.begin(apart(spec("far", "")))
		refused(time.Second, time.Second) // refused while another call tries the source
		if _, err := w.e.Cancel(t.Context(), alice, probe, "", time.Minute); err != nil {
			t.Fatal(err)
		}
		u.how.Store("ok")
		for range 2 { // The cancelled call showed nothing about the upstream, so the next call may try.
			if c := w.do(apart(spec("far", ""))); c.Status != call.Succeeded {
				t.Errorf("%s %+v", c.Status, c.Result.Error)
			}
		}
		if open := w.e.Stats().OpenCircuits; len(open) != 0 {
			t.Errorf("open: %v", open)
		}
	})
}

func TestCircuitCountsFailuresInARow(t *testing.T) {
	tests := []struct {
		between string // outcome of the call between two failures
		opens   bool
	}{
		{"ok", false},
		{"says no", false}, // An answer closes the circuit, even an error.
		{"hangs", true},    // A timeout shows nothing about the upstream.
		{"asks", true},
	}
	for _, tt := range tests {
		t.Run(tt.between, func(t *testing.T) {
			u := &upstream{}
			inBubble(t, []tool.Tool{u.tool("far")}, both(circuitAfter(2), func(c *lifecycle.Config) { c.Attempt = time.Second }), func(t *testing.T, w *world) {
				for _, how := range []string{"fails", tt.between, "fails"} {
					u.how.Store(how)
					w.do(apart(spec("far", "")))
				}
				if open := len(w.e.Stats().OpenCircuits) > 0; open != tt.opens {
					t.Errorf("open: %t, want %t", open, tt.opens)
				}
			})
		})
	}
}

// TestCircuitAndCallsThatRan checks that calls that began before the circuit opened do not keep it open when they fail.
func TestCircuitAndCallsThatRan(t *testing.T) {
	let := held()
	slow := made("far", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		<-let.opened()
		return nil, tool.Errorf(tool.Upstream, "connection refused")
	})
	inBubble(t, []tool.Tool{slow}, circuitAfter(2), func(t *testing.T, w *world) {
		var ids []string
		for range 10 {
			ids = append(ids, w.begin(apart(spec("far", ""))))
		}
		let.free()
		synctest.Wait()
		for _, id := range ids {
			if e := w.get(id).Result.Error; e.Reason == "CIRCUIT_OPEN" {
				t.Errorf("a call that ran was refused: %+v", e)
			}
		}
		time.Sleep(30 * time.Second)
		if c := w.do(apart(spec("far", ""))); c.Result.Error.Reason == "CIRCUIT_OPEN" {
			t.Error("no call tries")
		}
	})
}

func TestNoCircuitUnlessItIsConfigured(t *testing.T) {
	u := &upstream{}
	inBubble(t, []tool.Tool{u.tool("far")}, nil, func(t *testing.T, w *world) {
		u.how.Store("fails")
		for range 50 {
			w.do(apart(spec("far", "")))
		}
		if u.runs.Load() != 50 {
			t.Errorf("%d ran, want 50", u.runs.Load())
		}
	})
}

func TestQuestionsAreLimited(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*lifecycle.Config)
		message string
	}{
		{"of a principal", func(c *lifecycle.Config) { c.PrincipalQuestions = 3 }, "3 calls of alice"},
		{"of a namespace", func(c *lifecycle.Config) { c.NamespaceQuestions = 3 }, "3 calls of this namespace"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, []tool.Tool{asks("ask", tool.Ticket{Message: "?"}), echo("t", mutating)}, tt.change, func(t *testing.T, w *world) {
				var open []*call.Call
				for range 3 {
					open = append(open, w.do(apart(spec("ask", ""))))
				}
				refused := func() {
					t.Helper()
					c := w.do(apart(spec("ask", "")))
					if e := c.Result.Error; c.Status != call.Failed || c.Executed != call.Started || e.Code != tool.ResourceExhausted || e.Reason != "TOO_MANY_QUESTIONS" ||
						!e.Retryable || !strings.Contains(e.Message, tt.message) {
						t.Fatalf("%s %s %+v", c.Status, c.Executed, e)
					}
				}
				refused()
				w.crash() // The next daemon must count the open questions again.
				refused()
				if c := w.do(apart(spec("t", ""))); c.Status != call.Succeeded {
					t.Errorf("a call that asks nothing is %s", c.Status)
				}
				if err := w.beginAs("elsewhere", "alice", "ask"); err != nil {
					t.Fatal(err)
				}
				for i, d := range []tool.Decision{{Action: tool.Resume, Result: `1`}, no("")} { // Each decision allows one more question.
					w.answer(alice, open[i], d)
					w.do(apart(spec("ask", "")))
					refused()
				}
				if _, err := w.e.Cancel(t.Context(), alice, open[2].ID, "", time.Minute); err != nil {
					t.Fatal(err)
				}
				if c := w.do(apart(spec("ask", ""))); c.Status != call.Suspended {
					t.Errorf("after a cancel: %s", c.Status)
				}
				refused()
			})
		})
	}
}

// TestQuestionsThatWereNotStored checks that a question that the journal refused does not count as an open question.
func TestQuestionsThatWereNotStored(t *testing.T) {
	inBubble(t, []tool.Tool{asks("ask", tool.Ticket{Message: "?"})}, func(c *lifecycle.Config) { c.PrincipalQuestions = 1 }, func(t *testing.T, w *world) {
		w.useStore(nil, failing(func(_ int, c *change) bool {
			return c.Call != nil && c.Call.Status == call.Suspended && c.Call.Run.Labels["fails"] != ""
		}))
		s := apart(spec("ask", ""))
		s.Run.Labels = map[string]string{"fails": "yes"}
		if c := w.do(s); c.Status != call.Failed {
			t.Fatalf("%s", c.Status)
		}
		if c := w.do(apart(spec("ask", ""))); c.Status != call.Suspended {
			t.Errorf("%s %s", c.Status, fmt.Sprint(c.Result))
		}
	})
}

// TestCircuitIgnoresEarlierCalls checks a call that began before its circuit opened. Its outcome must neither close the circuit nor
// keep it open longer.
func TestCircuitIgnoresEarlierCalls(t *testing.T) {
	for name, late := range map[string]error{"reached": nil, "failed": tool.Errorf(tool.Upstream, "connection reset")} {
		t.Run(name, func(t *testing.T) {
			u := &upstream{}
			var resumePipeline chan struct{}
			slow := made("slow", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
				<-resumePipeline
				return tool.Text("ok"), late
			})
			inBubble(t, []tool.Tool{u.tool("far"), slow}, circuitAfter(2), func(t *testing.T, w *world) {
				resumePipeline = make(chan struct{})
				w.begin(apart(spec("slow", "")))
				u.how.Store("fails")
				w.do(apart(spec("far", "")))
				w.do(apart(spec("far", "")))
				time.Sleep(10 * time.Second)
				close(resumePipeline)
				synctest.Wait()
				if e := w.do(apart(spec("far", ""))).Result.Error; e.Reason != "CIRCUIT_OPEN" || e.RetryAfter != 20*time.Second {
					t.Errorf("%s, come back in %v", e.Reason, e.RetryAfter)
				}
			})
		})
	}
}

// TestT125CircuitsOfTwoNamespaces checks that each namespace has its own circuits. The callers of one namespace can cause failures, which
// must not block calls of another namespace to the same source.
func TestT125CircuitsOfTwoNamespaces(t *testing.T) {
	u := &upstream{}
	inBubble(t, []tool.Tool{u.tool("far")}, circuitAfter(3), func(t *testing.T, w *world) {
		u.how.Store("fails")
		w.beginMany(3, "a", "x", "far")
		for namespace, runs := range map[string]int64{"a": 0, "b": 1} {
			before := u.runs.Load()
			w.beginMany(1, namespace, "x", "far")
			if got := u.runs.Load() - before; got != runs {
				t.Errorf("a call of %s runs %d times, want %d", namespace, got, runs)
			}
		}
		w.beginMany(2, "b", "x", "far")
		if open := w.e.Stats().OpenCircuits; len(open) != 2 || open[0].Namespace != "a" || open[1].Namespace != "b" || open[0].Source != open[1].Source {
			t.Errorf("open circuits of %q, want one of each namespace", open)
		}
	})
}
