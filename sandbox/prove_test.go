package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/cgroup"
)

// prover starts this program as a daemon that runs canaries.
func prover(t *testing.T, dir, often string, command ...string) *exec.Cmd {
	t.Helper()
	command = append(command, self(t), "no script")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), daemonVariable+"="+owner()+"-"+t.Name()+"="+dir, isolatedVariable+"="+often)
	return cmd
}

// The test kills a daemon with SIGKILL while processes of a canary run without separate kernel namespaces. It checks that these processes
// end, although no later daemon sweeps them.
func TestKilledDuringACanary(t *testing.T) {
	dir := t.TempDir()
	cmd := prover(t, dir, "prove for ever")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	daemon := strconv.Itoa(cmd.Process.Pid)
	orphans := func() (pids []int) { // processes that the daemon must end
		text, _ := os.ReadFile("/proc/" + daemon + "/task/" + daemon + "/children")
		for field := range strings.FieldsSeq(string(text)) {
			pid, _ := strconv.Atoi(field)
			if stat, err := os.ReadFile("/proc/" + field + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	var left []int
	until(t, "the canary's processes", func() bool {
		if len(orphans()) == 0 {
			return false
		}
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		until(t, "the daemon to stop", func() bool {
			stat, err := os.ReadFile("/proc/" + daemon + "/stat")
			return err == nil && strings.Contains(string(stat), ") T ")
		})
		if left = orphans(); len(left) == 0 {
			_ = cmd.Process.Signal(syscall.SIGCONT)
		}
		return len(left) > 0
	})
	t.Cleanup(func() {
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // An error is expected, because the process was killed.
	until(t, "the end of the canary's processes", func() bool {
		left = slices.DeleteFunc(left, func(pid int) bool { // the kernel has reparented these processes to the test process, so the test waits for them
			got, err := syscall.Wait4(pid, nil, syscall.WNOHANG|syscall.WALL, nil)
			return got == pid || err == syscall.ECHILD
		})
		return len(left) == 0
	})
	r, err := sandbox.New(sandbox.Config{Owner: owner() + "-" + t.Name(), StateDir: filepath.Join(dir, "state"), Helper: small()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if swept, err := r.Sweep(t.Context()); err != nil || len(swept.Killed)+len(swept.Unverified) > 0 {
		t.Errorf("there was something to sweep: %+v, %v", swept, err)
	}
}

// With cgroup version 1, a group cannot have a larger CPU share than its parent. The test checks that the other facts are still proven when
// a canary cannot get its share.
func TestProofBelowASmallShare(t *testing.T) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	mounts := cgroup.ParseMounts(string(mountinfo))
	at := slices.IndexFunc(mounts, func(m cgroup.Mount) bool { return m.Version == 1 && slices.Contains(m.Options, "cpu") })
	if at < 0 {
		t.Log("version 2 gives the smaller share of the two")
		return
	}
	group := filepath.Join(mounts[at].Dir(cgroup.ParseOwn(string(own))["cpu"]), fmt.Sprintf("%s-%d", t.Name(), os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Logf("no group can be made here: %v", err)
		return
	}
	defer func() { until(t, "the end of the group", func() bool { return os.Remove(group) == nil }) }()
	if err := os.WriteFile(filepath.Join(group, "cpu.cfs_quota_us"), []byte("15000"), 0); err != nil {
		t.Fatal(err)
	}
	text, err := prover(t, t.TempDir(), "prove", "/bin/sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group).CombinedOutput()
	if err != nil {
		t.Fatal(err, string(text))
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range [][]string{{"fs_read", "yes"}, {"processes_killed", "yes"}, {"mem_limit", "cgroup v1"}, {"cpu_limit", "cpu.cfs_quota_us: invalid"}} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want[0]) && strings.Contains(line, want[1]) }) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
