package conformance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toold-dev/toold/conformance"
)

// binary is the path of the daemon's release build.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toold-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "toold")
	build := exec.Command("go", "build", "-trimpath", "-o", dir, "./cmd/toold", "./cmd/toold-sandbox")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A daemon can be killed and started again on the same store and address.
type daemon struct {
	t       *testing.T
	dir     string
	args    []string
	tokens  map[string]string
	address string
	cmd     *exec.Cmd
	ended   chan struct{}
	log     *logTail
}

// start starts a daemon with the configuration from package conformance.
func start(t *testing.T, args ...string) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "toold")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &daemon{t: t, dir: dir, tokens: map[string]string{}, log: &logTail{}}
	must(t, os.Mkdir(filepath.Join(dir, "workspace"), 0o755))
	files, err := conformance.Configuration(filepath.Join(dir, conformance.RulesFile))
	must(t, err)
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	must(t, json.Unmarshal(files[conformance.TokensFile], &d.tokens))
	d.args = append([]string{"serve", "--listen-tcp", stays(t), "--config", filepath.Join(dir, conformance.DaemonFile),
		"--data", filepath.Join(dir, "data"), "--workspace", filepath.Join(dir, "workspace")}, args...)
	must(t, d.serve())
	t.Cleanup(d.kill)
	return d
}

// stays returns an address that stays free while the daemon restarts. Its port is below the range from which the system takes ports for
// outgoing connections and for listeners on port 0.
func stays(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		must(t, err)
		must(t, l.Close())
		return l.Addr().String()
	}
}

// serve starts the daemon and returns when it serves.
func (d *daemon) serve() error {
	d.cmd, d.ended = exec.Command(binary, d.args...), make(chan struct{})
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOOLD_") {
			d.cmd.Env = append(d.cmd.Env, v)
		}
	}
	d.cmd.Stderr = d.log
	// Its own process group, so that Ctrl-C reaches only the test. If the test dies, the daemon dies too.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	go d.attend(out, started)
	return <-started
}

// attend starts the process and waits for its end on one OS thread. Pdeathsig fires when the thread that started the process ends.
func (d *daemon) attend(out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.cmd.Start(); err != nil {
		close(d.ended)
		started <- err
		return
	}
	lines := bufio.NewReader(out)
	text, err := lines.ReadString('\n')
	if err == nil {
		var ready struct {
			TCP string `json:"tcp"`
		}
		err = json.Unmarshal([]byte(text), &ready)
		d.address = ready.TCP
	}
	if err != nil {
		err = fmt.Errorf("the daemon does not serve: %w\n%s", err, d.log)
	}
	started <- err
	_, _ = io.Copy(io.Discard, lines)
	_ = d.cmd.Wait() // the exit status does not matter here
	close(d.ended)
}

// kill sends SIGKILL and returns when the process is gone.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // the daemon may already have ended
	<-d.ended
}

func (d *daemon) restart(context.Context) error {
	d.kill()
	return d.serve()
}

// config returns the configuration for playing transcripts against the daemon.
func (d *daemon) config() conformance.Config {
	d.t.Helper()
	conn, err := grpc.NewClient(d.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(d.t, err)
	d.t.Cleanup(func() { conn.Close() })
	return conformance.Config{Conn: conn, Tokens: d.tokens, Restart: d.restart}
}

type logTail struct {
	mu   sync.Mutex
	text []byte
}

const logKept = 16 << 10

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-logKept):]
	return len(p), nil
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "--- the end of the daemon's log:\n" + string(l.text)
}
