package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/command"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// starter starts real processes, as the daemon does.
type starter struct{ *sandbox.Runner }

func (s starter) Run(ctx context.Context, p command.Process) (command.Exit, error) {
	exit, err := s.Runner.Run(ctx, sandbox.Spec{
		Path: p.Path, Args: p.Args, Dir: p.Dir, Env: p.Env, Tag: p.CallID, Stdin: strings.NewReader(string(p.Stdin)), Output: p.Output, Grace: -1,
	})
	if exit == nil || err != nil {
		return command.Exit{}, err
	}
	return command.Exit{Code: exit.Code, Signal: exit.Signal, Alive: len(exit.Unverified)}, nil
}

func newStarter(t testing.TB) starter {
	r, err := sandbox.New(sandbox.Config{Owner: "test", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return starter{r}
}

func newHook(t testing.TB, script string, change ...func(*command.Config)) *command.Hook {
	t.Helper()
	cfg := command.Config{Name: "h", Command: []string{"/bin/sh", "-c", script}, Start: newStarter(t), Workspace: "/ws"}
	for _, c := range change {
		c(&cfg)
	}
	h, err := command.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func input(t testing.TB, arguments string) *hook.Input {
	t.Helper()
	args, err := call.Parse(arguments).Arguments(0)
	if err != nil {
		t.Fatal(err)
	}
	return &hook.Input{
		Namespace: "ns", CallID: "call-000000000001", Descriptor: &tool.Descriptor{ID: "bash", Source: "builtin"}, ToolDigest: "d",
		Requested: arguments, Arguments: args, Run: tool.Run{ID: "r", Thread: "t"}, Caller: tool.Principal{Namespace: "ns", Subject: "alice"},
		Assessment: tool.Effects{}.Normal(), Attempt: 1,
	}
}

func say(json string) string { return "cat >/dev/null; echo '" + json + "'" }

func TestGate(t *testing.T) {
	tests := []struct {
		name, script string
		kind         hook.VerdictKind // expected kind; empty means that an error is expected
		text         string           // expected in the reason, the message of the result, or the error
		protocol     bool
	}{
		{"silence", "cat >/dev/null", hook.KindAllow, "", false},
		{"stdin unread", "exit 0", hook.KindAllow, "", false},
		{"exit code 2", "echo 'not on Fridays' >&2; exit 2", hook.KindSetResult, "not on Fridays", false},
		{"exit code 2 without a reason", "exit 2", hook.KindSetResult, "no reason given", false},
		{"allow", say(`{"verdict":"allow","reason":"why not"}`), hook.KindAllow, "why not", false},
		{"deny", say(`{"verdict":"deny","reason":"no"}`), hook.KindSetResult, "no", false},
		{"block", say(`{"verdict":"block","reason":"stop"}`), hook.KindBlock, "stop", false},
		{"ask", say(`{"verdict":"ask","reason":"sure?"}`), hook.KindSuspend, "sure?", false},
		{"suspend", say(`{"verdict":"suspend","ticket":{"action":"auth","message":"log in","expires_in":"1h","approvers":{"count":2}}}`), hook.KindSuspend, "log in", false},
		{"result", say(`{"verdict":"result","result":{"status":"SUCCESS","data":{"a":1.50},"message":"cached"}}`), hook.KindSetResult, "cached", false},
		{"an error as the result", say(`{"verdict":"result","result":{"status":"ERROR","error":{"code":"NOT_FOUND","message":"gone"}}}`), hook.KindSetResult, "gone", false},
		{"an agent's allow", say(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}`), hook.KindAllow, "", false},
		{"an agent's deny", say(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}`), hook.KindSetResult, "no", false},
		{"an agent's ask", say(`{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"sure?"}}`), hook.KindSuspend, "sure?", false},
		{"an agent's stop", say(`{"continue":false,"stopReason":"enough"}`), hook.KindBlock, "enough", false},

		{"exit code 1", "echo oops >&2; exit 1", "", "exit code 1: oops", false},
		{"a signal", "kill -KILL $$", "", "SIGKILL", false},
		{"garbage", "echo no JSON", "", "cannot parse its output", false},
		{"a list", say(`[]`), "", "not a JSON object", false},
		{"a member twice", say(`{"verdict":"allow","verdict":"deny"}`), "", "cannot parse its output", false},
		{"cut off", say(`{"verdict":"allow"`), "", "cannot parse its output", false},

		{"arguments", say(`{"verdict":"allow","arguments":{}}`), "", `"arguments"`, true}, // T95: a gate cannot change arguments
		{"another tool", say(`{"verdict":"allow","tool_name":"rm"}`), "", `"tool_name"`, true},
		{"an agent's arguments", say(`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{}}}`), "", `updatedInput`, true},
		{"another case", say(`{"Verdict":"allow"}`), "", `"Verdict"`, true},
		{"unknown verdict", say(`{"verdict":"maybe"}`), "", "maybe", true},
		{"a ticket that counts for nothing", say(`{"verdict":"allow","ticket":{}}`), "", "ticket", true},
		{"a code of the engine's", say(`{"verdict":"result","result":{"status":"ERROR","error":{"code":"IN_DOUBT","message":"x"}}}`), "", "IN_DOUBT", true},
		{"a question as the result", say(`{"verdict":"result","result":{"status":"PENDING"}}`), "", "SUCCESS", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t, tt.script)
			v, err := h.Check(t.Context(), input(t, `{"command":"ls"}`))
			got := v.Reason()
			switch {
			case err != nil:
				got = err.Error()
			case v.Result() != nil:
				got = v.Result().ModelText()
			}
			if v.Kind() != tt.kind || !strings.Contains(got, tt.text) {
				t.Errorf("verdict %q %q, %v; want %q %q", v.Kind(), got, err, tt.kind, tt.text)
			}
			if is := errors.As(err, new(*hook.ProtocolError)); is != tt.protocol {
				t.Errorf("error of the protocol: %t, %v", is, err)
			}
			if failed := h.Health().Failed == 1; failed != (tt.kind == "") {
				t.Errorf("health %+v", h.Health())
			}
		})
	}
}

// TestQuestion checks that the program gets the question, and no variable of the daemon's environment.
func TestQuestion(t *testing.T) {
	t.Setenv("DAEMON_SECRET", "hunter2")
	dir := t.TempDir()
	h := newHook(t, `cat >q; env >e; pwd >>e`, func(c *command.Config) { c.Dir, c.Env = dir, []string{"ASKED=1"} })
	in := input(t, `{"command":"echo  \u00e9","n":9007199254740993}`).WithAnswer(&tool.Decision{ID: "d1", Action: tool.Resume})
	if _, err := h.Check(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "q"))
	if err != nil {
		t.Fatal(err)
	}
	var q struct {
		Event    string          `json:"hook_event_name"`
		Session  string          `json:"session_id"`
		CWD      string          `json:"cwd"`
		ToolName string          `json:"tool_name"`
		ID       string          `json:"tool_use_id"`
		Input    json.RawMessage `json:"tool_input"`
		Kind     string          `json:"kind"`
		Caller   tool.Principal  `json:"caller"`
		Answer   *tool.Decision  `json:"answer"`
	}
	if err := json.Unmarshal(b, &q); err != nil {
		t.Fatal(err)
	}
	if q.Event != "PreToolUse" || q.Session != "t" || q.CWD != "/ws" || q.ToolName != "bash" || q.ID != "call-000000000001" || q.Kind != "gate" ||
		q.Caller.Subject != "alice" || q.Answer == nil || q.Answer.ID != "d1" || !strings.Contains(string(q.Input), "9007199254740993") {
		t.Errorf("question %s", b)
	}
	e, err := os.ReadFile(filepath.Join(dir, "e"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(e); strings.Contains(text, "hunter2") || !strings.Contains(text, "ASKED=1\n") || !strings.Contains(text, "TOOLD_HOOK=h\n") || !strings.HasSuffix(text, dir+"\n") {
		t.Errorf("environment %s", e)
	}
}

// TestAnswered checks that one approval is enough for an `ask`. A program that suspends with a ticket itself decides which answers are
// enough.
func TestAnswered(t *testing.T) {
	in := input(t, `{}`).WithAnswer(&tool.Decision{ID: "d1", Action: tool.Resume})
	for script, want := range map[string]hook.VerdictKind{
		say(`{"verdict":"ask","reason":"sure?"}`):                        hook.KindAllow,
		say(`{"hookSpecificOutput":{"permissionDecision":"ask"}}`):       hook.KindAllow,
		say(`{"verdict":"suspend","ticket":{"message":"really sure?"}}`): hook.KindSuspend,
		say(`{"verdict":"deny"}`):                                        hook.KindSetResult,
	} {
		if v, err := newHook(t, script).Check(t.Context(), in); err != nil || v.Kind() != want {
			t.Errorf("%s: %s, %v", script, v.Kind(), err)
		}
	}
}

func TestOtherKinds(t *testing.T) {
	in := input(t, `{"a":1}`)
	ok := func() hook.Outcome {
		return hook.Outcome{Status: call.Succeeded, Executed: call.Finished, Result: &tool.Result{Status: tool.StatusSuccess, Data: `{"x":1}`}}
	}
	t.Run("rewrite", func(t *testing.T) {
		for script, want := range map[string]string{
			"true":                         `{"a":1}`,
			say(`{"arguments":{"a":2.0}}`): `{"a":2.0}`,
			say(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"a":3}}}`): `{"a":3}`,
		} {
			if text, err := newHook(t, script).Rewrite(t.Context(), in); err != nil || text != want {
				t.Errorf("%s: %s, %v", script, text, err)
			}
		}
		for _, script := range []string{"exit 2", say(`{"arguments":{},"tool_name":"rm"}`), say(`{"verdict":"deny"}`)} {
			if _, err := newHook(t, script).Rewrite(t.Context(), in); !errors.As(err, new(*hook.ProtocolError)) {
				t.Errorf("%s: %v", script, err)
			}
		}
	})
	t.Run("admit", func(t *testing.T) {
		dir := t.TempDir()
		h := newHook(t, `if grep -q '"kind":"release","hook":"h".*"admission":"a1"' ; then echo given >back; else echo '{"admission":"a1"}'; fi`, func(c *command.Config) { c.Dir = dir })
		release, err := h.Admit(t.Context(), in)
		if err != nil || release == nil {
			t.Fatal(err)
		}
		release()
		for h.Health().Asked < 2 { // Waits, because the program gets the release after the end of the call.
			time.Sleep(time.Millisecond)
		}
		if _, err := os.Stat(filepath.Join(dir, "back")); err != nil {
			t.Error(err)
		}
		_, err = newHook(t, say(`{"refused":"10 a minute","retry_after":"30s"}`)).Admit(t.Context(), in)
		var e *tool.Error
		if !errors.As(err, &e) || e.Message != "10 a minute" || e.RetryAfter != 30*time.Second {
			t.Errorf("refusal %v", err)
		}
		if _, err = newHook(t, "exit 1").Admit(t.Context(), in); err == nil || errors.As(err, &e) {
			t.Errorf("a failure reads as a refusal: %v", err)
		}
	})
	t.Run("before", func(t *testing.T) {
		got, err := newHook(t, say(`{"documents":[{"op":"set","scope":"RUN","key":"k","value":{"n":1.0},"expected":0}]}`)).Before(t.Context(), in)
		if err != nil || len(got) != 1 || got[0].Value != `{"n":1.0}` || *got[0].Expected != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		for _, bad := range []string{`{"documents":[{"op":"set","scope":"WORLD","key":"k","value":1}]}`, `{"documents":[{"op":"drop","scope":"RUN","key":"k"}]}`, `{"verdict":"deny"}`} {
			if _, err := newHook(t, say(bad)).Before(t.Context(), in); !errors.As(err, new(*hook.ProtocolError)) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
	t.Run("after", func(t *testing.T) {
		got, err := newHook(t, say(`{"result":{"message":"short","metadata":{"k":"v"}},"documents":[{"op":"delete","scope":"THREAD","key":"k"}]}`)).After(t.Context(), in, ok())
		if err != nil || got.Result.Message != "short" || got.Result.Data != `{"x":1}` || got.Result.Metadata["k"] != "v" || len(got.Documents) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		got, err = newHook(t, "echo 'run the linter' >&2; exit 2").After(t.Context(), in, ok())
		if err != nil || got.Result.Message != "{\"x\":1}\nrun the linter" {
			t.Errorf("%+v, %v", got.Result, err)
		}
		if got, err = newHook(t, `grep -q '"hook_event_name":"PostToolUse".*"tool_response":{"x":1}'`).After(t.Context(), in, ok()); err != nil || got.Result != nil {
			t.Errorf("%+v, %v", got, err)
		}
		got, err = newHook(t, say(`{"events":[{"progress":{"fraction":1}},{"activity":{"id":"a","type":"t","content":{"n":1.0}}},{"activity_delta":{"id":"a","patch":[]}}]}`)).After(t.Context(), in, ok())
		want := []call.Event{
			{Type: call.EventProgress, Progress: &tool.Progress{Status: tool.ProgressRunning, Fraction: 1}},
			{Type: call.EventActivitySnapshot, Activity: &call.Activity{ID: "a", Type: "t", Content: `{"n":1.0}`}}, {Type: call.EventActivityDelta, Activity: &call.Activity{ID: "a", Patch: `[]`}},
		}
		if err != nil || !reflect.DeepEqual(got.Events, want) {
			t.Errorf("events %+v, %v", got.Events, err)
		}
		for _, bad := range []string{`{"events":[{}]}`, `{"events":[{"output":{"stream":"stdout"}}]}`, `{"events":[{"progress":{"status":"lost"}}]}`, `{"events":[{"progress":{},"activity":{"id":"a","content":1}}]}`} {
			if _, err := newHook(t, say(bad)).After(t.Context(), in, ok()); !errors.As(err, new(*hook.ProtocolError)) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		if _, err := newHook(t, say(`{"result":{"status":"ERROR"}}`)).After(t.Context(), in, ok()); !errors.As(err, new(*hook.ProtocolError)) {
			t.Errorf("the status is not a hook's to change: %v", err)
		}
	})
}

// TestT94HostileCommands checks programs that misbehave. Each must cause a failure within the deadline. The memory use stays limited, and
// no process is left.
func TestT94HostileCommands(t *testing.T) {
	tests := map[string]string{
		"hangs":                          `sleep 600`,
		"ignores SIGTERM":                `trap '' TERM; while :; do sleep 600; done`,
		"prints without end":             `yes`,
		"prints a gibibyte":              `head -c 1073741824 /dev/zero`,
		"prints a gibibyte of complaint": `head -c 1073741824 /dev/zero >&2; exit 2`,
		"slowly, without end":            `while :; do echo; sleep 0.05; done`,
		"crashes":                        `kill -SEGV $$`,
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t, script)
			ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer stop()
			if v, err := h.Check(ctx, input(t, `{}`)); err == nil {
				t.Errorf("verdict %q", v.Kind())
			}
			if running := h.Health().Running; running != 0 {
				t.Errorf("%d are still asked", running)
			}
		})
	}
	t.Run("leaves a daemon behind", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		h := newHook(t, `(setsid sh -c 'trap "" TERM HUP; echo $$ >pid; sleep 600' & ) ; while [ ! -s pid ]; do sleep 0.01; done; echo '{"verdict":"deny","reason":"no"}'`,
			func(c *command.Config) { c.Dir = dir })
		v, err := h.Check(t.Context(), input(t, `{}`))
		if err != nil || v.Kind() != hook.KindSetResult {
			t.Fatalf("verdict %q, %v", v.Kind(), err)
		}
		pid, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		if status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(status), ") Z") {
			t.Errorf("it lives: %s", status)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []command.Config{{}, {Name: "h", Start: starter{}}, {Name: "h", Start: starter{}, Command: []string{"sh"}}} {
		if _, err := command.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// FuzzAnswer checks that any output of a program yields a verdict or an error, and never a panic.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"verdict":"allow"}`, `{"hookSpecificOutput":{"permissionDecision":"deny"}}`, `{"verdict":"suspend","ticket":{"expires_in":"1h"}}`, `[`, ``, `null`} {
		f.Add([]byte(s))
	}
	in := input(f, `{}`)
	f.Fuzz(func(t *testing.T, printed []byte) {
		h, err := command.New(command.Config{Name: "h", Command: []string{"/h"}, Start: prints(printed)})
		if err != nil {
			t.Fatal(err)
		}
		v, err := h.Check(t.Context(), in)
		if (err == nil) == (v.Kind() == "") {
			t.Errorf("verdict %q, %v", v.Kind(), err)
		}
		_, _ = h.Rewrite(t.Context(), in)
		_, _ = h.Before(t.Context(), in)
		_, _ = h.After(t.Context(), in, hook.Outcome{Status: call.Succeeded, Result: &tool.Result{Status: tool.StatusSuccess}})
	})
}

// prints is a Starter whose program prints a text and exits with code 0.
type prints []byte

func (p prints) Run(_ context.Context, r command.Process) (command.Exit, error) {
	return command.Exit{}, r.Output("stdout", p)
}

// BenchmarkEmptyHook measures a hook that always answers with an empty object.
func BenchmarkEmptyHook(b *testing.B) {
	cfg := command.Config{Name: "h", Command: []string{"/bin/true"}, Start: newStarter(b)}
	h, err := command.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	in := input(b, `{"command":"ls"}`)
	b.ResetTimer()
	for b.Loop() {
		if _, err := h.Check(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
