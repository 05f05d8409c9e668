package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/helper"
)

const (
	daemonVariable = "SANDBOX_TEST_DAEMON" // contains the owner and the directory; the program's only argument is then a bash script
	headlessFlag   = "headless"
	// isolatedVariable makes the daemon isolate its script. With "prove" or "prove for ever" it runs canaries instead.
	isolatedVariable = "SANDBOX_TEST_ISOLATED"
)

func TestMain(m *testing.M) {
	sandbox.Help()
	if err := sandbox.BecomeSubreaper(); err != nil {
		panic(err)
	}
	if owner, dir, ok := strings.Cut(os.Getenv(daemonVariable), "="); ok {
		daemon(owner, dir, os.Args[1])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == headlessFlag {
		loseFirstThread()
	}
	if len(os.Args) > 1 && os.Args[1] == attackFlag {
		attack(os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

// daemon behaves like a small toold: it runs one script until it is killed.
func daemon(owner, dir, script string) {
	r, err := sandbox.New(sandbox.Config{Owner: owner, StateDir: filepath.Join(dir, "state")})
	if err != nil {
		panic(err)
	}
	for often := os.Getenv(isolatedVariable); strings.HasPrefix(often, "prove"); {
		facts, err := r.Prove(context.Background(), sandbox.Policy{Workspace: dir, Unsupervised: often != "prove"})
		if often == "prove" {
			fmt.Print(facts, err, r.Close())
			return
		}
	}
	spec := bash(dir, script)
	spec.Tag = "call-1"
	if os.Getenv(isolatedVariable) != "" {
		spec.Policy = &sandbox.Policy{Workspace: dir}
	}
	exit, err := r.Run(context.Background(), spec)
	fmt.Println(exit, err)
}

// loseFirstThread ends the first thread of this process, while other threads continue. Such a process looks like a zombie.
func loseFirstThread() {
	for {
		go func() {
			runtime.LockOSThread()
			if syscall.Gettid() == os.Getpid() {
				syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
			}
			select {}
		}()
		time.Sleep(time.Millisecond)
	}
}

// small builds the small helper program, once, if it is missing. It is stored beside the test program. Runners that do not use it, for
// example in other kernel namespaces, start the whole test program as helper.
var small = sync.OnceValue(func() string {
	exe, err := os.Executable()
	there := filepath.Join(filepath.Dir(exe), helper.Name)
	if _, missing := os.Stat(there); err == nil && missing == nil {
		return there
	}
	if dir := filepath.Dir(exe); err == nil && strings.Contains(dir, "go-build") && os.Getuid() == 0 {
		path := filepath.Join(dir, helper.Name)
		build := exec.Command("go", "build", "-trimpath", "-o", path, "../cmd/toold-sandbox")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("go build: %v\n%s", err, out))
		}
		return path
	}
	return ""
})

// owner differs between test runs, so that two at the same time do not sweep each other's processes.
func owner() string { return fmt.Sprintf("store-%d", os.Getpid()) }

func open(t *testing.T, with ...func(*sandbox.Config)) *sandbox.Runner {
	t.Helper()
	return openIn(t, filepath.Join(t.TempDir(), "state"), with...)
}

func openIn(t *testing.T, state string, with ...func(*sandbox.Config)) *sandbox.Runner {
	t.Helper()
	cfg := sandbox.Config{Owner: owner(), StateDir: state, Homes: filepath.Join(t.TempDir(), "homes"), Helper: small()}
	for _, w := range with {
		w(&cfg)
	}
	r, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(state); err == nil && len(left) > 0 {
			t.Errorf("state directory has %d records left", len(left))
		}
	})
	return r
}

func bash(dir, script string, args ...string) sandbox.Spec {
	return sandbox.Spec{
		Path: "/bin/bash",
		Args: append([]string{"-c", script, "bash"}, args...),
		Dir:  dir,
		Env:  []string{"PATH=/usr/bin:/bin"},
		Tag:  "call-0",
	}
}

type screen struct {
	mu   sync.Mutex
	text map[string]*bytes.Buffer
}

func (s *screen) output(stream string, chunk []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil {
		s.text = map[string]*bytes.Buffer{"stdout": {}, "stderr": {}, "pty": {}}
	}
	s.text[stream].Write(chunk)
	return nil
}

func (s *screen) read(stream string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil {
		return ""
	}
	return s.text[stream].String()
}

func run(t *testing.T, r *sandbox.Runner, spec sandbox.Spec) (*sandbox.Exit, *screen) {
	t.Helper()
	var out screen
	spec.Output = out.output
	exit, err := r.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return exit, &out
}

// until waits for an effect of another process.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// pids reads the numbers that a script wrote to the file "pids".
func pids(t *testing.T, dir string) []int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var list []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

// exists reports whether a process or zombie with this PID exists, because not even a zombie may be left.
func exists(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}

func mustHaveEnded(t *testing.T, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Error("the script reported no pid: nothing was tested")
	}
	for _, pid := range pids {
		if exists(pid) {
			stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			t.Errorf("process %d is left: %s", pid, stat)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func mustBeConfirmed(t *testing.T, exit *sandbox.Exit) {
	t.Helper()
	if len(exit.Unverified) > 0 || exit.ConfirmedAt.IsZero() {
		t.Errorf("not confirmed dead: %+v", exit.Unverified)
	}
}

// alone opens a runner with its own state directory, so that other sweeps do not read its records of unverified runs.
func alone(t *testing.T) *sandbox.Runner {
	t.Helper()
	r, err := sandbox.New(sandbox.Config{Owner: owner(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// mustBeDead checks that every process of a run is dead. A process may also be reported as unverified if it is dead soon after. On a busy
// machine, the kill of an endless fork may take too long.
func mustBeDead(t *testing.T, exit *sandbox.Exit) {
	t.Helper()
	if len(exit.Unverified) == 0 {
		mustBeConfirmed(t, exit)
		return
	}
	until(t, "what was not verified to be dead", func() bool {
		for _, p := range exit.Unverified {
			if p.PID != 0 && syscall.Kill(p.PID, 0) == nil {
				return false
			}
		}
		return true
	})
}

func contextWithCause(t *testing.T) (context.Context, context.CancelCauseFunc) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	return ctx, cancel
}
