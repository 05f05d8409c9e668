package sandbox_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox"
)

// The test checks each layer of isolation alone. A test of two layers together would not notice that one of them is missing.
func TestEachLayerIsThere(t *testing.T) {
	r, dir := open(t), t.TempDir()
	_, out := run(t, r, confined(dir, `
		while read -r _ _ _ _ at options _; do echo "mount $at $options"; done < /proc/self/mountinfo
		for n in cgroup ipc mnt net pid user uts; do echo "namespace $n $(readlink /proc/self/ns/$n)"; done
		ls /proc/1/fd >/dev/null 2>&1 && readlink /proc/1/fd/* && echo "descriptors of process 1"
		kill -0 1 2>/dev/null && echo "signal to process 1"`))
	text := out.read("stdout")
	options := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case fields[0] == "mount":
			options[fields[1]] = "," + fields[2] + ","
		case fields[0] == "namespace":
			if ours, err := os.Readlink("/proc/self/ns/" + fields[1]); err != nil || len(fields) < 3 || fields[2] == ours {
				t.Errorf("%s is not of its own, %v", fields[1], err)
			}
		case fields[0] == "signal" && landlock() < 6: // Landlock before version 6 does not restrict signals
		default:
			t.Error(strings.TrimSpace(line))
		}
	}
	for at, want := range map[string]string{
		"/": "ro nosuid nodev", "/usr": "ro nosuid nodev", "/etc/passwd": "ro nosuid nodev", "/proc": "ro nosuid nodev noexec", dir: "nosuid nodev",
		"/tmp": "nosuid nodev", "/dev/shm": "nosuid nodev", "/dev/pts": "nosuid noexec", "/dev/null": "nosuid noexec",
	} {
		for option := range strings.FieldsSeq(want) {
			if !strings.Contains(options[at], ","+option+",") {
				t.Errorf("%s is not %s: %q", at, option, options[at])
			}
		}
	}
	if roots := strings.Count(text, "mount / "); roots != 1 {
		t.Errorf("%d roots: the machine's is one of them", roots)
	}
	spec := confined(t.TempDir(), `(exec 3<>f) && echo written`)
	spec.Policy = &sandbox.Policy{Workspace: spec.Dir, ReadOnly: true}
	if _, out := run(t, r, spec); out.read("stdout") != "" {
		t.Errorf("read-only workspace: %q", out.read("stdout"))
	}
}

func landlock() int {
	v, _, _ := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return int(v)
}
