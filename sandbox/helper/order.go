// Package helper is the program that stands between the daemon and an isolated process.
//
// The daemon starts it once, and hands it an [Order] for each run. The helper clones itself into new namespaces, as a child
// of the daemon. The copy builds a separate root, gives up every right, and becomes process 1. It starts the command, reaps what
// the command leaves, reports how it ended, and ends with the last of them or with the daemon. The kernel kills everything in the
// namespace with it. The end of the helper ends no run.
//
// The helper shows a run nothing of another one: it has no files or mounts of runs, and wipes a command's arguments and environment
// as soon as the copy is made. A copy starts no command before the daemon knows its number.
//
// All that happens behind the clone is a list of system calls, prepared before it: a Go program that forked has one
// thread and no runtime. A call that fails ends everything, and its step and error are reported. Nothing runs with less than was
// ordered.
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

// Name is the argument zero by which a program is the helper.
const Name = "toold-sandbox"

// Version is that of Order and Message. A helper of another one refuses to work.
const Version = 9

// SocketFD is the descriptor by which a helper gets its orders: a socket of packets, each with the descriptors of a run in
// the order below. Its end ends the helper.
const SocketFD = 3

// The descriptors of a run, as they are sent.
const (
	SentOrder   = iota // an encoded Order
	SentStatus         // takes Messages
	SentControl        // gives Go and Signals; its end ends everything
	SentInput          // 0 of the command; 1 and 2 follow, and from 3 on those that are Handed
	// sentLeast is how many there are at least. Behind those that are handed there is one more for an Order with Proxy: a unix socket
	// that takes the listener.
	sentLeast = SentInput + 3
)

// MostHanded is how many descriptors a command can have beside the first three.
const MostHanded = 8

// Where process 1 has them.
const (
	handedFD  = 3                     // and more, as the command has them
	signalFD  = handedFD + MostHanded // its children's ends
	statusFD  = signalFD + 1
	controlFD = signalFD + 2
	proxyFD   = signalFD + 3
)

// Order is what the helper is to do. It says all there is: the helper has no defaults.
type Order struct {
	Version  int      `json:"version"`
	Path     string   `json:"path"`
	Args     []string `json:"-"` // with the name of the program
	Env      []string `json:"-"`
	Dir      string   `json:"dir"`
	Terminal bool     `json:"terminal"`         // descriptor 0 is one, to be the controlling terminal
	Handed   int      `json:"handed,omitempty"` // descriptors of the command, from 3 on

	// Namespaces makes namespaces of users, processes, mounts, IPC, host name and cgroups, and the root that the fields
	// below describe. Without it only Landlock, the filter and the limits hold, on the machine's own root.
	Namespaces bool     `json:"namespaces"`
	Network    bool     `json:"network"`   // the machine's; else an empty one
	Proxy      int      `json:"proxy"`     // port of a listener on the loopback device of an empty network; 0: none
	Read       []string `json:"read"`      // shown read-only at their own paths; what does not exist is left out
	Workspace  string   `json:"workspace"` // shown at its own path
	Within     string   `json:"within"`    // no symbolic link leads the workspace out of it; empty: links may lead anywhere
	Writable   bool     `json:"writable"`  // the workspace
	HomeAt     string   `json:"home_at"`   // where the command finds its home, which it may write; empty: nowhere
	Home       string   `json:"home"`      // the directory shown there; empty: one in memory, of TmpSize
	Protect    []string `json:"protect"`   // in the workspace, read-only, with every directory above pinned; left out when it does not exist
	Hide       []string `json:"hide"`      // covered where they would be visible
	Sockets    []string `json:"sockets"`   // without links; covered with those that the helper finds by their names
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

// A Canary is tried in the place of the command, with exactly what the command would have. Each try is reported as a Tried
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
	Fill     int64  `json:"fill"`   // bytes that a separate process fills; 0: none
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
	TryFill  // Value is the status of the process that did
	TryForks // Errno is the one that ended the forks, Value their number
	tries
)

// Kind is the kind of a Message.
type Kind uint32

// The messages. Hello and Refused come from the helper, the others from behind the clone; Hello and the first of them may
// come in either order.
const (
	Hello   Kind = iota + 1 // Value is the number of process 1
	Refused                 // a step failed before there was a process
	Failed                  // a step failed, and nothing was run
	Started                 // the command runs
	Ended                   // Value is its wait status, Rest whether others live
	Tried
)

const nameLength = 64

// A Message is a report of the helper.
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

// goSize is that of an encoded Go.
const goSize = 10

// Go is what control takes first: the daemon has noted process 1, which may start the command, until an instant by CLOCK_BOOTTIME; 0 is
// at any time.
func Go(by time.Duration) []byte {
	return binary.LittleEndian.AppendUint64([]byte{'s', 0}, uint64(by))
}

// Late is the step that fails when the instant of [Go] is over.
const Late = "start in time"

// Signal is what control takes then: a signal for the command's group, or for everything in the namespace.
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

// fits reports why an order does not go with so many descriptors.
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

// Encode returns o as the helper reads it: the length of the JSON, the JSON, and each argument and variable with a NUL.
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

// DecodeOrder reads what Encode wrote. The arguments and the environment stay parts of b, so that they are nowhere else.
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

// Address is a sockaddr_in.
func Address(ip [4]byte, port uint16) []byte {
	b := make([]byte, 16)
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	binary.BigEndian.PutUint16(b[2:], port)
	copy(b[4:], ip[:])
	return b
}
