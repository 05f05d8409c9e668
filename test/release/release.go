// Package release gives a test the released Go module. It also gives it directories in which the test builds programs from this module
// without the repository, as a user does.
package release

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Version is the version of the release. It is constant, so that unchanged packages stay in the build cache.
const Version = "v0.0.0-test"

// Module is the path of the released module.
const Module = "github.com/toold-dev/toold"

// patience limits commands that take seconds on a quiet machine.
const patience = 10 * time.Minute

// A Release is a module proxy with the released module, and a module cache with the dependencies that this machine has.
type Release struct{ environ []string }

// New makes a release of the repository at root.
func New(t *testing.T, root string) *Release {
	t.Helper()
	dir := t.TempDir()
	cache, proxy := filepath.Join(dir, "modules"), filepath.Join(dir, "proxy")
	fetch := exec.CommandContext(t.Context(), "go", "mod", "download")
	fetch.Dir = filepath.Join(root, "build", "release")
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: the modules of build/release are not on this machine and cannot be fetched: %v\n%s", err, out)
	}
	root, err := filepath.Abs(root)
	must(t, err)
	Command(t, fetch.Dir, nil, "go", "run", ".", "proxy", "-root", root, "-version", Version, "-to", proxy)
	shareModules(t, strings.TrimSpace(Command(t, root, nil, "go", "env", "GOMODCACHE")), cache, ".")
	return &Release{[]string{
		"GOPROXY=file://" + proxy + "," + strings.TrimSpace(Command(t, root, nil, "go", "env", "GOPROXY")), "GOMODCACHE=" + cache, "GOSUMDB=off", // Do not use the checksum database, because our go.sum has the sums.
		"GOFLAGS=-mod=mod -trimpath -modcacherw -tags=grpcnotrace", "GOWORK=off", "CGO_ENABLED=0",
	}}
}

// A Program is an empty directory in which a test builds a program.
type Program struct {
	Dir     string
	Environ []string // variables for commands in Dir, in addition to the environment of the test
}

// Environ returns variables with which the go command finds the release.
func (r *Release) Environ() []string { return slices.Clip(r.environ) }

// Program returns a new directory. A daemon that is started there keeps its data there.
func (r *Release) Program(t *testing.T) *Program {
	dir := t.TempDir()
	return &Program{dir, append(r.Environ(), "TOOLD_DATA="+filepath.Join(dir, "data"))}
}

// shareModules creates a module cache that links to everything in another cache except toold. Unpacking all dependencies again would need
// half a gigabyte.
func shareModules(t *testing.T, from, to, folder string) {
	t.Helper()
	own := []string{"github.com", "github.com/toold-dev", "cache", "cache/download", "cache/download/github.com", "cache/download/github.com/toold-dev"}
	must(t, os.MkdirAll(filepath.Join(to, folder), 0o700))
	entries, err := os.ReadDir(filepath.Join(from, folder))
	if !errors.Is(err, fs.ErrNotExist) {
		must(t, err)
	}
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		switch {
		case strings.HasSuffix(name, "github.com/toold-dev"):
		case slices.Contains(own, name):
			shareModules(t, from, to, name)
		case e.IsDir():
			must(t, os.Symlink(filepath.Join(from, name), filepath.Join(to, name)))
		}
	}
}

// Run runs a command in the directory and returns its output.
func (p *Program) Run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return Command(t, p.Dir, p.Environ, name, args...)
}

// Command runs a command and returns its output. A command that fails ends the test.
func Command(t *testing.T, dir string, environ []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var errors bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), environ...), &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &errors)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
