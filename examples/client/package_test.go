package main_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/test/model"
	"github.com/toold-dev/toold/test/release"
)

// A packageStart is the README of a package. Its blocks install the package, set the environment, run an agent and other programs, serve a
// tool, call the tool, and approve a call.
type packageStart struct {
	readme string
	tool   string
	output string                          // expected output of the tool call
	pack   func(t *testing.T, away *setup) // writes the package into an empty directory
	others []string                        // what the other programs print
}

// All blocks from the README of a package work in an empty directory outside of the repository.
func TestPackagesWorkByCopyAndPaste(t *testing.T) {
	for name, q := range map[string]packageStart{
		"go":         {"../../sdk/go/README.md", "hello", "Hello, Ada!", packGo, nil},
		"python":     {"../../sdk/python/README.md", "greet", "Hello, Ada! Hello, Ada!", packPython, []string{"grep read\n"}},
		"typescript": {"../../sdk/typescript/README.md", "welcome", "Welcome, Ada!", packTypeScript, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSetup(t)
			away := p.away(t)
			q.pack(t, away)
			blocks := blocksOf(t, q.readme, "sh")
			programs := 3 + len(q.others)
			if len(blocks) != programs+3 {
				t.Fatalf("%s has %d blocks for installation, environment, agent, %d other programs, worker, call and approval", q.readme, len(blocks), len(q.others))
			}
			blocks[0] = withoutSudo(blocks[0])
			if err := os.WriteFile(filepath.Join(p.dir, "workspace", "notes.txt"), []byte("water the plants\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ran := away.run(t, blocks[:programs])
			if agent := ran[2].output; agent != "Somebody must water the plants.\n" {
				t.Errorf("the agent printed %q", agent)
			}
			for i, want := range q.others {
				if got := ran[3+i].output; got != want {
					t.Errorf("block %d printed %q, want %q", 4+i, got, want)
				}
			}
			worker := away.background(t, blocks[1]+blocks[programs])
			away.awaitTool(t, q.tool, worker)
			ran = away.run(t, []string{blocks[1], blocks[programs+1], blocks[programs+2]})
			if !strings.Contains(ran[1].output, q.output) {
				t.Errorf("the call printed %q\n%s", ran[1].output, worker)
			}
			for _, want := range []string{"uspended", "esumed", "inished"} {
				if !strings.Contains(ran[2].output, want) {
					t.Errorf("the approval should print %q:\n%s", want, ran[2].output)
				}
			}
			if text, err := os.ReadFile(filepath.Join(p.dir, "workspace", "hello.txt")); err != nil || string(text) != "hello\n" {
				t.Errorf("the approved call left %q, %v", text, err)
			}
		})
	}
}

// away returns an empty directory with a model that reads notes.txt. Its programs use the daemon of p.
func (p *setup) away(t *testing.T) *setup {
	t.Helper()
	steps, err := model.Read(strings.NewReader(`{"calls": [{"name": "read", "arguments": {"path": "notes.txt"}}]}
		{"results": ["water the plants"], "text": "Somebody must water the plants."}`))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(model.New(steps))
	t.Cleanup(server.Close)
	return &setup{dir: t.TempDir(), address: p.address, environ: []string{
		"TOOLD_DATA=" + filepath.Join(p.dir, "data"), "PATH=" + filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH"),
		"MODEL_URL=" + server.URL, "MODEL_NAME=recorded", "npm_config_prefer_offline=true", "npm_config_audit=false", "npm_config_fund=false",
	}}
}

func packPython(t *testing.T, away *setup) {
	t.Helper()
	cmd := exec.Command("../../sdk/python/build.sh", away.dir)
	cmd.Env = append(environment(), "VERSION=0.1.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
}

func packTypeScript(t *testing.T, away *setup) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("it needs Node 20 or later: %v", err)
	}
	if _, err := os.Stat("../../sdk/typescript/node_modules"); err != nil {
		t.Skipf("it needs packages from npm; run sdk/typescript/build.sh: %v", err)
	}
	cmd := exec.Command("../../sdk/typescript/pack.sh", away.dir)
	cmd.Env = append(environment(), "VERSION=0.1.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pack.sh: %v\n%s", err, out)
	}
}

// packGo lets the go command find the released module.
func packGo(t *testing.T, away *setup) {
	t.Helper()
	away.environ = append(away.environ, release.New(t, "../..").Environ()...)
}
