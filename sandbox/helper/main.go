package helper

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Main is the helper; it does not return. It is called first of all in a program whose argument zero is [Name].
func Main() {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // behind the clone nothing may be collected, and before it there is little
	p := &program{made: map[string]bool{}, pinned: map[string]bool{}}
	l := p.at(&p.setup, "processes")
	order, err := read()
	if err != nil {
		p.refuse("order: "+err.Error(), 0)
	}
	if err := p.build(order); err != nil {
		var errno unix.Errno
		errors.As(err, &errno)
		p.refuse(err.Error(), errno)
	}
	// Process 1 gets no signal but by a descriptor; nor does the copy run the runtime's handlers.
	all, children := ^uint64(0), uint64(1)<<(unix.SIGCHLD-1)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0)
	fd, _, errno := unix.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&children)), 8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if errno != 0 {
		p.fail(l.step, uintptr(errno))
		os.Exit(1)
	}
	p.poll = [2]pollFD{{fd: ControlFD, events: unix.POLLIN}, {fd: int32(fd), events: unix.POLLIN}}
	flags := uintptr(unix.SIGCHLD)
	if order.Namespaces {
		flags |= unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		if !order.Network {
			flags |= unix.CLONE_NEWNET
		}
	}
	p.split(flags, p.at(&p.setup, "user namespace").step)
}

// split goes on as two processes: one that waits, and process 1 of the namespaces.
func (p *program) split(flags uintptr, step uint32) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		p.inside()
	}
	if errno != 0 {
		p.fail(step, uintptr(errno))
		os.Exit(1)
	}
	p.msg.Value = uint32(pid)
	p.tell(Hello)
	for fd := range ProxyFD + 1 {
		_ = unix.Close(fd) // whoever holds an output open would be waited for
	}
	// Process 1 can be waited for when nothing lives in its namespace any more.
	for {
		if _, err := unix.Wait4(int(pid), nil, unix.WALL, nil); err != unix.EINTR {
			os.Exit(0)
		}
	}
}

func read() (*Order, error) {
	file := os.NewFile(OrderFD, "order")
	defer file.Close()
	var order Order
	if err := json.NewDecoder(file).Decode(&order); err != nil {
		return nil, err
	}
	if order.Version != Version {
		return nil, errors.New("the helper is of another version than the daemon")
	}
	return &order, nil
}

// refuse ends the helper before anything was done.
func (p *program) refuse(text string, errno unix.Errno) {
	l := p.at(&p.setup, text)
	p.fail(l.step, uintptr(errno))
	os.Exit(1)
}
