// Package hooks_test runs the programs of this folder in the same way as toold.
package hooks_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/command"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func program(t *testing.T, name string) *command.Hook {
	t.Helper()
	runner, err := sandbox.New(sandbox.Config{Owner: "test", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runner.Close() })
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	h, err := command.New(command.Config{Name: "example", Command: []string{path}, Env: []string{"PATH=" + os.Getenv("PATH")}, Start: starter{runner}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func about(t *testing.T, id, arguments string) *hook.Input {
	t.Helper()
	args, err := call.Parse(arguments).Arguments(0)
	if err != nil {
		t.Fatal(err)
	}
	return &hook.Input{CallID: "call-000000000001", Descriptor: &tool.Descriptor{ID: id}, Arguments: args, Assessment: tool.Effects{}.Normal()}
}

func TestPush(t *testing.T) {
	h := program(t, "push.sh")
	for command, want := range map[string]string{
		"git push origin main":         "ALLOW ",
		"git push --force origin main": "SET_RESULT Never force-push: push a new branch.",
		"cd x && git push -f":          "SET_RESULT Never force-push: push a new branch.",
		"deploy production":            "SUSPEND May this be deployed?",
	} {
		v, err := h.Check(t.Context(), about(t, "bash", `{"command":"`+command+`"}`))
		text := v.Reason()
		if r := v.Result(); r != nil {
			text = r.ModelText()
		}
		if got := string(v.Kind()) + " " + text; err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", command, got, err, want)
		}
	}
}

func TestEdits(t *testing.T) {
	h := program(t, "edits.py")
	for path, want := range map[string]hook.VerdictKind{"src/a.py": hook.KindAllow, "Makefile": hook.KindSuspend} {
		if v, err := h.Check(t.Context(), about(t, "edit", `{"path":"`+path+`"}`)); err != nil || v.Kind() != want {
			t.Errorf("%s: %s, %v", path, v.Kind(), err)
		}
	}
	done := hook.Outcome{Status: call.Succeeded, Executed: call.Finished, Result: tool.Text("edited")}
	got, err := h.After(t.Context(), about(t, "edit", `{"path":"src/a.py"}`), done)
	if err != nil || got.Result == nil || got.Result.Message != "edited\nRun the tests before you go on." {
		t.Errorf("%+v, %v", got.Result, err)
	}
}

// An example must be short enough to read at once.
func TestExamplesAreShort(t *testing.T) {
	for _, name := range []string{"push.sh", "edits.py", "service/main.go", "service/policy.py"} {
		b, err := os.ReadFile(name)
		if lines := strings.Count(string(b), "\n"); err != nil || lines >= 50 {
			t.Errorf("%s has %d lines, %v; want fewer than 50", name, lines, err)
		}
	}
}
