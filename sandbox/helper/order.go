// Package helper is the program that stands between the daemon and an isolated process.
//
// The daemon starts it by an ordinary fork and exec, whose cost does not grow with the daemon's memory, and hands it an
// [Order]. The helper clones itself once into new namespaces, where the copy builds a root of its own, gives up every
// right, and becomes process 1: it starts the command, reaps what the command leaves, tells how it ended, and ends with
// the last of them or when the daemon goes away. The kernel kills whatever is in the namespace with it.
//
// All that happens behind the clone is a list of system calls, prepared before it: a Go program that forked has one
// thread and no runtime. A call that fails ends everything; its step and error are told. Nothing runs with less than was
// ordered.
package helper

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Name is the argument zero by which a program is the helper.
const Name = "toold-sandbox"

// Version is that of Order and Message. A helper of another one refuses to work.
const Version = 2

// The descriptors that a helper is started with, beside those of the command.
const (
	OrderFD   = 3 // an Order as JSON
	StatusFD  = 4 // takes Messages
	ControlFD = 5 // gives Signals; its end ends everything
	ProxyFD   = 6 // a unix socket that takes the listener of an Order with Proxy; else there is none
)

// Order is what the helper is to do. It says all there is: the helper has no defaults.
type Order struct {
	Version  int      `json:"version"`
	Path     string   `json:"path"`
	Args     []string `json:"args"` // with the name of the program
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	Terminal bool     `json:"terminal"` // descriptor 0 is one, to be the controlling terminal

	// Namespaces makes namespaces of users, processes, mounts, IPC, host name and cgroups, and the root that the fields
	// below describe. Without it only Landlock, the filter and the limits hold, on the machine's own root.
	Namespaces bool     `json:"namespaces"`
	Network    bool     `json:"network"`   // the machine's; else an empty one
	Proxy      int      `json:"proxy"`     // port of a listener on the loopback device of an empty network; 0: none
	Read       []string `json:"read"`      // shown read-only at their own paths; what does not exist is left out
	Workspace  string   `json:"workspace"` // shown at its own path
	Writable   bool     `json:"writable"`  // the workspace
	Protect    []string `json:"protect"`   // in the workspace, read-only, with every directory above pinned; left out when it does not exist
	Hide       []string `json:"hide"`      // covered where they would be visible
	TmpSize    int64    `json:"tmp_size"`  // bytes, of /tmp; /dev/shm has as much

	PidMax   int     `json:"pid_max,omitempty"` // highest process number in the namespace; 0: the machine's
	Limits   []Limit `json:"limits"`
	Landlock int     `json:"landlock"` // version of the kernel's interface; 0: none
	Filter   []byte  `json:"filter"`   // struct sock_filter, as the kernel has it
	Canary   *Canary `json:"canary,omitempty"`
}

// Limit is a resource limit.
type Limit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// A Canary is tried in the place of the command, with exactly what the command would have. Each try is told as a Tried
// message, in the order of the fields.
type Canary struct {
	Read  string `json:"read"`  // a file to open
	Write string `json:"write"` // a file to make
	// Dial is a sockaddr_in to connect to, Datagram one to send a byte to.
	Dial     []byte `json:"dial"`
	Datagram []byte `json:"datagram"`
	Signal   int    `json:"signal"` // a process to send signal 0
	Memory   int64  `json:"memory"` // bytes to map
	Forks    int    `json:"forks"`  // processes to leave behind
	Ask      string `json:"ask"`    // to say to the listener of Proxy; its answer is the line of a status of HTTP
}

// The tries of a canary, by [Message].Step.
const (
	TryRead = iota
	TryWrite
	TryDial
	TryDatagram
	TrySignal
	TryPacket
	TryMode // of the file to open
	TryMount
	TryMemory
	TryProxy // Value is the status that was answered
	TryForks // Errno is the one that ended the forks, Value their number
	tries
)

// Kind says what a Message tells.
type Kind uint32

// The messages. Hello comes from the helper, the others from behind the clone; Hello and the first other one may come in
// either order.
const (
	Hello   Kind = iota + 1 // Value is the number of process 1
	Failed                  // a step failed, and nothing was run
	Started                 // the command runs
	Ended                   // Value is its wait status, Rest whether others live
	Tried
)

const nameLength = 64

// Message is what the helper tells.
type Message struct {
	Kind  Kind
	Step  uint32
	Errno uint32
	Value uint32
	Rest  uint32
	_     uint32
	Usage unix.Rusage // of the command, when it has ended
	Name  [nameLength]byte
}

// MessageSize is that of an encoded Message, which is read whole or not at all.
const MessageSize = int(unsafe.Sizeof(Message{}))

// Decode reads a Message.
func Decode(b []byte) (m Message, err error) {
	if len(b) != MessageSize {
		return m, fmt.Errorf("message of %d bytes", len(b))
	}
	return *(*Message)(unsafe.Pointer(&append(make([]byte, 0, MessageSize), b...)[0])), nil
}

// Text is the name of the step that failed.
func (m *Message) Text() string { return unix.ByteSliceToString(m.Name[:]) }

// Signal is what ControlFD takes: a signal for the command's group, or for everything in the namespace.
type Signal struct {
	All    bool
	Number unix.Signal
}

// Encode returns the two bytes of s.
func (s Signal) Encode() []byte {
	target := byte('g')
	if s.All {
		target = 'a'
	}
	return []byte{target, byte(s.Number)}
}

// Address is a sockaddr_in.
func Address(ip [4]byte, port uint16) []byte {
	b := make([]byte, 16)
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	binary.BigEndian.PutUint16(b[2:], port)
	copy(b[4:], ip[:])
	return b
}
