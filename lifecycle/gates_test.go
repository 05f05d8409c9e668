package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

var (
	allow         = func(*hook.Input) (hook.Verdict, error) { return hook.Allow(), nil }
	blocks        = func(*hook.Input) (hook.Verdict, error) { return hook.Block("stop"), nil }
	answersFirst  = func(*hook.Input) (hook.Verdict, error) { return hook.SetResult(tool.Text("first")), nil }
	answersSecond = func(*hook.Input) (hook.Verdict, error) { return hook.SetResult(tool.Text("second")), nil }
	suspends      = func(*hook.Input) (hook.Verdict, error) { return hook.Suspend(tool.Ticket{Message: "sure?"}), nil }
	refuses       = func(*hook.Input) (hook.Verdict, error) { return hook.Deny("not today"), nil }
	fails         = func(*hook.Input) (hook.Verdict, error) { return hook.Verdict{}, errors.New("no database") }
)

// verdictsOf formats the recorded verdicts as gate:KIND, and appends a ! to the verdicts that were overruled.
func verdictsOf(list []call.GateVerdict) string {
	var b []string
	for _, v := range list {
		s := v.Gate + ":" + v.Kind
		if v.Overruled {
			s += "!"
		}
		b = append(b, s)
	}
	return strings.Join(b, " ")
}

func TestGatesCombine(t *testing.T) {
	tests := []struct {
		name     string
		gates    []gate
		status   call.Status
		text     string
		verdicts string
		outcome  string // outcome of DescribeCall
	}{
		{"all allow", []gate{allow, allow}, call.Succeeded, "{}", "a:ALLOW b:ALLOW", "ALLOW"},
		{"block beats suspend", []gate{suspends, blocks}, call.Failed, "Blocked: stop", "a:SUSPEND! b:BLOCK", "BLOCK"},
		{"block beats suspend in either order", []gate{blocks, suspends}, call.Failed, "Blocked: stop", "a:BLOCK b:SUSPEND!", "BLOCK"},
		{"suspend beats a result", []gate{answersFirst, suspends}, call.Suspended, "", "a:SET_RESULT! b:SUSPEND", "SUSPEND"},
		{"block beats a result", []gate{answersFirst, allow, blocks}, call.Failed, "Blocked: stop", "a:SET_RESULT! b:ALLOW c:BLOCK", "BLOCK"},
		{"a refusal is shown as one", []gate{refuses, allow}, call.Failed, "not today", "a:DENY b:ALLOW", "DENY"},
		{"suspend beats a refusal", []gate{refuses, suspends}, call.Suspended, "", "a:DENY! b:SUSPEND", "SUSPEND"},
		{"a refusal is a result to others", []gate{answersFirst, refuses}, call.Succeeded, "first", "a:SET_RESULT b:DENY!", "SET_RESULT"},
		{"the first of equals wins", []gate{answersFirst, answersSecond}, call.Succeeded, "first", "a:SET_RESULT b:SET_RESULT!", "SET_RESULT"},
		{"all are asked after a block", []gate{blocks, blocks, allow}, call.Failed, "Blocked: stop", "a:BLOCK b:BLOCK! c:ALLOW", "BLOCK"},
		{"a failure refuses whatever the others allow", []gate{answersFirst, fails}, call.Failed, `Refused: the hook "b" failed`, "a:SET_RESULT b:FAILED", "FAILED"},
		// The block counts even though another gate failed.
		{"a failure does not soften a block", []gate{fails, blocks}, call.Failed, "Blocked: stop", "a:FAILED b:BLOCK", "BLOCK"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var named []hook.Entry[hook.Gate]
			for i, g := range tt.gates {
				named = append(named, namedGate(string(rune('a'+i)), g))
			}
			p := &probe{}
			inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(named...), func(t *testing.T, w *world) {
				preview, err := w.e.Describe(t.Context(), alice, spec("t", ""))
				if err != nil || preview.Outcome != tt.outcome || verdictsOf(preview.Verdicts) != tt.verdicts {
					t.Errorf("preview %+v, %v; want %s by %s", preview, err, tt.outcome, tt.verdicts)
				}
				c := w.do(spec("t", ""))
				if c.Status != tt.status || c.Status != call.Suspended && c.Result.ModelText() != tt.text {
					t.Errorf("call %s %q, want %s %q", c.Status, c.Result.ModelText(), tt.status, tt.text)
				}
				if got := verdictsOf(c.Verdicts); got != tt.verdicts {
					t.Errorf("verdicts %s, want %s", got, tt.verdicts)
				}
				if ran := p.runs.Load() == 1; ran != (tt.outcome == "ALLOW") {
					t.Errorf("tool ran %d times", p.runs.Load())
				}
				lost := strings.Count(tt.verdicts, "!")
				if got := w.e.Stats().GateConflicts; got != int64(2*lost) { // Each conflict counts twice: once for the call and once for its preview.
					t.Errorf("%d conflicts counted, want %d", got, 2*lost)
				}
				var published []call.GateVerdict
				for _, ev := range w.checkLog(c.ID) {
					if ev.Type == call.EventGateDecided {
						published = append(published, *ev.Verdict)
					}
				}
				if want := slices.DeleteFunc(slices.Clone(c.Verdicts), func(v call.GateVerdict) bool { return v.Kind == "ALLOW" }); verdictsOf(published) != verdictsOf(want) {
					t.Errorf("published %s, want %s", verdictsOf(published), verdictsOf(want))
				}
			})
		})
	}
}

func TestFailingGates(t *testing.T) {
	failures := map[string]gate{
		"error":        fails,
		"panic":        func(*hook.Input) (hook.Verdict, error) { panic("boom") },
		"deadline":     func(*hook.Input) (hook.Verdict, error) { time.Sleep(time.Minute); return hook.Allow(), nil },
		"no verdict":   func(*hook.Input) (hook.Verdict, error) { return hook.Verdict{}, nil },
		"pending":      func(*hook.Input) (hook.Verdict, error) { return hook.SetResult(tool.Suspended("?")), nil },
		"bad ticket":   func(*hook.Input) (hook.Verdict, error) { return hook.Suspend(tool.Ticket{ExpiresIn: year}), nil },
		"gate default": func(*hook.Input) (hook.Verdict, error) { return hook.Suspend(tool.Ticket{DefaultResult: "true"}), nil },
	}
	modes := []struct {
		mode   hook.Failure
		status call.Status
		text   string
	}{
		{hook.FailRefuse, call.Failed, `Refused: the hook "g" failed`},
		{hook.FailAllow, call.Succeeded, "{}"},
		{hook.FailBlock, call.Failed, `Blocked: the gate "g" failed`},
	}
	for name, g := range failures {
		for _, m := range modes {
			t.Run(name+" "+string(m.mode), func(t *testing.T) {
				inBubble(t, []tool.Tool{echo("t", mutating)}, gates(hook.Entry[hook.Gate]{Name: "g", Hook: g, OnFailure: m.mode}), func(t *testing.T, w *world) {
					before := time.Now()
					c := w.do(spec("t", ""))
					if c.Status != m.status || c.Result.ModelText() != m.text {
						t.Errorf("call %s %q, want %s %q", c.Status, c.Result.ModelText(), m.status, m.text)
					}
					if took := time.Since(before); took > hook.DefaultDeadline {
						t.Errorf("took %v", took)
					}
					if w.e.Stats().HookFailures != 1 || c.Verdicts[0].Kind != "FAILED" {
						t.Errorf("%d failures counted, verdict %+v", w.e.Stats().HookFailures, c.Verdicts[0])
					}
					_, err := w.e.Execute(t.Context(), alice, spec("t", ""), call.ExecuteOptions{})
					if blocked := err != nil; blocked != (m.mode == hook.FailBlock) {
						t.Errorf("the next call of the run: %v", err)
					}
					time.Sleep(2 * time.Minute)
				})
			})
		}
	}
}

func TestGatesMatch(t *testing.T) {
	g := hook.Entry[hook.Gate]{Name: "g", Hook: gate(blocks), Match: hook.Match{Tools: []string{"rm*"}, Mutability: []tool.Mutability{tool.Mutating}}}
	inBubble(t, []tool.Tool{echo("rm", mutating), echo("rmdir", reading), echo("cp", mutating)}, gates(g), func(t *testing.T, w *world) {
		for id, want := range map[string]call.Status{"rmdir": call.Succeeded, "cp": call.Succeeded, "rm": call.Failed} {
			s := spec(id, "")
			s.Run.ID = "run-" + id
			if c := w.do(s); c.Status != want {
				t.Errorf("%s: %s, want %s", id, c.Status, want)
			}
		}
	})
}

// TestAnswersAreForTheirOwnGate checks what a gate sees on resume: the call as it is now, and the answer to its own question only.
func TestAnswersAreForTheirOwnGate(t *testing.T) {
	ask := func(name string, seen map[string]int) gate {
		return func(in *hook.Input) (hook.Verdict, error) {
			if in.Answer() != nil {
				seen[name]++
				return hook.Allow(), nil
			}
			return hook.Suspend(tool.Ticket{Message: name}), nil
		}
	}
	seen := map[string]int{}
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("first", ask("first", seen)), namedGate("second", ask("second", seen))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if c.Open().Origin != "first" || c.Open().Message != "first" {
			t.Fatalf("asked by %q", c.Open().Origin)
		}
		c = w.answer(bob, c, yes())
		if c.Status != call.Suspended || c.Open().Origin != "second" || p.runs.Load() != 0 {
			t.Fatalf("call is %s, asked by %v; tool ran %d times", c.Status, c.Open(), p.runs.Load())
		}
		c = w.answer(bob, c, yes())
		if c.Status != call.Succeeded || p.runs.Load() != 1 || len(c.Rounds) != 2 || seen["first"] != 2 || seen["second"] != 1 {
			t.Errorf("call %s, %d runs, %d rounds, seen %v", c.Status, p.runs.Load(), len(c.Rounds), seen)
		}
		if c.Rounds[0].Suspension.ID == c.Rounds[1].Suspension.ID || c.Rounds[1].Suspension.Round != 2 {
			t.Errorf("rounds %+v", c.Rounds)
		}
	})
}

// TestGateThatBlocksNowStillBlocks checks that a gate can block a call that was approved before.
func TestGateThatBlocksNowStillBlocks(t *testing.T) {
	closed := false
	guard := func(*hook.Input) (hook.Verdict, error) {
		if closed {
			return hook.Block("closed"), nil
		}
		return hook.Allow(), nil
	}
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{})), namedGate("guard", guard)), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		closed = true
		if c = w.answer(bob, c, yes()); c.Status != call.Failed || c.Result.ModelText() != "Blocked: closed" || p.runs.Load() != 0 {
			t.Errorf("call %s %q, %d runs", c.Status, c.Result.ModelText(), p.runs.Load())
		}
	})
}

func TestT113BlockedRun(t *testing.T) {
	g := func(in *hook.Input) (hook.Verdict, error) {
		if in.Descriptor.ID == "bad" {
			return hook.Block("never"), nil
		}
		if in.Descriptor.ID == "ask" && in.Answer() == nil {
			return hook.Suspend(tool.Ticket{}), nil
		}
		return hook.Allow(), nil
	}
	slow := held()
	inBubble(t, []tool.Tool{echo("bad", reading), echo("good", reading), echo("ask", mutating), slow.tool("slow", mutating)}, gates(namedGate("g", g)), func(t *testing.T, w *world) {
		waiting, running, finished := w.begin(apart(spec("ask", ""))), w.begin(apart(spec("slow", ""))), spec("good", "")
		w.do(finished)
		w.do(spec("bad", ""))
		refused := func(when string, p tool.Principal) {
			t.Helper()
			_, err := w.e.Execute(t.Context(), p, spec("good", ""), call.ExecuteOptions{})
			if err == nil {
				t.Fatalf("%s: a call of a blocked run was taken", when)
			}
			wantRefusal(t, err, call.FailedPrecondition, "RUN_BLOCKED")
		}
		refused("at once", alice)
		refused("from another connection", bob)
		if c := w.do(finished); c.Status != call.Succeeded { // Attaching to an existing call is not a new call, so it is still allowed.
			t.Errorf("attached to %s", c.Status)
		}
		other := spec("good", "")
		other.Run.ID = "run-2"
		if c := w.do(other); c.Status != call.Succeeded {
			t.Errorf("another run: %s", c.Status)
		}
		if info, err := w.e.Records().Run(t.Context(), alice, "run-1"); err != nil || info.State != "BLOCKED" || info.Reason != "never" || info.BlockedBy == "" {
			t.Errorf("run %+v, %v", info, err)
		}
		if _, err := w.e.EndRun(t.Context(), bob, "run-1", "", ""); err == nil {
			t.Error("somebody else ended the run")
		}
		slow.free()
		synctest.Wait()
		w.crash()
		refused("after a restart", alice)
		if c := w.get(running); c.Status != call.Succeeded {
			t.Errorf("the call that ran: %s", c.Status)
		}
		ended, err := w.e.EndRun(t.Context(), alice, "run-1", "", "")
		if err != nil || !slices.Equal(ended, []string{waiting}) {
			t.Errorf("ended %v, %v", ended, err)
		}
		if c := w.get(waiting); c.Status != call.Cancelled {
			t.Errorf("the call that waited: %s", c.Status)
		}
		if c := w.do(spec("good", "")); c.Status != call.Succeeded {
			t.Errorf("after EndRun: %s", c.Status)
		}
		w.crash()
		if c := w.do(spec("good", "")); c.Status != call.Succeeded {
			t.Errorf("opened anew, after a restart: %s", c.Status)
		}
	})
}

func TestT115DeniedIsUnknown(t *testing.T) {
	inBubble(t, []tool.Tool{echo("secret", mutating)}, func(c *lifecycle.Config) {
		c.Hide = func(p tool.Principal, d *tool.Descriptor) bool { return p.Subject == "alice" && d.ID == "secret" }
	}, func(t *testing.T, w *world) {
		texts := map[string][]string{}
		for _, id := range []string{"secret", "sekret"} {
			for _, args := range []string{`{"a":1}`, `{"a":`} {
				s := spec(id, args)
				_, err := w.e.Describe(t.Context(), alice, s)
				wantRefusal(t, err, call.NotFound, "TOOL_NOT_FOUND")
				c := w.do(s)
				list := w.log(c.ID)
				names := types(t, 1, list) + " " + list[0].Accepted.ToolDigest + string(list[0].Accepted.Class)
				same := strings.ReplaceAll(strings.Join([]string{err.Error(), string(c.Status), string(c.Result.Error.Code), c.Result.Error.Reason,
					c.Result.ModelText(), c.Result.Error.DeveloperMessage, names, c.ToolDigest, string(c.Class), string(c.Isolation.Required)}, "|"), id, "ID")
				texts[id] = append(texts[id], same)
			}
		}
		if !slices.Equal(texts["secret"], texts["sekret"]) {
			t.Errorf("a hidden tool answers\n%q, an unknown one\n%q", texts["secret"], texts["sekret"])
		}
		theirs := spec("secret", "")
		theirs.Run = tool.Run{ID: "run-2", Thread: "thread-2"}
		if watcher, err := w.e.Execute(context.Background(), bob, theirs, call.ExecuteOptions{}); err != nil {
			t.Error(err)
		} else if c, _ := watcher.Wait(t.Context(), time.Hour); c.Status != call.Succeeded {
			t.Errorf("for who may see it: %s", c.Status)
		}
	})
}

// TestPolicyVersionIsRecorded checks that the record of a question names the version of the policy that caused it, even after the rules
// change.
func TestPolicyVersionIsRecorded(t *testing.T) {
	version := "rules 1"
	ask := namedGate("ask", func(in *hook.Input) (hook.Verdict, error) {
		v, err := approval(tool.Ticket{})(in)
		return v.Under(version), err
	})
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(ask), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		version = strings.Repeat("x", 127) + "é"
		w.crash()
		if got := w.get(c.ID).Open(); got.Policy != "rules 1" || got.Digest != c.Open().Digest {
			t.Errorf("%+v", got)
		}
		if c = w.answer(bob, c, yes()); c.Status != call.Succeeded || c.Rounds[0].Suspension.Policy != "rules 1" {
			t.Errorf("call %s %+v", c.Status, c.Rounds[0].Suspension)
		}
		for _, ev := range w.checkLog(c.ID) {
			if ev.Type == call.EventSuspended && ev.Suspension.Policy != "rules 1" {
				t.Errorf("published %+v", ev.Suspension)
			}
		}
		if s := w.do(spec("t", "")).Open(); len(s.Policy) > 130 || !utf8.ValidString(s.Policy) {
			t.Errorf("a version of %d bytes: %q", len(s.Policy), s.Policy)
		}
	})
}
