package sandbox

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Numbers that package syscall lacks; the same on every architecture.
const (
	sysCloseRange       = 436
	closeRangeCloexec   = 4
	prSetChildSubreaper = 36
	prGetChildSubreaper = 37
	waitPID             = 1
	waitNoReap          = 0x01000000
)

// BecomeSubreaper makes the kernel hand orphans among the descendants of this process to it instead of to init, so that
// a daemon that forked away is found and waited for. Called from main, before the first run.
func BecomeSubreaper() error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("become subreaper: %w", errno)
	}
	return nil
}

// adoptsOrphans reports whether orphans among our descendants become our children.
func adoptsOrphans() bool {
	var on int32
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prGetChildSubreaper, uintptr(unsafe.Pointer(&on)), 0, 0, 0, 0)
	return errno == 0 && on != 0 || os.Getpid() == 1
}

// closeOnExec keeps every descriptor but 0, 1 and 2 from children. Go opens with O_CLOEXEC, but the daemon may have
// been given descriptors that are not.
func closeOnExec() error {
	if _, _, errno := syscall.RawSyscall(sysCloseRange, 3, ^uintptr(0)>>32, closeRangeCloexec); errno != 0 {
		return errno
	}
	return nil
}

// awaitEnd blocks until the child pid has ended and leaves it unreaped, so that its number, which is also that of its
// group and its session, can go to nobody else while the run is cleaned up.
func awaitEnd(pid int) error {
	for {
		var info [16]uint64 // siginfo_t, unused
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, waitPID, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			syscall.WEXITED|waitNoReap, 0, 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return fmt.Errorf("wait for process %d: %w", pid, errno)
		}
	}
}

func signalName(s syscall.Signal) string {
	names := [...]string{
		1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
		11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP",
		20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH",
		29: "IO", 30: "PWR", 31: "SYS",
	}
	if s > 0 && int(s) < len(names) {
		return "SIG" + names[s]
	}
	return fmt.Sprintf("SIG%d", int(s))
}
