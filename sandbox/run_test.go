package sandbox_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/isolation"
)

func TestExit(t *testing.T) {
	r := open(t)
	tests := []struct {
		name, script string
		code         int
		signal       string
		stdout       string
	}{
		{"success", "echo hi", 0, "", "hi\n"},
		{"code", "echo hi; exit 7", 7, "", "hi\n"},
		{"signal", "kill -SEGV $$", -1, "SIGSEGV", ""},
		{"kills its group", "echo hi; kill -KILL 0", -1, "SIGKILL", "hi\n"}, // T24: the signal does not reach the daemon's group
		{"kills its session leader's group", "kill -KILL -- -$$", -1, "SIGKILL", ""},
		{"waits for input", "cat; echo end", 0, "", "end\n"}, // T26: the input is empty, so cat ends at once
		{"own session and group", `read -a f < /proc/$$/stat; [ ${f[4]} = $$ ] && [ ${f[5]} = $$ ] && echo own`, 0, "", "own\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exit, out := run(t, r, bash(t.TempDir(), tt.script))
			if exit.Code != tt.code || exit.Signal != tt.signal || out.read("stdout") != tt.stdout {
				t.Errorf("got code %d, signal %q, output %q", exit.Code, exit.Signal, out.read("stdout"))
			}
			mustBeConfirmed(t, exit)
			if exit.Duration <= 0 || exit.MaxRSS < 1<<20 {
				t.Errorf("duration %v, max RSS %d", exit.Duration, exit.MaxRSS)
			}
		})
	}
}

// TestLateOutput checks that output which a process prints shortly after the end of its parent is part of the output. The time for it is
// short, so the test repeats the command on a busy machine.
func TestLateOutput(t *testing.T) {
	r := open(t)
	for range 10 {
		exit, out := run(t, r, bash(t.TempDir(), "echo hi > >(sleep 0.02; cat)"))
		mustBeConfirmed(t, exit)
		if exit.Code == 0 && out.read("stdout") == "hi\n" {
			return
		}
	}
	t.Error("the output after the end of the shell is lost")
}

func TestCPUIsCounted(t *testing.T) {
	exit, _ := run(t, open(t), bash("/", "(for i in {1..50000}; do :; done)"))
	if exit.CPU < 10*time.Millisecond || exit.CPU > exit.Duration+10*time.Millisecond {
		t.Errorf("CPU %v in %v", exit.CPU, exit.Duration)
	}
}

// The test checks that a process inherits no variable of the daemon (T39), and that no shell interprets its arguments (T46).
func TestEnvironmentAndArguments(t *testing.T) {
	t.Setenv("DAEMON_SECRET", "hunter2")
	r := open(t)
	_, out := run(t, r, sandbox.Spec{Path: "/usr/bin/env", Dir: "/", Env: []string{"A=1", "B=x=y"}, Tag: "call/7"})
	lines := strings.Split(strings.TrimSpace(out.read("stdout")), "\n")
	if len(lines) != 3 || lines[0] != "A=1" || lines[1] != "B=x=y" ||
		!strings.HasPrefix(lines[2], "TOOLD_CALL="+owner()+"/") || !strings.HasSuffix(lines[2], "/call/7") {
		t.Errorf("environment: %q", lines)
	}
	_, out = run(t, r, sandbox.Spec{Path: "/usr/bin/printf", Args: []string{"%s|", "$(id)", "`id`", "a b\n", "-x"}, Dir: "/"})
	if got := out.read("stdout"); got != "$(id)|`id`|a b\n|-x|" {
		t.Errorf("arguments: %q", got)
	}
}

// T40: a process gets no extra file descriptor, even when the daemon has an inheritable one.
func TestDescriptors(t *testing.T) {
	r := open(t)
	fd, err := syscall.Open(t.TempDir(), syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	_, out := run(t, r, sandbox.Spec{Path: "/bin/ls", Args: []string{"/proc/self/fd"}, Dir: "/"})
	if got := strings.Fields(out.read("stdout")); len(got) != 4 { // file descriptor 3 is the directory that ls reads
		t.Errorf("descriptors %v", got)
	}
}

func TestRefusedSpecs(t *testing.T) {
	r := open(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		spec    sandbox.Spec
		message string
	}{
		{"relative path", sandbox.Spec{Path: "bash", Dir: "/"}, "absolute"},
		{"no directory", sandbox.Spec{Path: "/bin/bash"}, "absolute"},
		{"missing directory", sandbox.Spec{Path: "/bin/bash", Dir: "/no/such"}, "directory /no/such"},
		{"file as directory", sandbox.Spec{Path: "/bin/bash", Dir: file}, "not a directory"},
		{"missing program", sandbox.Spec{Path: "/no/such", Dir: "/"}, "no such file"},
		{"not executable", sandbox.Spec{Path: file, Dir: "/"}, "permission denied"},
		{"NUL in argument", sandbox.Spec{Path: "/bin/bash", Args: []string{"a\x00b"}, Dir: "/"}, "NUL"},
		{"NUL in tag", sandbox.Spec{Path: "/bin/bash", Tag: "a\x00b", Dir: "/"}, "NUL"},
		{"entry without value", sandbox.Spec{Path: "/bin/bash", Env: []string{"A"}, Dir: "/"}, "environment"},
		{"entry with NUL", sandbox.Spec{Path: "/bin/bash", Env: []string{"A=\x00"}, Dir: "/"}, "environment"},
		{"tag in environment", sandbox.Spec{Path: "/bin/bash", Env: []string{"TOOLD_CALL=x"}, Dir: "/"}, "TOOLD_CALL"},
		{"3 MB argument", sandbox.Spec{Path: "/bin/bash", Args: []string{strings.Repeat("x", 3<<20)}, Dir: "/"}, "too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exit, err := r.Run(t.Context(), tt.spec)
			if exit != nil || err == nil || !strings.Contains(err.Error(), tt.message) {
				t.Errorf("got %v, %v; want an error with %q", exit, err, tt.message)
			}
		})
	}
}

func TestRefusedConfigs(t *testing.T) {
	for _, cfg := range []sandbox.Config{{}, {Owner: "a"}, {Owner: "a/b", StateDir: t.TempDir()}, {Owner: "a", StateDir: "/proc/x"}} {
		if r, err := sandbox.New(cfg); err == nil {
			r.Close()
			t.Errorf("New(%+v) is allowed", cfg)
		}
	}
}

func TestStdin(t *testing.T) {
	spec := bash("/", "wc -c")
	spec.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	if _, out := run(t, open(t), spec); out.read("stdout") != "1048576\n" {
		t.Errorf("got %q", out.read("stdout"))
	}
	spec = bash("/", "read -n 3 x; echo $x") // The process reads less input than the test sends.
	spec.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	if _, out := run(t, open(t), spec); out.read("stdout") != "xxx\n" {
		t.Errorf("got %q", out.read("stdout"))
	}
}

func TestBigOutputInOrder(t *testing.T) {
	sums := map[string]hash.Hash{"stdout": sha256.New(), "stderr": sha256.New()}
	var mu sync.Mutex
	spec := bash("/", "seq 1 500000 & seq 500000 900000 >&2; wait")
	largest := 0
	spec.Output = func(stream string, chunk []byte) error {
		mu.Lock()
		defer mu.Unlock()
		largest = max(largest, len(chunk))
		sums[stream].Write(chunk)
		return nil
	}
	exit, err := open(t).Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	mustBeConfirmed(t, exit)
	for stream, bounds := range map[string][2]int{"stdout": {1, 500000}, "stderr": {500000, 900000}} {
		want := sha256.New()
		for i := bounds[0]; i <= bounds[1]; i++ {
			fmt.Fprintln(want, i)
		}
		if string(want.Sum(nil)) != string(sums[stream].Sum(nil)) {
			t.Errorf("%s differs", stream)
		}
	}
	if largest > 32<<10 {
		t.Errorf("chunk of %d bytes", largest)
	}
}

// A slow reader receives everything that the process wrote before it ended.
func TestSlowOutputLosesNothing(t *testing.T) {
	got := 0
	spec := bash("/", "head -c 100000 /dev/zero")
	spec.Output = func(_ string, chunk []byte) error {
		time.Sleep(300 * time.Millisecond) // There are three or more chunks, so this is longer than any wait of the sandbox.
		got += len(chunk)
		return nil
	}
	exit, err := open(t).Run(t.Context(), spec)
	if err != nil || got != 100000 {
		t.Errorf("%d bytes, error %v", got, err)
	}
	mustBeConfirmed(t, exit)
}

func TestOutputErrorEndsTheRun(t *testing.T) {
	full := errors.New("full")
	spec := bash("/", "echo x; sleep 1000")
	spec.Output = func(string, []byte) error { return full }
	exit, err := open(t).Run(t.Context(), spec)
	if !errors.Is(err, full) || exit == nil || exit.Signal != "SIGTERM" {
		t.Errorf("got %+v, %v", exit, err)
	}
}

func TestCloseEndsRuns(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	done := make(chan error)
	go func() {
		_, err := r.Run(context.Background(), bash(dir, "echo $$ > pids; sleep 1000"))
		done <- err
	}()
	until(t, "start", func() bool { return len(pids(t, dir)) > 0 })
	r.Close()
	if err := <-done; !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("run ended with %v", err)
	}
	mustHaveEnded(t, pids(t, dir))
	if exit, err := r.Run(t.Context(), bash("/", "true")); exit != nil || !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("run after Close: %v, %v", exit, err)
	}
}

func TestFactsPretendNothing(t *testing.T) {
	facts := open(t).Facts()
	if facts.ProcessesKilled.Mechanism == "" {
		t.Error("no mechanism of killing named")
	}
	facts.ProcessesKilled.Mechanism = ""
	if facts != (isolation.Facts{}) {
		t.Errorf("isolation that is not there: %+v", facts)
	}
}

// The test checks that the sandbox reaps only orphans, and never a child for which other code of this process waits.
func TestOtherChildrenKeepTheirStatus(t *testing.T) {
	r := open(t)
	child := exec.Command("/bin/bash", "-c", "exit 3")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		run(t, r, bash("/", "sleep 1000 & (sleep 0.001 &)"))
	}
	run(t, r, bash("/", "sleep 0.6")) // longer than the interval between two censuses
	if err := child.Wait(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("a child of ours ended with %v", err)
	}
}

// The kernel sends a parent-death signal when the forking thread ends. The test checks that the end of other threads of the daemon does not
// kill a process.
func TestThreadsOfTheDaemonEnd(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(runtime.LockOSThread) // the thread ends with its goroutine
			}
			wg.Wait()
		}
	}()
	r := open(t)
	for range 5 {
		if exit, _ := run(t, r, bash("/", "sleep 0.05; exit 4")); exit.Code != 4 {
			t.Errorf("code %d, signal %s", exit.Code, exit.Signal)
		}
	}
	<-done
}

// TestT126NoProcessOfAFencedDaemon checks that a process does not start, isolated or not, when another daemon owns the store.
func TestT126NoProcessOfAFencedDaemon(t *testing.T) {
	taken, asked := errors.New("taken over"), 0
	r := open(t, func(c *sandbox.Config) {
		c.StartBy = func(context.Context) (time.Duration, error) { asked++; return 0, taken }
	})
	dir := t.TempDir()
	for _, spec := range []sandbox.Spec{bash(dir, "echo $$ > pids"), confined(dir, "echo $$ > pids")} {
		if _, err := r.Run(t.Context(), spec); !errors.Is(err, taken) {
			t.Errorf("Run = %v, want why nothing may start", err)
		}
	}
	if n := len(pids(t, dir)); n > 0 || asked != 2 {
		t.Errorf("%d processes began, asked %d times", n, asked)
	}
}
