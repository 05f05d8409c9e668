package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sandbox/cgroup"
)

// The daemon takes its memory limit from GOMEMLIMIT, its control group or the machine, and GetInfo shows it.
func TestMemoryLimit(t *testing.T) {
	limit := func(t *testing.T, env string, through ...string) int64 {
		t.Setenv("GOMEMLIMIT", env)
		s := newSite(t, bashAllowed)
		s.through = through
		info, err := s.start().admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
		must(t, err)
		return info.GetLimits().GetMemory()
	}
	t.Run("machine", func(t *testing.T) {
		var info unix.Sysinfo_t
		must(t, unix.Sysinfo(&info))
		all := int64(info.Totalram) * int64(info.Unit)
		if n := limit(t, ""); n < 64<<20 || n > all/4*3 {
			t.Errorf("the limit is %d of %d bytes", n, all)
		}
	})
	t.Run("user", func(t *testing.T) {
		if n := limit(t, "300MiB"); n != 300<<20 {
			t.Errorf("the limit is %d bytes, want 300 MiB", n)
		}
	})
	t.Run("group", func(t *testing.T) {
		group := memoryGroup(t, 1<<30)
		if group == "" {
			t.Log("no group with a limit can be made on this machine")
			return
		}
		// Here the parent group has the limit, as with a systemd unit. The groups that the daemon creates below its own group are removed
		// together with it.
		if n := limit(t, "", "sh", "-c", `echo $$ > "$0/daemon/cgroup.procs" && exec "$@"`, group); n != 1<<30/4*3 {
			t.Errorf("the limit is %d bytes, want three quarters of 1 GiB", n)
		}
	})
}

// memoryGroup creates a control group with a limit and a group "daemon" below it. It returns "" on a machine that cannot create one.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	groups, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	own := cgroup.ParseOwn(string(groups))
	for _, m := range cgroup.ParseMounts(string(mountinfo)) {
		at, file := filepath.Dir(m.Dir(own[""])), "memory.max" // Use the parent group: a version 2 group that contains processes cannot pass controllers to its subgroups.
		if m.Version == 1 {
			if !slices.Contains(m.Options, cgroup.Memory) {
				continue
			}
			at, file = m.Dir(own[cgroup.Memory]), "memory.limit_in_bytes"
		}
		dir := filepath.Join(at, fmt.Sprintf("toold-%s-%d", filepath.Base(t.Name()), os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Logf("%s: %v", m.At, err)
			continue
		}
		t.Cleanup(func() {
			eventually(t, "the groups are empty", func() bool {
				below, _ := filepath.Glob(filepath.Join(dir, "daemon", "toold-*")) // groups that the daemon creates for calls at its start
				for _, group := range append(below, filepath.Join(dir, "daemon")) {
					_ = os.Remove(group)
				}
				return os.Remove(dir) == nil
			})
		})
		must(t, os.Mkdir(filepath.Join(dir, "daemon"), 0o755))
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0); err != nil {
			t.Logf("%s: %v", dir, err)
			continue
		}
		if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil && string(bytes.TrimSpace(text)) == strconv.Itoa(limit) {
			return dir
		}
	}
	return ""
}
