package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spf13/pflag"

	"github.com/toold-dev/toold/daemon/config"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// asDaemon is an environment variable that makes this test binary act as toold. With it, tests run Main in a separate process, with the
// race detector if the test binary has it.
const asDaemon = "TOOLD_TEST_AS_DAEMON"

func TestMain(m *testing.M) {
	sandbox.Help()
	if mode := os.Getenv(mcptest.Mode); mode != "" { // a daemon of a test started this binary as an MCP server
		mcptest.Main(mode)
		return
	}
	if os.Getenv(asDaemon) != "" {
		Main()
		return
	}
	for variable, play := range map[string]func(address string) error{asClient: playClient, asAgent: playAgent} {
		if at := os.Getenv(variable); at != "" {
			if err := play(at); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	if at := os.Getenv(asWorker); at != "" {
		serveTestTools(at)
		return
	}
	buildHelper()
	goleak.VerifyTestMain(m)
}

// buildHelper builds the small helper program in the directory of the test binary, where the daemon looks for it. Without it, each isolated
// command would first start the whole test binary with its race detector.
func buildHelper() {
	exe, err := os.Executable()
	if dir := filepath.Dir(exe); err == nil && strings.Contains(dir, "go-build") {
		build := exec.Command("go", "build", "-trimpath", "-o", dir, "../cmd/toold-sandbox")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("go build: %v\n%s", err, out))
		}
	}
}

// site is a data directory with a workspace and rules. Several daemons can use it one after the other.
type site struct {
	t                      *testing.T
	data, workspace, rules string
	through                []string // a command with arguments that starts the daemon; empty starts it directly
}

func newSite(t *testing.T, rules string) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "toold") // the path of t.TempDir may be too long for a socket
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{t: t, data: filepath.Join(dir, "data"), workspace: filepath.Join(dir, "work"), rules: filepath.Join(dir, "rules.yaml")}
	must(t, os.Mkdir(s.workspace, 0o755))
	s.write(rules)
	return s
}

func (s *site) write(rules string) {
	s.t.Helper()
	must(s.t, os.WriteFile(s.rules, []byte(rules), 0o600))
}

func (s *site) command(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	must(s.t, err)
	all := append([]string{"serve", "--data", s.data, "--workspace", s.workspace, "--rules", s.rules, "--listen-tcp", "127.0.0.1:0"}, args...)
	all = append(append(slices.Clone(s.through), exe), all...)
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Env = append(os.Environ(), asDaemon+"=1", "GORACE=exitcode=66")
	return cmd
}

// proc is a daemon in a separate process.
type proc struct {
	t     *testing.T
	cmd   *exec.Cmd
	ready Ready
	log   *logBuffer
	conn  *grpc.ClientConn
	calls tooldv1.CallServiceClient
	admin tooldv1.AdminServiceClient
	ended chan struct{} // closed when the process has ended
}

// logBuffer collects the standard error of a daemon.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts a daemon and waits until it is ready.
func (s *site) start(args ...string) *proc {
	s.t.Helper()
	p := &proc{t: s.t, cmd: s.command(args...), log: &logBuffer{}, ended: make(chan struct{})}
	out, err := p.cmd.StdoutPipe()
	must(s.t, err)
	p.cmd.Stderr = p.log
	must(s.t, p.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(p.kill)
	if err != nil {
		p.kill()
		s.t.Fatalf("the daemon printed nothing: %v\n%s", err, p.log)
	}
	must(s.t, json.Unmarshal([]byte(line), &p.ready))
	token, err := os.ReadFile(p.ready.TokenFile)
	must(s.t, err)
	p.conn, err = grpc.NewClient(p.ready.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(bearer(strings.TrimSpace(string(token)))))
	must(s.t, err)
	p.calls, p.admin = tooldv1.NewCallServiceClient(p.conn), tooldv1.NewAdminServiceClient(p.conn)
	return p
}

func (p *proc) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	if p.conn != nil {
		p.conn.Close()
	}
	if code := p.cmd.ProcessState.ExitCode(); code == 66 {
		p.t.Errorf("the race detector found something:\n%s", p.log)
	}
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(s))
}

// wait waits for the end of the process and returns how long that took.
func (p *proc) wait(most time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	select {
	case <-p.ended:
	case <-time.After(most):
		p.t.Fatalf("still there after %v\n%s", most, p.log)
	}
	return time.Since(began)
}

// logs waits until the log contains a text. The log goes through a pipe, so a line may arrive after the response to its request.
func (p *proc) logs(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the log says "+text, func() bool { return strings.Contains(p.log.String(), text) })
}

// hangs is the time after which a test gives up waiting. Even a busy machine does not need that long.
const hangs = 3 * time.Minute

// eventually waits until f returns true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hangs); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// aStream reads a stream of frames in the background.
type aStream struct {
	mu     sync.Mutex
	frames []*tooldv1.Frame
	err    error
	done   chan struct{}
}

func follow[R interface{ GetFrame() *tooldv1.Frame }](t *testing.T, stream interface{ Recv() (R, error) }, err error) *aStream {
	t.Helper()
	must(t, err)
	s := &aStream{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for {
			r, err := stream.Recv()
			s.mu.Lock()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					s.err = err
				}
				s.mu.Unlock()
				return
			}
			s.frames = append(s.frames, r.GetFrame())
			s.mu.Unlock()
		}
	}()
	return s
}

// has reports whether f returned true for a received event.
func (s *aStream) has(f func(*tooldv1.CallEvent) bool) bool { return s.count(f) > 0 }

// count returns the number of received events for which f returns true.
func (s *aStream) count(f func(*tooldv1.CallEvent) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, frame := range s.frames {
		for _, e := range frame.GetEvents() {
			if f(e) {
				n++
			}
		}
	}
	return n
}

// last waits for the regular end of the stream and returns its last frame.
func (s *aStream) last(t *testing.T) *tooldv1.Frame {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(hangs):
		t.Fatal("the stream does not end")
	}
	if s.err != nil || len(s.frames) == 0 {
		t.Fatalf("the stream ended with %v after %d frames", s.err, len(s.frames))
	}
	return s.frames[len(s.frames)-1]
}

// load reads a configuration as serve does. text is the content of the configuration file; when it is empty, there is no file.
func load(t *testing.T, text string, environ []string, args ...string) (*config.Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(flags)
	flags.Bool("moved", false, "")
	if text != "" {
		file := filepath.Join(t.TempDir(), "toold.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", file}, args...)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(flags, environ)
}

// bearer sends a token, also without TLS.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }
