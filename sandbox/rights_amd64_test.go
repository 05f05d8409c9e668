package sandbox_test

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attackOldModes tries the older calls that set a mode, which only amd64 has.
func attackOldModes(path uintptr, report func(string, syscall.Errno)) {
	for _, mode := range []uintptr{0o4755, 0o6755, 0o2755} {
		_, _, errno := syscall.RawSyscall(unix.SYS_CHMOD, path, mode, 0)
		report("!chmod", errno)
		_, _, errno = syscall.RawSyscall(unix.SYS_CREAT, path, mode, 0)
		report("!creat", errno)
		_, _, errno = syscall.RawSyscall(unix.SYS_OPEN, path, unix.O_WRONLY|unix.O_CREAT, mode)
		report("!open", errno)
		_, _, errno = syscall.RawSyscall(unix.SYS_MKNOD, path, unix.S_IFREG|mode, 0)
		report("!mknod", errno)
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_OPEN, path, unix.O_RDONLY, 0o6755) // without O_CREAT the call ignores its mode
	report("open", errno)
}
