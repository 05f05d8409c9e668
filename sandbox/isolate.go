package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/helper"
)

// launchBound is the maximum time that process 1 has to set up the policy. The setup usually takes a few milliseconds.
const launchBound = 20 * time.Second

// An inner is the state of an isolated run, as process 1 of the run reports it.
type inner struct {
	status, control *os.File      // the daemon's ends of the pipes
	started         chan error    // receives nil when the command runs
	exited          chan struct{} // closed when process 1 has ended; then no process of the run is left
	early           []*helper.Message
	end             *helper.Message
	tried           []helper.Message // results of a canary; read them after exited is closed
	gate            *gate            // nil without NetworkProxy
}

// supervised reports whether the run has a process 1 in a PID namespace. When process 1 ends, the kernel kills all other processes in that
// namespace.
func (run *run) supervised() bool { return run.spec.Policy != nil && !run.spec.Policy.Unsupervised }

// openHelper opens the helper program, so that later changes to its file do not change what runs. It returns nil for [NoHelper].
func openHelper(path string) (*os.File, error) {
	switch path {
	case NoHelper:
		return nil, nil
	case "":
		path = "/proc/self/exe" // The daemon is its own helper. The file cannot change, because the kernel forbids writes to the file of a running program.
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if path == "/proc/self/exe" {
		return away(file)
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(helper.Name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // Before Linux 6.3 the flag MFD_EXEC does not exist, and memfds are executable without it.
		fd, err = unix.MemfdCreate(helper.Name, flags)
	}
	if err != nil {
		return nil, err
	}
	sealed := os.NewFile(uintptr(fd), helper.Name)
	defer sealed.Close()
	if _, err := io.Copy(sealed, file); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(sealed.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		return nil, err
	}
	return away(sealed)
}

// away duplicates file to a file descriptor with a number above those that the helper receives. The helper is executed through this
// descriptor, after the received descriptors were moved to their numbers.
func away(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, helper.SocketFD+1)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// orderFile writes an order to a file that the helper reads.
func orderFile(o *helper.Order) (*os.File, error) {
	text, err := o.Encode()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "order")
	if _, err = file.Write(text); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// openInner creates the file descriptors of process 1, except those of the command.
func (r *Runner) openInner(run *run) (theirs []*os.File, err error) {
	o := r.order(&run.spec, run.tag)
	o.Canary = run.canary
	o.Home, o.HomeAt, o.Sockets = run.home.dir, run.home.at, run.sockets
	run.inner = nil
	file, err := orderFile(o)
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, file)
	in := &inner{started: make(chan error, 1), exited: make(chan struct{})}
	status, w, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	in.status, theirs = status, append(theirs, w)
	c, control, err := os.Pipe()
	if err != nil {
		status.Close()
		return theirs, err
	}
	in.control, theirs = control, append(theirs, c)
	run.inner = in
	if run.spec.Policy.Network == NetworkProxy {
		g, its, err := r.openGate()
		if err != nil {
			return theirs, err
		}
		in.gate, theirs = g, append(theirs, its)
	}
	return theirs, nil
}

// follow reads the messages of process 1 until process 1 has ended. Then it closes exited. It closes ended when the command has ended, or
// with exited.
func (run *run) follow() {
	in := run.inner
	reported := false
	start := func(err error) {
		if !reported {
			in.started <- err
		}
		reported = true
	}
	for {
		var m *helper.Message
		if len(in.early) > 0 {
			m, in.early = in.early[0], in.early[1:]
		} else if next, err := in.next(); err == nil {
			m = next
		} else {
			break
		}
		switch m.Kind {
		case helper.Failed:
			start(refusal(m, &run.spec))
		case helper.Started:
			start(nil)
		case helper.Ended:
			in.end, run.endedAt = m, time.Now()
		case helper.Tried:
			in.tried = append(in.tried, *m)
		}
		if in.end != nil && reported {
			run.endOnce.Do(func() { close(run.ended) })
		}
	}
	if err := awaitEnd(run.main.pid); err != nil {
		_ = run.handle.Signal(syscall.SIGKILL) // The process cannot be waited for, so it is killed in case it still runs.
	}
	start(&RefusedError{Fact: "processes_killed", Step: "process 1", Err: errors.New("ended without a response")})
	run.endOnce.Do(func() {
		if run.endedAt.IsZero() {
			run.endedAt = time.Now()
		}
		close(run.ended)
	})
	close(in.exited)
}

// refusal converts a failed step of the helper to an error.
func refusal(m *helper.Message, spec *Spec) error {
	var err error = syscall.Errno(m.Errno)
	step := m.Text()
	switch {
	case step == "execute":
		return err
	case step == helper.Late:
		return fmt.Errorf("%w: it was stopped, or took too long to start", ErrKept)
	case strings.HasPrefix(step, "directory "):
		return fmt.Errorf("directory %s: %w", spec.Dir, err)
	case m.Errno == 0:
		err = errors.New("not possible")
	}
	return &RefusedError{Fact: factOf(step), Step: step, Err: err}
}

// awaitStart waits until the command runs. It also returns nil when the run was cut short; in both cases the caller must attend the run.
// After an error no process runs, except when process 1 does not end in time; then run.handle stays set.
func (r *Runner) awaitStart(ctx context.Context, run *run) error {
	if run.inner.gate != nil {
		run.inner.gate.begin(r.gateway, &run.spec)
	}
	go run.follow()
	timer := time.NewTimer(launchBound)
	defer timer.Stop()
	var err error
	select {
	case err = <-run.inner.started:
	case <-ctx.Done():
		run.cut = context.Cause(ctx)
		return nil
	case <-r.life.Done():
		run.cut = ErrClosed
		return nil
	case <-timer.C:
		err = &RefusedError{Fact: "processes_killed", Step: "process 1", Err: os.ErrDeadlineExceeded}
	}
	if err == nil {
		if run.inner.gate != nil {
			// This does not block for long, because the helper sends the listener before it starts the command. After an error the command has no
			// network, and attend ends it.
			if err := <-run.inner.gate.ready; err != nil {
				run.broken <- err
			}
		}
		return nil
	}
	_ = run.handle.Kill()
	timer.Reset(killBound)
	select {
	case <-run.inner.exited:
		_, _ = run.handle.Wait() // reaps the process
		run.handle = nil
	case <-timer.C: // The process has not ended in time, so it is reported as unverified.
	}
	return err
}

// signal asks process 1 to send a signal: to every process of the run when all is true, otherwise to the command's process group.
func (in *inner) signal(all bool, sig syscall.Signal) error {
	if _, err := in.control.Write(helper.Signal{All: all, Number: sig}.Encode()); err != nil {
		return ErrNotRunning
	}
	return nil
}

// endInner ends an isolated run. When process 1 has ended, the kernel has already ended every process in its PID namespace. endInner
// returns the processes that it could not end.
func (r *Runner) endInner(run *run, over bool) []process {
	in := run.inner
	if over {
		run.awaitLast()
	} else {
		r.askToEnd(run)
	}
	select {
	case <-in.exited:
		return nil
	default:
	}
	r.listInner(run)
	_ = run.handle.Kill()
	in.control.Close()
	timer := time.NewTimer(killBound)
	defer timer.Stop()
	select {
	case <-in.exited:
		return nil
	case <-timer.C:
		left := r.family.end(run.main.pid, run.killed, r.family.finder(run))
		for i := range left {
			if left[i].identity() == run.main.identity() {
				left[i].tag = run.spec.Tag
			}
		}
		return left
	}
}

// awaitLast waits a short time for output of processes that still run after the command has ended.
func (run *run) awaitLast() {
	timer := time.NewTimer(outputGrace)
	defer timer.Stop()
	if run.inner.end == nil || run.inner.end.Left == 0 {
		timer.Reset(killBound) // No other process is left, so process 1 ends soon.
	}
	streams := run.pipes.streams
	for {
		var done chan struct{} // done channel of the first stream that is still open
		if len(streams) > 0 {
			done = streams[0].done
		}
		select {
		case <-run.inner.exited:
			return
		case <-timer.C:
			return
		case <-done:
			if streams = streams[1:]; len(streams) == 0 && run.inner.end != nil && run.inner.end.Left != 0 {
				timer.Reset(outputGrace / 10) // The process that wrote the last lines may still be ending, so it gets a little more time.
			}
		}
	}
}

// listInner records the processes that are about to be killed: all living processes in the run's PID namespace except the main process.
// Exit.Killed reports them.
func (r *Runner) listInner(run *run) {
	c, err := takeCensus()
	if err != nil {
		return // The PIDs are not reported, but process 1 is still ended.
	}
	found, _ := r.family.linked(run, c)
	for pid, p := range found {
		if pid != run.main.pid && !p.dead() {
			run.killed[pid] = true
		}
	}
}

// askToEnd sends SIGTERM to all processes of an isolated run and waits for their end, at most for the grace period.
func (r *Runner) askToEnd(run *run) {
	grace := cmp.Or(run.spec.Grace, defaultGrace)
	if grace < 0 {
		return
	}
	r.listInner(run)
	if run.inner.signal(true, syscall.SIGTERM) != nil {
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-run.inner.exited:
	case <-timer.C:
	}
}

// accountInner records how the command ended, from the helper's report.
func (run *run) accountInner(exit *Exit) {
	exit.Duration = run.endedAt.Sub(run.began)
	state, err := run.handle.Wait()
	m := run.inner.end
	if m == nil { // Process 1 was killed before it could report how the command ended.
		exit.Signal = signalName(syscall.SIGKILL)
		if err == nil {
			exit.CPU = state.UserTime() + state.SystemTime()
		}
		return
	}
	status := syscall.WaitStatus(m.Value)
	exit.Code = status.ExitStatus()
	if status.Signaled() {
		exit.Signal = signalName(status.Signal())
	}
	exit.CPU = time.Duration(m.Usage.Utime.Nano() + m.Usage.Stime.Nano())
	exit.MaxRSS = m.Usage.Maxrss << 10
}
