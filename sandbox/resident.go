package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/helper"
)

// helloBound is the maximum time in which the helper must create process 1 of a run. It usually takes a millisecond.
const helloBound = 10 * time.Second

// Reasons why there is no process 1. No part of the run was started.
var (
	errNoHelper           = errors.New("this daemon has no helper; configure the path of toold-sandbox")
	errHelperExited       = errors.New("ended without a response")
	errHelperUnresponsive = errors.New("does not answer") // The run does not try another helper after this error: the file system that blocks this helper would block another helper too.
)

// A resident is the helper process that creates all isolated runs, one after the other. The Runner starts it for the first of these runs,
// and starts a new one when the helper process has ended. The helper process keeps no state of a run.
type resident struct {
	turn chan struct{}  // holds one token; only the goroutine with the token creates a run
	now  *helperProcess // used only by the goroutine with the token
}

type helperProcess struct {
	run    *run // This run is in the list of runs, so that the helper is not taken for an orphan or a leftover process. It is never attended.
	socket *os.File
	handle *os.Process
	exited chan struct{}

	mu     sync.Mutex
	ended  bool
	waited *os.File // pipe on which a goroutine waits for the helper's next message
}

// launch creates process 1 of a run. When it returns nil, the caller must follow the process. After an error there is no process 1, and
// none will be created later.
func (r *Runner) launch(ctx context.Context, run *run, theirs []*os.File) error {
	if r.program == nil {
		return &RefusedError{Fact: "processes_killed", Step: "helper", Err: errNoHelper}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(r.life, func() { stop(ErrClosed) })()
	select {
	case r.resident.turn <- struct{}{}:
		defer func() { <-r.resident.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := errHelperExited
	for range 2 { // Tries twice, because another process may have killed the helper.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !r.resident.now.alive() {
			if r.resident.now, err = r.startHelper(); err != nil {
				break
			}
		}
		if err = r.ask(ctx, r.resident.now, run, theirs); errors.Is(err, errHelperExited) {
			continue
		}
		if !errors.Is(err, errHelperUnresponsive) {
			return err
		}
		break
	}
	return &RefusedError{Fact: "processes_killed", Step: "helper", Err: err}
}

// startHelper starts the helper on the thread of startLoop. The kernel kills the helper and each process 1 when the thread that started the
// helper ends. That thread lasts as long as the Runner.
func (r *Runner) startHelper() (*helperProcess, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "orders")
	defer theirs.Close()
	id := rand.Text()
	c := &helperProcess{socket: os.NewFile(uintptr(pair[0]), "orders"), exited: make(chan struct{})}
	c.run = &run{ofHelper: true, spec: Spec{Path: helper.Name, Policy: &Policy{}}, id: id, tag: r.origin.tag(id, "helper")}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		done := make(chan error)
		r.starts <- func() { done <- r.forkHelper(c, []*os.File{null, null, null, theirs}) }
		err = <-done
		null.Close()
	}
	if err != nil {
		c.socket.Close()
		return nil, err
	}
	go r.awaitHelper(c) // stopHelper waits for the end of this goroutine, for a limited time.
	return c, nil
}

func (r *Runner) forkHelper(c *helperProcess, files []*os.File) error {
	r.runs.starting.Lock()
	defer r.runs.starting.Unlock()
	if err := closeOnExec(); err != nil {
		return err
	}
	handle, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(int(r.program.Fd())), []string{helper.Name}, &os.ProcAttr{
		Dir: "/", Env: []string{TagVariable + "=" + c.run.tag, "GOMAXPROCS=1"}, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	main, err := readProcess(handle.Pid)
	if err != nil {
		_ = handle.Kill()
		_, _ = handle.Wait()
		return err
	}
	c.handle, c.run.main = handle, main
	r.runs.add(c.run)
	return nil
}

// awaitHelper waits for the end of the helper and wakes the goroutine that waits for its answer.
func (r *Runner) awaitHelper(c *helperProcess) {
	if err := awaitEnd(c.run.main.pid); err != nil {
		_ = c.handle.Kill() // The process cannot be waited for, so it is killed in case it still runs.
	}
	c.mu.Lock()
	c.ended = true
	if c.waited != nil {
		_ = c.waited.SetReadDeadline(time.Now())
	}
	c.mu.Unlock()
	r.runs.starting.Lock()
	defer r.runs.starting.Unlock()
	_, _ = c.handle.Wait() // reaps the process
	r.runs.remove(c.run)
	close(c.exited)
}

func (c *helperProcess) alive() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended
}

// waitsAt records the pipe on which the caller waits for the helper's next message. It reports whether the helper is still alive.
func (c *helperProcess) waitsAt(status *os.File) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = status
	return !c.ended
}

// stopHelper ends the helper. When now is true, it also ends processes that the helper has created and not reported. A helper may not end,
// for example when a dead file system blocks it. Then stopHelper returns an error, and awaitHelper continues to wait.
func (r *Runner) stopHelper(c *helperProcess, now bool) error {
	r.resident.now = nil
	c.socket.Close()
	timer := time.NewTimer(killBound)
	defer timer.Stop()
	if now {
		_ = c.handle.Kill()
	}
	select {
	case <-c.exited:
	case <-timer.C:
		_ = c.handle.Kill()
		timer.Reset(confirmBound)
		select {
		case <-c.exited:
		case <-timer.C:
			return fmt.Errorf("process %d of the helper does not end", c.run.main.pid)
		}
	}
	if now {
		return r.reapStrays(c.run.main.pid)
	}
	return nil
}

// reapStrays ends processes that a helper had created just before it was killed. They are in the helper's session. Each of them is process
// 1 of a run. The daemon has allowed at most one of them to begin.
func (r *Runner) reapStrays(session int) error {
	for deadline := time.Now().Add(killBound); ; time.Sleep(time.Millisecond) {
		c, err := takeCensus()
		if err != nil {
			return err
		}
		known := map[int]bool{}
		for _, o := range r.runs.others(nil) {
			known[o.main.pid] = true
		}
		var left error
		for _, pid := range c.sessions[session] {
			switch p := c.all[pid]; {
			case p.parent != r.origin.self.pid || known[pid]:
			case !p.dead():
				_ = send(p, syscall.SIGKILL)
				left = fmt.Errorf("process %d, which the helper made for a run, does not end", pid)
			case !reap(pid):
				left = fmt.Errorf("process %d, which the helper made for a run, cannot be waited for", pid)
			}
		}
		if left == nil || time.Now().After(deadline) {
			return left
		}
	}
}

// ask makes the helper create process 1, records its PID, and lets it begin. When the helper fails, the next run starts another helper.
func (r *Runner) ask(ctx context.Context, c *helperProcess, run *run, theirs []*os.File) error {
	more, err := r.openInner(run)
	asked := err == nil
	run.began = time.Now()
	if err == nil {
		err = c.send(slices.Concat(more[:helper.SentInput], theirs, more[helper.SentInput:]))
	}
	for _, f := range more {
		f.Close()
	}
	var pid int
	if err == nil {
		pid, err = run.inner.hello(ctx, c, &run.spec)
	}
	if err == nil {
		err = r.register(ctx, c, run, pid)
	}
	if err == nil {
		return nil
	}
	run.inner.close()
	if _, refused := errors.AsType[*RefusedError](err); asked && (pid != 0 || !refused) {
		if left := r.stopHelper(c, true); left != nil {
			err = errors.Join(err, left)
		}
	}
	return err
}

// register records the PID of process 1 and lets process 1 begin. Until then process 1 is in the helper's session, so it is not taken for
// an orphan. After an error process 1 is killed, and the caller must wait for it.
func (r *Runner) register(ctx context.Context, c *helperProcess, run *run, pid int) error {
	r.runs.starting.Lock()
	defer r.runs.starting.Unlock()
	if !c.alive() { // After errHelperExited the caller calls stopHelper, which ends the other processes in the helper's session.
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return errHelperExited
	}
	handle, err := os.FindProcess(pid)
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // The PID is still valid, because the child is not reaped.
		return err
	}
	main, err := readProcess(pid)
	if err == nil && main.parent != r.origin.self.pid {
		err = fmt.Errorf("process 1 has the parent %d", main.parent)
	}
	if err == nil {
		err = r.records.write(run, main.identity(), nil)
	}
	if err == nil {
		if err = run.group.Add(pid); errors.Is(err, syscall.ESRCH) {
			err = nil // Process 1 has already ended and reported the reason.
		} else if err != nil {
			err = ungrouped(err)
		}
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var by time.Duration
	if err == nil {
		by, err = r.mayStart(ctx, run)
	}
	if err == nil {
		if _, err = run.inner.control.Write(helper.Go(by)); errors.Is(err, syscall.EPIPE) {
			err = nil // Process 1 has already ended and reported the reason.
		}
	}
	if err != nil {
		_ = handle.Kill()
		_ = handle.Release()
		return err
	}
	run.handle, run.main = handle, main
	return nil
}

// send passes the file descriptors of a run to the helper.
func (c *helperProcess) send(files []*os.File) error {
	fds := make([]int, 0, len(files))
	for _, f := range files {
		fd := int(f.Fd())
		if err := unix.SetNonblock(fd, false); err != nil { // the receiver expects blocking file descriptors
			return err
		}
		fds = append(fds, fd)
	}
	err := control(c.socket, func(fd uintptr) error {
		return unix.Sendmsg(int(fd), []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	runtime.KeepAlive(files)
	if err != nil {
		return fmt.Errorf("%w: %w", errHelperExited, err)
	}
	return nil
}

// hello waits until the helper reports the PID of process 1. It keeps earlier messages for follow.
func (in *inner) hello(ctx context.Context, c *helperProcess, spec *Spec) (pid int, err error) {
	if err := in.status.SetReadDeadline(time.Now().Add(helloBound)); err != nil {
		return 0, err
	}
	defer c.waitsAt(nil)
	if !c.waitsAt(in.status) {
		return 0, errHelperExited
	}
	stop := context.AfterFunc(ctx, func() { _ = in.status.SetReadDeadline(time.Now()) })
	defer stop()
	for {
		m, err := in.next()
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded) && c.alive():
			return 0, errHelperUnresponsive
		case err != nil:
			return 0, fmt.Errorf("%w: %w", errHelperExited, err)
		case m.Kind == helper.Refused:
			return 0, refusal(m, spec)
		case m.Kind != helper.Hello:
			in.early = append(in.early, m)
			continue
		case !stop(): // The function that runs on a cancel has started and may still set a deadline.
			return 0, context.Cause(ctx)
		}
		c.waitsAt(nil)
		return int(m.Value), in.status.SetReadDeadline(time.Time{})
	}
}

func (in *inner) next() (*helper.Message, error) {
	buf := make([]byte, helper.MessageSize)
	if _, err := io.ReadFull(in.status, buf); err != nil {
		return nil, err
	}
	m, err := helper.Decode(buf)
	return &m, err
}

func (in *inner) close() {
	if in != nil {
		in.status.Close()
		in.control.Close()
		in.gate.end()
	}
}
