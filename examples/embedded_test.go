package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/release"
)

// patience limits commands that take seconds on a quiet machine.
const patience = 10 * time.Minute

// TestReleased builds programs in empty directories from a release, like a programmer without the repository.
func TestReleased(t *testing.T) {
	released := release.New(t, "..")
	t.Run("embedded", func(t *testing.T) { testEmbedded(t, released.Program(t)) })
	t.Run("client", func(t *testing.T) { testSumOfAClient(t, released.Program(t)) })
}

// testEmbedded uses the tool and the gate of the example.
func testEmbedded(t *testing.T, s *release.Program) {
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("embedded", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(s.Dir, name), text, 0o600))
		if lines := bytes.Count(text, []byte("\n")); name == "main.go" && lines >= 25 {
			t.Errorf("main.go has %d lines; fewer than 25 are promised", lines)
		}
	}
	s.Run(t, "go", "mod", "edit", "-dropreplace="+release.Module, "-require="+release.Module+"@"+release.Version)
	s.Run(t, "go", "get", release.Module+"@"+release.Version)
	s.Run(t, "go", "build", "-mod=readonly", "-o", "embedded", ".") // if a go.sum entry is missing, run "go mod tidy" in examples/embedded
	at := serve(t, s)

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
	if err != nil || "v"+info.GetVersion() != release.Version {
		t.Errorf("the version is %q, %v; want that of the module", info.GetVersion(), err)
	}
	if out := s.Run(t, "./embedded", "call", "greet", "name=Grace"); !strings.Contains(out, "Hello Grace!") {
		t.Errorf("its command line printed %s", out)
	}
}

// testSumOfAClient checks that a program that imports only the client has no modules of the daemon in its go.sum.
func testSumOfAClient(t *testing.T, s *release.Program) {
	must(t, os.WriteFile(filepath.Join(s.Dir, "main.go"), []byte("package main\n\nimport _ \""+release.Module+"/sdk/go\"\n\nfunc main() {}\n"), 0o600))
	s.Run(t, "go", "mod", "init", "example.com/client")
	s.Run(t, "go", "mod", "edit", "-require="+release.Module+"@"+release.Version)
	s.Run(t, "go", "mod", "tidy")
	sum, err := os.ReadFile(filepath.Join(s.Dir, "go.sum"))
	must(t, err)
	if lines := bytes.Count(sum, []byte("\n")); lines != 22 {
		t.Errorf("go.sum has %d lines, want 22:\n%s", lines, sum)
	}
}

// ready is the line that a daemon prints when it serves.
type ready struct {
	TCP       string `json:"tcp"`
	TokenFile string `json:"token_file"`
}

// serve runs the program's daemon until the test ends.
func serve(t *testing.T, s *release.Program) (at ready) {
	t.Helper()
	work := filepath.Join(s.Dir, "work")
	must(t, os.Mkdir(work, 0o700))
	var log bytes.Buffer
	cmd := exec.Command("./embedded", "serve", "--workspace", work, "--listen-tcp", "127.0.0.1:0")
	cmd.Dir, cmd.Env, cmd.Stderr = s.Dir, append(os.Environ(), s.Environ...), &log
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
