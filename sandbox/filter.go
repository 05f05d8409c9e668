package sandbox

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets of the fields in struct seccomp_data. Arguments have 64 bits. Both architectures store the low half first.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
)

const namespaceFlags = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID |
	unix.CLONE_NEWUSER | unix.CLONE_NEWUTS

// typeOfSocket masks the socket type in an argument that also contains flags.
const typeOfSocket = 0xf

func refuseWith(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

var (
	allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	kill  = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
)

// socketKinds says which sockets a command may create.
type socketKinds int

const (
	unixSockets socketKinds = iota
	unixPairs               // IP and routing sockets, and connected pairs of unix sockets, which cannot reach a path
	pairsAlone              // connected pairs of unix sockets only
)

// filter returns the seccomp program, in the kernel's format, for the system calls that a command may make. The kernel refuses an unlisted
// call with EPERM. It refuses a call that is newer than the list with ENOSYS, so that programs fall back to an older call. A call of
// another architecture (int 0x80, x32) kills the process.
func filter(sockets socketKinds) ([]byte, error) {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		kill,
		bpf.LoadAbsolute{Off: dataNumber, Size: 4},
	}
	raw, err := bpf.Assemble(append(program, tree(spans(sockets))...))
	if err != nil {
		return nil, fmt.Errorf("filter of system calls for %s: %w", runtime.GOARCH, err)
	}
	var b []byte
	for _, i := range raw {
		b = binary.NativeEndian.AppendUint16(b, i.Op)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b, nil
}

// A span is a range of system call numbers with one rule. It ends where the next span begins.
type span struct {
	from uint32
	rule []bpf.Instruction
}

// spans returns the rules for all system call numbers, sorted by number.
func spans(sockets socketKinds) (list []span) {
	allowed, refused := []bpf.Instruction{allow}, []bpf.Instruction{refuseWith(unix.EPERM)}
	rules := examined(sockets)
	for _, number := range slices.Concat(commonCalls(), archCalls()) {
		if rules[number] == nil {
			rules[number] = allowed
		}
	}
	for number := range uint32(newestCall + 1) {
		rule := rules[number]
		if rule == nil {
			rule = refused
		}
		if len(list) == 0 || &list[len(list)-1].rule[0] != &rule[0] {
			list = append(list, span{number, rule})
		}
	}
	return append(list, span{newestCall + 1, []bpf.Instruction{refuseWith(unix.ENOSYS)}}, span{x32Bit, []bpf.Instruction{kill}})
}

// tree returns the instructions of a binary search for the span that contains the loaded number. It must be short: the kernel runs it for
// each system call, and once for every number when a process installs the filter.
func tree(list []span) []bpf.Instruction {
	if len(list) == 1 {
		return list[0].rule
	}
	half := len(list) / 2
	below, above := tree(list[:half]), tree(list[half:])
	// A conditional jump reaches at most 255 instructions, so an unconditional one skips the lower half.
	return slices.Concat([]bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: list[half].from, SkipFalse: 1}, bpf.Jump{Skip: uint32(len(below))},
	}, below, above)
}

// examined returns the rules for calls that depend on their arguments. A rule is a list of BPF instructions that ends with a verdict, such
// as allow.
func examined(sockets socketKinds) map[uint32][]bpf.Instruction {
	unless := func(cond bpf.JumpTest, val uint32) []bpf.Instruction {
		return []bpf.Instruction{bpf.JumpIf{Cond: cond, Val: val, SkipFalse: 1}, refuseWith(unix.EPERM)}
	}
	oneOf := func(values ...uint32) (list []bpf.Instruction) {
		for _, v := range values {
			list = append(list, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1}, allow)
		}
		return list
	}
	families := []uint32{unix.AF_INET, unix.AF_INET6}
	if sockets == unixSockets {
		families = append(families, unix.AF_UNIX)
	}
	rules := map[uint32][]bpf.Instruction{
		unix.SYS_CLONE:  slices.Concat([]bpf.Instruction{arg(0)}, unless(bpf.JumpBitsSet, namespaceFlags), []bpf.Instruction{allow}),
		unix.SYS_CLONE3: {refuseWith(unix.ENOSYS)}, // The filter cannot read the flags of clone3, so programs must use clone instead.
		unix.SYS_IOCTL: slices.Concat([]bpf.Instruction{arg(1)}, unless(bpf.JumpEqual, unix.TIOCSTI), unless(bpf.JumpEqual, unix.TIOCLINUX),
			[]bpf.Instruction{allow}),
		unix.SYS_PERSONALITY: slices.Concat([]bpf.Instruction{arg(0)}, oneOf(0, 0x0008, 0x20000, 0x20008, 0xffffffff), []bpf.Instruction{refuseWith(unix.EPERM)}),
		// NETLINK_ROUTE is allowed, because programs use it to list their addresses.
		unix.SYS_SOCKET: slices.Concat([]bpf.Instruction{arg(0)}, oneOf(families...),
			[]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipFalse: 3}, arg(2)}, oneOf(unix.NETLINK_ROUTE),
			[]bpf.Instruction{refuseWith(unix.EPERM)}),
		unix.SYS_SOCKETPAIR: slices.Concat([]bpf.Instruction{arg(0)}, oneOf(unix.AF_UNIX), []bpf.Instruction{refuseWith(unix.EPERM)}),
	}
	for number, rule := range modeRules() {
		rules[number] = rule
	}
	for number, rule := range coreRules() {
		rules[number] = rule
	}
	if sockets == pairsAlone {
		rules[unix.SYS_SOCKET] = []bpf.Instruction{refuseWith(unix.EPERM)}
	}
	if sockets != unixSockets {
		// Datagram pairs are refused, because such a socket can still send to a path. Stream and seqpacket pairs stay connected to each
		// other.
		rules[unix.SYS_SOCKETPAIR] = slices.Concat([]bpf.Instruction{
			arg(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1}, refuseWith(unix.EPERM),
			arg(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: typeOfSocket},
		}, oneOf(unix.SOCK_STREAM, unix.SOCK_SEQPACKET), []bpf.Instruction{refuseWith(unix.EPERM)})
	}
	return rules
}

// arg loads the low half of argument n.
func arg(n uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: dataArgs + 8*n, Size: 4} }

// ownerBits are the set-user-ID and set-group-ID bits. Every account on the machine could run a file with these bits with the rights of the
// daemon's user. The filter refuses them for directories too, where the group bit has another meaning, because the arguments do not show
// whether the path is a directory.
const ownerBits = unix.S_ISUID | unix.S_ISGID

// modeRules refuse ownerBits in every mode argument.
func modeRules() map[uint32][]bpf.Instruction {
	plain := func(n uint32) []bpf.Instruction {
		return []bpf.Instruction{arg(n), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: ownerBits, SkipFalse: 1}, refuseWith(unix.EPERM), allow}
	}
	rules := map[uint32][]bpf.Instruction{
		unix.SYS_FCHMOD: plain(1), unix.SYS_FCHMODAT: plain(2), unix.SYS_FCHMODAT2: plain(2), unix.SYS_MKNODAT: plain(2), unix.SYS_OPENAT: creates(2),
		unix.SYS_OPENAT2: {refuseWith(unix.ENOSYS)}, // The filter cannot read the mode of openat2, so programs must use openat instead.
	}
	for number, mode := range archModes() {
		rules[number] = plain(mode)
	}
	for number, flags := range archOpens() {
		rules[number] = creates(flags)
	}
	return rules
}

// creates checks the mode of an open call that may create a file. The mode is the argument after the flags.
func creates(flags uint32) []bpf.Instruction {
	const makes = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	return []bpf.Instruction{
		arg(flags), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: makes, SkipTrue: 3},
		arg(flags + 1), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: ownerBits, SkipFalse: 1}, refuseWith(unix.EPERM), allow,
	}
}

// coreRules ignore a change of the core dump limit and report success. The limit prevents the kernel from starting the machine's core dump
// handler, which would run outside the sandbox as root.
func coreRules() map[uint32][]bpf.Instruction {
	pretend := refuseWith(0)
	return map[uint32][]bpf.Instruction{
		unix.SYS_SETRLIMIT: {arg(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.RLIMIT_CORE, SkipFalse: 1}, pretend, allow},
		unix.SYS_PRLIMIT64: {
			arg(1), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.RLIMIT_CORE, SkipTrue: 5},
			arg(2), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2}, // Without a new limit, the call only reads the current one.
			bpf.LoadAbsolute{Off: dataArgs + 8*2 + 4, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
			pretend, allow,
		},
	}
}

// commonCalls returns the calls that every architecture allows with any arguments. It omits calls that change mounts, kernel namespaces,
// clocks, modules, keys or the memory of other processes. It also omits calls that observe the kernel, and io_uring, whose operations
// bypass the filter.
func commonCalls() []uint32 {
	return []uint32{
		unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_BIND, unix.SYS_BRK, unix.SYS_CAPGET, unix.SYS_CAPSET, unix.SYS_CHDIR, unix.SYS_CLOCK_GETRES,
		unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_CONNECT, unix.SYS_COPY_FILE_RANGE,
		unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2,
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_FADVISE64,
		unix.SYS_FALLOCATE, unix.SYS_FCHDIR, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_FCNTL,
		unix.SYS_FDATASYNC, unix.SYS_FGETXATTR, unix.SYS_FLISTXATTR, unix.SYS_FLOCK, unix.SYS_FREMOVEXATTR, unix.SYS_FSETXATTR, unix.SYS_FSTAT,
		unix.SYS_FSTATFS, unix.SYS_FSYNC, unix.SYS_FTRUNCATE, unix.SYS_FUTEX, unix.SYS_FUTEX_REQUEUE, unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_WAITV,
		unix.SYS_FUTEX_WAKE, unix.SYS_GETCPU, unix.SYS_GETCWD, unix.SYS_GETDENTS64, unix.SYS_GETEGID, unix.SYS_GETEUID, unix.SYS_GETGID,
		unix.SYS_GETGROUPS, unix.SYS_GETITIMER, unix.SYS_GETPEERNAME, unix.SYS_GETPGID, unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETPRIORITY,
		unix.SYS_GETRANDOM, unix.SYS_GETRESGID, unix.SYS_GETRESUID, unix.SYS_GETRLIMIT, unix.SYS_GETRUSAGE, unix.SYS_GETSID, unix.SYS_GETSOCKNAME,
		unix.SYS_GETSOCKOPT, unix.SYS_GETTID, unix.SYS_GETTIMEOFDAY, unix.SYS_GETUID, unix.SYS_GETXATTR, unix.SYS_GET_ROBUST_LIST,
		unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_RM_WATCH, unix.SYS_IOPRIO_GET, unix.SYS_IOPRIO_SET, unix.SYS_IO_CANCEL,
		unix.SYS_IO_DESTROY, unix.SYS_IO_GETEVENTS, unix.SYS_IO_PGETEVENTS, unix.SYS_IO_SETUP, unix.SYS_IO_SUBMIT, unix.SYS_KILL,
		unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_LGETXATTR, unix.SYS_LINKAT,
		unix.SYS_LISTEN, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_LSEEK, unix.SYS_LSETXATTR, unix.SYS_MADVISE,
		unix.SYS_MEMBARRIER, unix.SYS_MEMFD_CREATE, unix.SYS_MINCORE, unix.SYS_MKDIRAT, unix.SYS_MLOCK, unix.SYS_MLOCK2,
		unix.SYS_MLOCKALL, unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MQ_GETSETATTR, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_OPEN, unix.SYS_MQ_TIMEDRECEIVE,
		unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_UNLINK, unix.SYS_MREMAP, unix.SYS_MSGCTL, unix.SYS_MSGGET, unix.SYS_MSGRCV, unix.SYS_MSGSND, unix.SYS_MSYNC,
		unix.SYS_MUNLOCK, unix.SYS_MUNLOCKALL, unix.SYS_MUNMAP, unix.SYS_NANOSLEEP, unix.SYS_PIDFD_OPEN,
		unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PIPE2, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT, unix.SYS_PPOLL, unix.SYS_PRCTL,
		unix.SYS_PREAD64, unix.SYS_PREADV, unix.SYS_PREADV2, unix.SYS_PSELECT6, unix.SYS_PWRITE64, unix.SYS_PWRITEV,
		unix.SYS_PWRITEV2, unix.SYS_READ, unix.SYS_READAHEAD, unix.SYS_READLINKAT, unix.SYS_READV, unix.SYS_RECVFROM, unix.SYS_RECVMMSG,
		unix.SYS_RECVMSG, unix.SYS_REMAP_FILE_PAGES, unix.SYS_REMOVEXATTR, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_RESTART_SYSCALL,
		unix.SYS_RSEQ, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_SIGRETURN,
		unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETATTR,
		unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN,
		unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER,
		unix.SYS_SCHED_YIELD, unix.SYS_SECCOMP, unix.SYS_SEMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SENDFILE,
		unix.SYS_SENDMMSG, unix.SYS_SENDMSG, unix.SYS_SENDTO, unix.SYS_SETFSGID, unix.SYS_SETFSUID, unix.SYS_SETGID, unix.SYS_SETGROUPS,
		unix.SYS_SETITIMER, unix.SYS_SETPGID, unix.SYS_SETPRIORITY, unix.SYS_SETREGID, unix.SYS_SETRESGID, unix.SYS_SETRESUID, unix.SYS_SETREUID,
		unix.SYS_SETSID, unix.SYS_SETSOCKOPT, unix.SYS_SETUID, unix.SYS_SETXATTR, unix.SYS_SET_ROBUST_LIST,
		unix.SYS_SET_TID_ADDRESS, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT, unix.SYS_SHMGET, unix.SYS_SHUTDOWN, unix.SYS_SIGALTSTACK,
		unix.SYS_SIGNALFD4, unix.SYS_SPLICE, unix.SYS_STATFS, unix.SYS_STATX, unix.SYS_SYMLINKAT, unix.SYS_SYNC, unix.SYS_SYNCFS,
		unix.SYS_SYNC_FILE_RANGE, unix.SYS_SYSINFO, unix.SYS_TEE, unix.SYS_TGKILL, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_GETTIME,
		unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_DELETE, unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_GETTIME,
		unix.SYS_TIMER_SETTIME, unix.SYS_TIMES, unix.SYS_TKILL, unix.SYS_TRUNCATE, unix.SYS_UMASK, unix.SYS_UNAME, unix.SYS_UNLINKAT,
		unix.SYS_UTIMENSAT, unix.SYS_VMSPLICE, unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_WRITE, unix.SYS_WRITEV,
		unix.SYS_CACHESTAT, unix.SYS_MAP_SHADOW_STACK, unix.SYS_MSEAL,
	}
}
