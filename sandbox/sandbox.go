// Package sandbox starts, watches and ends processes. No other package starts a process.
//
// In this package a run is one execution of a process, with all descendants of the process. It is not a run of an agent. A [Runner] runs
// the process of a [Spec] in a new session. It returns only after every descendant is dead too: background jobs, daemons that forked twice
// into another session, whole process trees. [Exit.Unverified] lists processes whose death could not be confirmed. When a daemon starts,
// [Runner.Sweep] ends the processes that a killed daemon left.
//
// Four marks identify the processes of a run:
//
//   - the session that the run began
//   - links from parent to child, recorded during the run
//   - the variable TOOLD_CALL in the environment at the start of the process
//   - with [BecomeSubreaper]: the process is an orphan that the kernel gave to the daemon
//
// A process can lose all four marks only with the help of another service of the machine.
//
// A Spec with a [Policy] is isolated. Its process runs without capabilities, in separate kernel namespaces and with a separate root. When
// process 1 of the run ends, the kernel ends everything in the PID namespace. When the whole policy cannot be applied, the process does not
// run ([RefusedError]). [Runner.Prove] measures how well a policy is enforced on this machine.
//
// The package needs Linux 5.12 or newer, with /proc.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/toold-dev/toold/sandbox/cgroup"
	"github.com/toold-dev/toold/sandbox/helper"
)

// Help runs the sandbox helper if this program was started as the helper; then Help does not return. Otherwise it does nothing. A program
// that makes a Runner without [Config.Helper] must call it first.
func Help() {
	if os.Args[0] == helper.Name {
		helper.Main()
	}
}

// NoHelper is the value of [Config.Helper] for a Runner without a helper.
const NoHelper = "none"

// TagVariable is the environment variable that marks every process of a run.
const TagVariable = "TOOLD_CALL"

const (
	defaultGrace = 2 * time.Second
	// outputGrace is the time that descendants have to end after the main process exits, if they still hold an output pipe. For example, a
	// bash process substitution writes its last lines then.
	outputGrace = 100 * time.Millisecond
	// killBound is the maximum time for killing. The engine gives a tool 5 s after a cancel, of which Grace may use 2 s.
	killBound = 1500 * time.Millisecond
	// confirmBound is the additional time to confirm the death of processes that were killed at the end of killBound. On a busy machine
	// there may be many.
	confirmBound = time.Second
	// pipeBound is the maximum wait for more output after the kill, when an unknown process holds a pipe open.
	pipeBound = 500 * time.Millisecond
)

// ErrClosed means that the Runner was closed.
var ErrClosed = errors.New("sandbox is closed")

// ErrKept means that no process was started, because another daemon may own the store now, and with the store also the call.
var ErrKept = errors.New("the process was not started, because another daemon may own the store")

// Config configures a Runner.
type Config struct {
	// Owner identifies the store of the daemon and is part of every process's tag. So daemons of other stores do not take these processes
	// for their own. Required; without a slash.
	Owner string
	// StateDir stores a small record for each running process, for Sweep after a crash. Required; created when missing. Only one daemon may
	// use it at a time.
	StateDir string
	// Homes is the directory of home directories; created when missing. Empty means "homes" in StateDir.
	Homes string
	// Helper is the path of the program toold-sandbox. Empty means that this program is its own helper and calls [Help] first. [NoHelper]
	// means that every run with a Policy fails with a [RefusedError], and that the Runner does not start this program as a helper.
	Helper string
	// ControlGroup is the directory of a control group (version 2) without processes. The Runner creates the groups of its runs below it.
	// Empty means the group that was delegated to this process, if there is one.
	ControlGroup string
	// Gateway serves the processes with [NetworkProxy]. When it is nil, such processes are refused.
	Gateway Gateway
	// StartBy is called right before a process begins. It returns an error when another daemon may own the call now; then the process does
	// not start. Otherwise it returns the latest start time, measured with CLOCK_BOOTTIME, or 0 for no limit. An isolated process checks
	// the clock right before its program begins. Nil means that every process may start.
	StartBy func(context.Context) (time.Duration, error)
}

// Spec describes one process to run.
type Spec struct {
	Path string   // absolute; PATH is never searched
	Args []string // without the program name
	Dir  string   // absolute
	// Within is a directory that contains Dir and in which other users or processes may write. Run refuses a Dir or a Policy workspace that
	// leads out of Within through a symbolic link. Empty means that links may lead anywhere.
	Within string
	Env    []string // the whole environment, except TagVariable; nothing is inherited
	Tag    string   // identifies the call in TagVariable
	// Home is the name of the home directory to which HOME points. Runs with the same Home and level of isolation share a directory, which
	// is kept for some time. [FreshHome] means an empty directory for this run only. When Env contains HOME, that value is used instead.
	// Empty means no home.
	Home string
	// Policy isolates the process. Nil gives it all rights of the daemon. Do not change it after Run was called.
	Policy *Policy
	// Stdin is copied to the process. Nil means end of file at once. Run does not wait for a Read that blocks: its goroutine ends when the
	// Read returns.
	Stdin io.Reader
	// Handed contains up to [MostHanded] texts. The process can read each text once, up to end of file, from file descriptor 3 for the
	// first text, 4 for the second, and so on. The texts appear in no argument, variable or file.
	Handed []string
	// Terminal makes a pseudo-terminal of this size the controlling terminal and standard input, output and error. The output then has the
	// stream name "pty". The end of Stdin is sent as Ctrl-D.
	Terminal *Size
	// Control resizes and signals the run while it lasts; may be nil.
	Control *Control
	// Started is called once, when the process exists; may be nil.
	Started func()
	// Output receives what the process writes to "stdout" and "stderr". Each stream has one goroutine, which calls Output in order. A chunk
	// has at most 32 KiB and is valid only during the call. Run waits for Output and never calls it after returning. An error ends the
	// process as a cancel does. Nil discards the output.
	Output func(stream string, chunk []byte) error
	// Harmless says that the process changes nothing, so [Config.StartBy] does not limit when it starts.
	Harmless bool
	// Grace is the time between SIGTERM and SIGKILL on a cancel. 0 means 2 s; negative sends SIGKILL at once.
	Grace time.Duration
}

// Exit describes how a run ended.
type Exit struct {
	Code     int           // -1 when a signal ended the process
	Signal   string        // such as SIGKILL; empty when the process exited
	Duration time.Duration // time until the main process ended
	CPU      time.Duration // processor time of the main process and the children that it waited for; with a control group, of all processes
	MaxRSS   int64         // maximum memory in bytes of the main process, or of a child that it waited for, whichever is larger
	OOMKills int           // number of processes that the kernel killed because the control group exceeded its memory limit
	// Killed contains the PIDs of processes that lived when the killing began and were signalled, including the main process. It is sorted.
	Killed []int
	// Unverified contains processes that may still be alive. There are four cases: such a process did not die in time, the daemon has no
	// permission to kill it, it may belong to another concurrent run, or it still holds an output pipe.
	Unverified []Process
	// ConfirmedAt is the time at which no process of the run was left. It is zero when Unverified is not empty.
	ConfirmedAt time.Time
}

// Process describes a process in reports and records.
type Process struct {
	PID     int
	Start   uint64 // clock ticks after boot; together with PID it is unique
	Command string // arguments as the process shows them; untrusted and truncated
	Tag     string // the Tag of its Spec, when it could be read
}

// A Runner starts processes. Its methods may be called concurrently. A process that is a subreaper must have only one Runner, because a
// Runner waits for every orphan.
type Runner struct {
	origin   origin
	records  records
	runs     active
	family   family
	kernel   kernel
	program  *os.File // the helper program; nil without a helper
	gateway  Gateway
	startBy  func(context.Context) (time.Duration, error)
	guards   guards
	homes    homes
	resident resident
	groups   *cgroup.Pool
	starts   chan func()
	life     context.Context // ends with Close
	over     context.CancelFunc
	wake     chan struct{}
	done     sync.WaitGroup // counts the two goroutines of New
}

// New returns a Runner. The caller closes it.
func New(cfg Config) (*Runner, error) {
	if cfg.Owner == "" || strings.ContainsAny(cfg.Owner, "/\x00") {
		return nil, fmt.Errorf("sandbox owner %q: must be a name without slash", cfg.Owner)
	}
	if cfg.StateDir == "" {
		return nil, errors.New("sandbox state directory: is required")
	}
	dir, err := filepath.Abs(cfg.StateDir) // The path must be absolute, because isolated processes have another working directory.
	if err != nil {
		return nil, fmt.Errorf("sandbox state directory: %w", err)
	}
	cfg.StateDir = dir
	if cfg.Homes, err = filepath.Abs(cmp.Or(cfg.Homes, filepath.Join(dir, "homes"))); err != nil {
		return nil, fmt.Errorf("sandbox homes: %w", err)
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox state directory: %w", err)
	}
	if err := closeOnExec(); err != nil {
		return nil, fmt.Errorf("sandbox needs Linux 5.11 or newer: close_range: %w", err)
	}
	self, err := readProcess(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("sandbox needs /proc: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("sandbox needs /proc: %w", err)
	}
	children, _ := os.Open(fmt.Sprintf("/proc/%d/task/%[1]d/children", self.pid))
	r := &Runner{
		origin:   origin{owner: cfg.Owner, bootID: strings.TrimSpace(string(boot)), self: self},
		homes:    homes{dir: cfg.Homes},
		gateway:  cfg.Gateway,
		startBy:  cfg.StartBy,
		starts:   make(chan func()),
		wake:     make(chan struct{}, 1),
		runs:     active{runs: map[string]*run{}},
		groups:   cgroup.Open(cgroup.Config{Owner: cfg.Owner, PID: self.pid, Start: self.start, Parent: cfg.ControlGroup}),
		resident: resident{turn: make(chan struct{}, 1)},
	}
	r.records.dir, r.records.from = cfg.StateDir, &r.origin
	r.family = family{origin: &r.origin, active: &r.runs, children: children}
	if err := r.kernel.find(); err != nil {
		return nil, err
	}
	if r.program, err = openHelper(cfg.Helper); err != nil {
		return nil, fmt.Errorf("sandbox helper: %w", err)
	}
	r.life, r.over = context.WithCancel(context.Background())
	r.done.Go(r.startLoop)
	r.done.Go(r.watchLoop)
	return r, nil
}

// Close cancels every run, waits until they have ended and frees the Runner. Later runs get ErrClosed.
func (r *Runner) Close() error {
	if !r.runs.close() {
		return nil
	}
	r.over()
	r.runs.count.Wait()
	r.homes.close()
	var left error
	if c := r.resident.now; c != nil { // No run uses the helper any more.
		left = r.stopHelper(c, false)
	}
	r.records.clear()
	close(r.starts)
	r.done.Wait()
	_ = r.family.children.Close()
	if r.program != nil {
		left = errors.Join(left, r.program.Close())
	}
	return errors.Join(left, r.groups.Close())
}

// Run runs the process until it and all its descendants have ended. When ctx ends, Run kills them.
//
// Run returns a nil Exit only when no process was started. With an Exit, the error is the reason why the run was cut short: the cause of
// ctx, the error of Output, or ErrClosed. When the process ended before the Runner noticed that reason, Run returns the real exit and no
// error.
func (r *Runner) Run(ctx context.Context, spec Spec) (*Exit, error) {
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	run, err := r.newRun(spec)
	if err != nil {
		return nil, err
	}
	defer r.leave(run)
	if err := r.start(ctx, run); err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
			return run.aborted(), cause
		}
		return run.aborted(), fmt.Errorf("start %s: %w", spec.Path, err)
	}
	return r.attend(ctx, run)
}

func (s *Spec) check() error {
	if !filepath.IsAbs(s.Path) || !filepath.IsAbs(s.Dir) {
		return fmt.Errorf("path %q and directory %q must be absolute", s.Path, s.Dir)
	}
	for _, text := range append([]string{s.Path, s.Dir, s.Within, s.Tag}, s.Args...) {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("%q contains a NUL byte", text)
		}
	}
	for _, pair := range s.Env {
		name, _, ok := strings.Cut(pair, "=")
		if !ok || name == "" || name == TagVariable || strings.ContainsRune(pair, 0) {
			return fmt.Errorf("environment entry with name %q is not allowed", name)
		}
	}
	if len(s.Handed) > MostHanded {
		return fmt.Errorf("%d texts exceed the limit of %d descriptors", len(s.Handed), MostHanded)
	}
	return s.Policy.Check()
}
