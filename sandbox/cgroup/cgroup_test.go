package cgroup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/sandbox/cgroup"
)

const mountinfo = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/ab /sys/fs/cgroup/mem\040ory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
short line
`

func TestMountsAndOwn(t *testing.T) {
	mounts := cgroup.ParseMounts(mountinfo)
	own := cgroup.ParseOwn("4:memory:/docker/ab/c\n2:cpu,cpuacct:/a:b\n0::/system.slice/toold.service/daemon\nbad\n")
	if len(mounts) != 3 {
		t.Fatalf("%+v", mounts)
	}
	for i, want := range []string{"/sys/fs/cgroup/cpu,cpuacct/a:b", "/sys/fs/cgroup/mem ory/c", "/sys/fs/cgroup/unified/system.slice/toold.service/daemon"} {
		if got := mounts[i].Dir(own[[]string{"cpuacct", "memory", ""}[i]]); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	if got := mounts[1].Dir("/docker/other"); got != "" {
		t.Errorf("a group that the mount does not show is at %q", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(mountinfo, "4:memory:/docker/ab/c\n0::/../..\n")
	f.Fuzz(func(t *testing.T, mountinfo, own string) {
		groups := cgroup.ParseOwn(own)
		for _, m := range cgroup.ParseMounts(mountinfo) {
			for _, group := range groups {
				if dir := m.Dir(group); dir != "" && dir != filepath.Clean(m.At) && !strings.HasPrefix(dir, strings.TrimSuffix(filepath.Clean(m.At), "/")+"/") && filepath.IsAbs(m.At) {
					t.Errorf("%q leads out of %q: %q", group, m.At, dir)
				}
			}
		}
	})
}

func open(t *testing.T, owner string, pid int) *cgroup.Pool {
	t.Helper()
	p := cgroup.Open(cgroup.Config{Owner: owner, PID: pid, Start: 1})
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// The test checks that two pools of the same process and owner do not use or remove each other's groups.
func TestTwoPools(t *testing.T) {
	a, b := open(t, t.Name(), 7), open(t, t.Name(), 7)
	for _, p := range []*cgroup.Pool{a, b} {
		g, err := p.Get(cgroup.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Put(g)
	}
	if n := a.Sweep(func(int, uint64) bool { return false }); n != 0 {
		t.Errorf("one swept %d of the other's", n)
	}
}

// TestPool checks that Get returns a group again that was put back. On a machine without groups, Has gives a reason for each controller,
// and all other methods do nothing.
func TestPool(t *testing.T) {
	p := open(t, t.Name(), os.Getpid())
	t.Logf("here is %q", p.Mechanism())
	for _, name := range []string{cgroup.Memory, cgroup.CPU, cgroup.PIDs} {
		if have, why := p.Has(name); have != (why == "") {
			t.Errorf("%s: %t, %q", name, have, why)
		}
	}
	limits := cgroup.Limits{Memory: 64 << 20, CPUs: 0.5, Processes: 100}
	g, err := p.Get(limits)
	if err != nil || (g == nil) != (p.Mechanism() == "") {
		t.Fatalf("%v, %v", g, err)
	}
	p.Put(g)
	again, err := p.Get(limits)
	if err != nil || again != g {
		t.Errorf("it is not used again: %v, %v", again, err)
	}
	if u := again.Usage(); u.OOMKills+u.Throttled+u.Refused != 0 {
		t.Errorf("usage of nothing: %+v", u)
	}
	p.Put(again)
}

// The test checks that Get never returns a group that another program has removed, even if only in one hierarchy.
func TestRemovedGroups(t *testing.T) {
	p := open(t, t.Name(), os.Getpid())
	if p.Mechanism() == "" {
		t.Logf("no groups here: %v", p)
		return
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	own, removed := cgroup.ParseOwn(string(groups)), 0
	for _, m := range cgroup.ParseMounts(string(mountinfo)) {
		g, err := p.Get(cgroup.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		p.Put(g)
		for _, option := range m.Options {
			dirs, _ := filepath.Glob(filepath.Join(m.Dir(own[option]), "toold-"+t.Name()+"-*"))
			for _, dir := range dirs {
				if os.Remove(dir) == nil {
					removed++
				}
			}
		}
		child := exec.Command("sleep", "60")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		g, err = p.Get(cgroup.Limits{})
		if err == nil {
			err = g.Add(child.Process.Pid)
		}
		if err != nil || len(g.Members()) != 1 {
			t.Errorf("without the one in %s: %v, members %v", m.At, err, g.Members())
		}
		_ = child.Process.Kill()
		_ = child.Wait()
		p.Put(g)
	}
	if removed == 0 {
		t.Error("nothing was removed")
	}
}

// Sweep removes groups of an owner's dead processes and keeps those of living processes and other owners.
func TestSweep(t *testing.T) {
	mine := open(t, t.Name(), 1)
	for _, other := range []*cgroup.Pool{open(t, t.Name(), 2), open(t, t.Name(), 3), open(t, t.Name()+"-2.1", 2)} {
		g, err := other.Get(cgroup.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		other.Put(g)
	}
	want := 1
	if mine.Mechanism() == "" {
		want = 0
	}
	alive := func(pid int, _ uint64) bool { return pid == 3 }
	if n := mine.Sweep(alive); n != want {
		t.Errorf("%d removed, not %d", n, want)
	}
	if n := mine.Sweep(alive); n != 0 {
		t.Errorf("%d more", n)
	}
}

func TestStrangeOwnersHaveNone(t *testing.T) {
	for _, owner := range []string{"a\nb", "a/b", strings.Repeat("x", 300)} {
		p := open(t, owner, 1)
		if have, why := p.Has(cgroup.Memory); have || why == "" || p.Mechanism() != "" {
			t.Errorf("%.9q: %t, %q", owner, have, why)
		}
	}
}
