package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/toold-dev/toold/sandbox/cgroup"
	"github.com/toold-dev/toold/sandbox/helper"
)

// run is one execution of a process, with all its descendants.
type run struct {
	pack
	spec     Spec
	id       string // new for each run, so two attempts of one call differ
	tag      string // value of TagVariable
	note     note   // guarded by pack.mu after the start
	handle   *os.Process
	main     process // The PID is also the number of the process's group and session. Guarded by runs.starting until start returns.
	began    time.Time
	pipes    pipes
	broken   chan error // receives the errors that end the run: of Output, one for each stream, and of the gate
	ended    chan struct{}
	endedAt  time.Time // set before ended is closed
	killed   map[int]bool
	inner    *inner         // nil when not isolated
	canary   *helper.Canary // replaces the command when set
	endOnce  sync.Once      // closes ended of an isolated run
	cut      error          // reason to end the run, if it came before the command was known to run
	ofHelper bool           // The run is a helper, not a real run. Its session contains only processes 1 of other runs.
	guarded  []guardedPath  // placeholders to release
	sockets  []string       // paths of sockets in the workspace that the helper cannot find itself
	home     home
	group    *cgroup.Group  // nil without control groups
	ceiling  *cgroup.Limits // limits of a canary, instead of the policy's
	spent    cgroup.Usage   // usage of all processes; read after attend
}

// newRun adds a run to the active ones and returns it. After Close it returns ErrClosed.
func (r *Runner) newRun(spec Spec) (*run, error) {
	id := rand.Text()
	run := &run{
		spec:   spec,
		id:     id,
		tag:    r.origin.tag(id, spec.Tag),
		broken: make(chan error, 3),
		ended:  make(chan struct{}),
		killed: map[int]bool{},
	}
	return run, r.runs.enter(run)
}

func (r *Runner) leave(run *run) {
	run.inner.close()
	r.guards.release(run.guarded)
	r.homes.leave(run.home.dir)
	r.groups.Put(run.group)
	r.runs.leave(run)
}

// startLoop forks the helper and all processes without a policy on one locked thread. The kernel sends a parent-death signal when the
// thread that forked ends, not only when the process ends. Therefore nothing else uses this thread, and it ends with the Runner.
func (r *Runner) startLoop() {
	runtime.LockOSThread() // There is no unlock, so the thread ends with this goroutine.
	for start := range r.starts {
		start()
	}
}

// start forks the process and starts the goroutines that attend it. After an error the caller must not attend the run. When start returns
// an error and run.handle is set, the process ran for a moment.
func (r *Runner) start(ctx context.Context, run *run) error {
	// The directory is checked here, because the kernel reports a missing directory with the same error as a missing program.
	if at, err := os.Stat(run.spec.Dir); err != nil || !at.IsDir() {
		return fmt.Errorf("directory %s: %w", run.spec.Dir, cmp.Or(err, error(syscall.ENOTDIR)))
	}
	if _, _, err := run.spec.below(run.spec.Dir); err != nil {
		return fmt.Errorf("directory %s: %w", run.spec.Dir, err)
	}
	if err := r.enterHome(run); err != nil {
		return fmt.Errorf("home: %w", err)
	}
	var err error
	if run.note.file, err = r.records.open(run.id); err != nil {
		return err
	}
	theirs, err := run.pipes.open(&run.spec)
	if err == nil {
		theirs, err = run.pipes.hand(theirs, run.spec.Handed)
	}
	switch {
	case err != nil:
	case run.spec.Policy != nil:
		err = r.isolate(ctx, run, theirs)
	default:
		done := make(chan error)
		r.starts <- func() { done <- r.fork(ctx, run, theirs) }
		err = <-done
	}
	for _, f := range theirs {
		f.Close()
	}
	if err == nil {
		err = r.follows(ctx, run)
	}
	if err != nil {
		run.pipes.close()
		r.records.drop(run, nil)
		return err
	}
	run.spec.Control.attach(run) // This must come before the first call of Output, which may use Control.
	run.pipes.start(run.spec.Stdin, run.spec.Output, run.broken)
	if run.spec.Started != nil {
		run.spec.Started()
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return nil
}

// isolate creates process 1 of a run, after it has prepared everything outside of the sandbox.
func (r *Runner) isolate(ctx context.Context, run *run, theirs []*os.File) error {
	err := r.guard(run)
	if err == nil {
		err = run.findSockets()
	}
	if err == nil {
		err = r.group(run)
	}
	if err == nil {
		err = r.launch(ctx, run, theirs)
	}
	return err
}

func (r *Runner) fork(ctx context.Context, run *run, files []*os.File) error {
	r.runs.starting.Lock()
	defer r.runs.starting.Unlock()
	if err := closeOnExec(); err != nil {
		return err
	}
	if _, err := r.mayStart(ctx, run); err != nil {
		return err
	}
	run.began = time.Now()
	attr := &os.ProcAttr{
		Dir:   run.spec.Dir,
		Env:   append(slices.Clip(run.spec.Env), TagVariable+"="+run.tag),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: run.pipes.terminal != nil, Pdeathsig: syscall.SIGKILL}, // the controlling terminal is file descriptor 0
	}
	handle, err := os.StartProcess(run.spec.Path, append([]string{run.spec.Path}, run.spec.Args...), attr)
	if err != nil {
		if inner, ok := errors.AsType[*os.PathError](err); ok {
			return inner.Err // Run adds the path to this error.
		}
		return err
	}
	run.handle = handle
	main, err := readProcess(handle.Pid)
	if err == nil {
		err = r.records.write(run, main.identity(), nil)
	}
	if err != nil {
		syscall.Kill(-handle.Pid, syscall.SIGKILL)
		_, _ = handle.Wait() // reaps the process
		return err
	}
	run.main = main
	return nil
}

// mayStart returns the latest time at which the process of a run may start, measured with CLOCK_BOOTTIME. Zero means any time.
func (r *Runner) mayStart(ctx context.Context, run *run) (time.Duration, error) {
	if r.startBy == nil {
		return 0, nil
	}
	by, err := r.startBy(ctx)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrKept, err)
	case run.spec.Harmless:
		by = 0
	}
	return by, nil
}

// aborted returns the Exit of a run whose start failed after its process was started. It is unknown what the process did before it was
// killed. aborted returns nil when no process was started.
func (run *run) aborted() *Exit {
	if run.handle == nil {
		return nil
	}
	pid := run.handle.Pid
	return &Exit{
		Code:       -1,
		Signal:     signalName(syscall.SIGKILL),
		Killed:     []int{pid},
		Unverified: []Process{{PID: pid, Command: "descendants of " + run.spec.Path, Tag: run.spec.Tag}},
	}
}

// follows starts waiting for a forked process. After an error the caller must not attend the run.
func (r *Runner) follows(ctx context.Context, run *run) error {
	if run.inner != nil {
		return r.awaitStart(ctx, run)
	}
	go run.await()
	return nil
}

func (run *run) await() {
	if err := awaitEnd(run.main.pid); err != nil {
		_ = run.handle.Signal(syscall.SIGKILL) // The process cannot be waited for, so it is killed in case it still runs.
	}
	run.endedAt = time.Now()
	close(run.ended)
}

// attend waits until a started run has ended and cleans up after it.
func (r *Runner) attend(ctx context.Context, run *run) (*Exit, error) {
	var why, broken error
	select {
	case <-run.ended:
	case <-ctx.Done():
		why = context.Cause(ctx)
	case broken = <-run.broken:
	case <-r.life.Done():
		why = ErrClosed
	}
	over := run.over()
	if over {
		why = run.cut
	}
	left := r.endAll(run, over)
	if run.inner != nil {
		run.inner.gate.end()
	}
	run.spec.Control.attach(nil)
	exit := &Exit{Code: -1, Unverified: run.pipes.finish()}
	for _, p := range left {
		exit.Unverified = append(exit.Unverified, describe(p))
	}
	if len(exit.Unverified) == 0 {
		exit.ConfirmedAt = time.Now()
	}
	for _, p := range left {
		delete(run.killed, p.pid)
	}
	for pid := range run.killed {
		exit.Killed = append(exit.Killed, pid)
	}
	slices.Sort(exit.Killed)
	run.account(exit)
	r.records.drop(run, left)
	if why == nil {
		why = broken
	}
	if why == nil {
		select {
		case why = <-run.broken:
		default:
		}
	}
	return exit, why
}

// endAll ends the remaining processes of a run and returns those that it could not end.
func (r *Runner) endAll(run *run, over bool) []process {
	switch {
	case run.supervised():
		return r.endInner(run, over)
	case !over:
		run.terminate()
	default:
		run.pipes.await(outputGrace)
		if r.family.noOrphans() {
			return nil
		}
	}
	return r.family.end(run.main.pid, run.killed, r.family.finder(run))
}

func (run *run) over() bool {
	select {
	case <-run.ended:
		return true
	default:
		return false
	}
}

// account reaps a dead main process and records how it ended.
func (run *run) account(exit *Exit) {
	select {
	case <-run.ended:
	case <-time.After(confirmBound): // The goroutine that waits for the process may close run.ended a little later.
		exit.Duration = time.Since(run.began)
		run.handle.Release()
		return
	}
	if run.inner != nil {
		run.accountInner(exit)
		run.accountGroup(exit)
		return
	}
	exit.Duration = run.endedAt.Sub(run.began)
	state, err := run.handle.Wait()
	if err != nil {
		return
	}
	exit.Code = state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = signalName(status.Signal())
	}
	exit.CPU = state.UserTime() + state.SystemTime()
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		exit.MaxRSS = usage.Maxrss << 10
	}
}
