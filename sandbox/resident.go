package sandbox

import (
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

// helloBound is for the helper to make process 1 of a run; it takes a millisecond.
const helloBound = 10 * time.Second

// errHelperGone means that the helper ended, or does not answer. Nothing of the run was started.
var errHelperGone = errors.New("ended without a word")

// A resident is the helper that all isolated runs are made by, one after the other: it is started with the first of them,
// and again when it has ended. It keeps nothing of a run.
type resident struct {
	mu  sync.Mutex // held while it makes a run
	now *clerk
}

// A clerk is one process of the helper.
type clerk struct {
	run    *run // never attended; it is among the runs, so that its process is nobody's orphan and nobody's leaving
	socket *os.File
	handle *os.Process
	gone   chan struct{}

	mu     sync.Mutex
	ended  bool
	waited *os.File // where its next word is waited for
}

// launch makes process 1 of a run. When it returns nil, that waits to be followed; else there is none.
func (r *Runner) launch(run *run, theirs []*os.File) error {
	r.resident.mu.Lock()
	defer r.resident.mu.Unlock()
	err := errHelperGone
	for range 2 { // somebody may have killed it
		if !r.resident.now.lives() {
			if r.resident.now, err = r.hire(); err != nil {
				break
			}
		}
		if err = r.ask(r.resident.now, run, theirs); !errors.Is(err, errHelperGone) {
			return err
		}
		r.dismiss(r.resident.now, true)
	}
	return &RefusedError{Fact: "processes_killed", Step: "helper", Err: err}
}

// hire starts the helper. It is the thread of startLoop that does: the kernel ends what the helper makes with its parent.
func (r *Runner) hire() (*clerk, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "orders")
	defer theirs.Close()
	id := rand.Text()
	c := &clerk{socket: os.NewFile(uintptr(pair[0]), "orders"), gone: make(chan struct{})}
	c.run = &run{spec: Spec{Path: helper.Name, Policy: &Policy{}}, id: id, tag: tagOfRun(r.owner, r.self.identity(), id, "helper")}
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
	r.done.Go(func() { r.seeOff(c) })
	return c, nil
}

func (r *Runner) forkHelper(c *clerk, files []*os.File) error {
	r.starting.Lock()
	defer r.starting.Unlock()
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[c.run.id] = c.run
	return nil
}

// seeOff waits for the end of the helper, and tells who waits for its word.
func (r *Runner) seeOff(c *clerk) {
	if err := awaitEnd(c.run.main.pid); err != nil {
		_ = c.handle.Kill() // not waitable: somebody else waited for it
	}
	c.mu.Lock()
	c.ended = true
	if c.waited != nil {
		_ = c.waited.SetReadDeadline(time.Now())
	}
	c.mu.Unlock()
	r.starting.Lock()
	defer r.starting.Unlock()
	_, _ = c.handle.Wait() // to reap it
	r.mu.Lock()
	delete(r.runs, c.run.id)
	r.mu.Unlock()
	close(c.gone)
}

func (c *clerk) lives() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended
}

// waitsAt notes where the next word of the helper is waited for, and reports whether it may come.
func (c *clerk) waitsAt(status *os.File) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = status
	return !c.ended
}

// dismiss ends the helper, and what it made that nobody knows of.
func (r *Runner) dismiss(c *clerk, now bool) {
	c.socket.Close()
	timer := time.NewTimer(killBound)
	defer timer.Stop()
	if now {
		_ = c.handle.Kill()
	}
	select {
	case <-c.gone:
	case <-timer.C:
		_ = c.handle.Kill()
		<-c.gone
	}
	if now {
		r.reapStrays(c.run.main.pid)
	}
}

// reapStrays waits for what a helper that was killed had just made. Without the word to begin it stays in the helper's
// session, and ends with its control.
func (r *Runner) reapStrays(session int) {
	for deadline := time.Now().Add(killBound); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		c, err := takeCensus()
		if err != nil {
			return
		}
		living := 0
		for _, pid := range c.sessions[session] {
			if p := c.all[pid]; p.parent == r.self.pid && (!p.dead() || !reap(pid)) {
				living++
			}
		}
		if living == 0 {
			return
		}
	}
}

// ask has the helper make process 1, notes who that is, and lets it begin.
func (r *Runner) ask(c *clerk, run *run, theirs []*os.File) error {
	more, err := r.openInner(run)
	r.starting.Lock() // until main is known
	defer r.starting.Unlock()
	run.began = time.Now()
	if err == nil {
		err = c.send(slices.Concat(more[:helper.SentInput], theirs, more[helper.SentInput:]))
	}
	for _, f := range more {
		f.Close()
	}
	if err != nil {
		run.inner.close()
		return err
	}
	pid, err := run.inner.hello(c, &run.spec)
	if err == nil {
		err = r.register(run, pid)
	}
	if err != nil {
		run.inner.close()
	}
	return err
}

// register notes who process 1 is, and lets it begin.
func (r *Runner) register(run *run, pid int) error {
	handle, err := os.FindProcess(pid)
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // a child that nobody has waited for
		return err
	}
	main, err := readProcess(pid)
	if err == nil && main.parent != r.self.pid {
		err = fmt.Errorf("process 1 has the parent %d", main.parent)
	}
	if err == nil {
		err = r.writeRecord(run, main.identity(), nil)
	}
	if err == nil {
		if err = run.group.Add(pid); errors.Is(err, syscall.ESRCH) {
			err = nil // it has ended, and told why
		} else if err != nil {
			err = ungrouped(err)
		}
	}
	if err == nil {
		if _, err = run.inner.control.Write(helper.Go()); errors.Is(err, syscall.EPIPE) {
			err = nil // likewise
		}
	}
	if err != nil {
		_ = handle.Kill()
		_, _ = handle.Wait() // to reap it
		return err
	}
	run.handle, run.main = handle, main
	return nil
}

// send hands the helper the descriptors of a run.
func (c *clerk) send(files []*os.File) error {
	fds := make([]int, 0, len(files))
	for _, f := range files {
		fd := int(f.Fd())
		if err := unix.SetNonblock(fd, false); err != nil { // who gets it does not expect that
			return err
		}
		fds = append(fds, fd)
	}
	err := control(c.socket, func(fd uintptr) error {
		return unix.Sendmsg(int(fd), []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	runtime.KeepAlive(files)
	if err != nil {
		return fmt.Errorf("%w: %w", errHelperGone, err)
	}
	return nil
}

// hello waits until the helper tells the number of process 1, and keeps what that tells before.
func (in *inner) hello(c *clerk, spec *Spec) (pid int, err error) {
	if err := in.status.SetReadDeadline(time.Now().Add(helloBound)); err != nil {
		return 0, err
	}
	defer c.waitsAt(nil)
	if !c.waitsAt(in.status) {
		return 0, errHelperGone
	}
	for {
		m, err := in.next()
		switch {
		case err != nil:
			return 0, fmt.Errorf("%w: %w", errHelperGone, err)
		case m.Kind == helper.Refused:
			return 0, refusal(m, spec)
		case m.Kind != helper.Hello:
			in.early = append(in.early, m)
			continue
		}
		c.waitsAt(nil)
		return int(m.Value), in.status.SetReadDeadline(time.Time{})
	}
}

// next reads a message.
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
