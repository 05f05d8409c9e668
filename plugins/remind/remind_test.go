package remind_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/remind"
	"github.com/toold-dev/toold/tool"
)

func reminders(t testing.TB, all ...remind.Reminder) *remind.Reminders {
	t.Helper()
	r, err := remind.New(remind.Config{Reminders: all})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func input(run, id, args string) *hook.Input {
	return &hook.Input{Namespace: "ns", Run: tool.Run{ID: run}, Descriptor: &tool.Descriptor{ID: id}, Arguments: tool.NewArguments(args, nil)}
}

func ended(status call.Status, r *tool.Result) hook.Outcome {
	return hook.Outcome{Status: status, Executed: call.Finished, Result: r}
}

// read returns what the model reads of a call's result.
func read(t testing.TB, r *remind.Reminders, in *hook.Input, o hook.Outcome) string {
	t.Helper()
	got, err := r.After(context.Background(), in, o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Result == nil {
		return o.Result.ModelText()
	}
	return got.Result.ModelText()
}

func ok() hook.Outcome { return ended(call.Succeeded, tool.Text("done")) }

var tests = remind.Reminder{Name: "tests", Text: "Run the tests."}

const reminded = "\n\nReminder: Run the tests."

func TestWhereTheTextGoes(t *testing.T) {
	data := &tool.Result{Status: tool.StatusSuccess, Data: `{"n":1}`}
	fail := tool.Fail("no such file")
	noText := &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.ExecutionFailed}}
	violated := &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.ExecutionFailed, Message: "wrong", Violations: []tool.Violation{{Field: "a", Description: "b"}}}}
	for _, tt := range []struct {
		name string
		o    hook.Outcome
		want string
	}{
		{"message", ok(), "done" + reminded},
		{"data", ended(call.Succeeded, data), `{"n":1}` + reminded},
		{"error", ended(call.Failed, fail), "no such file" + reminded},
		{"error without a text", ended(call.Failed, noText), "The call failed: execution failed" + reminded},
		{"error with fields", ended(call.Failed, violated), "wrong" + reminded + "\n- a: b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := fmt.Sprintf("%+v %+v", *tt.o.Result, tt.o.Result.Error)
			got, err := reminders(t, tests).After(t.Context(), input("run", "edit", `{}`), tt.o)
			if err != nil || got.Result == nil || got.Result.ModelText() != tt.want {
				t.Fatalf("the model reads %q, %v, want %q", got.Result.ModelText(), err, tt.want)
			}
			if got.Result.Data != tt.o.Result.Data || got.Result.Status != tt.o.Result.Status || got.Result.Metadata[remind.Metadata] != "tests" {
				t.Errorf("%+v", got.Result)
			}
			if after := fmt.Sprintf("%+v %+v", *tt.o.Result, tt.o.Result.Error); after != before {
				t.Errorf("the tool's own result was changed: %s, was %s", after, before)
			}
		})
	}
}

func TestWhichCalls(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for _, tt := range []struct {
		name    string
		change  func(*remind.Reminder)
		in      *hook.Input
		o       hook.Outcome
		reminds bool
	}{
		{"tool", func(m *remind.Reminder) { m.Tools = []string{"e*", "write"} }, input("r", "edit", `{}`), ok(), true},
		{"another tool", func(m *remind.Reminder) { m.Tools = []string{"e*", "write"} }, input("r", "read", `{}`), ok(), false},
		{"arguments", func(m *remind.Reminder) { m.Arguments = `"path":"[^"]*\.go"` }, input("r", "edit", `{"path":"a/b.go"}`), ok(), true},
		{"other arguments", func(m *remind.Reminder) { m.Arguments = `"path":"[^"]*\.go"` }, input("r", "edit", `{"path":"b.md"}`), ok(), false},
		{"result", func(m *remind.Reminder) { m.Result = `(?i)DONE` }, input("r", "edit", `{}`), ok(), true},
		{"another result", func(m *remind.Reminder) { m.Result = `failed` }, input("r", "edit", `{}`), ok(), false},
		{"end of a long result", func(m *remind.Reminder) { m.Result = `end$` }, input("r", "edit", `{}`), ended(call.Succeeded, tool.Text(long+"end")), true},
		{"beginning of a long result", func(m *remind.Reminder) { m.Result = `^begin` }, input("r", "edit", `{}`), ended(call.Succeeded, tool.Text("begin"+long)), true},
		{"failed", func(m *remind.Reminder) { m.On = remind.OnFailed }, input("r", "edit", `{}`), ended(call.Failed, tool.Fail("no")), true},
		{"not failed", func(m *remind.Reminder) { m.On = remind.OnFailed }, input("r", "edit", `{}`), ok(), false},
		{"cancelled", func(*remind.Reminder) {}, input("r", "edit", `{}`), ended(call.Cancelled, tool.Fail("no")), false},
		{"all that is said must hold", func(m *remind.Reminder) { m.Tools, m.Arguments = []string{"edit"}, "go" }, input("r", "edit", `{}`), ok(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := tests
			tt.change(&m)
			if got := strings.Contains(read(t, reminders(t, m), tt.in, tt.o), reminded); got != tt.reminds {
				t.Errorf("reminds %t, want %t", got, tt.reminds)
			}
		})
	}
}

func TestSeveral(t *testing.T) {
	other := remind.Reminder{Name: "style", Text: "Mind the style."}
	got, err := reminders(t, tests, other).After(t.Context(), input("r", "edit", `{}`), ok())
	if err != nil || got.Result.ModelText() != "done"+reminded+"\n\nReminder: Mind the style." || got.Result.Metadata[remind.Metadata] != "tests,style" {
		t.Errorf("%+v, %v", got.Result, err)
	}
}

func TestCooldownOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tests
		m.Cooldown = time.Minute
		r := reminders(t, m)
		reminds := func(in *hook.Input) bool { return read(t, r, in, ok()) != "done" }
		a, b, none, thread := input("a", "edit", `{}`), input("b", "edit", `{}`), input("", "edit", `{}`), input("", "edit", `{}`)
		thread.Run.Thread = "a" // a thread with the same name as the run
		if !reminds(a) || reminds(a) {
			t.Error("it must remind exactly once")
		}
		if !reminds(b) || !reminds(thread) || reminds(thread) {
			t.Error("in each run, and in threads of calls without one")
		}
		if first, second := reminds(none), reminds(none); !first || !second {
			t.Error("a call without run and thread has no earlier reminders")
		}
		time.Sleep(59 * time.Second)
		if reminds(a) {
			t.Error("it reminds too early")
		}
		time.Sleep(time.Second)
		if !reminds(a) {
			t.Error("it does not speak again")
		}
		r.EndRun("ns", "a")
		if !reminds(a) {
			t.Error("a new run has no earlier reminders")
		}
		if err := r.Swap(remind.Config{Reminders: []remind.Reminder{{Name: "x"}}}); err == nil {
			t.Fatal("a wrong configuration was taken")
		}
		m.Text = "Test it."
		if err := r.Swap(remind.Config{Reminders: []remind.Reminder{m}}); err != nil {
			t.Fatal(err)
		}
		if reminds(a) {
			t.Error("a reload ends the silence")
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tests
		m.Cooldown = time.Hour
		r := reminders(t, m)
		for i := range 60_000 {
			read(t, r, input(fmt.Sprint("run-", i), "edit", `{}`), ok())
		}
		if n := r.Moments(); n > 50_000 {
			t.Errorf("%d moments", n)
		}
		time.Sleep(time.Hour)
		read(t, r, input("late", "edit", `{}`), ok())
		if n := r.Moments(); n != 1 {
			t.Errorf("%d moments after their time, want 1", n)
		}
	})
}

func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*remind.Reminder){
		"name: is required: ":                    func(m *remind.Reminder) { m.Name = "" },
		"without commas":                         func(m *remind.Reminder) { m.Name = "a,b" },
		"text: want 1 to 4096":                   func(m *remind.Reminder) { m.Text = " " },
		`tools: "[" is not a pattern`:            func(m *remind.Reminder) { m.Tools = []string{"["} },
		"arguments: error parsing regexp":        func(m *remind.Reminder) { m.Arguments = "(" },
		"result: error parsing regexp":           func(m *remind.Reminder) { m.Result = "*" },
		`on: "SUCCESS" is not`:                   func(m *remind.Reminder) { m.On = "SUCCESS" },
		"cooldown: must have a limit between 0s": func(m *remind.Reminder) { m.Cooldown = -time.Second },
	} {
		m := tests
		change(&m)
		if _, err := remind.New(remind.Config{Reminders: []remind.Reminder{m}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := remind.New(remind.Config{Reminders: []remind.Reminder{tests, tests}}); err == nil || !strings.Contains(err.Error(), "is set twice") {
		t.Errorf("error %v", err)
	}
}

func BenchmarkAfter(b *testing.B) {
	r := reminders(b,
		remind.Reminder{Name: "a", Text: "A.", Tools: []string{"write", "edit"}},
		remind.Reminder{Name: "b", Text: "B.", Tools: []string{"bash"}, Result: "(?i)permission denied"})
	long := ended(call.Succeeded, tool.Text(strings.Repeat("a line of output\n", 2000)))
	for name, in := range map[string]*hook.Input{"another tool": input("run", "read", `{}`), "34 KB of output": input("run", "bash", `{}`)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.After(b.Context(), in, long)
			}
		})
	}
}
