package main_test

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
func (p *setup) background(t *testing.T, text string) *bytes.Buffer {
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
func (p *setup) awaitTool(t *testing.T, tool string, log *bytes.Buffer) {
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
