package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// version is the version of the test release. It is constant, so that unchanged packages stay in the build cache.
const version = "v0.0.0-test"

const toold = "github.com/toold-dev/toold"

// patience limits commands that take seconds on a quiet machine.
const patience = 10 * time.Minute

// TestReleased builds programs in empty directories from a release, like a programmer without the repository.
func TestReleased(t *testing.T) {
	released := newRelease(t)
	t.Run("embedded", func(t *testing.T) { testEmbedded(t, released.newProgram(t)) })
	t.Run("client", func(t *testing.T) { testSumOfAClient(t, released.newProgram(t)) })
}

// testEmbedded uses the tool and the gate of the example.
func testEmbedded(t *testing.T, s *program) {
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("embedded", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(s.dir, name), text, 0o600))
		if lines := bytes.Count(text, []byte("\n")); name == "main.go" && lines >= 25 {
			t.Errorf("main.go has %d lines; fewer than 25 are promised", lines)
		}
	}
	s.run(t, "go", "mod", "edit", "-dropreplace="+toold, "-require="+toold+"@"+version)
	s.run(t, "go", "get", toold+"@"+version)
	s.run(t, "go", "build", "-mod=readonly", "-o", "embedded", ".") // if a go.sum entry is missing, run "go mod tidy" in examples/embedded
	at := s.serve(t)

	conn, err := grpc.NewClient(at.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	token, err := os.ReadFile(at.TokenFile)
	must(t, err)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+strings.TrimSpace(string(token))), patience)
	defer cancel()
	call := func(name, arguments string) *tooldv1.Call {
		got, err := tooldv1.NewCallServiceClient(conn).CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: name, Arguments: arguments}})
		must(t, err)
		return got.GetCall()
	}
	if r := call("greet", `{"name":"Ada"}`).GetResult(); r.GetMessage() != "Hello Ada!" {
		t.Errorf("the tool's result is %v", r)
	}
	if e := call("read", `{"path":".env"}`).GetResult().GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_DENIED || !strings.Contains(e.GetMessage(), "must not be changed") {
		t.Errorf("the gate's refusal is %v", e)
	}
	info, err := tooldv1.NewAdminServiceClient(conn).GetInfo(ctx, &tooldv1.GetInfoRequest{})
	if err != nil || info.GetVersion() != version {
		t.Errorf("the version is %q, %v; want that of the module", info.GetVersion(), err)
	}
	if out := s.run(t, "./embedded", "call", "greet", "name=Grace"); !strings.Contains(out, "Hello Grace!") {
		t.Errorf("its command line printed %s", out)
	}
}

// testSumOfAClient checks that a program that imports only the client has no modules of the daemon in its go.sum.
func testSumOfAClient(t *testing.T, s *program) {
	must(t, os.WriteFile(filepath.Join(s.dir, "main.go"), []byte("package main\n\nimport _ \""+toold+"/sdk/go\"\n\nfunc main() {}\n"), 0o600))
	s.run(t, "go", "mod", "init", "example.com/client")
	s.run(t, "go", "mod", "edit", "-require="+toold+"@"+version)
	s.run(t, "go", "mod", "tidy")
	sum, err := os.ReadFile(filepath.Join(s.dir, "go.sum"))
	must(t, err)
	if lines := bytes.Count(sum, []byte("\n")); lines != 22 {
		t.Errorf("go.sum has %d lines, want 22:\n%s", lines, sum)
	}
}

// A release is a module proxy with the released module, and a module cache with the dependencies that this machine has.
type release struct{ environ []string }

func newRelease(t *testing.T) *release {
	t.Helper()
	dir := t.TempDir()
	cache, proxy := filepath.Join(dir, "modules"), filepath.Join(dir, "proxy")
	fetch := exec.CommandContext(t.Context(), "go", "mod", "download")
	fetch.Dir = "../build/release"
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: the modules of build/release are not on this machine and cannot be fetched: %v\n%s", err, out)
	}
	root, err := filepath.Abs("..")
	must(t, err)
	command(t, fetch.Dir, nil, "go", "run", ".", "-root", root, "-version", version, "-to", proxy)
	shareModules(t, strings.TrimSpace(command(t, "..", nil, "go", "env", "GOMODCACHE")), cache, ".")
	return &release{[]string{
		"GOPROXY=file://" + proxy + "," + strings.TrimSpace(command(t, "..", nil, "go", "env", "GOPROXY")), "GOMODCACHE=" + cache, "GOSUMDB=off", // no checksum database: our go.sum has the sums
		"GOFLAGS=-mod=mod -trimpath -modcacherw -tags=grpcnotrace", "GOWORK=off", "CGO_ENABLED=0",
	}}
}

// A program is a directory in which a test builds a program.
type program struct {
	dir     string
	environ []string
}

func (r *release) newProgram(t *testing.T) *program {
	dir := t.TempDir()
	return &program{dir, append(slices.Clip(r.environ), "TOOLD_DATA="+filepath.Join(dir, "data"))}
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

func (s *program) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return command(t, s.dir, s.environ, name, args...)
}

func command(t *testing.T, dir string, environ []string, name string, args ...string) string {
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

// ready is the line that a daemon prints when it serves.
type ready struct {
	TCP       string `json:"tcp"`
	TokenFile string `json:"token_file"`
}

// serve runs the program's daemon until the test ends.
func (s *program) serve(t *testing.T) (at ready) {
	t.Helper()
	work := filepath.Join(s.dir, "work")
	must(t, os.Mkdir(work, 0o700))
	var log bytes.Buffer
	cmd := exec.Command("./embedded", "serve", "--workspace", work, "--listen-tcp", "127.0.0.1:0")
	cmd.Dir, cmd.Env, cmd.Stderr = s.dir, append(os.Environ(), s.environ...), &log
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon ended with %v\n%s", err, &log)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &at) != nil {
		t.Fatalf("the daemon says %q, %v", line, err)
	}
	return at
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
