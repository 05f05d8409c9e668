package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// installTypeScript installs the npm package and the packages of the agent, and checks the types of the agent. Node 22, which runs
// TypeScript, comes with the packages of the providers.
func installTypeScript(t *testing.T, dir string) []string {
	nodes, err := filepath.Glob("../../turn/providers/node_modules/node-linux-*/bin/node")
	must(t, err)
	if len(nodes) == 0 {
		t.Skip("it needs packages from npm; run scripts/providers.sh")
	}
	node, err := filepath.Abs(nodes[0])
	must(t, err)
	for _, name := range []string{"agent.ts", "package.json"} {
		text, err := os.ReadFile(filepath.Join("typescript", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	sdk, err := filepath.Abs("../../sdk/typescript")
	must(t, err)
	types := []string{"--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--typeRoots", sdk + "/node_modules/@types", "--types", "node", filepath.Join(dir, "agent.ts")}
	for _, cmd := range []*exec.Cmd{
		exec.Command(sdk+"/pack.sh", dir),
		exec.Command("npm", "--prefix", dir, "install", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error", filepath.Join(dir, "toold-0.1.0.tgz")),
		exec.Command(sdk+"/node_modules/.bin/tsc", types...),
	} {
		cmd.Env = append(environment(), "VERSION=0.1.0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	return []string{node, "--no-warnings", "agent.ts"}
}
