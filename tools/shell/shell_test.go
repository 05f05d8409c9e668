package shell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// bash returns the tool bash. When cfg has no Exec, it uses a real sandbox; when cfg has no Dir, it uses an empty directory.
func bash(t *testing.T, cfg shell.Config) tool.Tool {
	t.Helper()
	if cfg.Exec == nil {
		runner, err := sandbox.New(sandbox.Config{Owner: "shell-test", StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { runner.Close() })
		cfg.Exec = runner
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	tools, _, err := shell.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tools[0]
}

func newCall(r tool.Reporter, args object) *tool.Call {
	return &tool.Call{ID: "call-1", Tool: "bash", Arguments: typed.Args(args), Reporter: r}
}

func run(t *testing.T, x tool.Tool, args object) (*tool.Result, shell.Data) {
	t.Helper()
	call := newCall(nil, args)
	if err := x.(tool.Validator).Validate(call.Arguments); err != nil {
		t.Fatalf("Validate: %v", err)
	}
	res, err := x.Execute(t.Context(), call)
	if err != nil {
		t.Fatalf("Execute: %v", err)
	}
	return res, data(t, res)
}

func data(t *testing.T, res *tool.Result) (d shell.Data) {
	t.Helper()
	if err := json.Unmarshal([]byte(res.Data), &d); err != nil {
		t.Fatalf("data %q: %v", res.Data, err)
	}
	return d
}

func TestEnds(t *testing.T) {
	x := bash(t, shell.Config{})
	tests := []struct {
		command string
		want    shell.Data
		text    string
	}{
		{"echo hi", shell.Data{Stdout: "hi\n"}, "hi"},
		{"true", shell.Data{}, "(no output)"},
		{"echo no >&2; exit 3", shell.Data{ExitCode: 3, Stderr: "no\n"}, "stderr:\nno\nExit code 3"},
		{"echo a; echo b >&2", shell.Data{Stdout: "a\n", Stderr: "b\n"}, "a\nstderr:\nb"},
		{"exit 1", shell.Data{ExitCode: 1}, "(no output)\nExit code 1"},
		{"kill -9 $$", shell.Data{ExitCode: -1, Signal: "SIGKILL"}, "(no output)\nEnded by signal SIGKILL"},
		{"nosuchprogram 2>/dev/null", shell.Data{ExitCode: 127}, "(no output)\nExit code 127"},
		{`printf 'a\xffb'`, shell.Data{Stdout: "a\uFFFDb"}, "a\uFFFDb"},
		{`printf 'a\0b'`, shell.Data{Stdout: "a\x00b"}, "a\x00b"},
		// T45: bash must run a text that begins with a dash as a command, and not take it for an option.
		{"-c 'echo pwned'", shell.Data{ExitCode: 127, Stderr: "/bin/bash: line 1: -c: command not found\n"}, "stderr:\n/bin/bash: line 1: -c: command not found\nExit code 127"},
		// T46: line ends, quotes and substitutions reach bash unchanged.
		{"printf '%s' 'a\n$(b)`c`'", shell.Data{Stdout: "a\n$(b)`c`"}, "a\n$(b)`c`"},
		// T26: the standard input is empty unless people may type.
		{"cat; read x; echo $?", shell.Data{Stdout: "1\n"}, "1"},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			res, got := run(t, x, object{"command": tt.command})
			got.StdoutBytes, got.StderrBytes = 0, 0
			// The result is successful for any exit code.
			if !res.IsSuccess() || got != tt.want || res.ModelText() != tt.text {
				t.Errorf("%s %+v %q, want %+v %q", res.Status, got, res.ModelText(), tt.want, tt.text)
			}
			if res.Process != nil || res.Truncated {
				t.Errorf("process %+v, truncated %t, want none", res.Process, res.Truncated)
			}
		})
	}
}

func TestRunsAsConfigured(t *testing.T) {
	dir := t.TempDir()
	x := bash(t, shell.Config{Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "GREETING=hello"}})
	_, got := run(t, x, object{"command": `cd /; pwd; cd - >/dev/null; pwd; echo $GREETING`})
	if want := "/\n" + dir + "\nhello\n"; got.Stdout != want {
		t.Errorf("stdout = %q, want %q", got.Stdout, want)
	}
	// T17: no argument may set the working directory.
	var schema struct{ Properties map[string]any }
	if err := json.Unmarshal(x.Descriptor().Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	for name := range schema.Properties {
		if !slices.Contains([]string{"command", "timeout", "description", "pty", "input", "background", "background_after"}, name) {
			t.Errorf("the model may choose %q", name)
		}
	}
}

// TestEnvironment checks that the command gets no variable of the daemon's environment (T39).
func TestEnvironment(t *testing.T) {
	t.Setenv("TOOLD_TEST_SECRET", "canary")
	t.Setenv("BASH_ENV", "/dev/stdin")
	dir := t.TempDir()
	_, got := run(t, bash(t, shell.Config{Dir: dir}), object{"command": "env"})
	allowed := append(shell.DefaultEnv(), "PWD="+dir)
	for line := range strings.Lines(got.Stdout) {
		line = strings.TrimSuffix(line, "\n")
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains(allowed, line) && !slices.Contains([]string{"SHLVL", "_", "OLDPWD", "HOME", sandbox.TagVariable}, name) {
			t.Errorf("env has %q", line)
		}
	}
	if strings.Contains(got.Stdout, "canary") || !strings.Contains(got.Stdout, "TERM=dumb\n") {
		t.Errorf("env = %q", got.Stdout)
	}
}

// TestDescriptors checks that the command inherits no file descriptor of the daemon, not even one that was opened without close-on-exec
// (T40).
func TestDescriptors(t *testing.T) {
	leaky, err := syscall.Dup(int(os.Stderr.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leaky)
	_, got := run(t, bash(t, shell.Config{}), object{"command": `for f in /proc/$$/fd/*; do [ -e $f ] && echo ${f##*/}; done`})
	if got.Stdout != "0\n1\n2\n" {
		t.Errorf("descriptors = %q", got.Stdout)
	}
}

func TestOutputIsStreamedWhileTheCommandRuns(t *testing.T) {
	dir := t.TempDir()
	r := &tooltest.Recorder{}
	x := bash(t, shell.Config{Dir: dir})
	done := make(chan *tool.Result, 1)
	go func() {
		// The command waits for the file go, which the test creates when it has seen the first output. This shows that output is streamed.
		res, _ := x.Execute(t.Context(), newCall(r, object{"command": "echo out; echo err >&2; until [ -e go ]; do sleep 0.01; done; echo end"}))
		done <- res
	}()
	await(t, "the first lines", func() bool { return r.Stream("stdout") == "out\n" && r.Stream("stderr") == "err\n" })
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := <-done; !res.IsSuccess() || r.Stream("stdout") != "out\nend\n" {
		t.Errorf("result %+v, stdout %q", res, r.Stream("stdout"))
	}
}

// await waits in real time for a change that another process makes.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// daemonize starts a process that forks twice, has its own session, and ignores SIGTERM. The process writes its id to the file pid.
const daemonize = `(setsid bash -c 'trap "" TERM HUP; echo $BASHPID > pid.new; mv pid.new pid; while :; do sleep 1; done' >/dev/null 2>&1 </dev/null &) `

func daemonPID(t *testing.T, dir string) int {
	t.Helper()
	var pid int
	await(t, "the daemon's start", func() bool {
		b, err := os.ReadFile(dir + "/pid")
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(b, []byte(") Z ")) && !bytes.Contains(b, []byte(") X "))
}

// The test checks that a cancelled call leaves no process (T22).
func TestCancelLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	x := bash(t, shell.Config{Dir: dir})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := tool.Errorf(tool.Cancelled, "cancelled by user")
	type answer struct {
		res *tool.Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		res, err := x.Execute(ctx, newCall(nil, object{"command": daemonize + "; sleep 600 & sleep 600"}))
		done <- answer{res, err}
	}()
	pid := daemonPID(t, dir)
	began := time.Now()
	cancel(cause)
	got := <-done
	if alive(pid) {
		t.Errorf("process %d lives", pid)
	}
	if got.err != error(cause) {
		t.Errorf("error = %v, want the cause", got.err)
	}
	if took := time.Since(began); took > 2*time.Minute { // The limit is generous; without the cancel, the command would take ten minutes.
		t.Errorf("took %v", took)
	}
	if got.res == nil || got.res.Process == nil {
		t.Fatalf("result = %+v, want what was killed", got.res)
	}
	if p := got.res.Process; !slices.Contains(p.Killed, pid) || p.ConfirmedAt.IsZero() || p.KillUnverified != nil {
		t.Errorf("process = %+v, want %d among the killed", *p, pid)
	}
}

// The test checks that a command that ends leaves no process (T21).
func TestAnEndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	res, _ := run(t, bash(t, shell.Config{Dir: dir}), object{"command": daemonize + "; until [ -e pid ]; do sleep 0.01; done; echo done"})
	pid := daemonPID(t, dir)
	if alive(pid) {
		t.Errorf("process %d lives", pid)
	}
	if !res.IsSuccess() || !strings.HasPrefix(res.ModelText(), "done\nProcesses left running were killed: ") {
		t.Errorf("the model reads %q", res.ModelText())
	}
	if res.Process == nil || !slices.Contains(res.Process.Killed, pid) {
		t.Errorf("process = %+v, want %d among the killed", res.Process, pid)
	}
}

func TestTimeout(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	res, got := run(t, bash(t, shell.Config{Dir: dir}), object{"command": daemonize + "; echo working; sleep 600", "timeout": 2})
	if took := time.Since(began); took < 2*time.Second || took > 5*time.Minute {
		t.Errorf("took %v", took)
	}
	if alive(daemonPID(t, dir)) {
		t.Error("its daemon lives")
	}
	if !res.IsError() || res.Error.Code != tool.ExecutionFailed || res.Error.Reason != "COMMAND_TIMEOUT" || res.Error.Aborted {
		t.Errorf("result = %+v, %+v", res, res.Error)
	}
	if want := "The command was killed because it did not end within 2s. Its output:\nworking"; res.ModelText() != want {
		t.Errorf("the model reads %q, want %q", res.ModelText(), want)
	}
	if !got.TimedOut || got.Stdout != "working\n" || res.Process == nil || len(res.Process.Killed) < 2 {
		t.Errorf("data %+v, process %+v", got, res.Process)
	}
}

// The test checks that the engine's deadline is not handled like the command's timeout: the call is over, so no result with output is
// returned.
func TestDeadlineOfTheCall(t *testing.T) {
	late := errors.New("out of time")
	dir := t.TempDir()
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
				end(late) // Cancels the context as the engine's deadline does.
			}
			time.Sleep(time.Millisecond)
		}
	}()
	res, err := bash(t, shell.Config{Dir: dir}).Execute(ctx, newCall(nil, object{"command": "touch runs; sleep 600"}))
	if !errors.Is(err, late) || res == nil || res.Process == nil || len(res.Process.Killed) == 0 {
		t.Errorf("Execute = %+v, %v, want the cause and what was killed", res, err)
	}
	if res, err := bash(t, shell.Config{}).Execute(ctx, newCall(nil, object{"command": "true"})); !errors.Is(err, late) || res != nil {
		t.Errorf("Execute after the end = %+v, %v", res, err)
	}
}

func TestACallThatIsOverEndsTheCommand(t *testing.T) {
	over := errors.New("call is over")
	res, err := bash(t, shell.Config{}).Execute(t.Context(), newCall(&tooltest.Recorder{Err: over}, object{"command": "echo hi; sleep 600"}))
	if !errors.Is(err, over) || res == nil || res.Process == nil {
		t.Errorf("Execute = %+v, %v", res, err)
	}
}

func TestACommandThatCannotStart(t *testing.T) {
	for name, x := range map[string]tool.Tool{
		"no shell":     bash(t, shell.Config{Shell: "/nonexistent/bash"}),
		"no directory": bash(t, shell.Config{Dir: "/nonexistent"}),
	} {
		res, err := x.Execute(t.Context(), newCall(nil, object{"command": "true"}))
		var e *tool.Error
		if !errors.As(err, &e) || e.Reason != "START_FAILED" || strings.Contains(e.Message, "nonexistent") || !strings.Contains(e.DeveloperMessage, "nonexistent") {
			t.Errorf("%s: %+v, %+v; the operator alone should read the path", name, res, e)
		}
	}
}

func TestALongCommand(t *testing.T) {
	x := bash(t, shell.Config{})
	long := strings.Repeat("a", x.Descriptor().MaxArguments-100)
	if _, got := run(t, x, object{"command": "echo " + long}); got.StdoutBytes != int64(len(long)+1) {
		t.Errorf("stdout has %d bytes, want %d", got.StdoutBytes, len(long)+1)
	}
	// T46: a command that is too long for the kernel returns an error, and is not cut.
	_, err := x.Execute(t.Context(), newCall(nil, object{"command": "echo " + strings.Repeat("a", 3<<20)}))
	if err == nil || tool.AsError(err).Reason != "START_FAILED" {
		t.Errorf("3 MiB: %v", err)
	}
}

// The test checks that commands of one thread share a home directory outside the workspace, and that other threads have other home
// directories (T116).
func TestT116HomesOfThreads(t *testing.T) {
	dir := t.TempDir()
	x := bash(t, shell.Config{Dir: dir})
	in := func(call tool.Call) string {
		call.Arguments = typed.Args(object{"command": `ls -A ~; case $HOME in "$PWD"*) echo in the workspace;; esac; echo x >> ~/f`})
		r, err := x.Execute(t.Context(), &call)
		if err != nil {
			t.Fatal(err)
		}
		return data(t, r).Stdout
	}
	ada := tool.Principal{Subject: "ada"}
	for i, tt := range []struct {
		call tool.Call
		want string
	}{
		{tool.Call{Namespace: "a", Caller: ada, Run: tool.Run{Thread: "1", ID: "1"}}, ""},
		{tool.Call{Namespace: "a", Caller: ada, Run: tool.Run{Thread: "1", ID: "2"}}, "f\n"},
		{tool.Call{Namespace: "a", Caller: ada, Run: tool.Run{Thread: "2", ID: "1"}}, ""},
		{tool.Call{Namespace: "b", Caller: ada, Run: tool.Run{Thread: "1", ID: "1"}}, ""},
		{tool.Call{Namespace: "a", Caller: tool.Principal{Subject: "bob"}, Run: tool.Run{Thread: "1"}}, ""},
		{tool.Call{Namespace: "a", Caller: ada, OnBehalfOf: "eve", Run: tool.Run{Thread: "1"}}, ""},
		{tool.Call{Namespace: "a", Caller: ada}, ""},
		{tool.Call{Namespace: "a", Caller: ada}, ""},
	} {
		if got := in(tt.call); got != tt.want {
			t.Errorf("call %d: %q", i, got)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("in the workspace: %v, %v", left, err)
	}
}
