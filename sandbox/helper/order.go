// Package helper is the program that creates and supervises isolated processes for the daemon.
//
// The daemon starts the helper once and sends it an [Order] for each run, which is one execution of an isolated command. The helper clones
// itself into new kernel namespaces, and the copy is a child of the daemon. The copy builds a separate root, drops all rights, and becomes
// process 1. It starts the command, reaps the processes that the command leaves, and reports how the command ended.
//
// Process 1 ends when the last of these processes or the daemon ends. The kernel then kills all other processes in the PID namespace. When
// the helper ends, its runs continue.
//
// A run learns nothing about other runs from the helper. The helper keeps no files or mounts of runs, and clears a command's arguments and
// environment as soon as the copy is made. A copy does not start its command before the daemon knows its PID.
//
// After a fork, a Go program has one thread and no working runtime. Therefore the helper prepares a list of system calls before the clone,
// and the copy only makes these calls. When a call fails, the run ends, and the failed step and its error are reported. No command runs
// with less isolation than was ordered.
package helper

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Name is the value of argument zero with which a program runs as the helper.
const Name = "toold-sandbox"

// Version is the version of Order and Message. A helper of another version refuses to work.
const Version = 9

// SocketFD is the file descriptor from which a helper reads its orders. It is a packet socket. Each packet carries the file descriptors of
// one run, in the order below. The helper ends when the socket is closed.
const SocketFD = 3

// The index of each file descriptor in a packet.
const (
	SentOrder   = iota // an encoded Order
	SentStatus         // pipe to which process 1 writes Messages
	SentControl        // pipe from which process 1 reads Go and Signals; when it is closed, all processes of the run end
	SentInput          // file descriptor 0 of the command; its file descriptors 1, 2 and the Handed ones follow
	// sentLeast is the minimum number of file descriptors in a packet. A packet whose Order has a Proxy contains one more, after the Handed
	// ones: a unix socket to which the helper sends the listener.
	sentLeast = SentInput + 3
)

// MostHanded is the maximum number of file descriptors that a command can have in addition to the first three.
const MostHanded = 8

// The number of each file descriptor in process 1.
const (
	handedFD  = 3                     // the first of the Handed file descriptors, which have the same numbers as in the command
	signalFD  = handedFD + MostHanded // signalfd that reports the end of children
	statusFD  = signalFD + 1
	controlFD = signalFD + 2
	proxyFD   = signalFD + 3
)

// Order contains everything the helper needs for a run. The helper has no defaults.
type Order struct {
	Version  int      `json:"version"`
	Path     string   `json:"path"`
	Args     []string `json:"-"` // including the program name
	Env      []string `json:"-"`
	Dir      string   `json:"dir"`
	Terminal bool     `json:"terminal"`         // file descriptor 0 is a terminal and becomes the controlling terminal
	Handed   int      `json:"handed,omitempty"` // number of further file descriptors of the command, from 3 on

	// Namespaces creates user, PID, mount, IPC, UTS and cgroup namespaces of the kernel, and the root that the fields below describe. When
	// it is false, only Landlock, the filter and the limits apply, on the machine's root.
	Namespaces bool     `json:"namespaces"`
	Network    bool     `json:"network"`   // uses the machine's network instead of an empty one
	Proxy      int      `json:"proxy"`     // port of a listener on the loopback device of the empty network; 0 means no listener
	Read       []string `json:"read"`      // paths that are shown read-only; those that do not exist are omitted
	Workspace  string   `json:"workspace"` // path of the workspace, on the machine and in the new root
	Within     string   `json:"within"`    // directory that must contain the workspace after symbolic links are resolved; empty means that links may lead anywhere
	Writable   bool     `json:"writable"`  // the command may write the workspace
	HomeAt     string   `json:"home_at"`   // path of the writable home in the new root; empty means no home
	Home       string   `json:"home"`      // directory that is shown at HomeAt; empty means one in memory of TmpSize bytes
	Protect    []string `json:"protect"`   // paths in the workspace that are read-only and whose parent directories cannot be renamed; those that do not exist are omitted
	Hide       []string `json:"hide"`      // paths that are covered wherever they would be visible
	Sockets    []string `json:"sockets"`   // more sockets to cover, in addition to those that the helper finds by name; paths without symbolic links
	TmpSize    int64    `json:"tmp_size"`  // size of /tmp in bytes; /dev/shm has the same size

	PidMax   int     `json:"pid_max,omitempty"` // highest process number in the PID namespace; 0 means the machine's limit
	Limits   []Limit `json:"limits"`
	Landlock int     `json:"landlock"` // version of the kernel's interface; 0 means that Landlock is not used
	Filter   []byte  `json:"filter"`   // array of struct sock_filter
	Canary   *Canary `json:"canary,omitempty"`
}

// Limit is a resource limit.
type Limit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// A Canary replaces the command of a run and has exactly the same rights as the command would have. It tries what the policy should
// prevent, and reports each try as a Tried message.
type Canary struct {
	Read  string `json:"read"`  // file to open
	Write string `json:"write"` // file to create
	// Dial is the sockaddr_in of a listener to connect to. Datagram is the sockaddr_in of a socket to send a byte to.
	Dial     []byte `json:"dial"`
	Datagram []byte `json:"datagram"`
	Memory   int64  `json:"memory"` // bytes to map
	Forks    int    `json:"forks"`  // number of processes to leave behind
	Fill     int64  `json:"fill"`   // number of bytes that a separate process fills; 0 means no such process
	Ask      string `json:"ask"`    // text to send to the listener of Proxy; the answer begins with an HTTP status line
}

// The tries of a canary; values of [Message].Step.
const (
	TryRead = iota
	TryWrite
	TryDial
	TryDatagram
	TrySignal
	TryPacket
	TryMode // changes the mode of the file in Read
	TryMount
	TryMemory
	TryProxy // Value is the HTTP status of the answer
	TryFill  // Value is the wait status of the process that filled memory
	TryForks // Errno is the error of the last fork, Value the number of successful forks
	tries
)

// Kind is the kind of a Message.
type Kind uint32

// The kinds of messages. The helper sends Hello and Refused; process 1 sends the others. Hello and the first message of process 1 may
// arrive in either order.
const (
	Hello   Kind = iota + 1 // Value is the PID of process 1
	Refused                 // a step failed, and there is no process
	Failed                  // a step failed, and no command ran
	Started                 // the command runs
	Ended                   // Value is the wait status of the command; Left is 1 when other processes of the run are left
	Tried
)

const nameLength = 64

// A Message is a report of the helper.
type Message struct {
	Kind  Kind
	Step  uint32
	Errno uint32
	Value uint32
	Left  uint32
	_     uint32
	Usage unix.Rusage // resource usage of the command, in an Ended message
	Name  [nameLength]byte
}

// MessageSize is the size of an encoded Message in bytes. A Message is read as a whole or not at all.
const MessageSize = int(unsafe.Sizeof(Message{}))

// Decode decodes a Message.
func Decode(b []byte) (m Message, err error) {
	if len(b) != MessageSize {
		return m, fmt.Errorf("message of %d bytes", len(b))
	}
	return *(*Message)(unsafe.Pointer(&append(make([]byte, 0, MessageSize), b...)[0])), nil
}

// Text returns the name of the step that failed.
func (m *Message) Text() string { return unix.ByteSliceToString(m.Name[:]) }

// goSize is the size in bytes of the message that [Go] returns.
const goSize = 10

// Go returns the first message on the control pipe. It says that the daemon has registered process 1, which may now start the command. The
// parameter by is the latest start time, measured with CLOCK_BOOTTIME; 0 means no limit.
func Go(by time.Duration) []byte {
	return binary.LittleEndian.AppendUint64([]byte{'s', 0}, uint64(by))
}

// Late is the name of the step that fails when the latest start time of [Go] has passed.
const Late = "start in time"

// Signal is a later message on the control pipe. It asks process 1 to signal the command's process group, or every process in the PID
// namespace.
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

// fits returns an error when the order does not need exactly this number of file descriptors.
func (o *Order) fits(descriptors int) error {
	want := sentLeast + o.Handed
	if o.Proxy > 0 {
		want++
	}
	if o.Handed < 0 || o.Handed > MostHanded || descriptors != want {
		return fmt.Errorf("%d descriptors", descriptors)
	}
	return nil
}

// Encode encodes o for the helper: the length of the JSON, the JSON, then each argument and variable with a final NUL.
func (o *Order) Encode() ([]byte, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(len(text)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(o.Args)))
	b = append(b, text...)
	for _, list := range [][]string{o.Args, o.Env} {
		for _, s := range list {
			b = append(append(b, s...), 0)
		}
	}
	return b, nil
}

const orderHead = 8

// DecodeOrder decodes the output of Encode. The arguments and the environment stay parts of b, so that clearing b removes them.
func DecodeOrder(b []byte) (o *Order, args, env [][]byte, err error) {
	if len(b) < orderHead {
		return nil, nil, nil, errors.New("is cut off")
	}
	length, count := int(binary.NativeEndian.Uint32(b)), int(binary.NativeEndian.Uint32(b[4:]))
	b = b[orderHead:]
	if length > len(b) {
		return nil, nil, nil, errors.New("is cut off")
	}
	o = &Order{}
	if err := json.Unmarshal(b[:length], o); err != nil {
		return nil, nil, nil, err
	}
	if o.Version != Version {
		return nil, nil, nil, errors.New("the helper is of another version than the daemon")
	}
	var texts [][]byte
	for b = b[length:]; len(b) > 0; {
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			return nil, nil, nil, errors.New("is cut off")
		}
		texts, b = append(texts, b[:end+1:end+1]), b[end+1:]
	}
	if count == 0 || count > len(texts) {
		return nil, nil, nil, fmt.Errorf("%d arguments of %d texts", count, len(texts))
	}
	return o, texts[:count], texts[count:], nil
}

// Address returns a sockaddr_in.
func Address(ip [4]byte, port uint16) []byte {
	b := make([]byte, 16)
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	binary.BigEndian.PutUint16(b[2:], port)
	copy(b[4:], ip[:])
	return b
}
