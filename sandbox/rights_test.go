package sandbox_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox"
)

// attackModes tries to create programs that run with their owner's rights. It also makes calls that must still work.
func attackModes() {
	report := func(name string, errno error) { fmt.Println(name, errorName(errno)) }
	result := func(errno syscall.Errno) error {
		if errno != 0 {
			return errno
		}
		return nil
	}
	path, _ := unix.BytePtrFromString("f")
	at := uintptr(unsafe.Pointer(path))
	here := ^uintptr(99) // AT_FDCWD
	report("plain", os.WriteFile("f", nil, 0o755))
	report("plain mode", unix.Chmod("f", 0o700))
	report("directory", unix.Mkdir("d", 0o700))
	report("!group of a directory", unix.Chmod("d", 0o2770))
	capability := append([]byte{0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff}, make([]byte, 12)...) // struct vfs_cap_data, version 2
	report("!file capabilities", unix.Setxattr("f", "security.capability", capability, 0))
	fd, err := unix.Open("f", unix.O_RDONLY, 0)
	report("open", err)
	for _, mode := range []uintptr{0o4755, 0o6755, 0o4000, 0o2755, 0o2644} {
		report("!fchmodat", unix.Fchmodat(unix.AT_FDCWD, "f", uint32(mode), 0))
		report("!fchmod", unix.Fchmod(fd, uint32(mode)))
		_, _, errno := syscall.RawSyscall6(unix.SYS_FCHMODAT2, here, at, mode, 0, 0, 0)
		report("!fchmodat2", result(errno))
	}
	for _, mode := range []uint32{0o4755, 0o2755} {
		_, err = unix.Openat(unix.AT_FDCWD, "s", unix.O_WRONLY|unix.O_CREAT, mode)
		report("!openat", err)
		_, err = unix.Open(".", unix.O_WRONLY|unix.O_TMPFILE, mode)
		report("!tmpfile", err)
		_, err = unix.Openat2(unix.AT_FDCWD, "s", &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT, Mode: uint64(mode)})
		report("!openat2", err)
		report("!mknodat", unix.Mknodat(unix.AT_FDCWD, "s", unix.S_IFREG|mode, 0))
	}
	attackOldModes(at, func(name string, errno syscall.Errno) { report(name, result(errno)) })
}

// The test checks that a command cannot leave a program in the workspace that runs with the daemon's user or group for every account on the
// machine (T03, T129).
func TestT129NoProgramsWithRights(t *testing.T) {
	r := open(t)
	for _, alone := range []bool{false, true} {
		spec := attacker(t, t.TempDir(), "modes")
		spec.Policy.Unsupervised = alone
		exit, out := run(t, r, spec)
		lines := strings.Split(strings.TrimSpace(out.read("stdout")), "\n")
		if exit.Code != 0 || len(lines) < 6+15+8 {
			t.Fatalf("%+v: %q %q", exit, lines, out.read("stderr"))
		}
		for _, line := range lines {
			must := "none"
			if line[0] == '!' {
				must = "operation not permitted"
				if strings.HasPrefix(line, "!openat2") {
					must = "function not implemented"
				}
			}
			if !strings.HasSuffix(line, " "+must) {
				t.Errorf("alone %t: %s", alone, line)
			}
		}
	}
}

// T03: without kernel namespaces, a process that runs as root is root of the machine, so it must have no capabilities.
func TestLandlockLeavesNoCapability(t *testing.T) {
	dir := t.TempDir()
	spec := confined(dir, `grep -c '^Cap[EPIA].*:.0000000000000000$' /proc/self/status; mknod disk b 254 0 2>/dev/null && echo made; grep NoNewPrivs /proc/self/status | cut -f2`)
	spec.Policy = &sandbox.Policy{Workspace: dir, Unsupervised: true}
	if _, out := run(t, open(t), spec); out.read("stdout") != "4\n1\n" {
		t.Errorf("got %q, %q", out.read("stdout"), out.read("stderr"))
	}
}
