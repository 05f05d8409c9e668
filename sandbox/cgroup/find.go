package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A location is the set of directories in which groups are created.
type location struct {
	version int
	dirs    map[string]string // the directory for each controller
	parents []string          // the values of dirs without duplicates
	why     string            // reason when no controller is available
	missing map[string]string // reasons for single controllers that are not available
}

// A Mount is a hierarchy of control groups as this process sees it.
type Mount struct {
	Version int
	Root    string   // the group that the mount point shows
	At      string   // the mount point
	Options []string // mount options; for version 1, they include the controllers
}

// ParseMounts returns the control group hierarchies in a text like /proc/self/mountinfo.
func ParseMounts(text string) (mounts []Mount) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(rest) < 3 {
			continue
		}
		m := Mount{Root: unescape(fields[3]), At: unescape(fields[4]), Options: strings.Split(rest[2], ",")}
		switch rest[0] {
		case "cgroup":
			m.Version = 1
		case "cgroup2":
			m.Version = 2
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// unescape decodes the octal escapes in a path.
func unescape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if n, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// ParseOwn parses a text like /proc/self/cgroup and returns the group for each controller. The version 2 group has the key "".
func ParseOwn(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			own[name] = parts[2]
		}
	}
	return own
}

// Dir returns the directory of a group, or "" when the mount does not contain the group.
func (m Mount) Dir(group string) string {
	inside, err := filepath.Rel(m.Root, group)
	if err != nil || !filepath.IsLocal(inside) {
		return ""
	}
	return filepath.Join(m.At, inside)
}

// MemoryLimit returns the smallest memory limit, in bytes, of this process's groups and their ancestors. It is 0 without a limit.
func MemoryLimit() (least int64) {
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo") // Without /proc, no limit is found.
	groups, _ := os.ReadFile("/proc/self/cgroup")
	own := ParseOwn(string(groups))
	for _, m := range ParseMounts(string(mountinfo)) {
		dir, file := m.Dir(own[""]), "memory.max"
		if m.Version == 1 {
			dir, file = m.Dir(own[Memory]), "memory.limit_in_bytes"
		}
		if dir == "" {
			dir = m.At
		}
		for ; len(dir) >= len(m.At); dir = filepath.Dir(dir) {
			text, err := os.ReadFile(filepath.Join(dir, file))
			n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && bad == nil && n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
	}
	return least
}

// find looks for a directory in which groups can be created. It tests a directory by creating and removing a group with the name probe.
func find(parent, probe string) location {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return location{why: err.Error()}
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return location{why: err.Error()}
	}
	mounts, own := ParseMounts(string(mountinfo)), ParseOwn(string(groups))
	second := findSecond(mounts, own, parent, probe)
	if len(second.dirs) > 0 || parent != "" {
		return second
	}
	first := findFirst(mounts, own, probe)
	if len(first.dirs) > 0 {
		return first
	}
	return location{why: second.why + first.why}
}

// findFirst returns this process's own groups of version 1, in which new groups can be created. Only in version 1 may a group contain both
// processes and child groups.
func findFirst(mounts []Mount, own map[string]string, probe string) location {
	p := location{version: 1, dirs: map[string]string{}, missing: map[string]string{}}
	for _, m := range mounts {
		if m.Version != 1 {
			continue
		}
		for _, controller := range []string{Memory, CPU, PIDs, usage} {
			if !slices.Contains(m.Options, controller) || p.dirs[controller] != "" {
				continue
			}
			dir := m.Dir(own[controller])
			if dir == "" {
				p.missing[controller] = "the daemon's own group of version 1 is not mounted"
				continue
			}
			if err := tryOut(dir, probe, needed(1, controller)...); err != nil {
				p.missing[controller] = fmt.Sprintf("cannot create a group of version 1: %v", err)
				continue
			}
			p.dirs[controller] = dir
			if !slices.Contains(p.parents, dir) {
				p.parents = append(p.parents, dir)
			}
		}
	}
	for _, controller := range []string{Memory, CPU, PIDs} {
		if p.dirs[controller] == "" && p.missing[controller] == "" {
			p.missing[controller] = "no hierarchy of version 1 has the controller " + controller
		}
		if p.dirs[controller] == "" {
			p.why += "; " + p.missing[controller]
		}
	}
	if p.dirs[Memory]+p.dirs[CPU]+p.dirs[PIDs] == "" {
		p.dirs = nil
	}
	return p
}

// needed returns the files by which a controller limits and counts. Some kernels do not have all of them; for example, the CPU quota is a
// build option.
func needed(version int, controller string) []string {
	if version == 2 {
		return map[string][]string{Memory: {"memory.max", "memory.events"}, CPU: {"cpu.max", "cpu.stat"}, PIDs: {"pids.max", "pids.events"}}[controller]
	}
	return map[string][]string{
		Memory: {"memory.limit_in_bytes", "memory.oom_control"}, CPU: {"cpu.cfs_quota_us", "cpu.stat"}, PIDs: {"pids.max", "pids.events"},
		usage: {"cpuacct.usage"},
	}[controller]
}

// tryOut creates a group, checks that it accepts processes and has the files, and removes it.
func tryOut(dir, probe string, files ...string) error {
	path := filepath.Join(dir, probe)
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	err := unix.Access(filepath.Join(path, "cgroup.procs"), unix.W_OK)
	// In version 2, a child of a threaded group cannot contain processes.
	if kind, readErr := os.ReadFile(filepath.Join(path, "cgroup.type")); readErr == nil && strings.TrimSpace(string(kind)) != "domain" {
		err = fmt.Errorf("it would be of the type %q", strings.TrimSpace(string(kind)))
	}
	for _, file := range files {
		if err == nil {
			if _, err = os.Stat(filepath.Join(path, file)); err != nil {
				err = fmt.Errorf("this kernel has no %s", file)
			}
		}
	}
	return errors.Join(err, os.Remove(path))
}

// findSecond looks for a version 2 group in which new groups can be created. The daemon's own group is not possible, because a group with
// processes cannot enable controllers for its children. So findSecond uses parent. When parent is empty, it uses the group above the
// daemon's own group, which must be delegated to the daemon.
func findSecond(mounts []Mount, own map[string]string, parent, probe string) location {
	p := location{version: 2, dirs: map[string]string{}, missing: map[string]string{}}
	if parent == "" {
		at := slices.IndexFunc(mounts, func(m Mount) bool { return m.Version == 2 })
		if at < 0 {
			p.why = "version 2 is not mounted"
			return p
		}
		dir := mounts[at].Dir(own[""])
		switch {
		case dir == "":
			p.why = "the daemon's own group of version 2 is not mounted"
			return p
		case dir == mounts[at].At:
			p.why = "the daemon is in the root group of version 2, which cannot be delegated"
			return p
		}
		parent = filepath.Dir(dir)
		if !delegated(parent) {
			p.why = fmt.Sprintf("the group of version 2 above the daemon's own (%s) is not delegated to it (systemd: Delegate=yes with DelegateSubgroup=)", parent)
			return p
		}
	}
	have, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		p.why = err.Error()
		return p
	}
	if err := tryOut(parent, probe); err != nil {
		p.why = fmt.Sprintf("cannot create a group of version 2: %v", err)
		return p
	}
	control := filepath.Join(parent, "cgroup.subtree_control")
	for _, controller := range []string{Memory, CPU, PIDs} {
		if !slices.Contains(strings.Fields(string(have)), controller) {
			p.missing[controller] = fmt.Sprintf("the group of version 2 (%s) does not have the controller %s", parent, controller)
		} else if err := enable(control, controller); err != nil {
			p.missing[controller] = fmt.Sprintf("the controller %s cannot be used: %v", controller, err)
		} else if err := tryOut(parent, probe, needed(2, controller)...); err != nil {
			p.missing[controller] = fmt.Sprintf("the controller %s cannot be used: %v", controller, err)
		} else {
			p.dirs[controller], p.parents = parent, []string{parent}
			continue
		}
		p.why = p.missing[controller]
	}
	return p
}

// enable makes a controller available in child groups, if it is not yet.
func enable(control, controller string) error {
	now, err := os.ReadFile(control)
	if err != nil || slices.Contains(strings.Fields(string(now)), controller) {
		return err
	}
	err = write(control, "+"+controller)
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%w: the group has processes of its own", err)
	}
	return err
}

// delegated reports whether this process may use a group: systemd marked the group as delegated, or this process does not run as root and
// its user owns the group.
func delegated(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var value [8]byte
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() == 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
