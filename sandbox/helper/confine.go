package helper

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// namedFD is a fixed file descriptor number. It is needed where a structure in memory contains a file descriptor, because the structure is
// built before the descriptor is opened. The number is below 256, which is a common limit for file descriptors.
const namedFD = 250

// confine adds the calls by which the command's process restricts itself before it executes the command.
func (p *program) confine(o *Order, own view) {
	l := p.at(&p.command, "session")
	l.do(unix.SYS_SETSID)
	if o.Terminal {
		l = p.at(&p.command, "terminal")
		l.do(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	l = p.at(&p.command, "directory "+o.Dir)
	l.do(unix.SYS_CHDIR, o.Dir)
	l = p.at(&p.command, "limits")
	for _, limit := range o.Limits {
		value := limit.Value
		var now unix.Rlimit
		if unix.Getrlimit(limit.Resource, &now) == nil {
			value = min(value, now.Max) // The limit of this process may already be lower than the ordered one.
		}
		l.do(unix.SYS_PRLIMIT64, 0, limit.Resource, words(value, value), 0)
	}
	p.dropRights(o)
	l = p.at(&p.command, "no new privileges")
	l.do(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if o.Landlock > 0 {
		p.landlock(o, own)
	}
	l = p.at(&p.command, "descriptors")
	l.do(unix.SYS_CLOSE_RANGE, handedFD+o.Handed, int(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC)
	l = p.at(&p.command, "signals")
	l.do(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, words(0), 0, 8)
	l = p.at(&p.command, "seccomp")
	program := words(uint64(len(o.Filter)/8), uint64(p.keep(o.Filter)))
	l.do(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, program)
}

func capHeader() []byte {
	var b []byte
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(b, unix.LINUX_CAPABILITY_VERSION_3), 0)
}

// dropRights removes all capabilities and every way to regain one. Without kernel namespaces, the process usually has no capabilities to
// begin with. Then the kernel refuses some of these calls with EPERM, and no_new_privs prevents new capabilities.
func (p *program) dropRights(o *Order) {
	l := p.at(&p.command, "capabilities")
	var fine []unix.Errno
	if !o.Namespaces {
		fine = []unix.Errno{unix.EPERM}
	}
	last := unix.CAP_LAST_CAP
	if text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			last = n
		}
	}
	for i := range last + 1 {
		l.do(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, i, 0, 0, 0).but(fine...)
	}
	l.do(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	const noRootForEver = 0x2f // SECBIT_NOROOT, NO_SETUID_FIXUP, both locked, and KEEP_CAPS locked
	l.do(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, noRootForEver, 0, 0, 0).but(fine...)
	l.do(unix.SYS_CAPSET, capHeader(), words(0, 0, 0))
}

// Sets of Landlock's access rights: the rights for reading, and the rights that a file can have that is not a directory.
const (
	rightsRead    = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsOfFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

func rightsOf(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM)<<1 - 1
	if version >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// landlock adds calls that restrict access to files with Landlock. When the run has kernel namespaces, this is a second protection against
// writing, in addition to the mounts. Otherwise it is the only protection, so it restricts reading too.
func (p *program) landlock(o *Order, own view) {
	l := p.at(&p.command, "landlock")
	all := rightsOf(o.Landlock)
	attr, size := words(all, 0, 0), 8
	if o.Landlock >= 6 {
		attr, size = words(all, 0, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL), 24
	}
	rules := l.open(unix.SYS_LANDLOCK_CREATE_RULESET, attr, size, 0)
	write := all
	if !o.Writable {
		write = rightsRead
	}
	if o.Namespaces {
		own = view{at: o.Workspace, dir: true} // The workspace is a mount in the new root.
	}
	l.allow(rules, own, write, all)
	if o.HomeAt != "" {
		l.allow(rules, view{at: o.HomeAt, dir: true}, all, all)
	}
	if o.Namespaces {
		l.allow(rules, view{at: "/", dir: true}, rightsRead, all)
		for _, dir := range []string{"/tmp", "/dev/shm", "/dev"} {
			l.allow(rules, view{at: dir, dir: true}, all, all)
		}
	} else {
		shown, _ := shown(o)
		for _, v := range append(shown, view{at: "/proc", dir: true}) {
			l.allow(rules, v, rightsRead, all)
		}
		for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
			l.allow(rules, view{at: "/dev/" + name}, all, all)
		}
	}
	l.do(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0)
	l.close(rules)
}

// allow adds a rule for a view. Fewer rights apply to a file than to a directory.
func (l list) allow(rules reg, v view, rights, known uint64) {
	rights &= known
	if !v.dir {
		rights &= rightsOfFiles
	}
	fd := l.find(v)
	l.do(unix.SYS_DUP3, fd, namedFD, unix.O_CLOEXEC)
	rule := binary.NativeEndian.AppendUint32(words(rights), namedFD)
	l.do(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, rule, 0)
	l.close(fd)
}

// tryOut adds the tries of a canary.
func (p *program) tryOut(o *Order) {
	c := o.Canary
	try := func(i int) list { return p.at(&p.canary.tries[i], "try") }
	try(TryRead).do(unix.SYS_OPENAT, unix.AT_FDCWD, c.Read, unix.O_RDONLY|unix.O_CLOEXEC)
	try(TryWrite).do(unix.SYS_OPENAT, unix.AT_FDCWD, c.Write, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	l := try(TryDial)
	s := l.open(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	l.do(unix.SYS_CONNECT, s, c.Dial, len(c.Dial))
	l = try(TryDatagram)
	s = l.open(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	l.do(unix.SYS_SENDTO, s, "x", 1, 0, c.Datagram, len(c.Datagram))
	// This code runs before the clone, so os.Getpid returns the PID of the helper. It differs from 1 and 2, which are the PIDs of process 1
	// and the canary in their namespace. The PID of the daemon could be 1 or 2 in a container.
	try(TrySignal).do(unix.SYS_KILL, os.Getpid(), 0)
	try(TryPacket).do(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0)
	try(TryMode).do(unix.SYS_FCHMODAT, unix.AT_FDCWD, c.Read, 0o600)
	try(TryMount).do(unix.SYS_MOUNT, "tmpfs", "/tmp", "tmpfs", 0, 0)
	try(TryMemory).do(unix.SYS_MMAP, 0, uint64(c.Memory), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, int(-1), 0)
	if c.Ask != "" {
		p.askProxy(c, o.Proxy)
	}
	if c.Fill > 0 {
		l = p.at(&p.canary.hunger, "try")
		at := l.open(unix.SYS_MMAP, 0, uint64(c.Fill), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, int(-1), 0)
		for range 8 { // The repetition uses processor time, because the canary must also exceed its CPU limit.
			l.do(unix.SYS_MADVISE, at, uint64(c.Fill/8), unix.MADV_POPULATE_WRITE)
			l.do(unix.SYS_MADVISE, at, uint64(c.Fill/8), unix.MADV_DONTNEED)
		}
		l.do(unix.SYS_MADVISE, at, uint64(c.Fill), unix.MADV_POPULATE_WRITE)
	}
	p.canary.daemons, p.canary.watch = c.Forks, !o.Namespaces
}

// askProxy sends a request to the proxy and reads the start of the answer. It waits only a short time.
func (p *program) askProxy(c *Canary, port int) {
	l := p.at(&p.canary.tries[TryProxy], "try")
	s := l.open(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	l.do(unix.SYS_SETSOCKOPT, s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, words(5, 0), 16)
	to := Address([4]byte{127, 0, 0, 1}, uint16(port))
	l.do(unix.SYS_CONNECT, s, to, len(to))
	l.do(unix.SYS_SENDTO, s, c.Ask, len(c.Ask), unix.MSG_NOSIGNAL, 0, 0)
	l.do(unix.SYS_RECVFROM, s, p.answer[:], len(p.answer), unix.MSG_WAITALL, 0, 0)
}
