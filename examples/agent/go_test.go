package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/test/release"
)

// installGo builds the agent with the released module.
func installGo(t *testing.T, dir string) []string {
	p := release.New(t, "../..").Program(t)
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("go", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(p.Dir, name), text, 0o600))
	}
	p.Run(t, "go", "mod", "edit", "-dropreplace="+release.Module, "-require="+release.Module+"@"+release.Version)
	p.Run(t, "go", "get", release.Module+"@"+release.Version)
	agent := filepath.Join(dir, "agent")
	p.Run(t, "go", "build", "-mod=readonly", "-o", agent, ".") // if a go.sum entry is missing, run "go mod tidy" in examples/agent/go
	return []string{agent}
}
