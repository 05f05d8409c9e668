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

// run is one process being run and all that descends from it.
type run struct {
	pack
	spec     Spec
	id       string // new for each run: two attempts of one call differ
	tag      string // value of TagVariable
	note     note   // guarded by pack.mu once started
	handle   *os.Process
	main     process // its pid is also its group and its session; guarded by runs.starting until start returned
	began    time.Time
	pipes    pipes
	broken   chan error // the first error of Output
	ended    chan struct{}
	endedAt  time.Time // set before ended is closed
	killed   map[int]bool
	inner    *inner         // nil: not isolated
	canary   *helper.Canary // in the place of the command
	endOnce  sync.Once      // closes ended of an isolated run
	cut      error          // why the run is to end, when that came before the command was seen to begin
	ofHelper bool           // it is no run but a helper, with nothing but processes 1 to be in its session
	guarded  []place        // to be given back to guards
	sockets  []string       // paths in the workspace that the helper does not find by itself
	home     home
	group    *cgroup.Group  // nil: there are none
	ceiling  *cgroup.Limits // of a canary, in the place of the policy's
	spent    cgroup.Usage   // of all processes; read after attend
}

// newRun returns a run that is among the active ones, or ErrClosed.
func (r *Runner) newRun(spec Spec) (*run, error) {
	id := rand.Text()
	run := &run{
		spec:   spec,
		id:     id,
		tag:    r.origin.tag(id, spec.Tag),
		broken: make(chan error, 2),
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

// startLoop forks for all runs. The kernel sends a parent-death signal when the *thread* that forked ends, so it is
// one thread, which nothing else uses and which ends with the Runner.
func (r *Runner) startLoop() {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	for start := range r.starts {
		start()
	}
}

// start forks the process and everything that attends it. After an error nobody attends anything, and handle is set when
// the process ran for a moment.
func (r *Runner) start(ctx context.Context, run *run) error {
	// The kernel's answer for a missing directory reads as if the program were missing.
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
	run.spec.Control.attach(run) // before Output gets something, which may use it
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

// isolate makes process 1 of a run, after what is made for it outside.
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
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: run.pipes.terminal != nil, Pdeathsig: syscall.SIGKILL}, // of descriptor 0
	}
	handle, err := os.StartProcess(run.spec.Path, append([]string{run.spec.Path}, run.spec.Args...), attr)
	if err != nil {
		if inner, ok := errors.AsType[*os.PathError](err); ok {
			return inner.Err // Run says the path
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
		_, _ = handle.Wait() // to reap it
		return err
	}
	run.main = main
	return nil
}

// mayStart returns until when the process of a run may start, by CLOCK_BOOTTIME; 0: at any time.
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

// aborted is the Exit of a run that could not be recorded: nil when nothing was started. What the process did in its
// moment nobody saw.
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

// follows begins to wait for a forked process. After an error it has ended, and nothing ran.
func (r *Runner) follows(ctx context.Context, run *run) error {
	if run.inner != nil {
		return r.awaitStart(ctx, run)
	}
	go run.await()
	return nil
}

func (run *run) await() {
	if err := awaitEnd(run.main.pid); err != nil {
		_ = run.handle.Signal(syscall.SIGKILL) // not waitable: another goroutine waited for it
	}
	run.endedAt = time.Now()
	close(run.ended)
}

// attend waits for the end of a started run.
func (r *Runner) attend(ctx context.Context, run *run) (*Exit, error) {
	var why error
	select {
	case <-run.ended:
	case <-ctx.Done():
		why = context.Cause(ctx)
	case why = <-run.broken:
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
		select {
		case why = <-run.broken:
		default:
		}
	}
	return exit, why
}

// endAll ends what is left of a run, and returns what is left after that.
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

// account reaps the main process, when it is dead, and notes how it ended.
func (run *run) account(exit *Exit) {
	select {
	case <-run.ended:
	case <-time.After(confirmBound): // a census may see the end before the waiting goroutine is scheduled
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
