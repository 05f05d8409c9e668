package crash_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startWithin = 2 * time.Minute // A daemon first checks a journal that was not closed cleanly. That takes 15 s per gigabyte on a quiet machine.
	stopWithin  = 2 * time.Minute // The drain period is five seconds. The rest is for a machine with much other load.
)

// The principals of the tests. Bash calls of auto run without approval. Bash calls of the other principals need an approval.
const (
	auto     = "auto"
	asked    = "asked"
	council  = "council" // its calls need two approvers
	approver = "approver"
	second   = "second" // the second approver
	operator = "operator"
)

const configuration = `
listen: {tcp: "127.0.0.1:0", unix: ""}
rules: %s
command: {directory: "%s"}
log: {level: info, format: json}
timeouts: {linger: 2s, drain: 1s, attempt: 60s}
auth:
  tokens:
    - {name: auto, roles: [caller], hash: "%s"}
    - {name: asked, roles: [caller], hash: "%s"}
    - {name: council, roles: [caller], hash: "%s"}
    - {name: approver, roles: [approver], hash: "%s"}
    - {name: second, roles: [approver], hash: "%s"}
    - {name: operator, roles: [operator, viewer, admin], hash: "%s"}
`

const rules = `
rules:
  - {name: at once, action: allow, tools: ["*"], tiers: [OBSERVE, CONFIRM], callers: [auto]}
  - {name: it asks itself, action: allow, tools: [ask_first]}
  - {name: two of them, action: ask, tools: ["*"], callers: [council], count: 2}
`

// The manifest of a command tool that asks a question before it does its work. The program, not a gate, asks the question. It therefore
// starts twice, but it leaves only one trace.
const (
	manifest = `
id: ask_first
description: Asks, then leaves a trace.
parameters:
  properties:
    call: {type: string}
  required: [call]
effects: {mutability: MUTATING, tier: OBSERVE}
run: {program: ./ask_first.sh, args: ["--", "{call}"], output: lines, profile: none}
`
	program = `#!/bin/sh
if [ -z "$TOOLD_RESUME" ]; then
	echo '{"suspend": {"message": "Shall it be done?"}}'
	exit
fi
echo original >> "counts/$2"
echo '{"result": "done"}'
`
)

// A home is the state that survives a daemon: store, workspace and configuration.
type home struct {
	dir, data, workspace, config string
	serveWith                    []string // flags of "toold serve"
}

func newHome(t *testing.T) *home {
	t.Helper()
	dir := t.TempDir()
	h := &home{dir: dir, data: filepath.Join(dir, "data"), workspace: filepath.Join(dir, "workspace"), config: filepath.Join(dir, "toold.yaml")}
	for _, sub := range []string{"counts", "edits", "writes", "texts"} {
		must(t, os.MkdirAll(filepath.Join(h.workspace, sub), 0o755))
	}
	tools := filepath.Join(dir, "tools")
	must(t, os.Mkdir(tools, 0o755))
	must(t, os.WriteFile(filepath.Join(tools, "ask_first.yaml"), []byte(manifest), 0o600))
	must(t, os.WriteFile(filepath.Join(tools, "ask_first.sh"), []byte(program), 0o700))
	ruleFile := filepath.Join(dir, "rules.yaml")
	must(t, os.WriteFile(ruleFile, []byte(rules), 0o600))
	must(t, os.WriteFile(h.config, fmt.Appendf(nil, configuration, ruleFile, tools, hash(auto), hash(asked), hash(council), hash(approver), hash(second), hash(operator)), 0o600))
	return h
}

func token(name string) string { return "the-token-of-" + name + "-in-the-crash-tests" }

func hash(name string) string {
	sum := sha256.Sum256([]byte(token(name)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A daemon is one process of "toold serve".
type daemon struct {
	cmd     *exec.Cmd
	pid     int
	ready   chan struct{} // closed when the daemon has printed its address
	standby chan struct{} // closed when the daemon has logged that it is a standby
	ended   chan struct{} // closed when the process is gone
	address string
	metrics string // address of the metrics; empty when not requested
	http    string // base URL of HTTP; empty when not requested
	epoch   int64
	log     *logTail
	killed  sync.Once
	byUs    bool // the test itself killed the process; read only after ended is closed
}

// start starts a daemon. point is the value of TOOLD_FAILPOINT; empty means none.
func (h *home) start(point string) (*daemon, error) {
	cmd := exec.Command(binary, append([]string{"serve", "--config", h.config, "--data", h.data, "--workspace", h.workspace}, h.serveWith...)...)
	cmd.Dir = h.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOOLD_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if point != "" {
		cmd.Env = append(cmd.Env, "TOOLD_FAILPOINT="+point)
	}
	// The daemon gets its own process group, so that Ctrl-C reaches only the test. If the test dies, the kernel kills the daemon too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	d := &daemon{cmd: cmd, ready: make(chan struct{}), standby: make(chan struct{}), ended: make(chan struct{}), log: &logTail{}}
	cmd.Stderr = d.log
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go d.attend(out, started)
	if err := <-started; err != nil {
		return nil, err
	}
	d.pid = cmd.Process.Pid
	return d, nil
}

// attend starts the daemon, reads its output and waits for its end, all on one OS thread. The reason is Pdeathsig: the kernel sends this
// signal when the thread that started the process ends.
func (d *daemon) attend(out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := d.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	lines := bufio.NewScanner(out)
	for isReady, isStandby := false, false; lines.Scan(); {
		var line struct {
			Ready   bool   `json:"ready"`
			Standby bool   `json:"standby"`
			TCP     string `json:"tcp"`
			HTTP    string `json:"http"`
			Metrics string `json:"metrics"`
			Epoch   int64  `json:"epoch"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		if line.Ready && !isReady {
			d.address, d.http, d.metrics, d.epoch, isReady = line.TCP, line.HTTP, line.Metrics, line.Epoch, true
			close(d.ready)
		}
		if line.Standby && !isStandby {
			d.address, d.http, isStandby = line.TCP, line.HTTP, true
			close(d.standby)
		}
	}
	_ = d.cmd.Wait() // Ignore the error: ProcessState has the outcome.
	close(d.ended)
}

// awaitReady returns false when the daemon ended before it served.
func (d *daemon) awaitReady() (bool, error) {
	select {
	case <-d.ready:
		return true, nil
	case <-d.ended:
		return false, nil
	case <-time.After(startWithin):
		d.kill()
		return false, fmt.Errorf("the daemon was not ready within %v\n%s", startWithin, d.log)
	}
}

// kill sends SIGKILL and returns when the process is gone.
func (d *daemon) kill() {
	d.killed.Do(func() { d.byUs = d.cmd.Process.Kill() == nil }) // An error means that the process was already reaped.
	<-d.ended
}

// stop stops the daemon with SIGTERM and requires an orderly end.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the daemon had ended before SIGTERM: %w\n%s", err, d.log)
	}
	select {
	case <-d.ended:
	case <-time.After(stopWithin):
		_ = d.cmd.Process.Signal(syscall.SIGQUIT) // The daemon writes its goroutines to the log.
		select {
		case <-d.ended:
		case <-time.After(20 * time.Second):
			d.kill()
		}
		return fmt.Errorf("the daemon did not end within %v of SIGTERM\n%s", stopWithin, d.log)
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the daemon ended with %v after SIGTERM\n%s", d.cmd.ProcessState, d.log)
	}
	return nil
}

// dead waits up to startWithin for the end of the process and reports whether it has ended.
func (d *daemon) dead() bool {
	select {
	case <-d.ended:
		return true
	case <-time.After(startWithin):
		return false
	}
}

// died checks how a daemon ended that was not asked to stop. atPoint reports whether it ended at its fail point. If neither the test nor
// the fail point killed the daemon, died returns an error.
func (d *daemon) died() (atPoint bool, err error) {
	<-d.ended
	status, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return false, fmt.Errorf("the daemon ended by itself with %v\n%s", d.cmd.ProcessState, d.log)
	}
	return !d.byUs, nil
}

type logTail struct {
	mu   sync.Mutex
	text []byte
}

const logKept = 24 << 10

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - logKept; over > logKept {
		l.text = append([]byte(nil), l.text[over:]...)
	}
	return len(p), nil
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "--- the end of the daemon's log:\n" + string(l.text[max(0, len(l.text)-logKept):])
}

// tells reports whether one line of the log contains all of these words.
func (l *logTail) tells(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(l.text)) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}
