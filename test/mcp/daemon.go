package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The principals of the daemon.
const (
	client = "client" // its calls need no approval
	other  = "other"  // another caller
	pool   = "pool"   // the worker
)

const configuration = `
listen: {tcp: "127.0.0.1:0", unix: "", http: "127.0.0.1:0"}
rules: %s
workers: {trusted: ["default/*"]}
auth:
  tokens:
    - {name: client, roles: [caller], hash: "%s"}
    - {name: other, roles: [caller], hash: "%s"}
    - {name: pool, roles: [worker], hash: "%s"}
log: {level: warn, format: json}
timeouts: {drain: 1s}
`

const rules = `
rules:
  - {name: the fixtures ask themselves, action: allow, tools: ["*"]}
`

const (
	startLimit = 2 * time.Minute
	stopLimit  = time.Minute
)

func token(name string) string { return "the-token-of-" + name + "-in-the-mcp-tests" }

func hash(name string) string {
	sum := sha256.Sum256([]byte(token(name)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// A daemon is one process of "toold serve".
type daemon struct {
	cmd        *exec.Cmd
	grpc, http string // host:port
	ended      chan struct{}
	log        *lockedBuffer
}

func (d *daemon) url() string { return "http://" + d.http + "/mcp" }

// start starts a daemon that keeps its files in dir. It returns when the daemon serves.
func start(binary, dir string) (*daemon, error) {
	ruleFile, config := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "toold.yaml")
	if err := os.WriteFile(ruleFile, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, configuration, ruleFile, hash(client), hash(other), hash(pool))
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, err
	}
	workspace := filepath.Join(dir, "workspace")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return nil, err
	}
	d := &daemon{ended: make(chan struct{}), log: &lockedBuffer{}}
	d.cmd = exec.Command(binary, "serve", "--config", config, "--data", filepath.Join(dir, "data"), "--workspace", workspace)
	d.cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOOLD_") {
			d.cmd.Env = append(d.cmd.Env, v)
		}
	}
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C in the terminal reaches only this program, which then stops the daemon.
	d.cmd.Stderr = d.log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go d.attend(out, ready)
	select {
	case <-ready:
		return d, nil
	case <-d.ended:
		return nil, fmt.Errorf("the daemon ended with %v\n%s", d.cmd.ProcessState, d.log)
	case <-time.After(startLimit):
		d.kill()
		return nil, fmt.Errorf("the daemon was not ready within %v\n%s", startLimit, d.log)
	}
}

// attend reads the output of the daemon until its end. It closes ready when the daemon reports its addresses.
func (d *daemon) attend(out io.Reader, ready chan<- struct{}) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var report struct {
			TCP  string `json:"tcp"`
			HTTP string `json:"http"`
		}
		if json.Unmarshal(lines.Bytes(), &report) == nil && report.TCP != "" && d.grpc == "" {
			d.grpc, d.http = report.TCP, strings.TrimPrefix(report.HTTP, "http://")
			close(ready)
		}
	}
	_ = d.cmd.Wait() // Ignore the error: ProcessState has the outcome.
	close(d.ended)
}

// kill ends the daemon without warning.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // An error means that the process has already ended.
	<-d.ended
}

// stop ends the daemon with SIGTERM.
func (d *daemon) stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // An error means that the process has already ended.
	select {
	case <-d.ended:
	case <-time.After(stopLimit):
		d.kill()
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the daemon ended with %v\n%s", d.cmd.ProcessState, d.log)
	}
	return nil
}

// A lockedBuffer holds the log of a daemon.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
