package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/cli"
)

// The test plays some transcripts with their configuration. The tests of package conformance play all of them.
func TestConformanceCommands(t *testing.T) {
	s := newSite(t, "")
	dir := filepath.Join(filepath.Dir(s.data), "conf")
	wrote := new(run).do(t, s.data, "conformance", "config", dir)
	if wrote.code != cli.ExitOK || strings.Count(wrote.out, "\n") != 3 {
		t.Fatalf("config: %d\n%s%s", wrote.code, wrote.out, wrote.err)
	}
	if again := new(run).do(t, s.data, "conformance", "config", dir); again.code != cli.ExitFailed {
		t.Errorf("over files that are there: exit code %d", again.code)
	}
	tokens := filepath.Join(dir, "tokens.json")
	if info, err := os.Stat(tokens); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("tokens: %v, %v", info, err)
	}
	rules, err := os.ReadFile(filepath.Join(dir, "rules.yaml"))
	must(t, err)
	s.write(string(rules))
	p := s.start("--config", filepath.Join(dir, "toold.yaml"), "--listen-tcp", "127.0.0.1:0")
	play := func(more ...string) *run {
		t.Helper()
		return new(run).do(t, s.data, append([]string{"conformance", "run", p.ready.TCP, "--tokens", tokens}, more...)...)
	}
	if got := play("--only", "approve,decline"); got.code != cli.ExitOK || !strings.Contains(got.out, "2 passed, 0 failed\n") {
		t.Errorf("run: %d\n%s%s", got.code, got.out, got.err)
	}
	s.write("rules:\n  - {name: all, action: allow, tools: [\"*\"]}\n")
	if got := new(run).do(t, s.data, "reload", "--address", p.ready.TCP); got.code != cli.ExitOK {
		t.Fatalf("reload: %d %s", got.code, got.err)
	}
	if got := play("--only", "decline"); got.code != cli.ExitFailed || !strings.Contains(got.out, "needs rules that say SUSPEND when asked calls write") {
		t.Errorf("with other rules: %d\n%s%s", got.code, got.out, got.err)
	}
	if got := play("--only", "decline", "-o", "json"); got.code != cli.ExitFailed || !strings.Contains(got.out, `"needs"`) {
		t.Errorf("as JSON: %d\n%s%s", got.code, got.out, got.err)
	}
	if got := new(run).do(t, s.data, "conformance", "list"); got.code != cli.ExitOK || !strings.Contains(got.out, "approve ") {
		t.Errorf("list: %d\n%s%s", got.code, got.out, got.err)
	}
}
