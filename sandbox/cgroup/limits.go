package cgroup

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// defaultPeriod is the kernel's default for the period in which a CPU limit is enforced.
const defaultPeriod = 100 * time.Millisecond

// files contains the names of a group's files. cgroup version 1 and version 2 use different names.
type files struct {
	memory, swap, pids string
	held               string // file with the number of bytes of memory that the group uses now
	kills              string // file with a line that begins with oom_kill
}

func (p *location) files() files {
	if p.version == 2 {
		return files{memory: "memory.max", swap: "memory.swap.max", pids: "pids.max", held: "memory.current", kills: "memory.events"}
	}
	return files{
		memory: "memory.limit_in_bytes", swap: "memory.memsw.limit_in_bytes", pids: "pids.max", held: "memory.usage_in_bytes", kills: "memory.oom_control",
	}
}

func (g *Group) path(controller, file string) string {
	return filepath.Join(g.location.dirs[controller], g.name, file)
}

func (g *Group) has(controller string) bool {
	_, ok := g.location.dirs[controller]
	return ok
}

// apply sets the limits that have changed.
func (g *Group) apply(l Limits) error {
	was := g.limits
	g.limits = Limits{Memory: -1} // While apply runs, and after it fails, the limits of the group are unknown. No caller asks for -1, so take does not prefer this group.
	if g.has(Memory) && l.Memory != was.Memory {
		if err := g.applyMemory(l.Memory, was.Memory); err != nil {
			return err
		}
	}
	if g.has(CPU) && (l.CPUs != was.CPUs || l.Period != was.Period) {
		if err := g.applyCPU(l.CPUs, cmp.Or(l.Period, defaultPeriod), cmp.Or(was.Period, defaultPeriod)); err != nil {
			return err
		}
	}
	if g.has(PIDs) && l.Processes != was.Processes {
		if err := write(g.path(PIDs, g.location.files().pids), orMax(int64(l.Processes), "max")); err != nil {
			return err
		}
	}
	g.limits = l
	return nil
}

func orMax(n int64, most string) string {
	if n <= 0 {
		return most
	}
	return strconv.FormatInt(n, 10)
}

// applyMemory limits memory and swap together. In version 1, the limit of memory plus swap must never be below the limit of memory, so the
// order of the two writes matters.
func (g *Group) applyMemory(to, was int64) error {
	f := g.location.files()
	if g.location.version == 2 {
		return errors.Join(write(g.path(Memory, f.memory), orMax(to, "max")), missing(write(g.path(Memory, f.swap), "0")))
	}
	memory := func() error { return write(g.path(Memory, f.memory), orMax(to, "-1")) }
	both := func() error { return missing(write(g.path(Memory, f.swap), orMax(to, "-1"))) }
	if was > 0 && (to <= 0 || to > was) {
		memory, both = both, memory
	}
	if err := memory(); err != nil {
		return err
	}
	return both()
}

// missing returns nil when err says that a file is missing, because a kernel without swap accounting has no file for the swap limit.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (g *Group) applyCPU(cpus float64, period, was time.Duration) error {
	micros := period.Microseconds()
	quota := int64(cpus * float64(micros))
	if g.location.version == 2 {
		return write(g.path(CPU, "cpu.max"), orMax(quota, "max")+" "+strconv.FormatInt(micros, 10))
	}
	if period != was {
		err := write(g.path(CPU, "cpu.cfs_quota_us"), "-1") // The quota is removed first, because the old quota may be too large for the new period.
		if err = errors.Join(err, write(g.path(CPU, "cpu.cfs_period_us"), strconv.FormatInt(micros, 10))); err != nil {
			return err
		}
	}
	return write(g.path(CPU, "cpu.cfs_quota_us"), orMax(quota, "-1"))
}

// read returns the counters of the group. The counters start at zero when the group is created.
func (g *Group) read() (u Usage, err error) {
	if g.has(Memory) {
		if u.OOMKills, err = g.field(Memory, g.location.files().kills, "oom_kill"); err != nil {
			return u, err
		}
	}
	if g.has(PIDs) {
		if u.Refused, err = g.field(PIDs, "pids.events", "max"); err != nil {
			return u, err
		}
	}
	if g.has(CPU) {
		if u.Throttled, err = g.field(CPU, "cpu.stat", "nr_throttled"); err != nil {
			return u, err
		}
	}
	var spent int64
	switch {
	case g.has(usage):
		spent, err = g.number(usage, "cpuacct.usage")
	case g.has(CPU) && g.location.version == 2:
		spent, err = g.field(CPU, "cpu.stat", "usage_usec")
		spent *= 1000
	}
	u.CPU = time.Duration(spent)
	return u, err
}

// text returns the current content of a kernel file.
func (g *Group) text(controller, name string) (string, error) {
	file, err := g.open(g.path(controller, name), os.O_RDONLY)
	if err != nil {
		return "", err
	}
	var buf [4096]byte
	n, err := file.ReadAt(buf[:], 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(buf[:n]), err
}

func (g *Group) number(controller, file string) (int64, error) {
	text, err := g.text(controller, file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
}

// field returns the number that follows a name in a file. It returns 0 when the file does not contain the name.
func (g *Group) field(controller, file, name string) (int64, error) {
	text, err := g.text(controller, file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, nil
}
