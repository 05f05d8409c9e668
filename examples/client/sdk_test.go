package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A quick start is the README of an SDK. It shows the installation, a worker that serves until it is stopped, a call of its tool from
// another terminal, and a client.
type quickStart struct {
	readme string
	tool   string
	output string // output of the tool call
	ready  string // the first output of the client
}

// All blocks from the README of an SDK, pasted in order, work with a daemon of "make run".
func TestQuickStartsWorkByCopyAndPaste(t *testing.T) {
	for name, q := range map[string]quickStart{
		"python": {"../../sdk/python/README.md", "greet", "Hello, Ada! Hello, Ada!", "Hello, Ada!"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.checkout(t)
			blocks := blocksOf(t, q.readme, "sh")
			if name != "go" { // Go needs no installation
				p.run(t, []string{withoutSudo(blocks[0])})
				blocks = blocks[1:]
			}
			if len(blocks) != 3 {
				t.Fatalf("%s has %d blocks for worker, call and client", q.readme, len(blocks))
			}
			worker := p.background(t, blocks[0])
			p.awaitTool(t, q.tool, worker)
			ran := p.run(t, blocks[1:])
			if !strings.Contains(ran[0].output, q.output) {
				t.Errorf("the call printed %q\n%s", ran[0].output, worker)
			}
			for _, want := range []string{q.ready, "uspended", "esumed", "inished"} {
				if !strings.Contains(ran[1].output, want) {
					t.Errorf("the client should print %q:\n%s", want, ran[1].output)
				}
			}
			if text, err := os.ReadFile(filepath.Join(p.dir, "workspace", "hello.txt")); err != nil || string(text) != "hello\n" {
				t.Errorf("what was agreed to left %q, %v", text, err)
			}
		})
	}
}

// checkout copies the SDKs into a place and creates an examples directory there, so that pasted files do not go into the repository.
func (p *place) checkout(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(p.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(p.dir, "sdk"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../sdk")
	if err != nil {
		t.Fatal(err)
	}
	for _, sdk := range []string{"go", "python"} {
		if err := os.Symlink(filepath.Join(root, sdk), filepath.Join(p.dir, "sdk", sdk)); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutSudo removes the lines with sudo, because CI has those packages installed.
func withoutSudo(block string) string {
	var lines []string
	for line := range strings.Lines(block) {
		if !strings.HasPrefix(line, "sudo ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// background runs a block in a separate shell until the test ends.
func (p *place) background(t *testing.T, text string) *bytes.Buffer {
	t.Helper()
	cmd := exec.Command("bash", "-c", "set -euo pipefail\n"+strings.ReplaceAll(text, readmeAddress, p.address))
	cmd.Dir, cmd.Env = p.dir, append(environment(), p.environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // like Ctrl-C: reaches all processes of the block
		_ = cmd.Wait()
	})
	return &out
}

// awaitTool waits until a worker serves the tool.
func (p *place) awaitTool(t *testing.T, tool string, log *bytes.Buffer) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		cmd := exec.Command(toold, "tools", tool)
		cmd.Dir, cmd.Env = p.dir, append(environment(), p.environ...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no worker serves: %v\n%s\n%s", err, out, log)
		}
	}
}
