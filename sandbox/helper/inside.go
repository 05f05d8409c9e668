package helper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The code in this file runs after the clone, in a process with one thread and without a working Go runtime. This code must not grow its
// stack, allocate, take a lock, or write a pointer.

// perform makes the calls in order. It returns the index of the first that failed, or -1.
//
//go:nosplit
//go:norace
func (p *program) perform(ops []op) (failed int, errno uintptr) {
	for i := range ops {
		o := &ops[i]
		a := o.args
		for j := range a {
			if o.from&(1<<j) != 0 {
				a[j] = p.reg[a[j]]
			}
		}
		r, _, e := syscall.RawSyscall6(o.nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if e != 0 && uintptr(e) != o.fine[0] && uintptr(e) != o.fine[1] {
			return i, uintptr(e)
		}
		if o.save != 0 {
			p.reg[o.save-1] = r
		}
	}
	return -1, 0
}

// report sends a message.
//
//go:nosplit
//go:norace
func (p *program) report(kind Kind) {
	p.msg.Kind = kind
	syscall.RawSyscall(unix.SYS_WRITE, p.reportTo, uintptr(unsafe.Pointer(&p.msg)), unsafe.Sizeof(p.msg))
}

// fail reports which step failed and why.
//
//go:nosplit
//go:norace
func (p *program) fail(step uint32, errno uintptr) { p.reportFailure(Failed, step, errno) }

//go:nosplit
//go:norace
func (p *program) reportFailure(kind Kind, step uint32, errno uintptr) {
	p.msg.Step, p.msg.Errno = step, uint32(errno)
	for i := range p.msg.Name {
		p.msg.Name[i] = p.names[int(step)*nameLength+i]
	}
	p.report(kind)
}

// inside does everything that process 1 does, from its start to its end.
//
//go:nosplit
//go:norace
func (p *program) inside() {
	if i, errno := p.perform(p.setup); i >= 0 {
		p.fail(p.setup[i].step, errno)
		exit(1)
	}
	// Process 1 waits here until the daemon has registered it. Before that, it must not start the command.
	n, _, e := syscall.RawSyscall(unix.SYS_READ, controlFD, uintptr(unsafe.Pointer(&p.orders)), goSize)
	if e != 0 || n != goSize || p.orders[0] != 's' {
		exit(1)
	}
	for i := goSize - 1; i >= 2; i-- {
		p.by = p.by<<8 | uint64(p.orders[i])
	}
	// Checks again whether the daemon still runs. The message Go may have been in the pipe for some time, and the daemon may have died
	// meanwhile, even before this process asked for a parent-death signal.
	p.poll[0].revents = 0
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.poll)), 1, uintptr(unsafe.Pointer(&p.now)), 0, 0, 0)
	if p.poll[0].revents&unix.POLLHUP != 0 {
		exit(1)
	}
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	// The parent waits until the child has executed its program or ended. So the messages of the child come first, and both can use the
	// same memory.
	main, errno := vfork(unix.CLONE_VFORK | unix.CLONE_VM | uintptr(unix.SIGCHLD))
	switch {
	case errno != 0:
		p.fail(0, errno)
		exit(1)
	case main == 0:
		p.begin()
	}
	if i, errno := p.perform(p.retire); i >= 0 {
		p.fail(p.retire[i].step, errno)
		exit(1)
	}
	p.report(Started)
	p.attend(main)
}

// vfork makes the clone system call so that parent and child may use the same stack. It must be called directly, from this package only:
// the child would overwrite the stack frame of a wrapper.
func vfork(flags uintptr) (pid, errno uintptr)

// begin executes the command, or makes the tries of the canary.
//
//go:nosplit
//go:norace
func (p *program) begin() {
	if i, errno := p.perform(p.command[:p.execute]); i >= 0 {
		p.fail(p.command[i].step, errno)
		exit(1)
	}
	if p.execute > 0 && p.isLate() {
		p.fail(p.late, 0)
		exit(1)
	}
	rest := p.command[p.execute:]
	if i, errno := p.perform(rest); i >= 0 {
		p.fail(rest[i].step, errno)
		exit(1)
	}
	for i := range p.canary.tries {
		_, errno := p.perform(p.canary.tries[i])
		p.msg.Step, p.msg.Errno, p.msg.Value = uint32(i), uint32(errno), 0
		switch i {
		case TryForks:
			p.fork()
		case TryFill:
			p.fill()
		case TryProxy:
			for _, digit := range p.answer[9:] {
				p.msg.Value = 10*p.msg.Value + uint32(digit-'0')
			}
		}
		p.report(Tried)
	}
	exit(0)
}

// isLate reports whether it is too late to start the command.
//
//go:nosplit
//go:norace
func (p *program) isLate() bool {
	if p.by == 0 {
		return false
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&p.clock)), 0)
	return errno != 0 || uint64(p.clock.Sec)*1e9+uint64(p.clock.Nsec) > p.by
}

// fill fills memory in a separate process, which the kernel may kill for it.
//
//go:nosplit
//go:norace
func (p *program) fill() {
	if len(p.canary.hunger) == 0 {
		return
	}
	child, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		p.msg.Errno = uint32(errno)
		return
	}
	if child == 0 {
		_, failed := p.perform(p.canary.hunger)
		exit(failed)
	}
	syscall.RawSyscall6(unix.SYS_WAIT4, child, uintptr(unsafe.Pointer(&p.status)), unix.WALL, 0, 0, 0)
	p.msg.Value = uint32(p.status)
}

// fork creates canary.daemons processes, or fewer if a clone fails, and leaves them behind.
//
//go:nosplit
//go:norace
func (p *program) fork() {
	for range p.canary.daemons {
		child, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			p.msg.Errno = uint32(errno)
			return
		}
		if child == 0 {
			syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
			p.idle()
		}
		p.msg.Value++
	}
}

// idle waits until the process is killed. With canary.watch it also ends when the control pipe closes.
//
//go:nosplit
//go:norace
func (p *program) idle() {
	p.poll[0].events, p.poll[0].revents = 0, 0
	watched := uintptr(0)
	if p.canary.watch {
		watched = 1
	}
	for p.poll[0].revents == 0 {
		syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.poll)), watched, 0, 0, 0, 0)
	}
	exit(0)
}

// attend reaps children and forwards signals. It exits when no child is left or the daemon has closed the control pipe.
//
//go:nosplit
//go:norace
func (p *program) attend(main uintptr) {
	over := false
	for {
		more := true
		for more {
			pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&p.status)),
				unix.WNOHANG|unix.WALL, uintptr(unsafe.Pointer(&p.msg.Usage)), 0, 0)
			switch {
			case errno != 0:
				more = false
			case pid == main && !over:
				over = true
				p.msg.Value, p.msg.Errno = uint32(p.status), 0
				p.last()
			}
			if errno == 0 && pid == 0 {
				break
			}
		}
		if !more {
			exit(0)
		}
		if p.listen(main, over) {
			exit(0)
		}
	}
}

// last reports that the command ended and whether other processes are left.
//
//go:nosplit
//go:norace
func (p *program) last() {
	_, _, errno := syscall.RawSyscall6(unix.SYS_WAITID, 0, 0, 0, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, 0, 0)
	p.msg.Left = 1
	if errno != 0 {
		p.msg.Left = 0
	}
	p.report(Ended)
}

// listen waits for a child to end or for orders, and carries out the orders. It reports whether the daemon has closed the control pipe.
//
//go:nosplit
//go:norace
func (p *program) listen(main uintptr, over bool) (alone bool) {
	p.poll[0].revents, p.poll[1].revents = 0, 0
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.poll)), 2, 0, 0, 0, 0)
	if p.poll[1].revents != 0 {
		syscall.RawSyscall(unix.SYS_READ, uintptr(p.poll[1].fd), uintptr(unsafe.Pointer(&p.signal)), unsafe.Sizeof(p.signal))
	}
	if p.poll[0].revents == 0 {
		return false
	}
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, controlFD, uintptr(unsafe.Pointer(&p.orders)), unsafe.Sizeof(p.orders))
	if errno == unix.EINTR || errno == unix.EAGAIN {
		return false
	}
	if errno != 0 || n == 0 {
		return true
	}
	for i := uintptr(0); i+1 < n; i += 2 {
		switch {
		case p.orders[i] == 'a':
			syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(p.orders[i+1]), 0)
		case !over:
			syscall.RawSyscall(unix.SYS_KILL, -main, uintptr(p.orders[i+1]), 0)
		}
	}
	return false
}

//go:nosplit
//go:norace
func exit(code uintptr) {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}
