package helper

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newProgram returns an empty program with enough capacity for a usual order.
func newProgram(reportTo uintptr) *program {
	const calls, steps = 512, 160
	return &program{
		setup: make([]op, 0, calls), command: make([]op, 0, calls/4), names: make([]byte, 0, steps*nameLength), kept: make([][]byte, 0, calls),
		made: map[string]bool{}, pinned: map[string]bool{}, reportTo: reportTo,
	}
}

type op struct {
	nr   uintptr
	args [6]uintptr
	from uint8      // bit i says that args[i] is the number of a register, not a value
	save uint8      // number of the register for the result, plus 1; 0 means that the result is not saved
	fine [2]uintptr // errors that count as success
	step uint32
}

const registers = 200

// A program contains all system calls that are made after the clone, and the memory to which they point. Ordinary Go code builds it before
// the clone.
type program struct {
	setup   []op   // calls of process 1
	command []op   // calls of the command's process
	execute int    // index of the execve call in command; 0 means that a canary replaces the command
	late    uint32 // number of the step that fails when the latest start time has passed
	by      uint64 // latest start time of the command in nanoseconds (CLOCK_BOOTTIME); 0 means no limit
	clock   unix.Timespec
	retire  []op // calls of process 1 after the command has started
	canary  canary

	names []byte // names of the steps, nameLength bytes each
	reg   [registers]uintptr
	used  int
	free  []reg // registers that can be used again, because the file descriptors in them are closed
	kept  [][]byte
	made  map[string]bool // directories created in the new root
	// pinned contains the paths of the workspace that were mounted on themselves. The value is true for a read-only mount.
	pinned map[string]bool

	reportTo uintptr // file descriptor to which messages are written
	msg      Message
	poll     [2]pollFD
	now      unix.Timespec // the duration 0, for a poll that does not wait
	signal   [128]byte     // struct signalfd_siginfo
	orders   [64]byte
	status   int32
	answer   [12]byte // start of the proxy's answer to a canary: HTTP/1.1 403
}

// canary contains the tries that are made instead of a command.
type canary struct {
	tries   [tries][]op
	hunger  []op // calls of the process that fills memory
	daemons int  // number of processes that the canary leaves behind
	watch   bool // The processes that the canary leaves behind end when the control pipe closes. Otherwise nothing would end them after the daemon was killed.
}

type pollFD struct {
	fd              int32
	events, revents int16
}

// A list adds the calls of one step to one part of a program.
type list struct {
	p    *program
	ops  *[]op
	step uint32
}

// at begins a step. When one of its calls fails, the message contains the step's name.
func (p *program) at(ops *[]op, name string) list {
	step := uint32(len(p.names) / nameLength)
	var text [nameLength]byte
	copy(text[:nameLength-1], name)
	p.names = append(p.names, text[:]...)
	return list{p, ops, step}
}

// reg is the number of a register. As an argument it stands for the result of an earlier call.
type reg int

// do adds a call and returns it, so that the caller can change its options. An argument is an int, a uint64, a string, a []byte or a reg.
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

// open adds a call that returns a file descriptor, and returns the register for the descriptor.
func (l list) open(nr uintptr, args ...any) reg {
	r := reg(l.p.used)
	if n := len(l.p.free); n > 0 {
		r, l.p.free = l.p.free[n-1], l.p.free[:n-1]
	} else {
		l.p.used++
	}
	l.do(nr, args...).save = uint8(r + 1) // When there are too many registers, build returns an error at the end.
	return r
}

// close adds calls that close the file descriptors in the registers fds. Calls that are added later may use these registers again, because
// calls are made in the order in which they were added.
func (l list) close(fds ...reg) {
	for _, fd := range fds {
		l.do(unix.SYS_CLOSE, fd)
	}
	l.p.free = append(l.p.free, fds...)
}

// but sets the errors of the call that count as success.
func (o *op) but(fine ...unix.Errno) {
	for i, e := range fine {
		o.fine[i] = uintptr(e)
	}
}

// keep keeps b alive as long as the program and returns its address. b must not move.
func (p *program) keep(b []byte) uintptr {
	if len(b) == 0 {
		b = []byte{0}
	}
	p.kept = append(p.kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// vector returns an array of pointers to NUL-terminated strings, with a final null pointer.
func (p *program) vector(texts [][]byte) []byte {
	b := make([]byte, 0, 8*len(texts)+8)
	for _, t := range texts {
		b = binary.NativeEndian.AppendUint64(b, uint64(p.keep(t)))
	}
	return binary.NativeEndian.AppendUint64(b, 0)
}

// words packs 64-bit numbers.
func words(list ...uint64) []byte {
	b := make([]byte, 0, 8*len(list))
	for _, w := range list {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// put adds calls that write a text to a file.
func (l list) put(path, text string) {
	fd := l.open(unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_WRONLY|unix.O_CLOEXEC)
	l.do(unix.SYS_WRITE, fd, []byte(text), len(text))
	l.close(fd)
}
