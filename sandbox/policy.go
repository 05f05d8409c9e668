package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/sandbox/helper"
)

// Network is what an isolated process reaches.
type Network string

// The networks.
const (
	NetworkNone Network = "none" // itself: a loopback device of its own
	// NetworkProxy is a loopback device of its own, on which the [Gateway] of the Runner listens; nothing else leads out.
	NetworkProxy Network = "proxy"
	NetworkOpen  Network = "open" // whatever the machine reaches
)

// A Policy isolates a process. It is the operator's; nothing in it comes from a caller or a model. It is asked for as a
// whole: a process that cannot have all of it does not run.
//
// The process sees the directories of the system read-only, a /proc, /dev and /tmp of its own, and the workspace at its own
// path. It has no capability and gets none, makes only the system calls of a list, and cannot reach a process outside.
type Policy struct {
	Name      string // what the operator calls it; the gateway may want to know
	Source    string // the one program that it is for, such as mcp:memory; the gateway may want to know. Empty: none
	Workspace string // absolute; required; not "/"
	ReadOnly  bool   // the workspace; false: it may be written
	// Read lists more paths to show read-only at their own places; what does not exist is left out.
	Read []string
	// Hide lists paths to cover where they would be visible.
	Hide []string
	// Protect lists paths in the workspace that stay read-only; nil means [DefaultProtected]. In the place of a file that
	// does not exist there is a socket while processes run, so that none can make it, and what collects files passes it
	// over. Where its directory does not exist either the path is left out. What a link leads to in the workspace is protected
	// with it.
	Protect []string
	Network Network // "" is none
	// What the gateway lets a process with NetworkProxy reach.
	Hosts     []string       // names, or addresses; a leading dot: all names below it too; none: every name of the public network
	Ports     []uint16       // none: 80 and 443
	Addresses []netip.Prefix // to which names may lead beside those of the public network
	// NoUnixSockets leaves unix sockets in pairs alone: then a socket that somebody on the machine binds in the workspace while a command
	// runs is out of reach, too. Those that are there at the start are covered in any case.
	NoUnixSockets bool
	// Unsupervised gives up everything that needs namespaces: files and network are isolated by Landlock and the list of
	// system calls alone, which leaves no socket but pairs. Processes are then looked after as those without Policy. It is
	// for places without user namespaces.
	Unsupervised bool
	Limits       Limits
}

// Limits bound an isolated process. The zero value of each means its default.
type Limits struct {
	Tmp       int64 // bytes in /tmp, and as many in /dev/shm; 0: 512 MiB
	Processes int   // and threads, in all; 0: 4096, at least 310
	Memory    int64 // bytes of data of each process; 0: 4 GiB
	// MemoryTotal is bytes of all processes together, CPUs how many processors' worth of time they get together, such as 1.5.
	// They hold where there are control groups, as the facts say. A process that would get more memory is killed.
	MemoryTotal int64         // 0: 8 GiB, at least 16 MiB
	CPUs        float64       // 0: no limit, at least 0.01
	FileSize    int64         // bytes of each file that is written; 0: 4 GiB
	OpenFiles   int           // of each process; 0: 4096, at least 256
	CPU         time.Duration // of each process; 0: no limit but the time of the call
}

const (
	defaultProcesses = 4096
	leastProcesses   = 310 // the kernel keeps the first 300 numbers of a namespace back
	// noDump is the one limit that also keeps a handler of dumps (core_pattern with a pipe) from being started.
	noDump     = 1
	leastFiles = 256 // the helper itself needs some before it becomes the command
)

// DefaultProtected are the files by which a workspace makes others run something later, or gives away what they may do. They are
// read-only in isolation.
func DefaultProtected() []string {
	return []string{
		".aws", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".env", ".envrc", ".git/commondir", ".git/config", ".git/config.worktree",
		".git/hooks", ".gitconfig", ".gnupg", ".inputrc", ".kube", ".mcp.json", ".netrc", ".npmrc", ".profile", ".pypirc", ".ssh", ".zlogin",
		".zprofile", ".zshenv", ".zshrc",
	}
}

// DefaultAsked are DefaultProtected and further names from which programs run something when they open or enter a directory, or
// begin to work: tools ask about a change ([Protects]). Isolated commands may change these, since builds and editors do.
func DefaultAsked() []string {
	return append(DefaultProtected(),
		".bash_aliases", ".pam_environment", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".zlogout", ".config", ".local", ".forward", ".rhosts", // a home's
		".claude", ".claude.json", ".codex", ".cursor", ".gemini", ".windsurf", // assistants
		".devcontainer", ".dir-locals.el", ".emacs", ".emacs.d", ".exrc", ".gvimrc", ".idea", ".nvim.lua", ".nvimrc", ".vim", ".vimrc", ".vscode", ".zed", // editors
		".hg", ".hgrc", ".husky", ".jj", ".pre-commit-config.yaml", ".svn", // version control
		".bundle", ".cargo", ".mvn", ".pnpmfile.cjs", ".yarnrc", ".yarnrc.yml", // package managers
		".direnvrc", ".docker", ".gdbinit", ".irbrc", ".lldbinit", ".mise.toml", ".pdbrc", ".pryrc", ".rprofile", ".screenrc", ".sqliterc", ".tmux.conf",
		".curlrc", ".git-credentials", ".my.cnf", ".pgpass", ".psqlrc", ".wgetrc", // and what gives away
	)
}

// Protects reports whether a path with slashes is one of list or lies below one. What begins with a dot counts in every directory,
// so that repositories below the workspace are covered, too; other entries count from the workspace on. The case of letters is
// ignored. All of .git counts, because git finds programs there in more places than a list names.
func Protects(list []string, path string) bool {
	parts := strings.Split(strings.ToLower(path), "/")
	if slices.Contains(parts, ".git") {
		return true
	}
	for _, entry := range list {
		want := strings.Split(strings.ToLower(entry), "/")
		for i := 0; i+len(want) <= len(parts) && (i == 0 || entry[0] == '.'); i++ {
			if slices.Equal(parts[i:i+len(want)], want) {
				return true
			}
		}
	}
	return false
}

// shownFiles are the parts of the machine that programs need. Of /etc it is what is no secret.
func shownFiles(network Network) []string {
	paths := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
		"/etc/alternatives", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies", "/etc/debian_version", "/etc/fonts",
		"/etc/group", "/etc/host.conf", "/etc/inputrc", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/magic",
		"/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
		"/etc/profile", "/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/terminfo", "/etc/timezone", "/etc/mailcap",
	}
	java, _ := filepath.Glob("/etc/java-*") // what a Java of the system has no copy of; the pattern is well formed
	paths = append(paths, java...)
	if network == NetworkOpen {
		paths = append(paths, "/etc/hosts", "/etc/resolv.conf")
	}
	return paths
}

// A RefusedError means that isolation could not be had as it was asked for, so nothing ran.
type RefusedError struct {
	Fact string // the name in Facts that does not hold
	Step string // what was tried
	Err  error
}

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("isolation: %s: %v", e.Step, e.Err) }

// Unwrap implements errors' interface.
func (e *RefusedError) Unwrap() error { return e.Err }

// factOf returns the fact that a step of the helper serves.
func factOf(step string) string {
	for _, f := range []struct{ prefix, fact string }{
		{"user namespace", "processes_killed"}, {"processes", "processes_killed"}, {"death signal", "processes_killed"}, {"retirement", "processes_killed"},
		{"network", "net"}, {"seccomp", "net"}, {"landlock", "fs_write"}, {"protect", "fs_write"}, {"limit", "pids_limit"}, {"/tmp", "disk_limit"},
	} {
		if strings.HasPrefix(step, f.prefix) {
			return f.fact
		}
	}
	return "fs_read"
}

// Check says what is wrong with a policy. It looks at no file.
func (p *Policy) Check() error {
	if p == nil {
		return nil
	}
	if !filepath.IsAbs(p.Workspace) || filepath.Clean(p.Workspace) == "/" {
		return fmt.Errorf("workspace %q must be absolute, and not the root", p.Workspace)
	}
	if err := p.checkNetwork(); err != nil {
		return err
	}
	for _, path := range p.Read {
		if path == "/proc" || strings.HasPrefix(path, "/proc/") {
			return fmt.Errorf("path %q: the machine's processes are not shown", path)
		}
	}
	for _, path := range slices.Concat(p.Read, p.Hide) {
		if filepath.Clean(path) != path || !filepath.IsAbs(path) || path == "/" {
			return fmt.Errorf("path %q must be absolute and clean, and not the root", path)
		}
	}
	for _, path := range p.Protect {
		if !filepath.IsLocal(path) || filepath.Clean(path) != path || path == "." {
			return fmt.Errorf("protected path %q must lie in the workspace", path)
		}
	}
	l := p.Limits
	if l.Tmp < 0 || l.Memory < 0 || l.FileSize < 0 || l.CPU < 0 || l.Processes != 0 && l.Processes < leastProcesses || l.OpenFiles != 0 && l.OpenFiles < leastFiles {
		return fmt.Errorf("limits: none may be negative, processes at least %d, open files at least %d", leastProcesses, leastFiles)
	}
	if l.MemoryTotal != 0 && l.MemoryTotal < leastMemoryTotal {
		return fmt.Errorf("limits: the memory of all processes must be at least %d", leastMemoryTotal)
	}
	if l.CPUs != 0 && !(l.CPUs >= leastCPUs && l.CPUs <= mostCPUs) { // a NaN is none
		return fmt.Errorf("limits: cpus must be between %v and %v", leastCPUs, mostCPUs)
	}
	return nil
}

func (p *Policy) checkNetwork() error {
	if n := p.Network; !slices.Contains([]Network{"", NetworkNone, NetworkProxy, NetworkOpen}, n) {
		return fmt.Errorf("network %q is not %s, %s or %s", n, NetworkNone, NetworkProxy, NetworkOpen)
	}
	if p.Unsupervised && (p.Network == NetworkOpen || p.Network == NetworkProxy) {
		return errors.New("a network needs namespaces")
	}
	if p.Network != NetworkProxy && len(p.Hosts)+len(p.Ports)+len(p.Addresses) > 0 {
		return fmt.Errorf("hosts, ports and addresses are of the network %s", NetworkProxy)
	}
	if slices.Contains(p.Ports, 0) {
		return errors.New("there is no port 0")
	}
	_, err := address.ParseHosts(p.Hosts)
	return err
}

func (p *Policy) protected() []string {
	if p.Protect == nil {
		return DefaultProtected()
	}
	return p.Protect
}

// kernel is what this machine's kernel offers to isolated runs.
type kernel struct {
	landlock int                    // version; 0: none
	filters  map[socketKinds][]byte // of system calls
	pidMax   atomic.Bool            // a namespace may have a highest process number of its own
}

func (k *kernel) find() (err error) {
	k.landlock = landlockVersion()
	k.pidMax.Store(ownPidMax())
	k.filters = map[socketKinds][]byte{}
	for _, kinds := range []socketKinds{unixSockets, unixPairs, pairsAlone} {
		if k.filters[kinds], err = filter(kinds); err != nil {
			return err
		}
	}
	return nil
}

// order writes a spec with its policy down for the helper.
func (r *Runner) order(spec *Spec, tag string) *helper.Order {
	p := spec.Policy
	l := p.Limits
	processes := cmp.Or(l.Processes, defaultProcesses)
	o := &helper.Order{
		Version: helper.Version, Path: spec.Path, Args: append([]string{spec.Path}, spec.Args...), Dir: filepath.Clean(spec.Dir),
		Env: append(p.environment(spec.Env), TagVariable+"="+tag), Terminal: spec.Terminal != nil, Handed: len(spec.Handed),
		Namespaces: !p.Unsupervised, Network: p.Network == NetworkOpen,
		Read: slices.Concat(shownFiles(p.Network), p.Read), Workspace: filepath.Clean(p.Workspace), Within: spec.Within, Writable: !p.ReadOnly,
		Protect: p.protected(), Hide: slices.Concat([]string{r.records.dir}, p.Hide), TmpSize: cmp.Or(l.Tmp, 512<<20),
		Limits: []helper.Limit{
			{Resource: unix.RLIMIT_CORE, Value: noDump}, {Resource: unix.RLIMIT_DATA, Value: uint64(cmp.Or(l.Memory, 4<<30))},
			{Resource: unix.RLIMIT_FSIZE, Value: uint64(cmp.Or(l.FileSize, 4<<30))}, {Resource: unix.RLIMIT_NOFILE, Value: uint64(cmp.Or(l.OpenFiles, 4096))},
		},
		Landlock: r.kernel.landlock, Filter: r.kernel.filters[unixSockets],
	}
	if p.NoUnixSockets {
		o.Filter = r.kernel.filters[unixPairs]
	}
	if p.Network == NetworkProxy {
		o.Proxy = ProxyPort
	}
	if p.Unsupervised {
		o.Filter = r.kernel.filters[pairsAlone]
	} else {
		// Without a namespace of users this limit would count all processes of the daemon's user.
		o.Limits = append(o.Limits, helper.Limit{Resource: unix.RLIMIT_NPROC, Value: uint64(processes)})
		if r.kernel.pidMax.Load() {
			o.PidMax = processes + 1
		}
	}
	if l.CPU > 0 {
		o.Limits = append(o.Limits, helper.Limit{Resource: unix.RLIMIT_CPU, Value: uint64(max(1, l.CPU/time.Second))})
	}
	return o
}

// landlockVersion returns the version of the kernel's Landlock; 0 when there is none.
func landlockVersion() int {
	v, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// ownPidMax reports whether a namespace may have a highest process number of its own. On an older kernel root would change
// that of the machine, so this is not tried out.
func ownPidMax() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 14)
}
