package sandbox

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Constants that package syscall lacks. They are the same on every architecture.
const (
	sysCloseRange       = 436
	closeRangeCloexec   = 4
	prSetChildSubreaper = 36
	prGetChildSubreaper = 37
	waitPID             = 1
	waitNoReap          = 0x01000000
)

// BecomeSubreaper makes the kernel reparent orphaned descendants to this process instead of init. The Runner can then find and reap a
// daemonized process. Call it from main, before the first run.
func BecomeSubreaper() error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("become subreaper: %w", errno)
	}
	return nil
}

// adoptsOrphans reports whether orphaned descendants become children of this process.
func adoptsOrphans() bool {
	var on int32
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prGetChildSubreaper, uintptr(unsafe.Pointer(&on)), 0, 0, 0, 0)
	return errno == 0 && on != 0 || os.Getpid() == 1
}

// closeOnExec sets O_CLOEXEC on every file descriptor above 2. Go opens files with this flag, but the daemon may have inherited file
// descriptors without it.
func closeOnExec() error {
	if _, _, errno := syscall.RawSyscall(sysCloseRange, 3, ^uintptr(0)>>32, closeRangeCloexec); errno != 0 {
		return errno
	}
	return nil
}

// awaitEnd waits until the child process pid has ended, but does not reap it. Until the child is reaped, the kernel cannot reuse its
// number, which is also the number of its group and session. So the number stays valid while the run is cleaned up.
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
