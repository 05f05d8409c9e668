package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// whole is a tool that implements all optional interfaces for calls, such as validation and description.
type whole struct {
	d        tool.Descriptor
	validate func(tool.Arguments) error
	assess   func(tool.Arguments) tool.Effects
	describe func(context.Context, *tool.Call) (tool.Description, error)
	execute  func(context.Context, *tool.Call) (*tool.Result, error)
}

func (w *whole) Descriptor() tool.Descriptor { return w.d }

func (w *whole) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if w.execute != nil {
		return w.execute(ctx, c)
	}
	return tool.Text("ran"), nil
}

func (w *whole) Validate(a tool.Arguments) error {
	if w.validate == nil {
		return nil
	}
	return w.validate(a)
}

func (w *whole) Assess(a tool.Arguments) tool.Effects {
	if w.assess == nil {
		return w.d.Effects
	}
	return w.assess(a)
}

func (w *whole) Describe(ctx context.Context, c *tool.Call) (tool.Description, error) {
	if w.describe == nil {
		return tool.Description{}, nil
	}
	return w.describe(ctx, c)
}

// TestToolThatHangsOverEditedArguments checks a tool that hangs while it validates the arguments of a decision. The hang delays neither the
// decision nor other requests for the call. The question stays open and can be cancelled, and other questions expire on time.
func TestToolThatHangsOverEditedArguments(t *testing.T) {
	never := make(chan struct{})
	hangs := &whole{d: tool.Descriptor{ID: "t", Effects: mutating, Parameters: json.RawMessage(anyObject)}, validate: func(a tool.Arguments) error {
		if a.Text() == `{"hang":true}` {
			<-never
		}
		return nil
	}}
	inBubble(t, []tool.Tool{hangs}, func(c *lifecycle.Config) {
		gates(namedGate("ask", approval(tool.Ticket{ExpiresIn: time.Hour})))(c)
		never = make(chan struct{}) // created inside the synctest bubble
	}, func(t *testing.T, w *world) {
		defer close(never)
		c, other := w.do(spec("t", "")), w.do(spec("t", ""))
		edit := yes()
		edit.Arguments = `{"hang":true}`
		_, err := w.resume(bob, c, edit)
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		if c := w.get(c.ID); c.Status != call.Suspended {
			t.Errorf("the call is %s", c.Status)
		}
		time.Sleep(2 * time.Hour)
		if err := w.e.ExpireDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*call.Call{c, other} {
			if c := w.get(c.ID); c.Status != call.Cancelled {
				t.Errorf("call is %s", c.Status)
			}
		}
	})
}

func TestToolValidates(t *testing.T) {
	tests := map[string]struct {
		err  error
		code tool.Code
		text string
	}{
		"fine":   {nil, "", "ran"},
		"plain":  {errors.New("end before start"), tool.InvalidArguments, "end before start"},
		"kinded": {tool.Errorf(tool.NotFound, "no such file"), tool.NotFound, "no such file"},
	}
	for name, tt := range tests {
		w1 := &whole{d: tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject)}, validate: func(tool.Arguments) error { return tt.err }}
		inBubble(t, []tool.Tool{w1}, nil, func(t *testing.T, w *world) {
			c := w.do(spec("t", ""))
			if c.Result.ModelText() != tt.text || tt.code != "" && (c.Result.Error.Code != tt.code || c.Executed != call.NotStarted) {
				t.Errorf("%s: call %s %+v", name, c.Status, c.Result)
			}
		})
	}
	panics := &whole{d: tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject)}, validate: func(tool.Arguments) error { panic("boom") }}
	inBubble(t, []tool.Tool{panics}, nil, func(t *testing.T, w *world) {
		if c := w.do(spec("t", "")); c.Status != call.Failed || c.Executed != call.NotStarted || c.Result.Error.Code != tool.Internal || strings.Contains(c.Result.ModelText(), "boom") {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
	})
}

// TestToolThatHangsOverArguments checks a tool that hangs while it validates arguments. The arguments come from the request or from a hook.
// The hang delays the call only for the deadline of a hook.
func TestToolThatHangsOverArguments(t *testing.T) {
	for _, sent := range []string{`{"n":1}`, `{}`} {
		never := make(chan struct{})
		hangs := &whole{d: tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject)}, validate: func(a tool.Arguments) error {
			if a.Text() == `{"n":1}` {
				<-never
			}
			return nil
		}}
		rewrites := func(c *lifecycle.Config) {
			c.Hooks.Rewrite = []hook.Entry[hook.Rewrite]{{Name: "h", Hook: rewriteFunc(func(*hook.Input) (string, error) { return `{"n":1}`, nil })}}
		}
		inBubble(t, []tool.Tool{hangs, echo("other", mutating)}, rewrites, func(t *testing.T, w *world) {
			never = make(chan struct{})
			defer close(never)
			began := time.Now()
			c := w.do(spec("t", sent))
			if c.Status != call.Failed || c.Executed != call.NotStarted || time.Since(began) != hook.DefaultDeadline {
				t.Errorf("%s: call %s %+v after %v", sent, c.Status, c.Result, time.Since(began))
			}
			if c := w.do(spec("other", "")); c.Status != call.Succeeded { // a call of the same thread
				t.Errorf("the next call %s %+v", c.Status, c.Result)
			}
		})
	}
}

func TestAssessmentIsNeverMilderThanPromised(t *testing.T) {
	mild := reading.Normal()
	strictest := tool.Effects{Safety: tool.SafetyDestructive, Tier: tool.Escalate}.Normal()
	tests := map[string]struct {
		mildest *tool.Effects
		assess  func(tool.Arguments) tool.Effects
		want    tool.Effects
	}{
		"as it is":             {nil, nil, tool.Effects{}.Normal()},
		"milder than promised": {nil, func(tool.Arguments) tool.Effects { return mild }, tool.Effects{}.Normal()},
		"milder as promised":   {&mild, func(tool.Arguments) tool.Effects { return mild }, mild},
		"stricter":             {nil, func(tool.Arguments) tool.Effects { return strictest }, strictest},
		"panics":               {&mild, func(tool.Arguments) tool.Effects { panic("boom") }, tool.Effects{}.Normal()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w1 := &whole{d: tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject), Mildest: tt.mildest}, assess: tt.assess}
			var seen tool.Effects
			inBubble(t, []tool.Tool{w1}, gates(namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
				seen = in.Assessment
				return hook.Allow(), nil
			})), func(t *testing.T, w *world) {
				if c := w.do(spec("t", "")); !reflect.DeepEqual(c.Assessment, tt.want) || !reflect.DeepEqual(seen, tt.want) || c.Class != call.Sync {
					t.Errorf("assessed %+v, gates saw %+v, want %+v", c.Assessment, seen, tt.want)
				}
			})
		})
	}
}

func TestDescriptionCannotFail(t *testing.T) {
	full := tool.Description{Kind: tool.KindMove, Title: "Move a to b", Basis: "hash"}
	tests := map[string]struct {
		describe func(context.Context, *tool.Call) (tool.Description, error)
		want     tool.Description
	}{
		"full":     {func(context.Context, *tool.Call) (tool.Description, error) { return full, nil }, full},
		"empty":    {nil, tool.Description{Kind: tool.KindEdit, Title: "The tool"}},
		"error":    {func(context.Context, *tool.Call) (tool.Description, error) { return full, errors.New("no") }, tool.Description{Degraded: true}},
		"panic":    {func(context.Context, *tool.Call) (tool.Description, error) { panic("no") }, tool.Description{Degraded: true}},
		"deadline": {func(context.Context, *tool.Call) (tool.Description, error) { time.Sleep(time.Minute); return full, nil }, tool.Description{Degraded: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w1 := &whole{d: tool.Descriptor{ID: "t", DisplayName: "The tool", Parameters: json.RawMessage(anyObject)}, describe: tt.describe}
			inBubble(t, []tool.Tool{w1}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
				before := time.Now()
				c := w.do(spec("t", `{"x":1}`))
				if time.Since(before) > 200*time.Millisecond {
					t.Errorf("took %v", time.Since(before))
				}
				c = w.get(c.ID) // w.get reads as an operator
				got := c.Open().Description
				if tt.want.Degraded {
					if !got.Degraded || got.Kind != tool.KindEdit || got.Title != "The tool" || len(got.Preview) != 1 || got.Preview[0].Text != `{"x":1}` {
						t.Errorf("description %+v", got)
					}
				} else if got.Degraded || got.Kind != tt.want.Kind || got.Title != tt.want.Title || got.Basis != tt.want.Basis || c.Description.Title != got.Title {
					t.Errorf("description %+v, want %+v", got, tt.want)
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// TestDocumentsCommitWithTheCall checks that documents never change the outcome of a call. A document command that conflicts is reported by
// an event, and the call still succeeds.
func TestDocumentsCommitWithTheCall(t *testing.T) {
	run, thread := tool.Key[int]{Scope: tool.RunScope, Name: "n"}, tool.Key[int]{Scope: tool.ThreadScope, Name: "n"}
	count := func(fail bool) func(context.Context, *tool.Call) (*tool.Result, error) {
		return func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			n, revision, err := run.Get(c)
			if err != nil {
				return nil, err
			}
			time.Sleep(time.Second)
			r := tool.Success(n).With(run.SetAt(n+1, revision), thread.Set(n+1))
			if fail {
				return r, errors.New("no")
			}
			return r, nil
		}
	}
	inBubble(t, []tool.Tool{made("count", reading, count(false)), made("fails", tool.Effects{ConcurrencySafe: true}, count(true))}, nil, func(t *testing.T, w *world) {
		a, b := w.begin(spec("count", "")), w.begin(spec("count", "")) // Both calls read the same revision of the document.
		w.do(spec("fails", ""))
		time.Sleep(time.Second)
		kinds := map[string]int{}
		for _, id := range []string{a, b} {
			if c := w.get(id); c.Status != call.Succeeded || c.Result.Data != "0" || c.Class != call.Sync {
				t.Errorf("call %s %s %+v", c.Status, c.Class, c.Result)
			}
			for _, ev := range w.checkLog(id) {
				if ev.Document != nil {
					kinds[string(ev.Type)+" "+string(ev.Document.Scope)]++
				}
			}
		}
		if kinds["document_changed RUN"] != 1 || kinds["state_conflict RUN"] != 1 || kinds["document_changed THREAD"] != 2 {
			t.Errorf("published %v", kinds)
		}
		w.crash()
		if c := w.do(spec("count", "")); c.Result.Data != "1" { // The failed call has not changed the document.
			t.Errorf("counted %s", c.Result.Data)
		}
		if _, err := w.e.EndRun(t.Context(), alice, "run-1", "", ""); err != nil {
			t.Fatal(err)
		}
		if c := w.do(spec("count", "")); c.Result.Data != "0" {
			t.Errorf("after the run's end: %s", c.Result.Data)
		}
		if docs, err := w.store.Documents(t.Context(), "ns", store.DocumentScope{Scope: tool.ThreadScope, ID: "thread-1"}); err != nil || len(docs) != 1 || docs[0].Revision != 4 {
			t.Errorf("documents %+v, %v", docs, err)
		}
	})
}

func TestOfferedTools(t *testing.T) {
	inBubble(t, []tool.Tool{echo("fs_read", reading), echo("fs_write", mutating), echo("bash", mutating)}, nil, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			allow, exclude []string
			found          string
		}{
			{nil, nil, "bash fs_read fs_write"},
			{[]string{"fs_*"}, nil, "fs_read fs_write"},
			{[]string{"fs_*", "bash"}, []string{"*_write"}, "bash fs_read"},
			{nil, []string{"*"}, ""},
		} {
			var found []string
			for _, id := range []string{"bash", "fs_read", "fs_write"} {
				s := spec(id, "")
				s.Run.Agent.Allow, s.Run.Agent.Exclude = tt.allow, tt.exclude
				_, err := w.e.Describe(t.Context(), alice, s)
				c := w.do(s)
				if described, ran := err == nil, c.Status == call.Succeeded; described != ran {
					t.Errorf("%s is described: %t, runs: %t", id, described, ran)
				}
				if c.Status == call.Succeeded {
					found = append(found, id)
				}
			}
			if strings.Join(found, " ") != tt.found {
				t.Errorf("%v without %v offers %v", tt.allow, tt.exclude, found)
			}
		}
		s := spec("bash", "")
		s.Run.Agent.Exclude = []string{"[bash"} // An invalid pattern would exclude no tool, so the request is refused.
		if _, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{}); err == nil {
			t.Error("a pattern that matches nothing was taken")
		}
	})
}
