package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/helper"
)

// attackFlag makes the test program run as an attacker inside the sandbox.
const attackFlag = "attack"

// elsewhereVariable is set in the child process that [elsewhere] starts.
const elsewhereVariable = "SANDBOX_TEST_ELSEWHERE"

// attack tries attacks that a script cannot make. For each it prints a line with the error.
func attack(args []string) {
	switch args[0] {
	case "calls":
		attackCalls()
	case "dial":
		_, err := net.Dial("unix", args[1])
		fmt.Println("dial", errorName(err))
	case "abstract":
		_, err := net.Dial("unix", "\x00"+args[1])
		fmt.Println("dial", errorName(err))
	case "later":
		attackLater(args[1])
	case "modes":
		attackModes()
	case "int80":
		int80()
		fmt.Println("alive")
	case "x32":
		syscall.RawSyscall(unix.SYS_GETPID|0x40000000, 0, 0, 0)
		fmt.Println("alive")
	}
}

// attackLater waits for a line of input and then tries to reach sockets that were bound meanwhile.
func attackLater(dir string) {
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	_, err := net.Dial("unix", filepath.Join(dir, "stream"))
	fmt.Println("stream", errorName(err))
	to := &unix.SockaddrUnix{Name: filepath.Join(dir, "datagram")}
	if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0); err == nil {
		fmt.Println("datagram", errorName(unix.Sendto(fd, []byte("x"), 0, to)))
	}
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
		pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			fmt.Println("pair", kind, err)
			continue
		}
		fmt.Println("pair", kind, errorName(unix.Sendto(pair[0], []byte("x"), 0, to)))
		_ = unix.Close(pair[1])
		for _, name := range []string{"datagram", "stream"} {
			fmt.Println("pair to", name, kind, errorName(unix.Connect(pair[0], &unix.SockaddrUnix{Name: filepath.Join(dir, name)})))
		}
	}
}

func errorName(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}

// int80 makes a system call through the 32-bit table.
func int80() {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	copy(page, []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3}) // mov eax, getpid; int 0x80; ret
	code := &page[0]
	call := &code
	(*(*func())(unsafe.Pointer(&call)))()
}

func attackCalls() {
	try := func(name string, nr, a, b, c uintptr) {
		_, _, errno := syscall.RawSyscall6(nr, a, b, c, 0, 0, 0)
		fmt.Println(name, unix.ErrnoName(errno))
	}
	try("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)
	try("clone", unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0)
	try("clone3", unix.SYS_CLONE3, 0, 0, 0)
	try("mount", unix.SYS_MOUNT, 0, 0, 0)
	try("open_tree", unix.SYS_OPEN_TREE, 0, 0, 0)
	try("setns", unix.SYS_SETNS, 0, 0, 0)
	try("bpf", unix.SYS_BPF, 0, 0, 0)
	try("io_uring_setup", unix.SYS_IO_URING_SETUP, 1, 0, 0)
	try("userfaultfd", unix.SYS_USERFAULTFD, 0, 0, 0)
	try("perf_event_open", unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)
	try("keyctl", unix.SYS_KEYCTL, 0, 0, 0)
	try("add_key", unix.SYS_ADD_KEY, 0, 0, 0)
	try("ptrace", unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1, 0)
	try("process_vm_readv", unix.SYS_PROCESS_VM_READV, 1, 0, 0)
	try("chroot", unix.SYS_CHROOT, 0, 0, 0)
	try("pivot_root", unix.SYS_PIVOT_ROOT, 0, 0, 0)
	try("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0)
	try("init_module", unix.SYS_INIT_MODULE, 0, 0, 0)
	try("reboot", unix.SYS_REBOOT, 0, 0, 0)
	try("tiocsti", unix.SYS_IOCTL, 0, unix.TIOCSTI, 0)
	try("vsock", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	try("alg", unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0)
	try("packet", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0)
	try("audit", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)
	try("newer", 600, 0, 0, 0)
}

// self returns the path of the test program.
func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func attacker(t *testing.T, dir string, args ...string) sandbox.Spec {
	exe := self(t)
	return sandbox.Spec{Path: exe, Args: append([]string{attackFlag}, args...), Dir: dir, Policy: &sandbox.Policy{
		Workspace: dir, Read: []string{exe}, Limits: sandbox.Limits{Memory: 1 << 50}, // The race detector needs this much memory.
	}}
}

// T24, T30, T32 (docs/reference/promises.md): attacks on the kernel fail.
func TestKernelIsOutOfReach(t *testing.T) {
	exit, out := run(t, open(t), attacker(t, t.TempDir(), "calls"))
	lines := strings.Split(strings.TrimSpace(out.read("stdout")), "\n")
	if exit.Code != 0 || len(lines) != 25 {
		t.Fatalf("%+v: %q %q", exit, lines, out.read("stderr"))
	}
	for _, line := range lines {
		if name, errno, _ := strings.Cut(line, " "); errno != "EPERM" && errno != "ENOSYS" {
			t.Errorf("%s: %q", name, errno)
		}
	}
}

// T30: a system call through another architecture's table kills the process.
func TestOtherTablesKill(t *testing.T) {
	ways := []string{"x32"}
	if runtime.GOARCH == "amd64" {
		ways = append(ways, "int80")
	}
	for _, way := range ways {
		if exit, out := run(t, open(t), attacker(t, t.TempDir(), way)); exit.Signal != "SIGSYS" {
			t.Errorf("%s: %+v: %q", way, exit, out.read("stdout"))
		}
	}
}

func TestIsolationHolds(t *testing.T) {
	r := open(t)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "hunter2")
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DAEMON_SECRET", "hunter2")
	tests := []struct{ name, script, stdout string }{
		{"T01 shadow", `cat /etc/shadow 2>/dev/null; echo $?`, "1\n"},
		{"T02 secret elsewhere", `cat ` + secret + ` 2>/dev/null; echo $?`, "1\n"},
		{"T03 system", `for d in /usr /etc / /bin /opt /dev /proc /var /run ` + os.Getenv("HOME") + `; do ( > $d/toold-canary ) 2>/dev/null && echo $d; done; echo end`, "end\n"},
		{"T24 daemon", fmt.Sprintf(`kill -0 %d 2>/dev/null && echo reached; [ -e /proc/%d/environ ] && [ %[1]d -gt 9 ] && echo seen; echo end`, os.Getpid(), os.Getpid()), "end\n"},
		{"T24 process 1", `(exec 3</proc/1/mem) 2>/dev/null && echo read; (exec 3>/proc/1/mem) 2>/dev/null && echo write; kill -KILL 1; echo end`, "end\n"},
		{"T33 loopback is its own", `(exec 3<>/dev/tcp/127.0.0.1/22) 2>&1 | grep -q refused && echo none`, "none\n"},
		{"T33 metadata", `(exec 3<>/dev/tcp/169.254.169.254/80) 2>&1 | grep -q unreachable && echo none`, "none\n"},
		{"T33 DNS", `(exec 3<>/dev/udp/8.8.8.8/53 && echo q >&3) 2>&1 | grep -q unreachable && echo none`, "none\n"},
		{"T39 environment", `env | cut -d= -f1 | sort | tr '\n' ' '`, "PATH PWD SHLVL TOOLD_CALL _ "},
		{"T40 descriptors", `ls /proc/self/fd | tr '\n' ' '`, "0 1 2 3 "}, // File descriptor 3 is the directory that ls reads.
		{"rights", `grep -c '^Cap.*:.0000000000000000$' /proc/self/status; grep NoNewPrivs /proc/self/status | cut -f2`, "5\n1\n"},
		{"sysctl", `(echo 0 > /proc/sys/kernel/core_pattern) 2>/dev/null || echo no`, "no\n"},
		{"devices", `ls /dev | tr '\n' ' '`, "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero "},
		{"no handler of dumps", `(ulimit -c 0); ulimit -c 0; ulimit -c unlimited 2>/dev/null; grep -c 'core file size *1  *1 ' /proc/self/limits; python3 -c 'import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); print(resource.getrlimit(resource.RLIMIT_CORE))'`, "1\n(1, 1)\n"},
		{"names of its own", `python3 -c 'import socket; print(sorted({a[4][0] for n in ("localhost", "sandbox") for a in socket.getaddrinfo(n, 80)}))'`, "['127.0.0.1', '::1']\n"},
		{"own /tmp", `ls /tmp | wc -l; echo x > /tmp/a && cat /tmp/a`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exit, out := run(t, r, confined(t.TempDir(), tt.script))
			mustBeConfirmed(t, exit)
			if got := out.read("stdout"); tt.stdout != "" && got != tt.stdout {
				t.Errorf("got %q, %q", got, out.read("stderr"))
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// T12: a protected file cannot be changed by renaming a parent, through a link, or by creating it when it is missing.
func TestProtectedFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".git/hooks/pre-commit.sample"), "x")
	write(t, filepath.Join(dir, ".git/config"), "x")
	write(t, filepath.Join(dir, ".mcp.json"), "{}")
	_, out := run(t, open(t), confined(dir, `exec 2>&1
		echo evil > .git/hooks/pre-commit
		echo evil >> .git/config
		echo evil > .mcp.json
		echo evil > .bashrc
		mv .git .tig
		mv .git/hooks .git/skooh
		rm -rf .git/hooks .mcp.json .bashrc
		mv .bashrc b; echo evil > x; mv x .bashrc; ln -f x .mcp.json; rm -f x
		echo fine > .git/index; ls -a`))
	text := out.read("stdout")
	for path, want := range map[string]string{".mcp.json": "{}", ".git/config": "x", ".git/hooks/pre-commit.sample": "x", ".git/index": "fine\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 { // The placeholders must be removed after the run.
		t.Errorf("left: %v, %v", entries, err)
	}
	if n := strings.Count(text, "Read-only file system"); n < 3 {
		t.Errorf("%d refusals: %s", n, text)
	}
}

// The test checks that programs that collect files skip the placeholders of protected files.
func TestPlaceholdersAreNoFiles(t *testing.T) {
	dir := t.TempDir()
	_, out := run(t, open(t), confined(dir, `find . -type f; [ -f .env ] || echo none; (cat .env) 2>/dev/null || echo closed`))
	if got := out.read("stdout"); got != "none\nclosed\n" {
		t.Errorf("got %q", got)
	}
}

// T35: unix sockets of the machine cannot be reached.
func TestSocketsAreOutOfReach(t *testing.T) {
	r := open(t)
	dir, outside := t.TempDir(), t.TempDir()
	for _, at := range []string{filepath.Join(dir, "s"), filepath.Join(outside, "s"), "@toold-canary-" + strconv.Itoa(os.Getpid())} {
		lis, err := net.Listen("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"dial", at}
		if at[0] == '@' {
			args = []string{"abstract", at[1:]}
		}
		_, out := run(t, r, attacker(t, dir, args...))
		if got := out.read("stdout"); !strings.HasPrefix(got, "dial dial unix") {
			t.Errorf("%s: %q %q", at, got, out.read("stderr"))
		}
		lis.Close()
	}
}

// T27: a process cannot exceed its memory limit.
func TestMemoryIsBounded(t *testing.T) {
	spec := confined(t.TempDir(), `head -c 2G /dev/zero | tail -c 2G | wc -c; echo ${PIPESTATUS[1]}`)
	spec.Policy.Limits.Memory = 256 << 20
	exit, out := run(t, open(t), spec)
	if got := out.read("stdout"); got != "0\n1\n" || exit.MaxRSS > 300<<20 {
		t.Errorf("%q, %q, resident %d", got, out.read("stderr"), exit.MaxRSS)
	}
}

// T28: a process cannot fill the disk.
func TestDiskIsBounded(t *testing.T) {
	spec := confined(t.TempDir(), `head -c 3M /dev/zero > /tmp/x; head -c 3M /dev/zero > /dev/shm/x; (head -c 9M /dev/zero > x); ls -s --block-size=1M x | cut -d' ' -f1`)
	spec.Policy.Limits.Tmp, spec.Policy.Limits.FileSize = 1<<20, 4<<20
	_, out := run(t, open(t), spec)
	if got, errs := out.read("stdout"), out.read("stderr"); got != "4\n" || strings.Count(errs, "No space left") != 2 {
		t.Errorf("got %q, %q", got, errs)
	}
}

// The test checks that other processes still work during a fork bomb, and that no process of the bomb is left (T20).
func TestForkBombIsBounded(t *testing.T) {
	r := open(t)
	spec := confined(t.TempDir(), `while :; do sleep 1000 & done`)
	spec.Policy.Limits.Processes, spec.Grace = 310, -1
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	spec.Output = func(_ string, chunk []byte) error {
		if strings.Contains(string(chunk), "Resource temporarily unavailable") {
			if _, out := run(t, r, confined(t.TempDir(), "echo fine")); out.read("stdout") != "fine\n" {
				t.Error("another run does not work")
			}
			cancel(errCancelled)
		}
		return nil
	}
	exit, err := r.Run(ctx, spec)
	if err == nil || len(exit.Killed) < 2 || len(exit.Killed) > 310 {
		t.Errorf("%v, killed %d", err, len(exit.Killed))
	}
	mustBeConfirmed(t, exit)
	for _, pid := range exit.Killed {
		if exists(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// The test checks that a process with many busy threads is ended with its call (T29).
func TestBusyLoopsEnd(t *testing.T) {
	spec := confined(t.TempDir(), `trap "" TERM; for i in 1 2 3 4 5 6 7 8; do (trap "" TERM; while :; do :; done) & done; echo ready; wait`)
	spec.Grace = -1
	exit, err := cancelWhen(t, open(t), spec, "ready\n")
	if err == nil || exit.Signal != "SIGKILL" {
		t.Fatalf("%+v, %v", exit, err)
	}
	mustBeConfirmed(t, exit)
}

// isolatedStrays are scripts that leave a process behind in their PID namespace.
var isolatedStrays = []struct{ name, script string }{
	{"background", `sleep 1000 &`},
	{"background that holds no pipe", `sleep 1000 >/dev/null 2>&1 </dev/null &`},
	{"daemon", `(setsid bash -c 'trap "" TERM HUP; sleep 1000; sleep 1000' >/dev/null 2>&1 </dev/null &)`},
	{"daemon without environment", `(env -i setsid bash -c 'trap "" TERM; while :; do sleep 1000; done' >/dev/null 2>&1 </dev/null &)`},
	{"stopped", `sleep 1000 & kill -STOP $!`},
}

// T21, T22: no process of an isolated run is left.
func TestNothingIsolatedIsLeft(t *testing.T) {
	r := open(t)
	for _, tt := range isolatedStrays {
		t.Run(tt.name, func(t *testing.T) {
			exit, _ := run(t, r, confined(t.TempDir(), tt.script))
			mustBeEnded(t, exit)
			spec := confined(t.TempDir(), tt.script+"\necho ready; sleep 1000")
			spec.Grace = time.Millisecond
			exit, err := cancelWhen(t, r, spec, "ready\n")
			if err == nil {
				t.Error("was not cancelled")
			}
			mustBeEnded(t, exit)
		})
	}
}

func mustBeEnded(t *testing.T, exit *sandbox.Exit) {
	t.Helper()
	mustBeConfirmed(t, exit)
	if len(exit.Killed) == 0 {
		t.Error("nothing was killed: nothing was tested")
	}
	for _, pid := range exit.Killed {
		if exists(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// The test checks that the processes of an isolated run end when the daemon is killed, without a sweep by the next daemon.
func TestNothingIsolatedOutlivesTheDaemon(t *testing.T) {
	dir := t.TempDir()
	daemon := exec.Command(self(t), `setsid bash -c 'trap "" TERM; exec sleep 1000' & sleep 1000`)
	daemon.Env = append(os.Environ(), daemonVariable+"="+owner()+"="+dir, isolatedVariable+"=1")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	var left []int
	until(t, "the processes", func() bool {
		left = descendants(daemon.Process.Pid)
		return len(left) >= 4 // the helper, process 1 and two sleeping processes
	})
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	until(t, "the end of all", func() bool {
		for _, pid := range left {
			if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
				return false
			}
		}
		return true
	})
}

// The test kills process 1, as another program or the out-of-memory killer could. It checks that no process of the run is left when Run
// returns (P5).
func TestProcess1IsKilled(t *testing.T) {
	spec := confined(t.TempDir(), `trap "" TERM; (trap "" TERM; sleep 1000) & echo ready; sleep 1000`)
	var inside []int
	spec.Output = func(string, []byte) error {
		for range 500 { // Several tries are needed, because the list of children may be incomplete while it changes (proc_pid_children(5)).
			if inside = tagged("/process-1-dies"); inside != nil {
				return syscall.Kill(inside[0], syscall.SIGKILL)
			}
			time.Sleep(10 * time.Millisecond)
		}
		return errors.New("there is no process 1")
	}
	spec.Tag = "process-1-dies"
	exit, err := open(t).Run(t.Context(), spec)
	if err != nil || exit.Signal != "SIGKILL" {
		t.Errorf("%+v, %v", exit, err)
	}
	mustBeConfirmed(t, exit)
	mustHaveEnded(t, inside)
}

// tagged returns the PIDs of process 1 of a run with this tag and of its descendants. It returns nil when there is no such run.
func tagged(tag string) []int {
	for _, child := range descendants(os.Getpid()) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		below := descendants(child)
		if !strings.HasPrefix(string(line), helper.Name) || len(below) < 2 {
			continue
		}
		if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", below[0])); strings.Contains(string(env), tag) {
			return append([]int{child}, below...)
		}
	}
	return nil
}

func descendants(pid int) (found []int) {
	path := fmt.Sprintf("/proc/%d/task/*/children", pid)
	lists, _ := filepath.Glob(path)
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, f := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(f)
			found = append(append(found, child), descendants(child)...)
		}
	}
	return found
}

func TestIsolatedTerminal(t *testing.T) {
	spec := confined(t.TempDir(), `[ -t 0 ] && echo terminal; stty size; trap 'echo int; exit 3' INT; echo ready; while :; do sleep 0.01; done`)
	spec.Terminal, spec.Control = &sandbox.Size{Rows: 30, Columns: 90}, &sandbox.Control{}
	keys, end := io.Pipe()
	spec.Stdin = keys
	defer end.Close()
	var out screen
	sent := false
	spec.Output = func(stream string, chunk []byte) error {
		out.output(stream, chunk)
		if !sent && strings.Contains(out.read("pty"), "ready") {
			sent = true
			return spec.Control.Signal(syscall.SIGINT)
		}
		return nil
	}
	exit, err := open(t).Run(t.Context(), spec)
	if err != nil || exit.Code != 3 || !strings.HasPrefix(out.read("pty"), "terminal\r\n30 90\r\nready\r\n") {
		t.Errorf("%+v, %v, %q", exit, err, out.read("pty"))
	}
}

func TestIsolatedControl(t *testing.T) {
	spec := confined(t.TempDir(), `trap 'echo usr; exit 4' USR1; echo ready; while :; do sleep 0.01; done`)
	spec.Control = &sandbox.Control{}
	var out screen
	spec.Output = func(stream string, chunk []byte) error {
		out.output(stream, chunk)
		if string(chunk) == "ready\n" {
			return spec.Control.Signal(syscall.SIGUSR1)
		}
		return nil
	}
	exit, err := open(t).Run(t.Context(), spec)
	if err != nil || exit.Code != 4 {
		t.Errorf("%+v, %v, %q", exit, err, out.read("stdout"))
	}
}

func TestProfilesOfPolicy(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "data/store"), "secret")
	spec := confined(dir, `(echo x > f) 2>/dev/null || echo readonly; cat data/store 2>/dev/null || echo hidden`)
	spec.Policy.ReadOnly, spec.Policy.Hide = true, []string{filepath.Join(dir, "data")}
	if _, out := run(t, r, spec); out.read("stdout") != "readonly\nhidden\n" {
		t.Errorf("got %q", out.read("stdout"))
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	_, port, _ := net.SplitHostPort(lis.Addr().String())
	spec = confined(dir, `exec 3<>/dev/tcp/127.0.0.1/`+port+` && echo open`)
	spec.Policy.Network = sandbox.NetworkOpen
	if _, out := run(t, r, spec); out.read("stdout") != "open\n" {
		t.Errorf("got %q %q", out.read("stdout"), out.read("stderr"))
	}
}

// elsewhere runs tests of this program in another process. change sets the user and the kernel namespaces of that process.
func elsewhere(t *testing.T, tests string, change func(*exec.Cmd)) {
	t.Helper()
	if os.Getenv(elsewhereVariable) != "" {
		return
	}
	dir, err := os.MkdirTemp("", "elsewhere") // t.TempDir is not used, because other users cannot access it.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "sandbox.test")
	text, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.WriteFile(program, text, 0o755), os.Chmod(program, 0o755), os.Chmod(dir, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-test.run", tests, "-test.timeout=10m")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/home", "TMPDIR=" + dir, elsewhereVariable + "=1"}
	change(cmd)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") || strings.Contains(string(out), "no tests") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// The test runs other tests as an ordinary user.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("this is one already")
		return
	}
	elsewhere(t, "Home|Isolat|Kernel|Other|Protect|Placeholder|Sockets|Memory|Disk|ForkBomb|Busy|Profiles|Proven", func(cmd *exec.Cmd) {
		if small() != "" {
			text, err := os.ReadFile(small())
			if err == nil {
				err = os.WriteFile(filepath.Join(cmd.Dir, helper.Name), text, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
}

// The test checks a machine without user namespaces. An isolated command does not run, and the error says what is missing (T41). A command
// whose policy needs no kernel namespaces runs (T42).
func TestWithoutUserNamespaces(t *testing.T) {
	if os.Getenv(elsewhereVariable) == "" {
		elsewhere(t, "^TestWithoutUserNamespaces$", within("echo 0 > /proc/sys/user/max_user_namespaces", "-Ur"))
		return
	}
	r := open(t)
	mustBeRefused(t, r, "processes_killed", "user namespace")
	policy := sandbox.Policy{Workspace: t.TempDir()}
	facts, err := r.Prove(t.Context(), policy)
	if err != nil || facts.FSRead.Held || facts.ProcessesKilled.Held || !strings.Contains(facts.ProcessesKilled.Detail, "user namespace") {
		t.Errorf("%+v, %v", facts, err)
	}
	policy.Unsupervised = true
	facts, err = r.Prove(t.Context(), policy)
	if err != nil || !facts.FSRead.Held || !facts.Net.Held || facts.ProcessesKilled.Held {
		t.Errorf("%v, %v", facts, err)
	}
	if facts.FSWrite.Held || !strings.Contains(facts.FSWrite.Detail, "mode") { // The fact is not held, because Landlock does not prevent the owner of a file from using chmod.
		t.Errorf("%+v", facts.FSWrite)
	}
	spec := confined(policy.Workspace, `cat /etc/shadow 2>/dev/null || echo hidden; (exec 3<>/dev/tcp/127.0.0.1/1) 2>&1 | grep -q permitted && echo no socket; sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 &)`)
	spec.Policy = &policy
	exit, out := run(t, r, spec)
	if got := out.read("stdout"); got != "hidden\nno socket\n" {
		t.Errorf("got %q, %q", got, out.read("stderr"))
	}
	mustBeConfirmed(t, exit)
}

// The test checks a container with a masked /proc, in which no other /proc can be mounted. The command does not run, and the sandbox never
// shows the outer /proc to it (T43).
func TestMaskedProc(t *testing.T) {
	if os.Getenv(elsewhereVariable) == "" {
		elsewhere(t, "^TestMaskedProc$", within("mount -t tmpfs none /proc/irq", "-Urm"))
		return
	}
	mustBeRefused(t, open(t), "fs_read", "/proc")
}

// within returns a function that makes a command run in a new user namespace, after a line of shell code.
func within(line, flags string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"unshare", flags, "sh", "-c", line + ` && exec "$@"`, "sh"}, cmd.Args...)
		cmd.Path = "/usr/bin/unshare"
	}
}

func mustBeRefused(t *testing.T, r *sandbox.Runner, fact, step string) {
	t.Helper()
	spec := confined(t.TempDir(), "touch ran")
	exit, err := r.Run(t.Context(), spec)
	refused, is := errors.AsType[*sandbox.RefusedError](err)
	if exit != nil || !is || refused.Fact != fact || !strings.HasPrefix(refused.Step, step) {
		t.Errorf("got %+v, %v", exit, err)
	}
	if _, err := os.Stat(filepath.Join(spec.Dir, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestRefusedPolicies(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	for name, p := range map[string]sandbox.Policy{
		"no workspace":        {},
		"relative workspace":  {Workspace: "x"},
		"root as workspace":   {Workspace: "/"},
		"missing workspace":   {Workspace: "/no/such"},
		"network":             {Workspace: dir, Network: "some"},
		"alone and open":      {Workspace: dir, Unsupervised: true, Network: sandbox.NetworkOpen},
		"T43 other processes": {Workspace: dir, Read: []string{"/proc"}},
		"relative read":       {Workspace: dir, Read: []string{"x"}},
		"protected elsewhere": {Workspace: dir, Protect: []string{"../x"}},
		"too few processes":   {Workspace: dir, Limits: sandbox.Limits{Processes: 1}},
		"hidden workspace":    {Workspace: dir, Hide: []string{dir}},
	} {
		spec := bash("/", "true")
		spec.Policy = &p
		if exit, err := r.Run(t.Context(), spec); exit != nil || err == nil {
			t.Errorf("%s: %+v, %v", name, exit, err)
		}
	}
	spec := confined(dir, "true")
	spec.Path = "/no/such"
	if exit, err := r.Run(t.Context(), spec); exit != nil || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("missing program: %+v, %v", exit, err)
	}
	spec = confined(dir, "true")
	spec.Dir = t.TempDir() // This directory exists on the machine, but not in the sandbox.
	if exit, err := r.Run(t.Context(), spec); exit != nil || err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("directory elsewhere: %+v, %v", exit, err)
	}
}

// The test checks that the sockets in the workspace are covered when a command starts, even if they were bound by a relative path or their
// directory was renamed (T129).
func TestT129SocketsWithOtherNames(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	listen := func(at string) {
		t.Helper()
		lis, err := net.Listen("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lis.Close() })
	}
	for _, sub := range []string{"relative", "before", "again"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "relative"))
	listen("s")
	for from, to := range map[string]string{"before": "after", "again": "other"} {
		listen(filepath.Join(dir, from, "s"))
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "again"), 0o755); err != nil {
		t.Fatal(err)
	}
	listen(filepath.Join(dir, "again/s")) // the old name leads to another socket
	for _, at := range []string{"relative/s", "after/s", "other/s", "again/s"} {
		if _, err := net.Dial("unix", filepath.Join(dir, at)); err != nil {
			t.Fatalf("%s: nothing is tested: %v", at, err)
		}
		_, out := run(t, r, attacker(t, dir, "dial", filepath.Join(dir, at)))
		if got := out.read("stdout"); !strings.HasPrefix(got, "dial dial unix") {
			t.Errorf("%s: %q %q", at, got, out.read("stderr"))
		}
	}
}

// The test checks that sockets in the workspace are covered even if they have a second name there, or were bound through another mount of
// the workspace (T129).
func TestT129SocketsByOtherWays(t *testing.T) {
	r := open(t)
	base := t.TempDir()
	dir, other := filepath.Join(base, "ws"), filepath.Join(base, "other")
	for _, d := range []string{filepath.Join(dir, "sub"), other} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ways := map[string]string{"link": filepath.Join(base, "s")}
	if err := unix.Mount(dir, other, "", unix.MS_BIND, ""); err == nil {
		t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
		ways["mounted"], ways["sub/mounted"] = filepath.Join(other, "mounted"), filepath.Join(other, "sub/mounted")
	} else if os.Getuid() == 0 {
		t.Logf("without another mount: %v", err)
	}
	for at, bound := range ways {
		lis, err := net.Listen("unix", bound)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lis.Close() })
		if at == "link" {
			if err := os.Link(bound, filepath.Join(dir, at)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := net.Dial("unix", filepath.Join(dir, at)); err != nil {
			t.Fatalf("%s: nothing is tested: %v", at, err)
		}
		_, out := run(t, r, attacker(t, dir, "dial", filepath.Join(dir, at)))
		if got := out.read("stdout"); !strings.HasPrefix(got, "dial dial unix") {
			t.Errorf("%s: %q %q", at, got, out.read("stderr"))
		}
	}
}

// The test checks that a command cannot reach sockets that other processes bind in the workspace while the command runs, with NoUnixSockets
// or without kernel namespaces (T129).
func TestT129SocketsOfLater(t *testing.T) {
	r := open(t)
	for name, policy := range map[string]sandbox.Policy{"pairs": {NoUnixSockets: true}, "landlock": {Unsupervised: true}} {
		dir := t.TempDir()
		spec := attacker(t, dir, "later", dir)
		spec.Policy.NoUnixSockets, spec.Policy.Unsupervised = policy.NoUnixSockets, policy.Unsupervised
		in, begin := io.Pipe()
		spec.Stdin = in
		received := make(chan string, 8)
		bind := func() error {
			streams, err := net.Listen("unix", filepath.Join(dir, "stream"))
			if err != nil {
				return err
			}
			t.Cleanup(func() { streams.Close() })
			datagrams, err := net.ListenPacket("unixgram", filepath.Join(dir, "datagram"))
			if err != nil {
				return err
			}
			t.Cleanup(func() { datagrams.Close() })
			go func() { // The goroutine ends when the socket is closed.
				for b := make([]byte, 8); ; received <- "datagram" {
					if _, _, err := datagrams.ReadFrom(b); err != nil {
						return
					}
				}
			}()
			_, err = begin.Write([]byte("\n"))
			return err
		}
		var out screen
		begun := false
		spec.Output = func(stream string, chunk []byte) error {
			out.output(stream, chunk)
			if begun || stream != "stdout" {
				return nil
			}
			begun = true
			return bind()
		}
		exit, err := r.Run(t.Context(), spec)
		begin.Close()
		text := out.read("stdout")
		if err != nil || exit.Code != 0 || !strings.Contains(text, "pair 1") {
			t.Fatalf("%s: %+v, %v: %q %q", name, exit, err, text, out.read("stderr"))
		}
		for line := range strings.Lines(text) {
			stays := strings.HasPrefix(line, "pair 1 ") || strings.HasPrefix(line, "pair 5 ") // A stream or seqpacket pair may work, because it reaches only its other end.
			if strings.HasSuffix(line, " none\n") && !stays {
				t.Errorf("%s: %s", name, line)
			}
		}
		select {
		case got := <-received:
			t.Errorf("%s: a %s came through", name, got)
		default:
		}
	}
}
