package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// installPython installs the wheel into a virtual environment that sees the packages of the system.
func installPython(t *testing.T, dir string) []string {
	text, err := os.ReadFile("python/agent.py")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "agent.py"), text, 0o600))
	python := filepath.Join(dir, "venv", "bin", "python")
	for _, cmd := range []*exec.Cmd{
		exec.Command("../../sdk/python/build.sh", dir),
		exec.Command("/usr/bin/python3", "-m", "venv", "--system-site-packages", "--without-pip", filepath.Join(dir, "venv")),
		exec.Command("/usr/bin/python3", "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", filepath.Join(dir, "toold-0.1.0-py3-none-any.whl")),
	} {
		cmd.Env = append(environment(), "VERSION=0.1.0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	return []string{python, "-B", "agent.py"}
}
