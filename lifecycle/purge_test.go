package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// secret must not be in any file after a purge. The test also searches for its halves, because it may be split between two pages.
const secret = "Zq7vPurgedWx3kTn"

// filesWith returns the files of a directory that contain the secret in any form.
func filesWith(t *testing.T, dir, secret string) (found []string) {
	t.Helper()
	half := len(secret) / 2
	forms := []string{secret[:half], secret[half:], hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))[:20]}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, form := range forms {
			if err == nil && bytes.Contains(b, []byte(form)) {
				name, _ := filepath.Rel(dir, path)
				found = append(found, name+" holds "+form)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// publishesSecret returns a tool that publishes the secret in every possible field, asks a question, and does the same again after the answer.
func publishesSecret(id string) tool.Tool {
	text := strings.Repeat(secret+" ", 4000) // larger than a result without artifacts can be
	return made(id, mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		steps := []func() error{
			func() error { return c.Progress(tool.ProgressRunning, 0.5, secret) },
			func() error { return c.Activity("a"+secret, secret, map[string]string{"a": secret}) },
			func() error {
				return c.ActivityDelta("a"+secret, []any{map[string]string{"op": "add", "path": "/b", "value": secret}})
			},
			func() error { return c.Output("stdout", []byte(text)) },
			func() error { return c.Output(secret, []byte(text)) },
			func() error { return c.SaveCheckpoint([]byte(secret)) },
			func() error { _, err := c.SaveArtifact(secret, "text/"+secret, []byte(text)); return err },
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return nil, err
			}
		}
		if c.Resume == nil || c.Resume.Reason != "input" {
			return &tool.Result{Status: tool.StatusPending, Suspension: &tool.Ticket{
				Action: "input", Message: secret, Parameters: json.RawMessage(`{"x":"` + secret + `"}`),
				ResponseSchema: json.RawMessage(`{"title":"` + secret + `"}`), DefaultResult: `"` + secret + `"`,
			}}, nil
		}
		return &tool.Result{
			Status: tool.StatusSuccess, Data: `"` + text + `"`, Message: text, Metadata: map[string]string{secret: secret},
			Content: []tool.Content{{Type: tool.ContentText, Text: secret}},
			Documents: []tool.Command{
				{Op: tool.OpSet, Scope: tool.RunScope, Key: secret, Value: `"` + secret + `"`},
				{Op: tool.OpSet, Scope: tool.ThreadScope, Key: "todo", Value: `"` + secret + `"`},
			},
		}, nil
	})
}

// noting is an After hook that stores a record of its input.
type noting struct{}

func (noting) After(_ context.Context, in *hook.Input, o hook.Outcome) (hook.AfterResult, error) {
	return hook.AfterResult{Records: []hook.Record{{Kind: "note", Key: in.Arguments.Text(), Bytes: []byte(o.Result.ModelText())}}}, nil
}

// purgeWorld returns an engine on real files.
func purgeWorld(t *testing.T) (*world, *disk) {
	t.Helper()
	w, d := &world{t: t, tools: &toolbox{}}, &disk{root: t.TempDir()}
	failing := made("failing", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.ExecutionFailed, "%s", secret)
	})
	w.tools.set(t, publishesSecret("telling"), failing, echo("danger", mutating), echo("read", reading), echo("voted", mutating))
	ask := func(count int) gate {
		return approval(tool.Ticket{
			Action: "approval", Message: secret, Parameters: json.RawMessage(`"` + secret + `"`),
			Approvers: &tool.Approvers{Roles: []string{"approver", "operator"}, Count: count}, RememberOptions: []tool.RememberOption{{Option: secret, Title: secret}},
		})
	}
	w.cfg = lifecycle.Config{Tools: w.tools, Answers: answers{}, Hooks: hook.Set{
		Gate: []hook.Entry[hook.Gate]{namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
			switch in.Descriptor.ID {
			case "danger":
				return hook.Block(secret), nil
			case "voted":
				return ask(2)(in)
			case "telling":
				return ask(1)(in)
			}
			return hook.Allow(), nil
		})},
		After: []hook.Entry[hook.After]{{Name: "noting", Hook: noting{}}},
	}}
	e, err := d.open(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.e = e
	t.Cleanup(func() { d.cut(w.e, false) })
	return w, d
}

func private(id, run string) call.Spec {
	s := spec(id, `{"said":"`+secret+`"}`)
	s.ModelCallID, s.ModelReason = secret, secret
	s.Run = tool.Run{ID: run, Thread: "thread-1", Origin: secret, Labels: map[string]string{"l": secret},
		Agent: tool.Agent{ID: secret, Spec: `"` + secret + `"`, Exclude: []string{secret}}}
	return s
}

// fill makes calls that have the secret in every possible field. Together they have every kind of outcome.
func fill(t *testing.T, w *world) (ids []string) {
	t.Helper()
	note := func(c *call.Call) *call.Call {
		ids = append(ids, c.ID)
		return c
	}
	edited := func(more string) tool.Decision {
		return tool.Decision{Action: tool.Resume, Arguments: `{"said":"` + secret + more + `"}`, Reason: secret}
	}
	c := note(w.do(private("telling", "run-1")))
	w.claimed(bob, c, call.ClaimRequest{To: secret})
	kept := edited("!")
	kept.Arguments, kept.Remember = "", &tool.Remember{Option: secret, Scope: tool.ThreadScope}
	c = w.answer(bob, c, kept)
	c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: `{"said":"` + secret + `"}`, Reason: secret})
	if c.Status != call.Succeeded {
		t.Fatalf("the call that says everything is %s: %+v", c.Status, c.Result)
	}
	w.answer(bob, note(w.do(private("voted", "run-1"))), no(secret))
	c = note(w.do(private("voted", "run-1")))
	w.answer(bob, c, edited("1"))
	w.answer(carol, w.get(c.ID), edited("2")) // This edit voids the first vote.
	if c = w.answer(bob, w.get(c.ID), edited("2")); c.Status != call.Succeeded {
		t.Fatalf("the call with votes is %s", c.Status)
	}
	c = note(w.do(private("voted", "run-1")))
	if _, err := w.e.Cancel(t.Context(), alice, c.ID, secret, time.Hour); err != nil {
		t.Fatal(err)
	}
	note(w.do(private("failing", "run-1")))
	note(w.do(private("read", "run-1")))
	broken := private("read", "run-1")
	broken.Arguments = `{"` + secret
	note(w.do(broken))
	note(w.do(private("danger", "run-2")))
	return ids
}

// TestPurgeLeavesNothing checks the purge of a thread. Afterwards no file contains content of its calls, and everything else still works.
func TestPurgeLeavesNothing(t *testing.T) {
	w, d := purgeWorld(t)
	ids := fill(t, w)
	other := spec("read", `{}`)
	other.Run = tool.Run{ID: "run-3", Thread: "thread-3"}
	w.do(other)
	if _, err := w.e.EndRun(t.Context(), alice, "run-1", secret, ""); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, d.dir(), secret); len(found) < 6 {
		t.Fatalf("the files should hold the secret: %q", found)
	}
	watcher, err := w.e.Watch(t.Context(), carol, ids[0], "c1.1.3", true)
	if err != nil {
		t.Fatal(err)
	}
	purged, before, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{Thread: "thread-1"})
	if err != nil || purged != len(ids) || before != 0 {
		t.Fatalf("Purge = %d, %d, %v, want %d", purged, before, err, len(ids))
	}
	if found := filesWith(t, d.dir(), secret); len(found) > 0 {
		t.Errorf("still there: %q", found)
	}
	if rules := w.e.Policies().Rules(carol); len(rules) != 0 {
		t.Errorf("remembered: %+v", rules)
	}
	list, controls := events(t, watcher) // This watcher began before the purge.
	if len(list) > 0 || len(controls) != 1 || controls[0].Gap == nil || controls[0].Gap.FirstKept != w.get(ids[0]).LastSequence+1 {
		t.Errorf("a watcher received %v, %+v", list, controls)
	}
	for range 2 {
		for _, id := range ids {
			c := w.get(id)
			if b, err := json.Marshal(c); err != nil || bytes.Contains(b, []byte(secret)) || c.Purge.By.Subject != "carol" || c.Result.Status == "" {
				t.Errorf("what is left of %s is %s, %v", id, b, err)
			}
		}
		if got := w.do(other); got.Status != call.Succeeded || got.Purge != nil {
			t.Errorf("another call is %+v", got)
		}
		d.cut(w.e, true)
		if w.e, err = d.open(w.cfg); err != nil {
			t.Fatal(err)
		}
	}
	if c := w.get(ids[2]); len(c.LastRound().Decision.Votes) != 2 || c.LastRound().Decision.DecidedBy.Subject != "bob" {
		t.Errorf("who decided is lost: %+v", c.LastRound())
	}
	if purged, before, err = w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: ids}); err != nil || purged != 0 || before != len(ids) {
		t.Errorf("again Purge = %d, %d, %v", purged, before, err)
	}
	if got := w.do(private("read", "run-1")); got.Status != call.Succeeded { // The run still accepts calls after the purge.
		t.Errorf("a new call is %s", got.Status)
	}
	_, err = w.e.Execute(t.Context(), alice, private("read", "run-2"), call.ExecuteOptions{})
	wantRefusal(t, err, call.FailedPrecondition, "RUN_BLOCKED") // The purge does not lift the block of the run.
}

// TestPurgeKeepsDecisions checks a decision that a client repeats after a purge. The same decision is recognized and returns its outcome; a
// different one is refused.
func TestPurgeKeepsDecisions(t *testing.T) {
	tools := []tool.Tool{echo("t", mutating)}
	inBubble(t, tools, gates(namedGate("g", approval(tool.Ticket{Action: "approval"}))), func(t *testing.T, w *world) {
		c := w.do(spec("t", `{}`))
		d := tool.Decision{ID: "decision-of-the-test", Action: tool.Resume, Reason: secret, ExpectedDigest: c.Open().Digest}
		w.answer(bob, c, d)
		if _, _, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{Run: "run-1"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := w.resume(bob, w.get(c.ID), d); err != nil || got.Purge == nil || got.Status != call.Succeeded {
				t.Errorf("the same decision again: %+v, %v", got, err)
			}
			other := d
			other.Reason = "another one"
			_, err := w.resume(bob, w.get(c.ID), other)
			wantRefusal(t, err, call.AlreadyExists, "DECISION_ID_REUSED")
			w.crash()
		}
	})
}

// TestPurgeAndLateAnswer checks an abandoned tool that returns after its call was purged. The late result is not stored.
func TestPurgeAndLateAnswer(t *testing.T) {
	for _, early := range []bool{true, false} {
		release := make(chan struct{})
		stubborn := made("stubborn", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
			<-release
			return &tool.Result{Status: tool.StatusSuccess, Message: secret}, nil
		})
		inBubble(t, []tool.Tool{stubborn}, nil, func(t *testing.T, w *world) {
			release = make(chan struct{})
			id := w.begin(apart(spec("stubborn", `{}`)))
			_, _, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{id}})
			wantRefusal(t, err, call.FailedPrecondition, "CALL_NOT_ENDED")
			if _, err := w.e.Cancel(t.Context(), alice, id, "", time.Minute); err != nil {
				t.Fatal(err)
			}
			purge := func() {
				if _, _, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{id}}); err != nil {
					t.Fatal(err)
				}
			}
			if early {
				purge()
			}
			close(release)
			time.Sleep(time.Second)
			if !early {
				purge()
			}
			if w.e.Stats().LateReports != 1 {
				t.Errorf("%d late answers", w.e.Stats().LateReports)
			}
			if late, err := w.store.Records(t.Context(), "ns", lifecycle.LateResults, 0, 10); err != nil || len(late) != 0 {
				t.Errorf("late answers kept: %v, %v", late, err)
			}
		})
	}
}

// TestPurgeIsInterruptible checks that after an interrupted purge each call is either unchanged or completely purged, and that the next
// purge purges the remaining calls.
func TestPurgeIsInterruptible(t *testing.T) {
	for _, point := range []string{"purging", "purged"} {
		for at := 1; at <= 4; at++ {
			inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
				var ids []string
				for range 4 {
					s := spec("t", `{"said":"`+secret+`"}`)
					s.Run = tool.Run{ID: "run-9", Thread: "thread-9"}
					ids = append(ids, w.do(s).ID)
				}
				seen := 0
				w.cfg.FailPoint = func(name string) {
					if name == point {
						if seen++; seen == at {
							w.store = w.store.Crash()
						}
					}
				}
				w.crash()
				_, _, _ = w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{Thread: "thread-9"})
				w.past = append(w.past, w.e)
				w.open()
				erased := 0
				for _, id := range ids {
					c := w.get(id)
					if whole := c.Requested != ""; whole == (c.Purge != nil) || whole != (len(w.log(id)) > 0) {
						t.Errorf("%s at %s %d is neither whole nor purged: %+v", id, point, at, c)
					} else if !whole {
						erased++
					}
				}
				purged, before, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{Thread: "thread-9"})
				if err != nil || before != erased || purged+before != len(ids) || erased != at {
					t.Errorf("%s %d: %d were purged; then Purge = %d, %d, %v", point, at, erased, purged, before, err)
				}
			})
		}
	}
}

// TestPurgeThenTrim checks that retention later removes what a purge left of a call.
func TestPurgeThenTrim(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		held := w.start(spec("t", `{}`), call.ExecuteOptions{})
		id := held.Call().ID
		time.Sleep(time.Minute)
		if _, _, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{id}}); err != nil {
			t.Fatal(err)
		}
		if list, controls := events(t, held); len(list) != 0 || len(controls) != 1 || controls[0].Gap == nil { // The purge also erased the events in memory, so this watcher gets only a gap.
			t.Errorf("a watcher that read nothing before received %v, %+v", list, controls)
		}
		trimmed, err := w.store.Trim(t.Context(), w.store.Now().Add(time.Hour), 0, 0, 10)
		if err != nil || len(trimmed) != 1 {
			t.Fatalf("Trim = %v, %v", trimmed, err)
		}
		if purged, before, err := w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{id}}); err != nil || purged != 0 || before != 1 {
			t.Errorf("Purge of a tombstone = %d, %d, %v", purged, before, err)
		}
		_, _, err = w.e.Purger().Purge(t.Context(), carol, call.PurgeSelector{IDs: []string{"nobody-knows-this"}})
		wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
	})
}
