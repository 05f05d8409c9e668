package helper

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newProgram has room for what a usual order takes.
func newProgram(tellTo uintptr) *program {
	const calls, steps = 512, 160
	return &program{
		setup: make([]op, 0, calls), command: make([]op, 0, calls/4), names: make([]byte, 0, steps*nameLength), kept: make([][]byte, 0, calls),
		made: map[string]bool{}, pinned: map[string]bool{}, tellTo: tellTo,
	}
}

// An op is one system call.
type op struct {
	nr   uintptr
	args [6]uintptr
	from uint8      // bit i: args[i] is the number of a register
	save uint8      // the register of the result, plus 1; 0: none
	fine [2]uintptr // errors that count as success
	step uint32
}

const registers = 200

// A program is everything that happens behind the clone. It is built before, with ordinary Go, and keeps what its system
// calls point to.
type program struct {
	setup   []op   // by process 1
	command []op   // by the command's process
	execute int    // number of its last one; 0: there is none, but a canary
	late    uint32 // step
	by      uint64 // until when the command may start, in nanoseconds; 0: at any time
	clock   unix.Timespec
	retire  []op // by process 1, when the command runs
	canary  canary

	names []byte // nameLength for each step
	reg   [registers]uintptr
	used  int
	free  []reg // of descriptors that are closed by then
	kept  [][]byte
	made  map[string]bool // directories of the new root
	// pinned has the paths of the workspace that are mounts of their own; true: read-only.
	pinned map[string]bool

	tellTo uintptr // descriptor
	msg    Message
	poll   [2]pollFD
	now    unix.Timespec // none: a poll that does not wait
	signal [128]byte     // struct signalfd_siginfo
	orders [64]byte
	status int32
	answer [12]byte // of the proxy to a canary: HTTP/1.1 403
}

// canary is what is tried in the place of a command.
type canary struct {
	tries   [tries][]op
	hunger  []op // of the process that fills memory
	daemons int  // processes that it leaves
	watch   bool // they end with the pipe of orders: nothing else ends them when the daemon was killed
}

type pollFD struct {
	fd              int32
	events, revents int16
}

// A list adds calls to one part of a program, all of them of one step.
type list struct {
	p    *program
	ops  *[]op
	step uint32
}

// at begins a step. When one of its calls fails, the message has its name.
func (p *program) at(ops *[]op, name string) list {
	step := uint32(len(p.names) / nameLength)
	var text [nameLength]byte
	copy(text[:nameLength-1], name)
	p.names = append(p.names, text[:]...)
	return list{p, ops, step}
}

// reg is an argument that an earlier call returned.
type reg int

// do adds a call and returns it, for what is unusual about it. An argument is an int, a uint64, a string, a []byte or a
// reg.
func (l list) do(nr uintptr, args ...any) *op {
	o := op{nr: nr, step: l.step, fine: [2]uintptr{}}
	for i, a := range args {
		switch a := a.(type) {
		case int:
			o.args[i] = uintptr(a)
		case uint64:
			o.args[i] = uintptr(a)
		case string:
			o.args[i] = l.p.keep(append([]byte(a), 0))
		case []byte:
			o.args[i] = l.p.keep(a)
		case reg:
			o.args[i], o.from = uintptr(a), o.from|1<<i
		default:
			panic("helper: argument of an unknown type")
		}
	}
	*l.ops = append(*l.ops, o)
	return &(*l.ops)[len(*l.ops)-1]
}

// open is do for a call that returns a descriptor.
func (l list) open(nr uintptr, args ...any) reg {
	r := reg(l.p.used)
	if n := len(l.p.free); n > 0 {
		r, l.p.free = l.p.free[n-1], l.p.free[:n-1]
	} else {
		l.p.used++
	}
	l.do(nr, args...).save = uint8(r + 1) // more than there are is refused when all is built
	return r
}

// close adds the calls that close descriptors. The calls are made in the order in which they were added, so what opens
// after that may use the registers.
func (l list) close(fds ...reg) {
	for _, fd := range fds {
		l.do(unix.SYS_CLOSE, fd)
	}
	l.p.free = append(l.p.free, fds...)
}

// but says which errors of the call count as success.
func (o *op) but(fine ...unix.Errno) {
	for i, e := range fine {
		o.fine[i] = uintptr(e)
	}
}

// keep holds b, which must not move, for the life of the program.
func (p *program) keep(b []byte) uintptr {
	if len(b) == 0 {
		b = []byte{0}
	}
	p.kept = append(p.kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// vector is an array of pointers to strings, which have their NUL, that ends with none.
func (p *program) vector(texts [][]byte) []byte {
	b := make([]byte, 0, 8*len(texts)+8)
	for _, t := range texts {
		b = binary.NativeEndian.AppendUint64(b, uint64(p.keep(t)))
	}
	return binary.NativeEndian.AppendUint64(b, 0)
}

// words packs numbers of 64 bits.
func words(list ...uint64) []byte {
	b := make([]byte, 0, 8*len(list))
	for _, w := range list {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// put writes a text into a file.
func (l list) put(path, text string) {
	fd := l.open(unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_WRONLY|unix.O_CLOEXEC)
	l.do(unix.SYS_WRITE, fd, []byte(text), len(text))
	l.close(fd)
}
