package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// adds returns a Rewrite hook that appends a letter to the argument s.
func adds(letter string) rewriteFunc {
	return func(in *hook.Input) (string, error) {
		b, err := json.Marshal(map[string]string{"s": in.Arguments.String("s") + letter})
		return string(b), err
	}
}

func rewrites(named ...hook.Entry[hook.Rewrite]) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) { c.Hooks.Rewrite = named }
}

func TestRewriteHooksRunInOrderAndOnce(t *testing.T) {
	p := &probe{}
	same := rewriteFunc(func(in *hook.Input) (string, error) { return in.Arguments.Text(), nil })
	config := both(rewrites(
		hook.Entry[hook.Rewrite]{Name: "x", Hook: adds("x")}, hook.Entry[hook.Rewrite]{Name: "same", Hook: same},
		hook.Entry[hook.Rewrite]{Name: "y", Hook: adds("y")}, hook.Entry[hook.Rewrite]{Name: "other", Hook: adds("z"), Match: hook.Match{Tools: []string{"other"}}},
	), gates(namedGate("ask", approval(tool.Ticket{}))))
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", `{ "s": "a" }`))
		if c.Requested != `{ "s": "a" }` || c.Effective != `{"s":"axy"}` || strings.Join(c.Rewriters, " ") != "x y" || c.Open().Pending.Arguments != c.Effective {
			t.Fatalf("requested %s, effective %s by %v", c.Requested, c.Effective, c.Rewriters)
		}
		w.crash()
		c = w.answer(bob, c, yes()) // The answer approved the rewritten arguments, so no Rewrite hook runs again.
		if got := p.seen(); len(got) != 1 || got[0].Arguments.Text() != `{"s":"axy"}` {
			t.Errorf("ran %+v", got)
		}
		if c.Effective != `{"s":"axy"}` || strings.Join(c.Rewriters, " ") != "x y" {
			t.Errorf("effective %s by %v", c.Effective, c.Rewriters)
		}
	})
}

// TestRewriteHooksRunOnEditedArguments checks that Rewrite hooks also run on arguments that an approver edited. If a hook changes them, the
// approval no longer applies.
func TestRewriteHooksRunOnEditedArguments(t *testing.T) {
	p := &probe{}
	once := rewriteFunc(func(in *hook.Input) (string, error) {
		if s := in.Arguments.String("s"); !strings.HasSuffix(s, "!") {
			return `{"s":"` + s + `!"}`, nil
		}
		return in.Arguments.Text(), nil
	})
	config := both(rewrites(hook.Entry[hook.Rewrite]{Name: "mark", Hook: once}), gates(namedGate("ask", approval(tool.Ticket{}))))
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", `{"s":"a"}`))
		c = w.answer(bob, c, tool.Decision{Action: tool.Resume, Arguments: `{"s":"b"}`})
		if c.Status != call.Suspended || c.Effective != `{"s":"b!"}` || p.runs.Load() != 0 {
			t.Fatalf("call %s with %s, %d runs", c.Status, c.Effective, p.runs.Load())
		}
		if c = w.answer(bob, c, yes()); c.Status != call.Succeeded || p.seen()[0].Arguments.Text() != `{"s":"b!"}` {
			t.Errorf("call %s, ran %+v", c.Status, p.seen())
		}
	})
}

func TestT95RewriteHookBreaksTheArguments(t *testing.T) {
	strict := tool.Func(tool.Descriptor{ID: "t", Parameters: json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"}},"additionalProperties":false}`)},
		func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("ran"), nil })
	tests := map[string]struct {
		hook rewriteFunc
		code tool.Code
		text string
	}{
		"schema":   {func(*hook.Input) (string, error) { return `{"n":1}`, nil }, tool.InvalidArguments, `The hook "bad" changed the arguments to something invalid: The arguments do not fit`},
		"not JSON": {func(*hook.Input) (string, error) { return `{`, nil }, tool.InvalidArguments, `The hook "bad" changed the arguments to something invalid: The arguments are not valid JSON`},
		"error":    {func(*hook.Input) (string, error) { return "", errors.New("no") }, tool.Denied, `Refused: the hook "bad" failed`},
		"panic":    {func(*hook.Input) (string, error) { panic("no") }, tool.Denied, `Refused: the hook "bad" failed`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []tool.Tool{strict}, rewrites(hook.Entry[hook.Rewrite]{Name: "bad", Hook: tt.hook}), func(t *testing.T, w *world) {
				c := w.do(spec("t", `{"s":"a"}`))
				if c.Status != call.Failed || c.Result.Error.Code != tt.code || !strings.HasPrefix(c.Result.ModelText(), tt.text) || c.Executed != call.NotStarted {
					t.Errorf("call %s %+v", c.Status, c.Result.Error)
				}
			})
		})
	}
}

func TestAdmitOnceForEachAttemptAndReleased(t *testing.T) {
	taken, held := 0, 0
	admit := admitFunc(func(in *hook.Input) (func(), error) {
		taken++
		held++
		if in.Attempt != taken {
			t.Errorf("attempt %d is admitted as %d", taken, in.Attempt)
		}
		return func() { held--; panic("a release that fails harms nobody") }, nil
	})
	config := func(c *lifecycle.Config) { c.Hooks.Admit = []hook.Entry[hook.Admit]{{Name: "rate", Hook: admit}} }
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{})}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if c.Status != call.Suspended || taken != 1 || held != 0 {
			t.Fatalf("call %s, taken %d, held %d", c.Status, taken, held)
		}
		if c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: "1"}); c.Status != call.Succeeded || taken != 2 || held != 0 {
			t.Errorf("call %s, taken %d, held %d", c.Status, taken, held)
		}
	})
}

// TestLateAdmissionIsReleased checks an Admit hook that admits the call too late: after its deadline, or after a cancellation. The engine must
// release the admission.
func TestLateAdmissionIsReleased(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("cancelled %t", cancelled), func(t *testing.T) {
			var taken, held atomic.Int64
			admit := admitFunc(func(*hook.Input) (func(), error) {
				time.Sleep(3 * time.Second)
				taken.Add(1)
				held.Add(1)
				return func() { held.Add(-1); panic("a release that fails harms nobody") }, nil
			})
			config := func(c *lifecycle.Config) {
				c.Hooks.Admit = []hook.Entry[hook.Admit]{{Name: "slots", Deadline: 2 * time.Second, Hook: admit}}
			}
			inBubble(t, []tool.Tool{echo("t", mutating)}, config, func(t *testing.T, w *world) {
				s := spec("t", "")
				watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if cancelled {
					time.Sleep(time.Second)
					if _, err := w.e.Cancel(t.Context(), alice, s.ID, "", 0); err != nil {
						t.Fatal(err)
					}
				}
				c, err := watcher.Wait(t.Context(), time.Minute)
				if err != nil || c.Executed != call.NotStarted || taken.Load() != 0 {
					t.Fatalf("call %+v, %v, taken %d", c, err, taken.Load())
				}
				time.Sleep(3 * time.Second)
				if synctest.Wait(); taken.Load() != 1 || held.Load() != 0 {
					t.Errorf("taken %d, held %d", taken.Load(), held.Load())
				}
			})
		})
	}
}

func TestT111DescribeSpendsNothing(t *testing.T) {
	budget, asked, prepared, ended := 3, 0, 0, &afterHook{}
	p := &probe{}
	config := func(c *lifecycle.Config) {
		c.Hooks.Gate = []hook.Entry[hook.Gate]{namedGate("g", func(*hook.Input) (hook.Verdict, error) { asked++; return hook.Allow(), nil })}
		c.Hooks.Admit = []hook.Entry[hook.Admit]{{Name: "rate", Hook: admitFunc(func(*hook.Input) (func(), error) {
			if budget--; budget < 0 {
				return nil, errors.New("spent")
			}
			return nil, nil
		})}}
		c.Hooks.Before = []hook.Entry[hook.Before]{{Name: "b", Hook: beforeFunc(func(*hook.Input) ([]tool.Command, error) { prepared++; return nil, nil })}}
		c.Hooks.After = []hook.Entry[hook.After]{{Name: "a", Hook: ended}}
	}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, config, func(t *testing.T, w *world) {
		for range 10_000 {
			if preview, err := w.e.Describe(t.Context(), alice, spec("t", `{"b":1,"a":2}`)); err != nil || !preview.Valid || preview.Outcome != "ALLOW" || preview.Effective != `{"a":2,"b":1}` {
				t.Fatalf("%+v, %v", preview, err)
			}
		}
		if budget != 3 || asked != 10_000 || prepared != 0 || p.runs.Load() != 0 || len(ended.seen) != 0 || w.e.Stats().Active != 0 {
			t.Errorf("budget %d, asked %d, prepared %d, ran %d, %+v", budget, asked, prepared, p.runs.Load(), w.e.Stats())
		}
		if page, err := w.store.Calls(t.Context(), everything); err != nil || len(page.Calls) != 0 {
			t.Errorf("%d calls stored, %v", len(page.Calls), err)
		}
		if c := w.do(spec("t", "")); c.Status != call.Succeeded || budget != 2 {
			t.Errorf("call %s, budget %d", c.Status, budget)
		}
	})
}

func TestBeforeHooksPrepareDocuments(t *testing.T) {
	key := tool.Key[string]{Scope: tool.ThreadScope, Name: "k"}
	failing := beforeFunc(func(*hook.Input) ([]tool.Command, error) { return nil, errors.New("not needed") })
	preparing := beforeFunc(func(*hook.Input) ([]tool.Command, error) { return []tool.Command{key.Set("prepared")}, nil })
	config := func(c *lifecycle.Config) {
		c.Hooks.Before = []hook.Entry[hook.Before]{{Name: "failing", Hook: failing}, {Name: "preparing", Hook: preparing}}
	}
	inBubble(t, []tool.Tool{echo("t", reading)}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if c.Status != call.Succeeded || c.Class != call.Sync {
			t.Errorf("call %s %s", c.Status, c.Class)
		}
		docs, err := w.store.Documents(t.Context(), "ns", store.DocumentScope{Scope: tool.ThreadScope, ID: "thread-1"})
		if err != nil || len(docs) != 1 || docs[0].Value != `"prepared"` || docs[0].Revision != 1 {
			t.Errorf("documents %+v, %v", docs, err)
		}
		if got := types(t, 1, w.log(c.ID)); got != "accepted attempt_started document_changed finished" {
			t.Errorf("events %s", got)
		}
	})
}

func TestAfterHooksChangeWhatIsReadOnly(t *testing.T) {
	static, good := tool.Fail("secret in the error"), tool.Text("good")
	rewrite := afterFunc(func(o hook.Outcome) (hook.AfterResult, error) {
		r := o.Result
		r.Status, r.Data, r.Message, r.Metadata = tool.StatusSuccess, `"data"`, "message", map[string]string{"k": "v"}
		if r.Error != nil {
			r.Error.Code, r.Error.Reason, r.Error.Message = tool.Denied, "OTHER", "*** in the error"
		}
		return hook.AfterResult{Result: r, Records: []hook.Record{{Kind: "note", Key: "k", Bytes: []byte("seen")}}}, nil
	})
	config := func(c *lifecycle.Config) { c.Hooks.After = []hook.Entry[hook.After]{{Name: "redact", Hook: rewrite}} }
	inBubble(t, []tool.Tool{made("ok", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return good, nil }), made("bad", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return static, nil })}, config, func(t *testing.T, w *world) {
		c := w.do(spec("ok", ""))
		if c.Status != call.Succeeded || c.Result.Message != "message" || c.Result.Data != `"data"` || c.Result.Metadata["k"] != "v" {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
		c = w.do(spec("bad", ""))
		if e := c.Result.Error; c.Status != call.Failed || c.Result.Status != tool.StatusError || e.Code != tool.ExecutionFailed || e.Reason != "" || c.Result.ModelText() != "*** in the error" {
			t.Errorf("call %s %+v %+v", c.Status, c.Result, e)
		}
		if static.Error.Message != "secret in the error" || static.Message != "" || good.Message != "good" || good.Metadata != nil {
			t.Errorf("the tools' own results became %+v and %+v", static, good)
		}
		if r, err := w.store.Records(t.Context(), "ns", "note", 0, 10); err != nil || len(r) != 2 {
			t.Errorf("records %+v, %v", r, err)
		}
	})
}

// TestAfterHooksAddEvents checks the events of After hooks: they come before the end, at every kind of end, and pass the filters.
func TestAfterHooksAddEvents(t *testing.T) {
	content := "found a secret\xff"
	adds := afterFunc(func(o hook.Outcome) (hook.AfterResult, error) {
		return hook.AfterResult{Events: []call.Event{
			{Type: call.EventProgress, Progress: &tool.Progress{Status: tool.ProgressDone, Fraction: 1, Message: content}, Outcome: &call.Outcome{}},
			{Type: call.EventActivitySnapshot, Activity: &call.Activity{ID: "lint", Type: "report", Content: `{"ok":true}`}},
			{Type: call.EventActivityDelta, Activity: &call.Activity{ID: "lint", Patch: `[]`}},
		}}, nil
	})
	asks := made("asks", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.SuspendedWith(tool.Ticket{Action: "input"}), nil
	})
	bad := made("bad", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { panic("no") })
	masks := func(*hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
		return func(ev call.Event) ([]call.Event, []hook.Record) {
			if ev.Progress != nil {
				p := *ev.Progress
				p.Message = strings.ReplaceAll(p.Message, "secret", "***")
				ev.Progress = &p
			}
			return []call.Event{ev}, nil
		}
	}
	inBubble(t, []tool.Tool{echo("ok", reading), bad, asks}, func(c *lifecycle.Config) {
		c.Hooks.After = []hook.Entry[hook.After]{{Name: "lint", Hook: adds}}
		c.Hooks.Filter = []hook.Entry[hook.Filter]{{Name: "redact", Hook: filterFunc(masks)}}
	}, func(t *testing.T, w *world) {
		for _, id := range []string{"ok", "bad", "asks"} {
			c := w.do(spec(id, ""))
			if id == "asks" {
				if _, err := w.e.Cancel(t.Context(), alice, c.ID, "enough", time.Minute); err != nil {
					t.Error(err)
				}
			}
			events := w.log(c.ID)
			if got := types(t, 1, events); !strings.HasSuffix(got, " progress activity_snapshot activity_delta finished") {
				t.Errorf("%s: events %s", id, got)
				continue
			}
			added := events[len(events)-4]
			if p := added.Progress; p.Message != "found a ***\uFFFD" || added.Outcome != nil || added.Time.IsZero() {
				t.Errorf("%s: %+v", id, added)
			}
		}
	})
}

// TestWrongEventsOfAfterHooks checks that the events of an After hook are limited in kind, number and size. Wrong events are a failure of
// the hook, and none of them is published.
func TestWrongEventsOfAfterHooks(t *testing.T) {
	progress := func(p tool.Progress) call.Event { return call.Event{Type: call.EventProgress, Progress: &p} }
	activity := func(content string) call.Event {
		return call.Event{Type: call.EventActivitySnapshot, Activity: &call.Activity{ID: "a", Content: content}}
	}
	for name, events := range map[string][]call.Event{
		"kind":     {{Type: call.EventFinished, Outcome: &call.Outcome{Status: call.Failed}}},
		"output":   {{Type: call.EventOutput, Output: &call.Output{Stream: "stdout", Bytes: []byte("x")}}},
		"status":   {progress(tool.Progress{})},
		"fraction": {progress(tool.Progress{Status: tool.ProgressDone, Fraction: math.NaN()})},
		"content":  {activity(`{`)},
		"no id":    {{Type: call.EventActivityDelta, Activity: &call.Activity{Patch: `[]`}}},
		"number":   slices.Repeat([]call.Event{activity(`{}`)}, hook.MaxEvents+1),
		"size":     slices.Repeat([]call.Event{activity(`"` + strings.Repeat("x", hook.MaxEventBytes/2) + `"`)}, 2),
	} {
		inBubble(t, []tool.Tool{echo("t", mutating)}, func(c *lifecycle.Config) {
			c.Hooks.After = []hook.Entry[hook.After]{{Name: "lint", Required: true, Hook: afterFunc(func(hook.Outcome) (hook.AfterResult, error) {
				return hook.AfterResult{Events: events}, nil
			})}}
		}, func(t *testing.T, w *world) {
			c := w.do(spec("t", ""))
			if got := types(t, 1, w.log(c.ID)); got != "accepted attempt_started finished" || c.Result.Metadata["after_failed"] != "lint" {
				t.Errorf("%s: events %s, result %+v", name, got, c.Result)
			}
		})
	}
}

func TestFailingAfterHookHidesTheData(t *testing.T) {
	failures := map[string]afterFunc{
		"error":    func(hook.Outcome) (hook.AfterResult, error) { return hook.AfterResult{}, errors.New("no") },
		"panic":    func(hook.Outcome) (hook.AfterResult, error) { panic("no") },
		"deadline": func(hook.Outcome) (hook.AfterResult, error) { time.Sleep(time.Minute); return hook.AfterResult{}, nil },
	}
	for name, f := range failures {
		for _, required := range []bool{true, false} {
			inBubble(t, []tool.Tool{echo("t", mutating)}, func(c *lifecycle.Config) {
				c.Hooks.After = []hook.Entry[hook.After]{{Name: "redact", Hook: f, Required: required}}
			}, func(t *testing.T, w *world) {
				c := w.do(spec("t", `{"secret":1}`))
				hidden := c.Result.Data == "" && c.Result.ModelText() == `The result is not shown: the hook "redact" failed` && c.Result.Metadata["after_failed"] == "redact"
				if c.Status != call.Succeeded || hidden != required {
					t.Errorf("%s, required %t: %s %+v", name, required, c.Status, c.Result)
				}
				time.Sleep(2 * time.Minute)
			})
		}
	}
}

// redactor replaces the word "secret" in all events of a tool. It delays the end of each output until the next one, because the word may be
// split between them.
func redactor(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	kept := map[string][]byte{}
	mask := func(s string) string { return strings.ReplaceAll(s, "secret", "******") }
	output := func(stream string, b []byte) []call.Event {
		if len(b) == 0 {
			return nil
		}
		return []call.Event{{Type: call.EventOutput, Output: &call.Output{Stream: stream, Bytes: b}}}
	}
	return func(ev call.Event) ([]call.Event, []hook.Record) {
		switch {
		case ev.Output != nil:
			all := bytes.ReplaceAll(append(kept[ev.Output.Stream], ev.Output.Bytes...), []byte("secret"), []byte("******"))
			back := min(len(all), len("secret")-1)
			kept[ev.Output.Stream] = bytes.Clone(all[len(all)-back:])
			return output(ev.Output.Stream, all[:len(all)-back]), nil
		case ev.Progress != nil:
			p := *ev.Progress
			p.Message = mask(p.Message)
			ev.Progress = &p
		case ev.Activity != nil:
			return nil, nil
		case ev.Type == call.EventFinished:
			let := output("stdout", kept["stdout"])
			o := *ev.Outcome
			r := *o.Result
			r.Data, r.Message = mask(r.Data), mask(r.Message)
			if r.Error != nil {
				e := *r.Error
				e.Message = mask(e.Message)
				r.Error = &e
			}
			o.Result = &r
			ev.Outcome = &o
			return append(let, ev), []hook.Record{{Kind: "note", Key: in.CallID, Bytes: []byte("ended")}}
		}
		return []call.Event{ev}, nil
	}
}

func TestT112SecretsAreFilteredBeforeAnythingIsStored(t *testing.T) {
	long := strings.Repeat("x", 30<<10) + "secret" + strings.Repeat("y", 30<<10)
	run := func(end string) func(context.Context, *tool.Call) (*tool.Result, error) {
		return func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			for _, s := range []string{"a sec", "ret, a se", "cret", " and"} {
				if err := c.Output("stdout", []byte(s)); err != nil {
					return nil, err
				}
			}
			_ = c.Progress(tool.ProgressRunning, 0.5, "the secret way")
			_ = c.Activity("id", "plan", "secret")
			switch end {
			case "error":
				return nil, errors.New("no such secret")
			case "panic":
				panic("secret")
			}
			return &tool.Result{Status: tool.StatusSuccess, Message: long}, nil
		}
	}
	for _, effects := range []tool.Effects{mutating, reading} {
		for _, end := range []string{"success", "error", "panic"} {
			config := func(c *lifecycle.Config) {
				c.Hooks.Filter = []hook.Entry[hook.Filter]{{Name: "redact", Hook: filterFunc(redactor)}}
			}
			inBubble(t, []tool.Tool{made("t", effects, run(end))}, config, func(t *testing.T, w *world) {
				s := spec("t", "")
				live, _ := events(t, w.start(s, call.ExecuteOptions{}))
				time.Sleep(time.Second)
				c, late := w.get(s.ID), w.checkLog(s.ID)
				if types(t, 1, live) != types(t, 1, late) {
					t.Errorf("live %q, and late %q", types(t, 1, live), types(t, 1, late))
				}
				out := ""
				for _, list := range [][]call.Event{live, late} {
					out = ""
					for _, ev := range list {
						if ev.Output != nil {
							if int(ev.Output.Offset) != len(out) || ev.Output.Length != len(ev.Output.Bytes) {
								t.Errorf("output %+v after %d bytes", ev.Output, len(out))
							}
							out += string(ev.Output.Bytes)
						}
					}
					if out != "a ******, a ****** and" {
						t.Errorf("%s: output %q", end, out)
					}
				}
				part, err := w.e.Artifacts().ReadArtifact(t.Context(), alice, s.ID, "stdout", 0, 1<<20)
				if err != nil || string(part.Bytes) != out {
					t.Errorf("spool %q, %v", part.Bytes, err)
				}
				for _, a := range c.Result.Artifacts {
					if part, err := w.e.Artifacts().ReadArtifact(t.Context(), alice, s.ID, a.Name, 0, 1<<20); err != nil || bytes.Contains(part.Bytes, []byte("secret")) || len(part.Bytes) != len(long) {
						t.Errorf("artifact %s of %d bytes has it, %v", a.Name, len(part.Bytes), err)
					}
				}
				everything, err := json.Marshal([]any{c, live, late})
				if err != nil || bytes.Contains(everything, []byte("secret")) {
					t.Errorf("%s: published or stored: %.300s, %v", end, everything, err)
				}
				if r, err := w.store.Records(t.Context(), "ns", "note", 0, 10); err != nil || len(r) != 1 || r[0].CallID != s.ID {
					t.Errorf("records %+v, %v", r, err)
				}
			})
		}
	}
}

func TestFailingFilterWithholds(t *testing.T) {
	boom := filterFunc(func(*hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
		return func(ev call.Event) ([]call.Event, []hook.Record) {
			if ev.Progress != nil {
				panic("boom")
			}
			return []call.Event{ev}, nil
		}
	})
	config := func(c *lifecycle.Config) { c.Hooks.Filter = []hook.Entry[hook.Filter]{{Name: "redact", Hook: boom}} }
	talk := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		_ = c.Output("stdout", []byte("first"))
		_ = c.Progress(tool.ProgressRunning, 0, "secret")
		_ = c.Output("stdout", []byte("secret"))
		return tool.Text("secret"), nil
	})
	inBubble(t, []tool.Tool{talk}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if c.Status != call.Succeeded || c.Result.ModelText() != `The result is not shown: the hook "redact" failed` || c.Result.Data != "" {
			t.Errorf("call %s %+v", c.Status, c.Result)
		}
		if got := types(t, 1, w.checkLog(c.ID)); got != "accepted attempt_started output finished" {
			t.Errorf("events %s", got)
		}
		if w.e.Stats().HookFailures != 1 {
			t.Errorf("%d failures counted", w.e.Stats().HookFailures)
		}
	})
}

// TestFilterAndAFullJournal checks output that a filter releases only at the end of the call, when the journal refuses that end. The output
// is published exactly once, together with the end that is stored.
func TestFilterAndAFullJournal(t *testing.T) {
	config := func(c *lifecycle.Config) {
		c.Hooks.Filter = []hook.Entry[hook.Filter]{{Name: "redact", Hook: filterFunc(redactor)}}
	}
	talk := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text("end"), c.Output("stdout", []byte("abc"))
	})
	inBubble(t, []tool.Tool{talk}, config, func(t *testing.T, w *world) {
		w.useStore(nil, failing(func(n int, c *change) bool { return c.ends() && n < 6 }))
		c := w.do(spec("t", ""))
		list := w.checkLog(c.ID)
		if got := types(t, 1, list); got != "accepted attempt_started output finished" || string(list[2].Output.Bytes) != "abc" {
			t.Errorf("events %s", got)
		}
		if r, err := w.store.Records(t.Context(), "ns", "note", 0, 10); err != nil || len(r) != 1 {
			t.Errorf("records %+v, %v", r, err)
		}
	})
}

// watching is a filter that only observes.
type watching struct {
	filterFunc
	see func(*call.Event)
}

func (w watching) Observe(*hook.Input) func(*call.Event) { return w.see }

func TestObserverSeesWhatFiltersLeft(t *testing.T) {
	var seen []string
	observer := watching{see: func(ev *call.Event) {
		seen = append(seen, string(ev.Type))
		if ev.Output != nil {
			seen = append(seen, string(ev.Output.Bytes))
			panic("enough")
		}
	}}
	config := func(c *lifecycle.Config) {
		c.Hooks.Filter = []hook.Entry[hook.Filter]{{Name: "watch", Hook: observer}, {Name: "redact", Hook: filterFunc(redactor)}}
	}
	talk := made("t", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text("end"), c.Output("stdout", []byte("my secret!"))
	})
	inBubble(t, []tool.Tool{talk}, config, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if got := types(t, 1, w.checkLog(c.ID)); c.Status != call.Succeeded || !strings.HasSuffix(got, "output finished") {
			t.Errorf("%s: %s", c.Status, got)
		}
		if n := len(seen); n < 2 || strings.Contains(seen[n-1], "secret") {
			t.Errorf("the observer saw %q", seen)
		}
		if failures := w.e.Stats().HookFailures; failures != 1 {
			t.Errorf("%d failures", failures)
		}
	})
}
