package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
)

// resident opens a runner with its own owner. helper returns the PID of the runner's helper.
func resident(t *testing.T) (r *sandbox.Runner, helper func() int) {
	t.Helper()
	name := fmt.Sprintf("%s-%s", owner(), t.Name())
	r, err := sandbox.New(sandbox.Config{Owner: name, StateDir: t.TempDir(), Helper: small()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if pids := helpers(name); len(pids) > 0 {
			t.Errorf("after Close there are %v", pids)
		}
	})
	return r, func() int {
		t.Helper()
		pids := helpers(name)
		if len(pids) != 1 {
			t.Fatalf("helpers: %v", pids)
		}
		return pids[0]
	}
}

// helpers returns the helper processes of an owner in this PID namespace.
func helpers(owner string) (pids []int) {
	ours, _ := os.Readlink("/proc/self/ns/pid")
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		env, err := os.ReadFile(path)
		at := filepath.Dir(path)
		line, _ := os.ReadFile(at + "/cmdline")
		if theirs, _ := os.Readlink(at + "/ns/pid"); err != nil || theirs != ours || string(line) != "toold-sandbox\x00" {
			continue
		}
		if bytes.Contains(env, []byte(sandbox.TagVariable+"="+owner+"/")) {
			pid, _ := strconv.Atoi(filepath.Base(at))
			pids = append(pids, pid)
		}
	}
	return pids
}

// pending is a run that waits for the end of its input.
type pending struct {
	exit *sandbox.Exit
	err  error
	out  screen
	end  func()
	done chan struct{}
}

// wait starts a script that prints "ready" and then reads its input to the end.
func wait(t *testing.T, r *sandbox.Runner, spec sandbox.Spec) *pending {
	t.Helper()
	in, w := io.Pipe()
	p := &pending{end: sync.OnceFunc(func() { w.Close() }), done: make(chan struct{})}
	spec.Stdin, spec.Output = in, p.out.output
	go func() {
		defer close(p.done)
		p.exit, p.err = r.Run(t.Context(), spec)
	}()
	t.Cleanup(func() { p.end(); <-p.done })
	until(t, "ready", func() bool { return strings.Contains(p.out.read("stdout"), "ready\n") })
	return p
}

func TestHelperIsReplaced(t *testing.T) {
	r, pid := resident(t)
	dir := t.TempDir()
	lasting := wait(t, r, confined(dir, "echo ready; cat; echo end"))
	first := pid()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit, out := run(t, r, confined(dir, "echo again")); exit.Code != 0 || out.read("stdout") != "again\n" {
		t.Errorf("after the helper was killed: %+v, %q", exit, out.read("stdout"))
	}
	if second := pid(); second == first {
		t.Error("no new helper")
	}
	lasting.end()
	<-lasting.done
	if lasting.err != nil || lasting.exit.Code != 0 || lasting.out.read("stdout") != "ready\nend\n" {
		t.Errorf("a run that outlived its helper: %+v, %v, %q", lasting.exit, lasting.err, lasting.out.read("stdout"))
	}
	mustBeConfirmed(t, lasting.exit)
}

// The test kills helpers all the time. It checks that each run is executed exactly once or refused.
func TestHelperIsKilledAllTheTime(t *testing.T) {
	r, _ := resident(t)
	name := fmt.Sprintf("%s-%s", owner(), t.Name())
	dir, stop, killed := t.TempDir(), make(chan struct{}), 0
	before := zombies() // Zombies that exist already may come from daemons that other tests killed.
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
			}
			for _, pid := range helpers(name) {
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed++
				}
			}
		}
	})
	done := 0
	for i := range 40 {
		exit, err := r.Run(t.Context(), confined(dir, "echo x >> ran"))
		refused := errors.As(err, new(*sandbox.RefusedError))
		switch {
		case err == nil && exit.Code == 0:
			done++
			mustBeConfirmed(t, exit)
		case !refused || exit != nil:
			t.Errorf("run %d: %+v, %v", i, exit, err)
		}
	}
	close(stop)
	killer.Wait()
	ran, _ := os.ReadFile(filepath.Join(dir, "ran"))
	if done != bytes.Count(ran, []byte("\n")) || killed == 0 {
		t.Errorf("%d runs reported, %d ran; %d helpers killed", done, bytes.Count(ran, []byte("\n")), killed)
	}
	t.Logf("%d of 40 ran, %d helpers were killed", done, killed)
	until(t, "the last helper to be waited for", func() bool {
		return len(slices.DeleteFunc(zombies(), func(z string) bool { return slices.Contains(before, z) })) == 0
	})
}

// zombies returns the unreaped children of this process.
func zombies() (found []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		line, _ := os.ReadFile(path)
		if _, rest, ok := strings.Cut(string(line), ") "); ok {
			if f := strings.Fields(rest); f[1] == strconv.Itoa(os.Getpid()) && f[0] == "Z" {
				found = append(found, strings.TrimSpace(string(line)))
			}
		}
	}
	return found
}

func TestRunsBesideEachOther(t *testing.T) {
	r, _ := resident(t)
	dir := t.TempDir()
	wait(t, r, confined(dir, "echo mine > /tmp/mark; echo mine > /dev/shm/mark; sleep 100 & echo ready; cat"))
	for _, tt := range []struct{ name, script string }{
		{"files", "ls /tmp /dev/shm | grep mark"},
		{"processes", "ls /proc | grep -c '^[0-9]' > n; [ $(cat n) -gt 4 ]"}, // process 1, bash and two processes of the pipeline
		{"signals", "kill -9 -1; for p in 1 $PPID; do kill -9 $p && exit 0; done; exit 1"},
		{"the helper", "grep -l 'toold-san[d]box' /proc/[2-9]*/cmdline; [ $? = 0 ]"},
		{"sockets", "exec 3<>/dev/tcp/127.0.0.1/9 && exit 0; exit 1"},
	} {
		if exit, out := run(t, r, confined(dir, tt.script)); exit.Code == 0 {
			t.Errorf("%s of another run: %q", tt.name, out.read("stdout"))
		}
	}
	namespaces := confined(dir, "cd /proc/self/ns; for n in cgroup ipc mnt net pid user uts; do readlink $n; done")
	_, a := run(t, r, namespaces)
	other := wait(t, r, confined(dir, "cd /proc/self/ns; for n in cgroup ipc mnt net pid user uts; do readlink $n; done; echo ready; cat"))
	_, b := run(t, r, namespaces)
	mine := strings.Fields(b.read("stdout"))
	for _, theirs := range strings.Fields(other.out.read("stdout")) {
		if slices.Contains(mine, theirs) {
			t.Errorf("two runs of one time share %s", theirs)
		}
	}
	if len(mine) != 7 || len(strings.Fields(a.read("stdout"))) != 7 {
		t.Errorf("namespaces: %q", mine)
	}
}

// The test checks that the helper's memory, which later runs get a copy of, contains no arguments or environment of an earlier run.
func TestHelperForgets(t *testing.T) {
	r, pid := resident(t)
	dir := t.TempDir()
	const canary = "canary-7d1f" // The search pattern ends with a digit, so that it does not match this constant in the test program.
	for i := range 20 {
		spec := confined(dir, fmt.Sprintf("echo %s-argument-%d >/dev/null", canary, i))
		spec.Env = append(spec.Env, fmt.Sprintf("SECRET=%s-variable-%d", canary, i))
		run(t, r, spec)
	}
	if found := searchMemory(t, pid(), canary+`-(argument|variable)-\d`); len(found) > 0 {
		t.Errorf("the helper keeps %q", found)
	}
	if len(searchMemory(t, pid(), "toold-sandbox")) == 0 && len(searchMemory(t, pid(), "sandbox helper")) == 0 {
		t.Error("nothing at all was found: the search is wrong")
	}
}

// searchMemory returns the matches in a process's readable memory. A pattern must begin with a literal, which makes the search fast.
func searchMemory(t *testing.T, pid int, pattern string) (found []string) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	search := regexp.MustCompile(pattern)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); n != 3 || !strings.HasPrefix(rights, "r") || to-from > 64<<20 {
			continue
		}
		part := make([]byte, to-from)
		n, _ := mem.ReadAt(part, from) // unreadable memory was never used
		for _, m := range search.FindAll(part[:n], -1) {
			found = append(found, string(m))
		}
	}
	return found
}

// Each run gets its own policy, whatever policies earlier runs had.
func TestPolicyChanges(t *testing.T) {
	r, pid := resident(t)
	dir, more := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(more, "file"), []byte("more"), 0o644); err != nil {
		t.Fatal(err)
	}
	try := "cat " + filepath.Join(more, "file") + "; echo x > file"
	for i, tt := range []struct {
		policy sandbox.Policy
		out    string
		code   int
	}{
		{sandbox.Policy{Workspace: dir}, "", 0},
		{sandbox.Policy{Workspace: dir, ReadOnly: true, Read: []string{more}}, "more", 1},
		{sandbox.Policy{Workspace: dir, Read: []string{more}, Hide: []string{filepath.Join(more, "file")}}, "", 0},
		{sandbox.Policy{Workspace: dir, Unsupervised: true}, "", 0},
		{sandbox.Policy{Workspace: dir, ReadOnly: true}, "", 1},
	} {
		spec := bash(dir, try)
		spec.Policy = &tt.policy
		if exit, out := run(t, r, spec); exit.Code != tt.code || out.read("stdout") != tt.out {
			t.Errorf("policy %d: code %d, output %q, %q", i, exit.Code, out.read("stdout"), out.read("stderr"))
		}
	}
	pid() // This fails unless all runs used one helper.
}

// The test checks that many runs leak nothing (T93). It makes 1,000 runs in the nightly tests and 240 otherwise.
func TestHelperLeaksNothing(t *testing.T) {
	runs := 240
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		runs = 1000
	}
	r, pid := resident(t)
	dir := t.TempDir()
	spec := sandbox.Spec{Path: "/bin/true", Dir: dir, Policy: &sandbox.Policy{Workspace: dir}, Output: func(string, []byte) error { return nil }}
	many := func(n int) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range n / 4 {
					if exit, err := r.Run(t.Context(), spec); err != nil || exit.Code != 0 || len(exit.Unverified) > 0 {
						t.Errorf("%+v, %v", exit, err)
						return
					}
				}
			})
		}
		group.Wait()
	}
	many(20)
	helper, before := pid(), held(t, pid())
	many(runs)
	if pid() != helper {
		t.Error("the helper was replaced")
	}
	slack := map[string]int{"namespaces of net": runs / 3, "descriptors of this process": 10, "threads of the helper": 16} // the Go runtime may start a few threads
	var grown string
	for range 100 { // The loop waits, because kernel namespaces end a little after their processes, and file descriptors are closed a little after Run returns.
		grown = ""
		for name, n := range held(t, helper) {
			if n > before[name]+slack[name] {
				grown += fmt.Sprintf("%s: %d, were %d\n", name, n, before[name])
			}
		}
		if grown == "" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error(grown)
}

// held counts resources that could leak. Only root can read the counts for the whole machine.
func held(t *testing.T, helper int) map[string]int {
	t.Helper()
	count := func(path string) int {
		list, err := os.ReadDir(path)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	lines := func(path string) int {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte("\n"))
	}
	h := map[string]int{
		"descriptors of the helper":   count(fmt.Sprintf("/proc/%d/fd", helper)),
		"threads of the helper":       count(fmt.Sprintf("/proc/%d/task", helper)),
		"descriptors of this process": count("/proc/self/fd"),
		"mounts of the helper":        lines(fmt.Sprintf("/proc/%d/mountinfo", helper)),
	}
	if slabs, err := os.ReadFile("/proc/slabinfo"); err == nil && os.Getenv("TOOLD_NIGHTLY") != "" { // only in the nightly tests, because otherwise other tests create kernel namespaces at the same time
		for line := range strings.Lines(string(slabs)) {
			if f := strings.Fields(line); f[0] == "net_namespace" {
				h["namespaces of net"], _ = strconv.Atoi(f[1])
			}
		}
	}
	return h
}
