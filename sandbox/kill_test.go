package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
)

// strays are scripts that leave processes behind. Each script writes the PIDs of these processes to the file pids, and ends when they run.
var strays = []struct{ name, script string }{
	{"background", `sleep 1000 & echo $! > pids`},
	{"background that holds no pipe", `sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > pids`},
	{"ignores TERM and HUP", `(trap "" TERM HUP; sleep 1000) & sleep 0.02; pgrep -P $! > pids; echo $! >> pids`},
	{"own group", `set -m; sleep 1000 & echo $! > pids`},
	{"stopped", `sleep 1000 & kill -STOP $!; echo $! > pids`},
	{"own session", `setsid bash -c 'echo $$ > pids; sleep 1000 & wait' & until [ -s pids ]; do sleep 0.01; done`},
	{"daemon", `(setsid bash -c 'trap "" TERM HUP; echo $$ > pids; sleep 1000; sleep 1000' >/dev/null 2>&1 </dev/null &)
		until [ -s pids ]; do sleep 0.01; done`},
	{"daemon without environment", `(env -i setsid bash -c 'trap "" TERM; echo $$ > pids; while :; do sleep 1000; done' >/dev/null 2>&1 </dev/null &)
		until [ -s pids ]; do sleep 0.01; done`},
	{"daemon with a misleading name", `cp /bin/sleep "./x) Z 1 1 1"
		(setsid bash -c 'echo $$ > pids; exec "./x) Z 1 1 1" 1000' >/dev/null 2>&1 </dev/null &)
		until [ -s pids ]; do sleep 0.01; done`},
	{"chain of sessions", `cat > chain <<'END'
#!/bin/bash
echo $$ >> pids
[ $1 -gt 0 ] && setsid ./chain $(($1-1)) &
sleep 1000
END
		chmod +x chain; (setsid ./chain 8 &); until [ $(wc -l < pids) = 9 ]; do sleep 0.01; done 2>/dev/null`},
}

// T21: every process that a run leaves behind is killed.
func TestNothingIsLeftBehind(t *testing.T) {
	r := open(t)
	for _, tt := range strays {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			exit, _ := run(t, r, bash(dir, tt.script))
			if exit.Code != 0 {
				t.Errorf("code %d, signal %s", exit.Code, exit.Signal)
			}
			mustBeConfirmed(t, exit)
			mustHaveEnded(t, pids(t, dir))
			for _, pid := range pids(t, dir) {
				if !slices.Contains(exit.Killed, pid) {
					t.Errorf("%d is not in the killed %v", pid, exit.Killed)
				}
			}
		})
	}
}

// T22: every process that a cancelled run leaves behind is killed.
func TestNothingIsLeftAfterCancel(t *testing.T) {
	r := open(t)
	for _, tt := range strays {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			spec := bash(dir, tt.script+"\necho ready\nsleep 1000")
			spec.Grace = 100 * time.Millisecond
			exit, err := cancelWhen(t, r, spec, "ready\n")
			if err == nil || exit.Signal == "" {
				t.Errorf("got %+v, %v", exit, err)
			}
			mustBeConfirmed(t, exit)
			mustHaveEnded(t, pids(t, dir))
		})
	}
}

var errCancelled = errors.New("cancelled by test")

// cancelWhen runs spec and cancels it when stdout equals text.
func cancelWhen(t *testing.T, r *sandbox.Runner, spec sandbox.Spec, text string) (*sandbox.Exit, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var out screen
	spec.Output = func(stream string, chunk []byte) error {
		out.output(stream, chunk)
		if out.read("stdout") == text {
			cancel(errCancelled)
		}
		return nil
	}
	exit, err := r.Run(ctx, spec)
	if exit == nil || err != nil && !errors.Is(err, errCancelled) {
		t.Fatalf("got %v, %v", exit, err)
	}
	return exit, err
}

func TestCancelGivesGrace(t *testing.T) {
	r := open(t)
	tests := []struct {
		name, script string
		grace        time.Duration
		code         int
		signal       string
		stdout       string
	}{
		{"cleans up", `trap 'echo bye; exit 3' TERM; echo ready; sleep 1000 & wait`, 0, 3, "", "ready\nbye\n"},
		{"child cleans up", `(trap 'sleep 0.05; echo bye; exit' TERM; echo ready; while :; do sleep 0.01; done)`, 0, -1, "SIGTERM", "ready\nbye\n"},
		{"ignores it", `trap "" TERM; echo ready; while :; do sleep 1000; done`, 50 * time.Millisecond, -1, "SIGKILL", "ready\n"},
		{"none wanted", `trap 'echo bye; exit 3' TERM; echo ready; sleep 1000 & wait`, -1, -1, "SIGKILL", "ready\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			spec := bash("/", tt.script)
			spec.Grace = tt.grace
			var out screen
			spec.Output = func(stream string, chunk []byte) error {
				out.output(stream, chunk)
				cancel(errCancelled)
				return nil
			}
			exit, err := r.Run(ctx, spec)
			if !errors.Is(err, errCancelled) || exit.Code != tt.code || exit.Signal != tt.signal || out.read("stdout") != tt.stdout {
				t.Errorf("got code %d, signal %s, output %q, error %v", exit.Code, exit.Signal, out.read("stdout"), err)
			}
			mustBeConfirmed(t, exit)
		})
	}
}

// A run that is cancelled before its start starts no process.
func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	if exit, err := open(t).Run(ctx, bash("/", "true")); exit != nil || !errors.Is(err, errCancelled) {
		t.Errorf("got %v, %v", exit, err)
	}
}

// The test runs a process that forks often and has none of the marks of a run (see the package comment), while another run is active. So an
// orphan could belong to either run. The test checks that the run's processes are still found, because the method end stops all of them
// before it kills any.
func TestForkingUnmarked(t *testing.T) {
	r := alone(t)
	ctx, cancel := context.WithCancel(t.Context())
	other := t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, bash(other, `echo $$ > pids; sleep 1000`))
	}()
	until(t, "start", func() bool { return len(pids(t, other)) == 1 })
	spec := bash(t.TempDir(), `env -i setsid bash -c 'for i in {1..600}; do setsid sleep 1000 >/dev/null 2>&1 & [ $i = 20 ] && echo ready; done'; sleep 1000`)
	spec.Grace = -1
	exit, err := cancelWhen(t, r, spec, "ready\n")
	if err == nil || len(exit.Killed)+len(exit.Unverified) < 20 {
		t.Errorf("got %+v, %v", exit, err)
	}
	cancel()
	<-done
	mustBeDead(t, exit)
}

// In this chain each process creates a session, forks the next process and exits. When a PID has been read, the process has already ended.
// The test checks that the chain is still killed.
func TestRunawayChain(t *testing.T) {
	dir := t.TempDir() // If the sandbox fails to end the chain, removing the script ends it.
	spec := bash(dir, `printf '#!/bin/bash\nsetsid ./run & exit' > run; chmod +x run; ./run; echo ready; sleep 1000`)
	exit, err := cancelWhen(t, alone(t), spec, "ready\n")
	if err == nil {
		t.Error("was not cancelled")
	}
	mustBeDead(t, exit)
	if left := withArgument(t, "./run"); len(left) > 0 {
		t.Errorf("the chain goes on: %v", left)
	}
}

func withArgument(t *testing.T, arg string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil && slices.Contains(strings.Split(string(line), "\x00"), arg) {
			found = append(found, path)
		}
	}
	return found
}

func TestCancelThousandProcesses(t *testing.T) {
	spec := bash(t.TempDir(), `mkfifo hold
		for i in {1..20}; do (for j in {1..50}; do (read < hold) & done; wait) & done
		until [ $(ps -s $$ -o pid= | wc -l) -gt 1020 ]; do sleep 0.05; done; echo ready; wait`)
	var asked time.Time
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	spec.Output = func(string, []byte) error {
		asked = time.Now()
		cancel(errCancelled)
		return nil
	}
	exit, err := open(t).Run(ctx, spec)
	if !errors.Is(err, errCancelled) {
		t.Fatal(err)
	}
	mustBeConfirmed(t, exit)
	if len(exit.Killed) < 1020 {
		t.Errorf("%d processes killed", len(exit.Killed))
	}
	for _, pid := range exit.Killed {
		if exists(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	took := time.Since(asked)
	t.Logf("%d processes dead after %v", len(exit.Killed), took)
	if took > time.Minute { // This is far more than a busy machine needs; make bench measures the real time.
		t.Errorf("took %v", took)
	}
}

func TestFirstThreadGone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	exit, _ := run(t, open(t), bash(dir, `(setsid "$1" headless >/dev/null 2>&1 & echo $! > pids)
		until grep -q ') Z' /proc/$(<pids)/stat; do sleep 0.01; done`, self))
	if exit.Code != 0 {
		t.Errorf("code %d", exit.Code)
	}
	mustHaveEnded(t, pids(t, dir))
}

func TestConcurrentRunsKeepApart(t *testing.T) {
	r := open(t)
	long := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *sandbox.Exit)
	go func() {
		exit, _ := r.Run(ctx, bash(long, `(setsid sleep 1000 & echo $! > pids); echo $$ >> pids; sleep 1000`))
		done <- exit
	}()
	until(t, "start", func() bool { return len(pids(t, long)) == 2 })
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			dir := t.TempDir()
			exit, err := r.Run(t.Context(), bash(dir, strays[i%2*6].script)) // the background job or the daemon
			if err != nil || exit.Code != 0 {
				t.Errorf("got %+v, %v", exit, err)
				return
			}
			mustBeConfirmed(t, exit)
			mustHaveEnded(t, pids(t, dir))
		})
	}
	wg.Wait()
	for _, pid := range pids(t, long) {
		if !exists(pid) {
			t.Errorf("process %d of a run that lasts was killed", pid)
		}
	}
	cancel()
	mustBeConfirmed(t, <-done)
	mustHaveEnded(t, pids(t, long))
}

// An orphan without marks may belong to either of two active runs. The test checks that the run that ends first reports the orphan, and
// that the run that ends second kills it.
func TestDoubtIsReported(t *testing.T) {
	r := open(t)
	other := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *sandbox.Exit)
	go func() {
		exit, _ := r.Run(ctx, bash(other, `echo $$ > pids; sleep 1000`))
		done <- exit
	}()
	until(t, "start", func() bool { return len(pids(t, other)) == 1 })
	dir := t.TempDir()
	exit, _ := run(t, r, bash(dir, `(env -i setsid bash -c 'echo $$ > pids; exec sleep 1000' >/dev/null 2>&1 &)
		until [ -s pids ] && [ "$(</proc/$(<pids)/comm)" = sleep ]; do sleep 0.01; done; sleep 0.05`))
	if len(exit.Unverified) != 1 || exit.Unverified[0].PID != pids(t, dir)[0] ||
		exit.Unverified[0].Command != "sleep 1000" || !exit.ConfirmedAt.IsZero() {
		t.Errorf("unverified: %+v", exit.Unverified)
	}
	cancel()
	mustBeConfirmed(t, <-done)
	mustHaveEnded(t, pids(t, dir))
	if _, err := r.Sweep(t.Context()); err != nil { // clears the record of the first run
		t.Error(err)
	}
}

// The test checks that a run ends in time when a process outside the run holds an output pipe, and that this process is reported and not
// killed.
func TestStrangerHoldsOutput(t *testing.T) {
	dir := t.TempDir()
	// While bash writes the file pids, its standard output is that file and not the pipe. So the test starts the other process, which opens
	// bash's standard output, only when the directory written exists.
	spec := bash(dir, `echo $$ > pids; mkdir written; until [ -e held ]; do sleep 0.01; done; echo end`)
	var out screen
	spec.Output = out.output
	type result struct {
		exit *sandbox.Exit
		err  error
	}
	done := make(chan result)
	r := open(t)
	go func() {
		exit, err := r.Run(t.Context(), spec)
		done <- result{exit, err}
	}()
	until(t, "start", func() bool { _, err := os.Stat(filepath.Join(dir, "written")); return err == nil })
	stranger := exec.Command("/bin/bash", "-c", fmt.Sprintf("exec 3>/proc/%d/fd/1; > held; exec sleep 1000", pids(t, dir)[0]))
	stranger.Dir = dir
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil || got.exit.Code != 0 || out.read("stdout") != "end\n" {
		t.Errorf("got %+v, %v, %q", got.exit, got.err, out.read("stdout"))
	}
	if len(got.exit.Unverified) != 1 || got.exit.Unverified[0].PID != stranger.Process.Pid {
		t.Errorf("unverified: %+v", got.exit.Unverified)
	}
	if err := stranger.Process.Kill(); err != nil {
		t.Errorf("the stranger was killed: %v", err)
	}
	if err := stranger.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the stranger ended with %v", err)
	}
}

// Orphans that end during their run do not stay as zombies.
func TestOrphansAreReaped(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		r.Run(ctx, bash(dir, `(sleep 0.02 & echo $! > pids); sleep 1000`))
	}()
	until(t, "start", func() bool { return len(pids(t, dir)) == 1 })
	until(t, "the reaper", func() bool { return !exists(pids(t, dir)[0]) })
	cancel()
	<-done
}
