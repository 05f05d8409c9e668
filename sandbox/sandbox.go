// Package sandbox starts, watches and ends processes; no other package starts one.
//
// A [Runner] runs one process for a [Spec], in a session of its own, and does not return before everything that the
// process left behind is dead too: background jobs, daemons that forked twice and made their own session, whole trees.
// What could not be confirmed dead is named in [Exit.Unverified]; nothing is passed over in silence. [Runner.Sweep]
// does the same at start for what a daemon left that was itself killed.
//
// Four marks identify the processes of a run: the session that the run began; links from parent to child, noted
// while the run lasts; the variable TOOLD_CALL in the environment that the process was started with; and, when the
// daemon called [BecomeSubreaper], by being an orphan that the kernel handed to it. A process can shed all four only
// by help of another service of the machine.
//
// A Spec with a [Policy] is isolated: it runs in namespaces of its own, in a root of its own, without rights, and ends with
// its process 1: the kernel ends everything in the namespace with it. It gets all of its policy or does not run
// ([RefusedError]). [Runner.Prove] tries out what a policy is worth on this machine.
//
// Linux only, 5.12 or newer, with /proc.
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

// Help makes this program the helper when it was started as one, and does not return then. A program that makes a Runner
// without [Config.Helper] calls it first of all.
func Help() {
	if os.Args[0] == helper.Name {
		helper.Main()
	}
}

// NoHelper is the Helper of a Runner that has none.
const NoHelper = "none"

// TagVariable is the environment variable that marks every process of a run.
const TagVariable = "TOOLD_CALL"

const (
	defaultGrace = 2 * time.Second
	// outputGrace is what a descendant that still holds an output pipe gets after the main process ended by itself:
	// a process substitution of bash writes its last lines then.
	outputGrace = 100 * time.Millisecond
	// killBound limits the killing: the engine gives a tool 5 s after a cancel, and 2 s may have gone into Grace.
	killBound = 1500 * time.Millisecond
	// confirmBound is for those that were killed at the end of that time to be seen dead: many on a busy machine.
	confirmBound = time.Second
	// pipeBound limits the wait for more output after the kill, when something unknown holds a pipe open.
	pipeBound = 500 * time.Millisecond
)

// ErrClosed means that the Runner was closed.
var ErrClosed = errors.New("sandbox is closed")

// ErrKept means that nothing was started, because what it is for may be another daemon's by now.
var ErrKept = errors.New("the process was not started, because the store may be another daemon's")

// Config says whose processes a Runner starts.
type Config struct {
	// Owner names the store of the daemon and is part of every process's tag, so that the daemon of another store
	// never takes these processes for its own. Required; without slash.
	Owner string
	// StateDir keeps a small record for each running process until it has ended, for Sweep after a crash.
	// Required; made when missing. Belongs to one daemon at a time.
	StateDir string
	// Homes is the directory of home directories; made when missing. Empty: "homes" in StateDir.
	Homes string
	// Helper is the file of the program toold-sandbox. Empty: this very program is it, and calls [Help] first of all. With
	// [NoHelper] every run with a Policy ends with a [RefusedError], and the Runner never starts this program again.
	Helper string
	// ControlGroup is the directory of a control group of version 2 without processes, to make groups for runs in; empty: where
	// they were delegated to this process, if anywhere.
	ControlGroup string
	// Gateway serves the processes with [NetworkProxy]; nil: there can be none.
	Gateway Gateway
	// StartBy is asked right before a process begins, and an error keeps it from that: what it is started for may be another daemon's by
	// now. It returns until when the process may start, by CLOCK_BOOTTIME, 0 for any time: an isolated process looks at the clock right
	// before its program begins. nil: all may start.
	StartBy func(context.Context) (time.Duration, error)
}

// Spec is one process to run.
type Spec struct {
	Path string   // absolute; PATH is never searched
	Args []string // without the name of the program
	Dir  string   // absolute
	// Within is a directory in which others may write, and Dir is one of it. Run refuses a Dir, and a workspace of Policy, that a symbolic
	// link leads out of it. Empty: links may lead anywhere.
	Within string
	Env    []string // exactly this and TagVariable; nothing is inherited
	Tag    string   // names the call in TagVariable
	// Home names the home directory, which HOME says: runs with equal Home and level of isolation share one, which is kept for a
	// while; [FreshHome] is an empty one for this run alone. A HOME in Env goes first. Empty: there is none.
	Home string
	// Policy isolates the process; nil: it has all rights of this one. It is not changed after Run was called.
	Policy *Policy
	// Stdin is copied to the process; nil gives end of file at once. Run does not wait for a Read that hangs: its
	// goroutine ends when the Read does.
	Stdin io.Reader
	// Handed are texts that the process gets by descriptors of its own, 3 and following, up to [MostHanded]: it reads each once, and
	// meets end of file. They stand in no argument, no variable and no file.
	Handed []string
	// Terminal makes a pseudo-terminal of this size the controlling terminal and standard input, output and error. What the
	// processes write comes as the stream "pty"; the end of Stdin is typed as Ctrl-D.
	Terminal *Size
	// Control reaches into the run while it lasts; may be nil.
	Control *Control
	// Started is called once, when there is a process; may be nil.
	Started func()
	// Output gets what the process writes to "stdout" and "stderr": in order for each stream, from one goroutine for
	// each, in chunks of at most 32 KiB that are valid during the call, and never after Run returned. Run waits for
	// it. An error ends the process as a cancel does. nil discards.
	Output func(stream string, chunk []byte) error
	// Harmless says that the process changes nothing, so that the answer of [Config.StartBy] does not limit when it starts.
	Harmless bool
	// Grace is the time between SIGTERM and SIGKILL on a cancel. 0 is 2 s; negative sends SIGKILL at once.
	Grace time.Duration
}

// Exit is how a run ended.
type Exit struct {
	Code     int           // -1 when a signal ended the process
	Signal   string        // such as SIGKILL; empty when the process exited
	Duration time.Duration // until the main process ended
	CPU      time.Duration // of the main process and the children that it waited for; in a control group, of all
	MaxRSS   int64         // bytes, the largest of them
	OOMKills int           // processes that the kernel killed because all had more memory than their control group may have
	// Killed lists what lived when the killing began and was signalled, the main process included; sorted.
	Killed []int
	// Unverified lists what may live on: it did not die in time, may not be killed, may belong to another run of the
	// same time, or still holds an output pipe.
	Unverified []Process
	// ConfirmedAt is when nothing of the run was left; zero when Unverified names something.
	ConfirmedAt time.Time
}

// Process names a process for people and records.
type Process struct {
	PID     int
	Start   uint64 // clock ticks after boot; with PID it never names another process
	Command string // arguments as the process shows them: foreign text, cut
	Tag     string // the Tag of its Spec, when it could be read
}

// A Runner starts processes. Its methods may be called concurrently. A process that is a subreaper has one Runner
// only, because that one waits for every orphan.
type Runner struct {
	origin   origin
	records  records
	runs     active
	family   family
	kernel   kernel
	program  *os.File // the helper's; nil: there is none
	gateway  Gateway
	startBy  func(context.Context) (time.Duration, error)
	guards   guards
	homes    homes
	resident resident
	groups   *cgroup.Pool
	starts   chan func()
	life     context.Context // until Close
	over     context.CancelFunc
	wake     chan struct{}
	done     sync.WaitGroup // the two goroutines of New
}

// New returns a Runner; the caller closes it.
func New(cfg Config) (*Runner, error) {
	if cfg.Owner == "" || strings.ContainsAny(cfg.Owner, "/\x00") {
		return nil, fmt.Errorf("sandbox owner %q: must be a name without slash", cfg.Owner)
	}
	if cfg.StateDir == "" {
		return nil, errors.New("sandbox state directory: is required")
	}
	dir, err := filepath.Abs(cfg.StateDir) // isolated processes are elsewhere
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
	if c := r.resident.now; c != nil { // no run is left to ask for it
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

// Run runs the process to its end and leaves nothing of it behind. When ctx ends, the whole run is killed.
//
// The Exit is nil exactly when no process was started. Beside an Exit the error says why the run was cut short: the
// cause of ctx, the error of Output, or ErrClosed. A process that had ended before that was noticed keeps its exit,
// without error.
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
			return fmt.Errorf("%q contains a NUL", text)
		}
	}
	for _, pair := range s.Env {
		name, _, ok := strings.Cut(pair, "=")
		if !ok || name == "" || name == TagVariable || strings.ContainsRune(pair, 0) {
			return fmt.Errorf("environment entry with name %q is not allowed", name)
		}
	}
	if len(s.Handed) > MostHanded {
		return fmt.Errorf("%d texts are to be handed over; at most %d can be", len(s.Handed), MostHanded)
	}
	return s.Policy.Check()
}
