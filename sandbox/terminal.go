package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

// Size is the size of a terminal in characters.
type Size struct{ Rows, Columns int }

// ErrNotRunning means that the process is not running.
var ErrNotRunning = errors.New("the process is not running")

// A Control resizes and signals a run while it lasts. The zero value is ready and may be used in one Spec only. Its methods may be called
// at any time, from any goroutine.
type Control struct {
	mu  sync.Mutex
	run *run // set from the start of the run until its main process is reaped
}

// Resize changes the size of the run's terminal. The kernel then sends a signal to the foreground processes of the terminal. Resize does
// nothing for a run without terminal.
func (c *Control) Resize(s Size) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.run == nil:
		return ErrNotRunning
	case c.run.pipes.terminal == nil:
		return nil
	}
	return resize(c.run.pipes.terminal, s)
}

// Signal signals the foreground processes of the run's terminal, as a key press would. Without a terminal it signals the process group of
// the main process.
func (c *Control) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return ErrNotRunning
	}
	if c.run.inner != nil && c.run.pipes.terminal == nil {
		return c.run.inner.signal(false, sig)
	}
	group := c.run.main.pid // The number stays valid, because the process is not reaped yet.
	if c.run.pipes.terminal != nil {
		if keySignal(c.run.pipes.terminal, sig) == nil {
			return nil
		}
		var front int32
		if err := ioctl(c.run.pipes.terminal, syscall.TIOCGPGRP, unsafe.Pointer(&front)); err != nil {
			return err
		}
		if p, err := readProcess(int(front)); err == nil && (p.session == group || c.run.inner != nil && c.run.holds(p)) {
			group = int(front)
		} else if c.run.inner != nil {
			return c.run.inner.signal(false, sig)
		}
	}
	if err := syscall.Kill(-group, sig); err != nil {
		return ErrNotRunning
	}
	return nil
}

// holds reports whether p is in the PID namespace of an isolated run.
func (run *run) holds(p process) bool {
	for range 1 << 10 { // The loop is limited, because parent links may form a cycle when processes end meanwhile.
		if p.parent == run.main.pid {
			return true
		}
		var err error
		if p, err = readProcess(p.parent); err != nil || p.pid <= 1 {
			return false
		}
	}
	return false
}

// keySignal makes the kernel signal the foreground process group of the terminal as for a key press. This works only for SIGINT, SIGQUIT
// and SIGTSTP.
func keySignal(ours *os.File, sig syscall.Signal) error {
	return control(ours, func(fd uintptr) error {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, ioctlSignal, uintptr(sig))
		return result(errno)
	})
}

func (c *Control) attach(run *run) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = run
}

// openTerminal creates a pseudo-terminal. ours is the daemon's end, theirs is the end for the process.
func openTerminal(s Size) (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			ours.Close()
		}
	}()
	var locked int32
	if err = ioctl(ours, syscall.TIOCSPTLCK, unsafe.Pointer(&locked)); err != nil {
		return nil, nil, fmt.Errorf("unlock terminal: %w", err)
	}
	if err = resize(ours, s); err != nil {
		return nil, nil, err
	}
	// The other end is opened through the file descriptor and not by path, because /dev/pts of this mount namespace may show another
	// instance of devpts.
	var fd uintptr
	err = control(ours, func(master uintptr) error {
		var errno syscall.Errno
		fd, _, errno = syscall.Syscall(syscall.SYS_IOCTL, master, ioctlPeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
		return result(errno)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	name, _ := terminalName(ours)
	return ours, os.NewFile(fd, name), nil
}

// TIOCGPTPEER and TIOCSIG, which package syscall lacks. They are the same on every architecture that toold supports.
const (
	ioctlPeer   = 0x5441
	ioctlSignal = 0x40045436
)

// terminalName returns the path of the end for the process.
func terminalName(ours *os.File) (string, error) {
	var n int32
	err := ioctl(ours, syscall.TIOCGPTN, unsafe.Pointer(&n))
	return "/dev/pts/" + strconv.Itoa(int(n)), err
}

func resize(ours *os.File, s Size) error {
	size := [4]uint16{uint16(min(max(s.Rows, 1), 1<<15)), uint16(min(max(s.Columns, 1), 1<<15))}
	return ioctl(ours, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	return control(f, func(fd uintptr) error {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg))
		return result(errno)
	})
}

// control invokes do with the file descriptor of f and keeps f in the poller.
func control(f *os.File, do func(fd uintptr) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = do(fd) }); err != nil {
		return err
	}
	return inner
}

func result(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
