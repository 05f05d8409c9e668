package helper

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// build converts an order to a program, which is the list of system calls for the run.
func (p *program) build(o *Order, args, env [][]byte) error {
	own, err := o.workspace()
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	if !own.dir || o.Workspace == "/" {
		return fmt.Errorf("workspace %s: %w", o.Workspace, unix.ENOTDIR)
	}
	if o.Namespaces {
		if err := p.namespaces(o, own); err != nil {
			return err
		}
	}
	l := p.at(&p.setup, "death signal")
	l.do(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL), 0, 0, 0)
	p.confine(o, own)
	if o.Canary != nil {
		p.tryOut(o)
	} else {
		p.late = p.at(&p.command, Late).step
		p.execute = len(p.command)
		l = p.at(&p.command, "execute")
		l.do(unix.SYS_EXECVE, o.Path, p.vector(args), p.vector(env))
	}
	l = p.at(&p.retire, "retirement")
	for fd := range handedFD + o.Handed {
		l.do(unix.SYS_CLOSE, fd)
	}
	l.do(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if o.Namespaces {
		l.do(unix.SYS_CAPSET, capHeader(), words(0, 0, 0))
	}
	if p.used > registers {
		return fmt.Errorf("too many paths: %w", unix.E2BIG)
	}
	return nil
}

// namespaces adds the calls that process 1 makes in its new kernel namespaces.
func (p *program) namespaces(o *Order, own view) error {
	l := p.at(&p.setup, "user namespace: identity")
	uid, gid := os.Geteuid(), os.Getegid()
	l.put("/proc/self/setgroups", "deny")
	l.put("/proc/self/uid_map", fmt.Sprintf("%d %d 1\n", uid, uid))
	l.put("/proc/self/gid_map", fmt.Sprintf("%d %d 1\n", gid, gid))
	l = p.at(&p.setup, "host name")
	l.do(unix.SYS_SETHOSTNAME, []byte(hostName), len(hostName))
	if !o.Network {
		l = p.at(&p.setup, "network: loopback")
		s := l.open(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		l.do(unix.SYS_IOCTL, s, unix.SIOCSIFFLAGS, append([]byte("lo"), append(make([]byte, 14), unix.IFF_UP, 0, 0, 0, 0, 0, 0, 0)...))
		l.close(s)
	}
	if o.Proxy > 0 {
		p.listener(o.Proxy)
	}
	return p.root(o, own)
}

// listener adds calls that create a listener in the empty network of the run and send it to the daemon. Through this listener the daemon
// accepts connections from the run's network, although the daemon is in another network. Process 1 closes its copy.
func (p *program) listener(port int) {
	l := p.at(&p.setup, "network: proxy")
	s := l.open(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	at := Address([4]byte{127, 0, 0, 1}, uint16(port))
	l.do(unix.SYS_BIND, s, at, len(at))
	l.do(unix.SYS_LISTEN, s, 128)
	l.do(unix.SYS_DUP3, s, namedFD, unix.O_CLOEXEC)
	rights := words(20, unix.SOL_SOCKET|unix.SCM_RIGHTS<<32, namedFD) // struct cmsghdr (length, level, type) and one file descriptor
	piece := words(uint64(p.keep([]byte("l"))), 1)                    // struct iovec
	l.do(unix.SYS_SENDMSG, proxyFD, words(0, 0, uint64(p.keep(piece)), 1, uint64(p.keep(rights)), uint64(len(rights)), 0), unix.MSG_NOSIGNAL)
	l.do(unix.SYS_CLOSE, namedFD)
	l.do(unix.SYS_CLOSE, s)
	l.do(unix.SYS_CLOSE, proxyFD)
}

// A tree is a copied mount of some of the machine's files. It is detached: it is not mounted at any path yet.
type tree struct {
	view
	fd reg
}

// root adds the calls that build a new root file system and make it the root of process 1.
func (p *program) root(o *Order, own view) error {
	l := p.at(&p.setup, "mounts: private")
	l.do(unix.SYS_MOUNT, 0, "/", 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	shown, links := shown(o)
	var trees []tree
	for _, v := range shown {
		trees = append(trees, p.take(v, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		trees = append(trees, p.take(view{at: "/dev/" + name}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC))
	}
	attr := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if !o.Writable {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	workspace := p.take(own, attr)
	var home tree
	if o.Home != "" {
		home = p.take(view{at: o.Home, dir: true}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		home.at = o.HomeAt
	}
	l = p.at(&p.setup, "root")
	l.do(unix.SYS_MOUNT, "tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m")
	l.do(unix.SYS_CHDIR, "/tmp")
	old := l.open(unix.SYS_OPENAT, unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	l.do(unix.SYS_PIVOT_ROOT, ".", ".")
	p.ownFiles(o)
	for _, t := range trees {
		p.attach(t)
	}
	for _, at := range links {
		p.link(at[0], at[1])
	}
	p.attach(workspace)
	switch {
	case o.Home != "":
		p.attach(home)
	case o.HomeAt != "":
		p.memory("home", o.HomeAt, 0o700, o.TmpSize)
	}
	if err := p.protect(o); err != nil {
		return err
	}
	if err := p.hide(o, append(shown, own)); err != nil {
		return err
	}
	l = p.at(&p.setup, "root: leave the old one")
	l.do(unix.SYS_FCHDIR, old)
	l.do(unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	l.do(unix.SYS_CHDIR, "/")
	l.close(old)
	l = p.at(&p.setup, "root: read-only")
	l.do(unix.SYS_MOUNT_SETATTR, unix.AT_FDCWD, "/", 0, words(unix.MOUNT_ATTR_RDONLY, 0, 0, 0), 32)
	return nil
}

// A view is a part of the machine's files that the command sees.
type view struct {
	at, real string // real is the path without symbolic links
	dir      bool
	top      string // A parent directory of real, or empty. Links between top and real are not followed. When top is empty, all links are followed.
}

// workspace returns the view of the order's workspace.
func (o *Order) workspace() (view, error) {
	v, err := look(o.Workspace)
	if err != nil || o.Within == "" {
		return v, err
	}
	if v.top, err = filepath.EvalSymlinks(o.Within); err == nil && !beneath(v.real, v.top) {
		err = fmt.Errorf("a symbolic link leads out of %s: %w", o.Within, unix.EXDEV)
	}
	return v, err
}

// look returns the view of a path. It follows the symbolic links in the path.
func look(path string) (view, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return view{}, err
	}
	var stat unix.Stat_t
	if err := unix.Lstat(real, &stat); err != nil {
		return view{}, err
	}
	return view{at: path, real: real, dir: stat.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// shown returns the paths in Order.Read that exist. Each is a view to mount, or a link whose target is in another of these paths. A path
// comes before the paths below it.
func shown(o *Order) (views []view, links [][2]string) {
	all := slices.Compact(slices.Sorted(slices.Values(o.Read)))
	dirs := map[string]string{} // caches resolved directories, because resolving them takes most of the time
	for _, path := range all {
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) != nil {
			continue
		}
		dir, base := filepath.Split(path)
		if _, known := dirs[dir]; !known {
			real, err := filepath.EvalSymlinks(dir)
			if err != nil {
				continue // The path was removed meanwhile. Without its real path, hidden files below it could not be covered, so the path is omitted.
			}
			dirs[dir] = real
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFLNK {
			views = append(views, view{at: path, real: filepath.Join(dirs[dir], base), dir: stat.Mode&unix.S_IFMT == unix.S_IFDIR})
			continue
		}
		to, err := os.Readlink(path)
		v, err2 := look(path)
		if err != nil || err2 != nil {
			continue
		}
		if slices.ContainsFunc(all, func(s string) bool { return s != path && beneath(v.real, s) }) {
			links = append(links, [2]string{path, to})
		} else {
			views = append(views, v) // The target of the link is mounted under the name of the link.
		}
	}
	return views, links
}

func beneath(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// take makes a tree from a view: a detached copy with everything that is mounted below it.
func (p *program) take(v view, attr int) tree {
	l := p.at(&p.setup, "files: "+v.at)
	const how = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
	var fd reg
	if v.top == "" {
		fd = l.open(unix.SYS_OPEN_TREE, unix.AT_FDCWD, v.at, how)
	} else {
		at := l.find(v)
		fd = l.open(unix.SYS_OPEN_TREE, at, "", how|unix.AT_EMPTY_PATH)
		l.close(at)
	}
	l.do(unix.SYS_MOUNT_SETATTR, fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, words(uint64(attr), 0, 0, 0), 32)
	return tree{v, fd}
}

func (l list) find(v view) reg {
	if v.top == "" {
		return l.open(unix.SYS_OPENAT, unix.AT_FDCWD, v.at, unix.O_PATH|unix.O_CLOEXEC)
	}
	rel, err := filepath.Rel(v.top, v.real)
	if err != nil {
		panic(err) // This cannot happen, because both paths are absolute.
	}
	return l.inside(v.top, rel)
}

// attach creates a mount point for a tree in the new root and mounts the tree there.
func (p *program) attach(t tree) {
	l := p.at(&p.setup, "place: "+t.at)
	l.parents(t.at)
	if t.dir {
		l.mkdir(t.at)
	} else {
		l.do(unix.SYS_MKNODAT, unix.AT_FDCWD, t.at, unix.S_IFREG|0o644, 0).but(unix.EEXIST)
	}
	l.do(unix.SYS_MOVE_MOUNT, t.fd, "", unix.AT_FDCWD, t.at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	l.close(t.fd)
}

func (l list) mkdir(path string) {
	l.do(unix.SYS_MKDIRAT, unix.AT_FDCWD, path, 0o755).but(unix.EEXIST)
}

func (l list) parents(path string) {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' && !l.p.made[path[:i]] {
			l.mkdir(path[:i])
			l.p.made[path[:i]] = true
		}
	}
}

func (p *program) link(at, to string) {
	l := p.at(&p.setup, "link: "+at)
	l.parents(at)
	l.do(unix.SYS_SYMLINKAT, to, unix.AT_FDCWD, at).but(unix.EEXIST)
}

// ownFiles creates the file systems that are new for each run: /proc, /dev and /tmp.
func (p *program) ownFiles(o *Order) {
	l := p.at(&p.setup, "/proc")
	l.mkdir("/proc")
	// The kernel allows this mount only while another complete /proc is visible, so the old root is still needed here.
	l.do(unix.SYS_MOUNT, "proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, 0)
	if o.PidMax > 0 {
		p.at(&p.setup, "limit: processes").put("/proc/sys/kernel/pid_max", fmt.Sprint(o.PidMax))
	}
	// The daemon's user may be root, who could otherwise change settings of the machine.
	l = p.at(&p.setup, "/proc: read-only")
	l.do(unix.SYS_MOUNT_SETATTR, unix.AT_FDCWD, "/proc", 0, words(unix.MOUNT_ATTR_RDONLY, 0, 0, 0), 32)
	l = p.at(&p.setup, "/dev")
	for _, dir := range []string{"/dev", "/dev/pts", "/dev/shm", "/tmp", "/run", "/var"} {
		l.mkdir(dir)
	}
	l.do(unix.SYS_MOUNT, "devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	for _, at := range [][2]string{
		{"/dev/ptmx", "pts/ptmx"}, {"/dev/fd", "/proc/self/fd"}, {"/dev/stdin", "/proc/self/fd/0"}, {"/dev/stdout", "/proc/self/fd/1"},
		{"/dev/stderr", "/proc/self/fd/2"}, {"/var/tmp", "/tmp"}, {"/var/run", "/run"},
	} {
		p.link(at[0], at[1])
	}
	if !o.Network && !slices.Contains(o.Read, hosts) {
		p.hosts()
	}
	p.memory("/tmp", "/tmp", 0o1777, o.TmpSize)
	p.memory("/tmp", "/dev/shm", 0o1777, o.TmpSize)
}

// memory mounts a tmpfs that the command may write.
func (p *program) memory(step, at string, mode int, size int64) {
	l := p.at(&p.setup, step)
	l.mkdir(at)
	options := fmt.Sprintf("mode=%o,size=%d,nr_inodes=%d", mode, size, max(1024, size>>12))
	l.do(unix.SYS_MOUNT, "tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
}

const (
	hosts    = "/etc/hosts" // maps names to addresses
	hostName = "sandbox"
)

// hosts writes an /etc/hosts for an empty network. It names only the machine itself.
func (p *program) hosts() {
	l := p.at(&p.setup, hosts)
	l.parents(hosts)
	const text = "127.0.0.1 localhost " + hostName + "\n::1 localhost\n"
	fd := l.open(unix.SYS_OPENAT, unix.AT_FDCWD, hosts, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	l.do(unix.SYS_WRITE, fd, []byte(text), len(text))
	l.close(fd)
}
