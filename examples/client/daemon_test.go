package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// toold is the path of the real binary, built once for all tests of this package.
var toold string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toold-readme-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	toold = filepath.Join(dir, "toold")
	for _, c := range []struct {
		environ []string
		command string
	}{
		{[]string{"CGO_ENABLED=0"}, "build -trimpath -o " + toold + " ./cmd/toold"}, // the same flags as "make build"
		// Builds everything that the pages build, before their time limits apply.
		{nil, "build -o " + os.DevNull + " ./examples/client"},
		{nil, "build -C examples/agent/go -o " + os.DevNull + " ."},
		{nil, "tool -modfile=build/grpcurl/go.mod grpcurl -version"},
	} {
		cmd := exec.Command("go", strings.Fields(c.command)...)
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), c.environ...)
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// These are the addresses of the daemon of "make run". Tests replace them in the pages, because they may be in use.
const (
	readmeAddress = "127.0.0.1:7130"
	readmeHTTP    = "http://127.0.0.1:7131"
)

// A setup is a directory that looks like the repository after "make run". It contains the binary, the files that the pages use and an empty
// workspace. A daemon serves it.
type setup struct {
	dir     string
	environ []string // environment of the blocks
	address string
	http    string
	ended   chan error
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	p := &setup{dir: t.TempDir(), ended: make(chan error, 1)}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", "workspace"} {
		if err := os.Mkdir(filepath.Join(p.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"bin/toold": toold}
	for _, name := range []string{"go.mod", "go.sum", "build", "proto", "examples", "test"} {
		links[name] = filepath.Join(root, name)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p.serve(t)
	return p
}

// serve starts the daemon with the arguments of "make run", except for the ports.
func (p *setup) serve(t *testing.T) {
	t.Helper()
	cmd := exec.Command(toold, "serve", "--data", "data", "--workspace", "workspace", "--listen-tcp", "127.0.0.1:0", "--listen-http", "127.0.0.1:0")
	cmd.Dir, cmd.Env = p.dir, environment()
	out, err := os.Create(filepath.Join(t.TempDir(), "ready"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // An error means that the daemon has ended.
		select {
		case err := <-p.ended:
			if err != nil {
				t.Errorf("the daemon ended with %v\n%s", err, &log)
			}
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Errorf("the daemon did not end: %v\n%s", <-p.ended, &log)
		}
	})
	for deadline := time.Now().Add(time.Minute); p.address == ""; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(out.Name())
		var ready struct {
			TCP  string `json:"tcp"`
			HTTP string `json:"http"`
		}
		if err == nil && json.Unmarshal(text, &ready) == nil {
			p.address, p.http = ready.TCP, ready.HTTP
		}
		if time.Now().After(deadline) {
			t.Fatal("the daemon does not say where it serves")
		}
	}
}

// environment returns an environment without toold's variables.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOOLD_") {
			env = append(env, v)
		}
	}
	return append(env, "NO_COLOR=1")
}

// A block is a shell block of a page and its output.
type block struct {
	text   string
	output string
}

// run runs blocks one after another in one shell, as a reader would by copying them into a terminal. It stops at the first command that
// fails.
func (p *setup) run(t *testing.T, blocks []string) []block {
	t.Helper()
	const mark = "\x1e"
	script := "set -euo pipefail\n" + strings.Join(blocks, "\nprintf '"+mark+"'\n")
	script = strings.NewReplacer(readmeAddress, p.address, readmeHTTP, p.http).Replace(script)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = p.dir, append(environment(), p.environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.Process != nil {
		_ = cmd.Cancel() // This ends what the blocks started in the background. An error means that no such process is left.
	}
	outputs := strings.Split(stdout.String(), mark)
	if err != nil {
		at := min(len(outputs), len(blocks)) - 1
		t.Fatalf("%v in block %d:\n%s\nprinted:\n%s\n%s", err, at+1, blocks[at], outputs[at], &stderr)
	}
	ran := make([]block, len(blocks))
	for i, text := range blocks {
		ran[i] = block{text, outputs[i]}
	}
	return ran
}

// blocksOf returns the code blocks of a language on a page.
func blocksOf(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		code, _, found := strings.Cut(part, "\n```")
		if !found {
			t.Fatalf("%s: a block of %s without end", page, language)
		}
		blocks = append(blocks, code+"\n")
	}
	return blocks
}
