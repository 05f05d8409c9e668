package loopguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/loopguard"
	"github.com/toold-dev/toold/tool"
)

func guard(t testing.TB, cfg loopguard.Config) *loopguard.Guard {
	t.Helper()
	g, err := loopguard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func input(run, id, args string) *hook.Input {
	return &hook.Input{
		Namespace: "ns", Run: tool.Run{ID: run}, Descriptor: &tool.Descriptor{ID: id}, Attempt: 1,
		Arguments: tool.NewArguments(args, nil),
	}
}

// try returns the error of a refused call, or nil when the call is admitted.
func try(t testing.TB, g *loopguard.Guard, in *hook.Input) *tool.Error {
	t.Helper()
	_, err := g.Admit(context.Background(), in)
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != tool.ResourceExhausted {
		t.Fatalf("refused with %#v", err)
	}
	return e
}

func wantReason(t testing.TB, e *tool.Error, reason string, words ...string) {
	t.Helper()
	if e == nil || e.Reason != reason {
		t.Fatalf("%v, want %s", e, reason)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			t.Errorf("%q does not say %q", e.Message, w)
		}
	}
}

// finish reports the end of a call to the guard.
func finish(g *loopguard.Guard, in *hook.Input, status call.Status, executed call.Executed) {
	g.Observe(in)(&call.Event{Type: call.EventFinished, Outcome: &call.Outcome{Status: status, Executed: executed}})
}

func TestRepeatedCalls(t *testing.T) {
	g := guard(t, loopguard.Config{Repeats: 3, Window: 5, Except: []string{"poll_*"}})
	again := input("run", "read", `{"path":"a"}`)
	for range 3 {
		if e := try(t, g, again); e != nil {
			t.Fatal(e)
		}
	}
	for range 2 { // The call is made twice, because a refused call is not counted.
		wantReason(t, try(t, g, again), loopguard.ReasonRepeated, "read", "3 times", "last 3 calls", "change the arguments", "another tool")
	}
	for name, other := range map[string]*hook.Input{
		"other arguments": input("run", "read", `{"path":"b"}`), "another tool": input("run", "stat", `{"path":"a"}`),
		"another run": input("other", "read", `{"path":"a"}`),
		// The boundary between tool and arguments must be unambiguous.
		"a longer name": input("run", `read{"path"`, `:"a"}`),
	} {
		if e := try(t, g, other); e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
	// This run has made three other calls since, so only two of the last five calls are equal.
	if e := try(t, g, again); e != nil {
		t.Errorf("after others: %v", e)
	}
	for range 10 {
		if e := try(t, g, input("run", "poll_job", `{}`)); e != nil {
			t.Fatal(e)
		}
	}
}

func TestAlternatingCallsAreALoopToo(t *testing.T) {
	g := guard(t, loopguard.Config{Repeats: 3})
	a, b := input("run", "read", `{"path":"a"}`), input("run", "read", `{"path":"b"}`)
	for range 3 {
		try(t, g, a)
		try(t, g, b)
	}
	wantReason(t, try(t, g, a), loopguard.ReasonRepeated)
	wantReason(t, try(t, g, b), loopguard.ReasonRepeated)
}

func TestFurtherAttemptsAreTheSameCall(t *testing.T) {
	g := guard(t, loopguard.Config{Repeats: 1, Calls: 1})
	in := input("run", "ask", `{}`)
	try(t, g, in)
	resumed := *in
	resumed.Attempt = 2
	if e := try(t, g, &resumed); e != nil {
		t.Errorf("the answer of a question was refused: %v", e)
	}
}

func TestCallsOfARun(t *testing.T) {
	g := guard(t, loopguard.Config{Calls: 3})
	for i := range 3 {
		if e := try(t, g, input("run", "read", fmt.Sprint(i))); e != nil {
			t.Fatal(e)
		}
	}
	wantReason(t, try(t, g, input("run", "grep", `{}`)), loopguard.ReasonCalls, "3 calls", "Finish", "what remains")
	if e := try(t, g, input("other", "grep", `{}`)); e != nil {
		t.Errorf("another run: %v", e)
	}
	g.EndRun("elsewhere", "run")
	wantReason(t, try(t, g, input("run", "grep", `{}`)), loopguard.ReasonCalls)
	g.EndRun("ns", "run")
	if e := try(t, g, input("run", "grep", `{}`)); e != nil {
		t.Errorf("the run began anew: %v", e)
	}
}

func TestFailuresInARow(t *testing.T) {
	g := guard(t, loopguard.Config{Failures: 2})
	edit := input("run", "edit", `{}`)
	fails := func() {
		t.Helper()
		if e := try(t, g, edit); e != nil {
			t.Fatal(e)
		}
		finish(g, edit, call.Failed, call.Finished)
	}
	fails()
	finish(g, input("run", "read", `{}`), call.Succeeded, call.Finished) // another tool does not reset the count
	fails()
	wantReason(t, try(t, g, edit), loopguard.ReasonFailures, "edit", "2 times in a row", "Read the errors", "The next call will run")
	fails() // After a refusal the count starts again, so that a tool is not refused permanently.
	finish(g, edit, call.Succeeded, call.Finished)
	fails()
	finish(g, edit, call.Failed, call.NotStarted)    // refused before it ran
	finish(g, edit, call.Cancelled, call.Started)    // cancelled
	finish(g, edit, call.Succeeded, call.NotStarted) // answered by a gate
	fails()
	wantReason(t, try(t, g, edit), loopguard.ReasonFailures)
}

func TestWhoIsCounted(t *testing.T) {
	g := guard(t, loopguard.Config{Calls: 1})
	none := input("", "read", `{}`)
	thread := input("", "read", `{}`)
	thread.Run.Thread = "run" // a thread with the same name as the run
	try(t, g, input("run", "read", `{}`))
	for range 3 {
		if e := try(t, g, none); e != nil {
			t.Errorf("a call without run and thread: %v", e)
		}
	}
	if e := try(t, g, thread); e != nil {
		t.Errorf("the first call of a thread: %v", e)
	}
	wantReason(t, try(t, g, thread), loopguard.ReasonCalls)
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, loopguard.Config{Calls: 2, Failures: 2, Runs: 100, Idle: time.Minute})
		for i := range 1000 {
			in := input(fmt.Sprint("run-", i), "read", `{}`)
			try(t, g, in)
			finish(g, in, call.Failed, call.Finished)
		}
		if n := g.Runs(); n != 100 {
			t.Errorf("%d runs, want 100", n)
		}
		time.Sleep(time.Minute)
		try(t, g, input("late", "read", `{}`))
		if n := g.Runs(); n != 1 {
			t.Errorf("%d runs after the idle time, want 1", n)
		}
		time.Sleep(59 * time.Second)
		try(t, g, input("late", "read", `{}`))
		time.Sleep(59 * time.Second) // the call 59 s ago extended the lifetime of the counts
		wantReason(t, try(t, g, input("late", "read", `{}`)), loopguard.ReasonCalls)
	})
}

func TestSwap(t *testing.T) {
	g := guard(t, loopguard.Config{Repeats: 5, Window: 5})
	in := input("run", "read", `{}`)
	for range 4 {
		try(t, g, in)
	}
	if err := g.Swap(loopguard.Config{Repeats: -1}); err == nil {
		t.Fatal("a wrong configuration was taken")
	}
	if err := g.Swap(loopguard.Config{Repeats: 2, Window: 3}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, try(t, g, in), loopguard.ReasonRepeated)
	for i := range 3 {
		try(t, g, input("run", "read", fmt.Sprint(i)))
	}
	if e := try(t, g, in); e != nil {
		t.Errorf("after three others, in a window of three: %v", e)
	}
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]loopguard.Config{
		"repeats: -1":                     {Repeats: -1},
		"window: 1001":                    {Window: 1001},
		"30 identical calls":              {Repeats: 30},
		"calls: -1":                       {Calls: -1},
		"failures: 2000":                  {Failures: 2000},
		"runs: -1":                        {Runs: -1},
		"idle: 1ms":                       {Idle: time.Millisecond},
		`except: "[" is not a pattern of`: {Except: []string{"["}},
	} {
		if _, err := loopguard.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", cfg, err, want)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	g := guard(b, loopguard.Config{Repeats: 1000, Window: 1000, Calls: 1_000_000_000, Failures: 5})
	small := guard(b, loopguard.Config{Repeats: 20, Calls: 1_000_000_000, Failures: 5})
	in := input("run", "grep", `{"pattern":"func [A-Z]","path":"src/server","limit":100,"recursive":true,"context":3}`)
	other := input("run", "grep", `{"pattern":"x"}`)
	for name, g := range map[string]*loopguard.Guard{"window 20": small, "window 1000": g} {
		b.Run(name, func(b *testing.B) {
			for range 1000 {
				try(b, g, other)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = g.Admit(b.Context(), in)
				g.Observe(in)(&call.Event{Type: call.EventFinished, Outcome: &call.Outcome{Status: call.Succeeded, Executed: call.Finished}})
			}
		})
	}
}
