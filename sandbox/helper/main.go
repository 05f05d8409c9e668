package helper

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Main runs the helper and does not return. A program whose argument zero is [Name] must call it first.
func Main() {
	runtime.LockOSThread() // The cloned process has only the thread that called clone, so this goroutine must stay on its thread.
	// This loop opens every free low descriptor, so that later descriptors get numbers above those of process 1. It does not replace open
	// descriptors, because the Go runtime of the program may open some at the same time.
	for fd := 0; fd <= proxyFD; {
		var err error
		if fd, err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			os.Exit(1)
		}
	}
	for garbage := 0; ; {
		fds, err := receive()
		if err != nil {
			os.Exit(1)
		}
		if fds == nil {
			os.Exit(0)
		}
		garbage += launch(fds)
		for _, fd := range fds {
			_ = unix.Close(fd) // The helper must not keep the output of the command open.
		}
		// Collects garbage now, because no run waits at this point. If the collector started by itself, a run could have to wait. A smaller
		// heap also makes the next clone faster.
		if garbage > mostGarbage {
			runtime.GC()
			garbage = 0
		}
	}
}

const (
	mostGarbage = 1 << 20
	programSize = 160 << 10 // memory in bytes for a program, without the contents of the order
)

// receive waits for the file descriptors of a run. It returns none when the daemon has closed the socket.
func receive() ([]int, error) {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4*(sentLeast+MostHanded+1)))
	var n, size int
	var err error
	for {
		if n, size, _, _, err = unix.Recvmsg(SocketFD, data, control, unix.MSG_CMSG_CLOEXEC); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || n == 0 {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, errors.New("no descriptors")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err == nil && len(fds) < sentLeast {
		err = fmt.Errorf("%d descriptors", len(fds))
	}
	return fds, err
}

// launch carries out an order. It returns about how many bytes of memory it allocated.
func launch(fds []int) (size int) {
	p := newProgram(uintptr(fds[SentStatus]))
	l := p.at(&p.setup, "processes")
	text, err := read(fds[SentOrder])
	size = programSize + 4*len(text)
	// The memory is cleared, because later runs get a copy of it, and it contains the arguments and the environment of this run.
	defer clear(text)
	if err != nil {
		p.refuse("order: "+err.Error(), 0)
		return size
	}
	order, args, env, err := DecodeOrder(text)
	if err == nil {
		err = order.fits(len(fds))
	}
	if err != nil {
		p.refuse("order: "+err.Error(), 0)
		return size
	}
	// All signals are blocked. Process 1 must not run the signal handlers of the Go runtime; it reads signals from a file descriptor
	// instead.
	all, children := ^uint64(0), uint64(1)<<(unix.SIGCHLD-1)
	signals, _, errno := unix.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&children)), 8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if errno != 0 {
		p.reportFailure(Refused, l.step, uintptr(errno))
		return size
	}
	defer unix.Close(int(signals))
	p.descriptors(order, fds, int(signals))
	if err := p.build(order, args, env); err != nil {
		var errno unix.Errno
		errors.As(err, &errno)
		p.refuse(err.Error(), errno)
		return size
	}
	p.poll = [2]pollFD{{fd: controlFD, events: unix.POLLIN}, {fd: signalFD, events: unix.POLLIN}}
	flags := uintptr(unix.SIGCHLD | unix.CLONE_PARENT)
	if order.Namespaces {
		flags |= unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		if !order.Network {
			flags |= unix.CLONE_NEWNET
		}
	}
	step := p.at(&p.setup, "user namespace").step
	var mask uint64
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&mask)), 8, 0, 0)
	p.split(flags, step)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
	runtime.KeepAlive(p)
	runtime.KeepAlive(text)
	return size
}

// descriptors moves the file descriptors of process 1 to their fixed numbers and closes all others, including the helper's socket.
func (p *program) descriptors(o *Order, fds []int, signals int) {
	l := p.at(&p.setup, "descriptors")
	l.do(unix.SYS_DUP3, fds[SentStatus], statusFD, 0)
	l.do(unix.SYS_DUP3, fds[SentControl], controlFD, 0)
	for i := range handedFD + o.Handed {
		l.do(unix.SYS_DUP3, fds[SentInput+i], i, 0)
	}
	l.do(unix.SYS_DUP3, signals, signalFD, 0)
	firstUnused := controlFD + 1
	if o.Proxy > 0 {
		l.do(unix.SYS_DUP3, fds[len(fds)-1], proxyFD, 0)
		firstUnused = proxyFD + 1
	}
	l.do(unix.SYS_CLOSE_RANGE, firstUnused, int(^uint32(0)), 0)
	if first := handedFD + o.Handed; first < signalFD {
		l.do(unix.SYS_CLOSE_RANGE, first, signalFD-1, 0)
	}
}

// split clones the process. The parent is still the helper. The child is process 1 of the new kernel namespaces, and a child of the daemon.
func (p *program) split(flags uintptr, step uint32) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	switch {
	case errno != 0:
		p.reportFailure(Refused, step, uintptr(errno))
	case pid == 0:
		p.reportTo = statusFD
		p.inside()
	default:
		p.msg.Value = uint32(pid)
		p.report(Hello)
	}
}

// read returns the whole content of a file.
func read(fd int) ([]byte, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	text := make([]byte, stat.Size)
	n, err := unix.Pread(fd, text, 0)
	if err == nil && n != len(text) {
		err = errors.New("is cut off")
	}
	return text, err
}

// refuse reports that no process was started.
func (p *program) refuse(text string, errno unix.Errno) {
	l := p.at(&p.setup, text)
	p.reportFailure(Refused, l.step, uintptr(errno))
}
