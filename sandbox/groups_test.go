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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/isolation"
)

// grouped returns the facts about control groups on this machine. When there are no groups, it checks that the facts give a reason.
func grouped(t *testing.T, r *sandbox.Runner) isolation.Facts {
	t.Helper()
	facts, err := r.Prove(t.Context(), sandbox.Policy{Workspace: t.TempDir(), Limits: sandbox.Limits{CPUs: 0.5}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []isolation.NamedFact{{Name: "mem_limit", Fact: facts.MemLimit}, {Name: "cpu_limit", Fact: facts.CPULimit}} {
		t.Logf("%s: held %t, %s; %s", f.Name, f.Held, f.Mechanism, f.Detail)
		if f.Held != strings.HasPrefix(f.Mechanism, "cgroup v") || !f.Held && !strings.Contains(f.Detail, "version") {
			t.Errorf("neither a control group nor the reason why there is none: %+v", f)
		}
	}
	return facts
}

// groups returns the control groups of an owner.
func groups(owner string) (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "toold-"+owner+"-") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// The test checks that many processes together cannot exceed the group's memory limit, even when each is within its own limit (T27).
func TestT27MemoryOfAllProcessesIsBounded(t *testing.T) {
	r := open(t)
	facts := grouped(t, r)
	spec := confined(t.TempDir(), `for i in 1 2 3 4; do (head -c 512M /dev/zero | tail -c 512M | wc -c > $i) & done; wait; cat [1-4]; echo end`)
	if !facts.MemLimit.Held {
		return // Without control groups, only the limit of each process exists, which TestMemoryIsBounded checks.
	}
	spec.Policy.Limits.MemoryTotal = 256 << 20
	before := memory(t)
	exit, out := run(t, r, spec)
	if grown := memory(t) - before; grown > 32<<20 {
		t.Errorf("this process has grown by %d bytes", grown)
	}
	if text := out.read("stdout"); exit.OOMKills == 0 || strings.Count(text, "536870912") > 0 || !strings.Contains(exit.OutOfMemory(), "memory") {
		t.Errorf("%+v, %q", exit, text)
	}
	t.Logf("%d killed: %s", exit.OOMKills, exit.OutOfMemory())
	mustBeConfirmed(t, exit)
	spec = confined(t.TempDir(), "echo fine") // These runs can use the same group again: with the same limit, a smaller and a larger one.
	for _, total := range []int64{256 << 20, 64 << 20, 1 << 30} {
		spec.Policy.Limits.MemoryTotal = total
		if exit, out := run(t, r, spec); exit.OOMKills != 0 || exit.OutOfMemory() != "" || out.read("stdout") != "fine\n" {
			t.Errorf("after that: %+v, %q, %q", exit, out.read("stdout"), out.read("stderr"))
		}
	}
}

// memory returns the memory of this process in bytes.
func memory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// The test checks that eight busy threads together get only the CPU share of the policy, as their group measures it (T29).
func TestT29QuotaIsHeld(t *testing.T) {
	r := open(t)
	facts := grouped(t, r)
	spec := confined(t.TempDir(), `trap "" TERM; for i in 1 2 3 4 5 6 7 8; do (trap "" TERM; while :; do :; done) & done; echo; wait`)
	spec.Policy.Limits.CPUs, spec.Grace = 0.5, -1
	ctx, cancel := contextWithCause(t)
	spec.Output = func(string, []byte) error {
		time.AfterFunc(2*time.Second, func() { cancel(errCancelled) })
		return nil
	}
	exit, err := r.Run(ctx, spec)
	if !errors.Is(err, errCancelled) || exit == nil || exit.Duration < 2*time.Second {
		t.Fatalf("%+v, %v", exit, err)
	}
	mustBeConfirmed(t, exit)
	if !facts.CPULimit.Held {
		return // Without control groups there is no such limit.
	}
	share := exit.CPU.Seconds() / exit.Duration.Seconds()
	t.Logf("%v of processors in %v: %.2f", exit.CPU, exit.Duration, share)
	if share < 0.05 || share > 0.6 { // The share may be smaller when other processes use the processors.
		t.Errorf("a share of %.2f", share)
	}
}

// The test checks that the group's process limit stops a fork bomb when no PID namespace limits the processes (T20).
func TestT20ForkBombInAGroup(t *testing.T) {
	r := open(t)
	grouped(t, r)
	dir := t.TempDir()
	facts, err := r.Prove(t.Context(), sandbox.Policy{Workspace: dir, Unsupervised: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pids_limit: %+v", facts.PidsLimit)
	if !facts.PidsLimit.Held {
		if !strings.Contains(facts.PidsLimit.Detail, "group") {
			t.Errorf("no reason: %+v", facts.PidsLimit)
		}
		return
	}
	spec := confined(dir, `while :; do sleep 1000 & done`)
	spec.Policy = &sandbox.Policy{Workspace: dir, Unsupervised: true, Limits: sandbox.Limits{Processes: 310}}
	spec.Grace = -1
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	spec.Output = func(_ string, chunk []byte) error {
		if strings.Contains(string(chunk), "unavailable") {
			cancel(errCancelled)
		}
		return nil
	}
	exit, err := r.Run(ctx, spec)
	if !errors.Is(err, errCancelled) || len(exit.Killed) < 200 || len(exit.Killed) > 311 {
		t.Errorf("%v, killed %d", err, len(exit.Killed))
	}
	mustBeDead(t, exit)
}

// T93: no control group is left after runs or after a killed daemon.
func TestT93NoGroupsAreLeft(t *testing.T) {
	name := fmt.Sprintf("%s-%s", owner(), t.Name())
	newRunner := func(state string) *sandbox.Runner {
		r, err := sandbox.New(sandbox.Config{Owner: name, StateDir: state, Helper: small()})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := newRunner(t.TempDir())
	facts, dir := grouped(t, r), t.TempDir()
	for i := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		spec := confined(dir, "echo x; sleep 0.0$((RANDOM % 3))")
		spec.Grace = -1
		if i%10 == 0 {
			spec.Output = func(string, []byte) error { cancel(); return nil }
		}
		if exit, err := r.Run(ctx, spec); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(exit, err)
		}
		cancel()
	}
	if n := len(groups(name)); facts.MemLimit.Held && (n == 0 || n > 10) {
		t.Errorf("%d groups for runs one after the other", n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left := groups(name); len(left) > 0 {
		t.Errorf("after Close: %q", left)
	}
	killedDaemon(t, name, dir)
	if facts.MemLimit.Held && len(groups(name)) == 0 {
		t.Error("a daemon that was killed left no group: nothing is tested")
	}
	stranger := newRunner(t.TempDir())
	defer stranger.Close()
	other, err := sandbox.New(sandbox.Config{Owner: name + "x", StateDir: t.TempDir(), Helper: small()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	had := len(groups(name))
	if _, err := other.Sweep(t.Context()); err != nil || len(groups(name)) != had {
		t.Errorf("another owner's sweep: %v, %d groups of %d", err, len(groups(name)), had)
	}
	if _, err := stranger.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left := groups(name); len(left) > 0 {
		t.Errorf("after Sweep: %q", left)
	}
}

// killedDaemon starts this program as a daemon that runs an isolated command, and kills it.
func killedDaemon(t *testing.T, owner, dir string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(self(t), "echo started > up; sleep 1000")
	cmd.Env = append(os.Environ(), daemonVariable+"="+owner+"="+dir, isolatedVariable+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the daemon's command", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait() // An error is expected, because the process was killed.
}

func TestGroupLimitsAreChecked(t *testing.T) {
	for _, l := range []sandbox.Limits{{MemoryTotal: 1}, {MemoryTotal: -1}, {CPUs: -1}, {CPUs: 0.001}, {CPUs: 1e9}} {
		p := sandbox.Policy{Workspace: "/work", Limits: l}
		if p.Check() == nil {
			t.Errorf("%+v passes", l)
		}
	}
}
