package cgroup_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox/cgroup"
)

// started returns the start time of this process. Other sweeps at the same time keep groups with this start time.
func started(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, fields, _ := strings.Cut(string(text), ") ")
	start, err := strconv.ParseUint(strings.Fields(fields)[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return start
}

// The test checks that an empty group of another owner is removed when no living process has the start time in the group's name. Other
// groups stay.
func TestSweepStrangers(t *testing.T) {
	dead := uint64(1)<<40 + uint64(os.Getpid()) // no process of the machine has this start time
	other := cgroup.Open(cgroup.Config{Owner: t.Name() + "-2.1", PID: 2, Start: dead})
	defer other.Close()
	mine := open(t, t.Name(), 1)
	if mine.Mechanism() == "" {
		return // TestPool checks the reason on such a machine.
	}
	held, err := other.Get(cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	empty, err := other.Get(cgroup.Limits{Processes: 9})
	if err != nil {
		t.Fatal(err)
	}
	other.Put(empty)
	child := exec.Command("/bin/sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait(); other.Put(held) }()
	if err := held.Add(child.Process.Pid); err != nil {
		t.Fatal(err)
	}
	asked := 0
	but := func(start uint64) func() (func(uint64) bool, error) {
		return func() (func(uint64) bool, error) {
			asked++
			return func(s uint64) bool { return s != start }, nil
		}
	}
	sweep := func(what string, age time.Duration, listAlive func() (func(uint64) bool, error), want int) {
		t.Helper()
		if n, err := mine.SweepStrangers(age, listAlive); err != nil || n != want {
			t.Errorf("%s: %d removed, not %d: %v", what, n, want, err)
		}
	}
	sweep("too young", time.Hour, but(dead), 0)
	sweep("their maker is alive", 0, but(0), 0)
	if n, err := mine.SweepStrangers(0, func() (func(uint64) bool, error) { return nil, os.ErrInvalid }); err == nil || n != 0 {
		t.Errorf("without a census %d are removed: %v", n, err)
	}
	sweep("dead", 0, but(dead), 1)
	if len(held.Members()) != 1 || asked == 0 {
		t.Error("the group with a process is not there")
	}
	again, err := other.Get(cgroup.Limits{Processes: 9})
	if err != nil {
		t.Errorf("who lost one has no other: %v", err)
	}
	other.Put(again)
}

// The test uses groups of version 2 that accept no processes. It checks that the Pool does not use them and that Has returns the reason.
func TestGroupsThatNobodyMayEnter(t *testing.T) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	mounts := cgroup.ParseMounts(string(text))
	at := slices.IndexFunc(mounts, func(m cgroup.Mount) bool { return m.Version == 2 })
	if at < 0 {
		t.Log("no version 2 here")
		return
	}
	parent := filepath.Join(mounts[at].At, fmt.Sprintf("%s-%d", t.Name(), os.Getpid()))
	for _, dir := range []string{parent, filepath.Join(parent, "threads")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Logf("no group of version 2 here: %v", err)
			return
		}
		defer os.Remove(dir)
	}
	if err := os.WriteFile(filepath.Join(parent, "threads", "cgroup.type"), []byte("threaded"), 0); err != nil {
		t.Fatal(err)
	}
	p := cgroup.Open(cgroup.Config{Owner: t.Name(), PID: os.Getpid(), Start: started(t), Parent: parent})
	defer p.Close()
	if have, why := p.Has(cgroup.PIDs); have || !strings.Contains(why, "domain invalid") {
		t.Errorf("%t, %q", have, why)
	}
	if left, err := os.ReadDir(parent); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.IsDir() && e.Name() != "threads" }) {
		t.Errorf("the try left something: %v, %v", left, err)
	}
}
