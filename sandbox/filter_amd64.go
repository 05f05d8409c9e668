package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_X86_64
	x32Bit     = 0x40000000
	newestCall = unix.SYS_MSEAL
)

// archCalls returns allowed calls that only amd64 has. They are older forms of the common ones.
func archCalls() []uint32 {
	return []uint32{
		unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHOWN, unix.SYS_DUP2, unix.SYS_EPOLL_CREATE,
		unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_FORK, unix.SYS_FUTIMESAT, unix.SYS_GETDENTS, unix.SYS_GETPGRP, unix.SYS_GET_THREAD_AREA,
		unix.SYS_INOTIFY_INIT, unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_LSTAT, unix.SYS_MKDIR, unix.SYS_NEWFSTATAT, unix.SYS_PAUSE, unix.SYS_PIPE, unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_RENAME, unix.SYS_RMDIR, unix.SYS_SELECT, unix.SYS_SET_THREAD_AREA,
		unix.SYS_SIGNALFD, unix.SYS_STAT, unix.SYS_SYMLINK, unix.SYS_TIME, unix.SYS_UNLINK, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_VFORK,
	}
}

// archModes maps calls that only amd64 has to the index of their mode argument.
func archModes() map[uint32]uint32 {
	return map[uint32]uint32{unix.SYS_CHMOD: 1, unix.SYS_CREAT: 1, unix.SYS_MKNOD: 1}
}

// archOpens maps amd64 calls that may create a file to the index of their flags argument.
func archOpens() map[uint32]uint32 { return map[uint32]uint32{unix.SYS_OPEN: 1} }
