package command_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/helper"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tools/command"
)

// All tests share this runner, because only one runner can use the subreaper of a process.
var runner *sandbox.Runner

func TestMain(m *testing.M) {
	sandbox.Help()
	if err := sandbox.BecomeSubreaper(); err != nil {
		panic(err)
	}
	state, err := os.MkdirTemp("", "command")
	if err == nil {
		runner, err = sandbox.New(sandbox.Config{Owner: filepath.Base(state), StateDir: state, Helper: small(state)})
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(closing{m, state})
}

// closing runs all tests. Then it closes the shared runner and deletes temporary files.
type closing struct {
	*testing.M
	state string
}

func (c closing) Run() int {
	code := c.M.Run()
	_ = runner.Close()
	_ = os.RemoveAll(c.state)
	return code
}

// small builds the sandbox's helper program. Otherwise this test binary would be the helper, and starting it for each program takes longer.
func small(dir string) string {
	path := filepath.Join(dir, helper.Name)
	build := exec.Command("go", "build", "-trimpath", "-o", path, "../../cmd/toold-sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return path
}

// A site is a directory of manifests and a workspace.
type site struct {
	t         *testing.T
	dir       string
	workspace string
	cfg       command.Config
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, dir: filepath.Join(dir, "tools"), workspace: filepath.Join(dir, "work")}
	must(t, errors.Join(os.Mkdir(s.dir, 0o755), os.Mkdir(s.workspace, 0o755)))
	s.cfg = newSiteConfig(s)
	return s
}

func newSiteConfig(s *site) command.Config {
	return command.Config{
		Exec: runner, Workspace: s.workspace, Env: []string{"PATH=/usr/bin:/bin"},
		Policy: func(profile, _ string) (*sandbox.Policy, error) {
			switch profile {
			case "default":
				return &sandbox.Policy{Workspace: s.workspace}, nil
			case "none":
				return nil, nil //nolint:nilnil // no isolation
			}
			return nil, errors.New("there is no profile " + profile)
		},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a file in the directory of manifests. A file that begins with #! becomes executable.
func (s *site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	must(s.t, os.WriteFile(path, []byte(text), mode))
	return path
}

// load stores the script as ./run and returns the tool of the manifest.
func (s *site) load(manifest, script string) tool.Tool {
	s.t.Helper()
	if script != "" {
		s.write("run", script)
	}
	set, err := command.LoadFile(s.cfg, s.write("tool.yaml", manifest))
	must(s.t, err)
	s.t.Cleanup(set.Close)
	return set.Tools()[0]
}

// problem loads a manifest and returns the error, with the directory removed from its text.
func (s *site) problem(manifest string) string {
	s.t.Helper()
	_, err := command.LoadFile(s.cfg, s.write("tool.yaml", manifest))
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), s.dir+"/", "")
}

// A client calls one tool as the engine does.
type client struct {
	t        *testing.T
	tool     tool.Tool
	reporter *tooltest.Recorder
	call     tool.Call
}

func newClient(t *testing.T, one tool.Tool) *client {
	r := &tooltest.Recorder{}
	return &client{t: t, tool: one, reporter: r, call: tool.Call{Namespace: "default", ID: "call-00000000000001", Tool: one.Descriptor().ID, Reporter: r}}
}

func arguments(t *testing.T, text string) tool.Arguments {
	t.Helper()
	args, err := call.Parse(text).Arguments(4 << 20)
	must(t, err)
	return args
}

// run makes one attempt. Before that it validates the arguments, as the engine does.
func (c *client) run(text string) (*tool.Result, error) {
	c.t.Helper()
	return c.within(c.t.Context(), text)
}

func (c *client) within(ctx context.Context, text string) (*tool.Result, error) {
	c.t.Helper()
	args := arguments(c.t, text)
	if err := c.tool.(tool.Validator).Validate(args); err != nil {
		return nil, err
	}
	one := c.call
	one.Attempt++
	one.Arguments, one.Checkpoint = args, c.reporter.Checkpoint()
	c.call.Attempt = one.Attempt
	return c.tool.Execute(ctx, &one)
}

// text makes one attempt and returns the text that the model reads.
func (c *client) text(arguments string) string {
	c.t.Helper()
	r, err := c.run(arguments)
	if err != nil {
		return "error: " + violations(err)
	}
	return r.ModelText()
}

func violations(err error) string {
	e := tool.AsError(err)
	text := e.Message
	for _, v := range e.Violations {
		text += " " + v.Field + ": " + v.Description
	}
	return text
}

// A vault holds secrets and records each request for one.
type vault struct {
	mu     sync.Mutex
	values map[string]string
	asked  []string
}

func (v *vault) Resolve(_ context.Context, namespace, tool, parameter, name string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, strings.Join([]string{namespace, tool, parameter, name}, " "))
	value, ok := v.values[name]
	if !ok {
		return "", errors.New("there is no secret " + name)
	}
	return value, nil
}

func (v *vault) set(name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[name] = value
}
