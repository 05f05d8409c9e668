package agent_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/test/model"
)

// binary is the path of the real daemon, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toold-agents-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "toold")
	cmd := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/toold") // the same flags as "make build"
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// The tokens of the agent and of the person who approves.
const (
	caller   = "the-token-of-the-agent"
	approver = "the-token-of-the-person"
)

const configuration = `
listen: {tcp: "", unix: "%s"}
rules: "%s"
command: {directory: "%s"}
log: {level: info, format: json}
auth:
  tokens:
    - {name: agent, roles: [caller], hash: "%s"}
    - {name: person, roles: [approver], hash: "%s"}
`

const rules = `
rules:
  - {name: a person decides, action: ask, tools: [deploy]}
  - {name: the agent decides, action: allow, tools: [scan, hold, mark]}
`

// A play is an agent with its model and its daemon.
type play struct {
	command   []string // command that runs the agent
	dir       string   // directory of the agent
	environ   []string // environment of the agent
	home      string   // directory with the files of the daemon
	workspace string
	socket    string
	steps     []model.Step
	model     *model.Model
	daemon    *process
}

// newPlay starts the model and the daemon.
func newPlay(t *testing.T, dir string, command []string) *play {
	t.Helper()
	home, err := os.MkdirTemp("", "toold-play-") // shorter than t.TempDir, because the path of a socket has at most 107 bytes
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	p := &play{command: command, dir: dir, home: home, workspace: filepath.Join(home, "workspace"), socket: filepath.Join(home, "socket"), steps: readStory(t)}
	p.model = model.New(p.steps)
	server := httptest.NewServer(p.model)
	t.Cleanup(server.Close)
	p.environ = append(environment(), "TOOLD_ADDRESS=unix:"+p.socket, "TOOLD_TOKEN="+caller, "MODEL_URL="+server.URL, "MODEL_NAME=recorded")
	must(t, os.Mkdir(p.workspace, 0o700))
	tools, err := filepath.Abs("testdata/tools")
	must(t, err)
	ruleFile := filepath.Join(home, "rules.yaml")
	must(t, os.WriteFile(ruleFile, []byte(rules), 0o600))
	must(t, os.WriteFile(filepath.Join(home, "toold.yaml"), fmt.Appendf(nil, configuration, p.socket, ruleFile, tools, hash(caller), hash(approver)), 0o600))
	p.serve(t)
	return p
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// environment returns an environment without toold's variables.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOOLD_") {
			env = append(env, v)
		}
	}
	return env
}

// serve starts the daemon. The data may be that of a daemon that was killed.
func (p *play) serve(t *testing.T) {
	t.Helper()
	cmd := exec.Command(binary, "serve", "--config", "toold.yaml", "--data", "data", "--workspace", p.workspace)
	cmd.Dir, cmd.Env = p.home, environment()
	p.daemon = run(t, "the daemon", cmd)
	p.daemon.await(t, "that the daemon is ready", func() bool { return strings.Contains(p.daemon.out.String(), `"ready":true`) })
}

func (p *play) start(t *testing.T) *process {
	t.Helper()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.environ
	return run(t, "the agent", cmd)
}

// release lets the tool with this name end.
func (p *play) release(t *testing.T, name string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(p.workspace, "go-"+name), nil, 0o600))
}

// A process is a running program. It is killed when the test ends.
type process struct {
	name     string
	cmd      *exec.Cmd
	out, err text
	ended    chan struct{} // closed when the program has ended
}

func run(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &p.out, &p.err, 10*time.Second
	must(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // An error is ignored, because ProcessState has the outcome.
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill(t)
		if t.Failed() {
			t.Logf("%s printed:\n%s%s", name, &p.out, &p.err)
		}
	})
	return p
}

// patience is the time limit of each wait. It is far more than a busy machine needs.
const patience = 2 * time.Minute

// await waits until a condition holds. It fails when the program ends before.
func (p *process) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.ended:
			if !holds() {
				t.Fatalf("%s ended with %v; want %s", p.name, p.cmd.ProcessState, what)
			}
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("no sign within %v of %s", patience, what)
		}
	}
}

// awaitText waits until the program has printed a text on standard error.
func (p *process) awaitText(t *testing.T, part string) {
	t.Helper()
	p.await(t, fmt.Sprintf("the text %q of %s", part, p.name), func() bool { return strings.Contains(p.err.String(), part) })
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Kill() // An error means that the program has ended.
	<-p.ended
}

// end waits for the end of the program, which must be a success, and returns what it printed.
func (p *process) end(t *testing.T) string {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.name)
	}
	if !p.cmd.ProcessState.Success() {
		t.Fatalf("%s ended with %v", p.name, p.cmd.ProcessState)
	}
	return p.out.String()
}

type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
