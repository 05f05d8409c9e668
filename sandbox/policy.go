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

// Network says what an isolated process can reach.
type Network string

// The networks.
const (
	NetworkNone Network = "none" // only a separate loopback device
	// NetworkProxy gives the process a separate loopback device on which the [Gateway] of the Runner listens. There is no other way out.
	NetworkProxy Network = "proxy"
	NetworkOpen  Network = "open" // everything that the machine can reach
)

// A Policy isolates a process. The operator defines it; callers and models cannot change it. When the whole policy cannot be applied, the
// process does not run.
//
// The process sees the system directories read-only, a separate /proc, /dev and /tmp, and the workspace at its usual path. It has no
// capabilities and cannot gain any. It may make only the system calls of a list, and it cannot signal or inspect a process outside.
type Policy struct {
	Name      string // the operator's name for the policy; the gateway receives it
	Source    string // the program that the policy is for, such as mcp:memory; passed to the gateway; empty when the policy is for several programs
	Workspace string // absolute path; required; not "/"
	ReadOnly  bool   // makes the workspace read-only
	// Read lists more paths to show read-only at their usual places. Paths that do not exist are left out.
	Read []string
	// Hide lists paths whose contents the process must not see.
	Hide []string
	// Protect lists paths in the workspace that stay read-only. Nil means [DefaultProtected]. While processes run, a socket takes the place
	// of a missing file, so that no process can create the file. Programs that collect files skip the socket. A path is omitted when its
	// parent directory does not exist. When a path is a link, its target is protected too if it is in the workspace.
	Protect []string
	Network Network // empty means NetworkNone
	// Targets that a process with NetworkProxy can reach through the gateway.
	Hosts     []string       // names or addresses; a leading dot includes all names below it; empty means every name of the public network
	Ports     []uint16       // empty means 80 and 443
	Addresses []netip.Prefix // addresses that names may resolve to besides those of the public network
	// NoUnixSockets allows unix sockets only as connected pairs. Then the process also cannot reach a socket that another process binds in
	// the workspace during the run. Sockets that exist when the run starts are covered even without NoUnixSockets.
	NoUnixSockets bool
	// Unsupervised is for machines without user namespaces: the run uses no kernel namespaces. Files and network are isolated only by
	// Landlock and the list of system calls, and all sockets except pairs are refused. The Runner finds and ends the processes in the same
	// way as without a Policy.
	Unsupervised bool
	Limits       Limits
}

// Limits bound an isolated process. The zero value of a field means its default.
type Limits struct {
	Tmp       int64 // bytes in /tmp; /dev/shm has the same size; 0 means 512 MiB
	Processes int   // number of processes and threads together; 0 means 4096; at least 310
	Memory    int64 // bytes of data of each process; 0 means 4 GiB
	// MemoryTotal limits the memory of all processes together, in bytes. The kernel kills a process that would exceed it. CPUs limits their
	// processor time together, as a number of processors, such as 1.5. Both limits need control groups; see Facts.
	MemoryTotal int64         // 0 means 8 GiB; at least 16 MiB
	CPUs        float64       // 0 means no limit; at least 0.01
	FileSize    int64         // bytes of each file that a process writes; 0 means 4 GiB
	OpenFiles   int           // number for each process; 0 means 4096; at least 256
	CPU         time.Duration // processor time of each process; 0 means that only the time of the call limits it
}

const (
	defaultProcesses = 4096
	leastProcesses   = 310 // the kernel reserves the first 300 process numbers of a PID namespace
	// noDump is a core size limit of 1 byte. Unlike the limit 0, it also prevents the kernel from starting a core dump handler: the program
	// that core_pattern names after a pipe sign.
	noDump     = 1
	leastFiles = 256 // The helper needs this many file descriptors before it becomes the command.
)

// DefaultProtected returns files from which other programs run code later, and files that contain credentials. Isolated processes may only
// read them.
func DefaultProtected() []string {
	return []string{
		".aws", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".env", ".envrc", ".git/commondir", ".git/config", ".git/config.worktree",
		".git/hooks", ".gitconfig", ".gnupg", ".inputrc", ".kube", ".mcp.json", ".netrc", ".npmrc", ".profile", ".pypirc", ".ssh", ".zlogin",
		".zprofile", ".zshenv", ".zshrc",
	}
}

// DefaultAsked returns DefaultProtected and further names. These are names of files from which programs run code when they start, or when
// they open or enter a directory. File tools ask before they change one of these files ([Protects]). Isolated commands may change files
// with the further names without a question, because builds and editors do so.
func DefaultAsked() []string {
	return append(DefaultProtected(),
		".bash_aliases", ".pam_environment", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".zlogout", ".config", ".local", ".forward", ".rhosts", // home directory
		".claude", ".claude.json", ".codex", ".cursor", ".gemini", ".windsurf", // coding assistants
		".devcontainer", ".dir-locals.el", ".emacs", ".emacs.d", ".exrc", ".gvimrc", ".idea", ".nvim.lua", ".nvimrc", ".vim", ".vimrc", ".vscode", ".zed", // editors
		".hg", ".hgrc", ".husky", ".jj", ".pre-commit-config.yaml", ".svn", // version control
		".bundle", ".cargo", ".mvn", ".pnpmfile.cjs", ".yarnrc", ".yarnrc.yml", // package managers
		".direnvrc", ".docker", ".gdbinit", ".irbrc", ".lldbinit", ".mise.toml", ".pdbrc", ".pryrc", ".rprofile", ".screenrc", ".sqliterc", ".tmux.conf",
		".curlrc", ".git-credentials", ".my.cnf", ".pgpass", ".psqlrc", ".wgetrc", // credentials
	)
}

// Protects reports whether a slash-separated path is an entry of list or below one. An entry that begins with a dot matches in every
// directory, so that repositories below the workspace are covered too. Other entries are relative to the workspace. Letter case is ignored.
// Everything in .git matches, because git runs programs from more of its files than a list could contain.
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

// shownFiles returns the parts of the machine that programs need. Of /etc it includes only files without secrets.
func shownFiles(network Network) []string {
	paths := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
		"/etc/alternatives", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies", "/etc/debian_version", "/etc/fonts",
		"/etc/group", "/etc/host.conf", "/etc/inputrc", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/magic",
		"/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
		"/etc/profile", "/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/terminfo", "/etc/timezone", "/etc/mailcap",
	}
	java, _ := filepath.Glob("/etc/java-*") // configuration of the system's Java; the pattern is well formed
	paths = append(paths, java...)
	if network == NetworkOpen {
		paths = append(paths, "/etc/hosts", "/etc/resolv.conf")
	}
	return paths
}

// A RefusedError means that the requested isolation was not possible. Nothing ran.
type RefusedError struct {
	Fact string // name of the entry in Facts that does not hold
	Step string // the step that failed
	Err  error
}

// Error returns the step and its error.
func (e *RefusedError) Error() string { return fmt.Sprintf("isolation: %s: %v", e.Step, e.Err) }

// Unwrap returns the error of the step.
func (e *RefusedError) Unwrap() error { return e.Err }

// factOf returns the name of the fact that depends on a step of the helper.
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

// Check returns an error for an invalid policy. It reads no file.
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
			return fmt.Errorf("path %q: /proc of the machine cannot be shown", path)
		}
	}
	for _, path := range slices.Concat(p.Read, p.Hide) {
		if filepath.Clean(path) != path || !filepath.IsAbs(path) || path == "/" {
			return fmt.Errorf("path %q must be absolute and clean, and not the root", path)
		}
	}
	for _, path := range p.Protect {
		if !filepath.IsLocal(path) || filepath.Clean(path) != path || path == "." {
			return fmt.Errorf("protected path %q must be in the workspace", path)
		}
	}
	l := p.Limits
	if l.Tmp < 0 || l.Memory < 0 || l.FileSize < 0 || l.CPU < 0 || l.Processes != 0 && l.Processes < leastProcesses || l.OpenFiles != 0 && l.OpenFiles < leastFiles {
		return fmt.Errorf("limits: none may be negative, processes at least %d, open files at least %d", leastProcesses, leastFiles)
	}
	if l.MemoryTotal != 0 && l.MemoryTotal < leastMemoryTotal {
		return fmt.Errorf("limits: the memory of all processes must be at least %d", leastMemoryTotal)
	}
	if l.CPUs != 0 && !(l.CPUs >= leastCPUs && l.CPUs <= mostCPUs) { // The negation is needed to refuse NaN.
		return fmt.Errorf("limits: cpus must be between %v and %v", leastCPUs, mostCPUs)
	}
	return nil
}

func (p *Policy) checkNetwork() error {
	if n := p.Network; !slices.Contains([]Network{"", NetworkNone, NetworkProxy, NetworkOpen}, n) {
		return fmt.Errorf("network %q is not %s, %s or %s", n, NetworkNone, NetworkProxy, NetworkOpen)
	}
	if p.Unsupervised && (p.Network == NetworkOpen || p.Network == NetworkProxy) {
		return errors.New("a network requires namespaces")
	}
	if p.Network != NetworkProxy && len(p.Hosts)+len(p.Ports)+len(p.Addresses) > 0 {
		return fmt.Errorf("hosts, ports and addresses require the network %s", NetworkProxy)
	}
	if slices.Contains(p.Ports, 0) {
		return errors.New("port 0 is not valid")
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

// kernel describes what this machine's kernel offers to isolated runs.
type kernel struct {
	landlock int                    // Landlock version; 0 without Landlock
	filters  map[socketKinds][]byte // system call filters
	pidMax   atomic.Bool            // each PID namespace has its own pid_max, so a run can limit it
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

// order returns the helper's instructions for a spec with a policy.
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
		// Without a user namespace this limit would count all processes of the daemon's user.
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

// landlockVersion returns the version of the kernel's Landlock, or 0 without Landlock.
func landlockVersion() int {
	v, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// ownPidMax reports whether each PID namespace has its own pid_max. It compares kernel versions. A trial would be dangerous: on an older
// kernel, root would change the value for the whole machine.
func ownPidMax() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 14)
}
