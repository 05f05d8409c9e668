// Package helper is the program between the daemon and an isolated process.
//
// The daemon starts the helper once and sends it an [Order] for each run. The helper clones itself into new namespaces, and the copy is a
// child of the daemon. The copy builds a separate root, gives up every right, and becomes process 1. It starts the command, reaps the
// processes that the command leaves, and reports how the command ended.
//
// Process 1 ends with the last of these processes or with the daemon. The kernel then kills everything left in the namespace. A run
// continues when the helper ends.
//
// The helper shows a run nothing of another run. It keeps no files or mounts of runs, and wipes a command's arguments and environment as
// soon as the copy is made. A copy starts no command before the daemon knows its PID.
//
// A Go program that forked has one thread and no working runtime. Therefore the helper prepares a list of system calls before the clone,
// and the copy only makes these calls. A call that fails ends the run, and its step and error are reported. No command runs with less
// isolation than was ordered.
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

// Name is the argument zero that makes a program the helper.
const Name = "toold-sandbox"

// Version is the version of Order and Message. A helper of another version refuses to work.
const Version = 9

// SocketFD is the descriptor from which a helper reads its orders. It is a packet socket; each packet carries the descriptors of one run,
// in the order below. The helper ends when the socket is closed.
const SocketFD = 3

// The index of each descriptor in a packet.
const (
	SentOrder   = iota // an encoded Order
	SentStatus         // process 1 writes Messages to it
	SentControl        // process 1 reads Go and Signals from it; when it closes, everything ends
	SentInput          // descriptor 0 of the command; 1, 2 and the Handed ones follow
	// sentLeast is the smallest number of descriptors. An Order with Proxy needs one more after the Handed ones: a unix socket that
	// receives the listener.
	sentLeast = SentInput + 3
)

// MostHanded is how many descriptors a command can have besides the first three.
const MostHanded = 8

// The number of each descriptor in process 1.
const (
	handedFD  = 3                     // and the following ones, as in the command
	signalFD  = handedFD + MostHanded // reports the end of children
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
	Terminal bool     `json:"terminal"`         // descriptor 0 is a terminal and becomes the controlling terminal
	Handed   int      `json:"handed,omitempty"` // number of the command's descriptors from 3 on

	// Namespaces creates user, PID, mount, IPC, UTS and cgroup namespaces, and the root that the fields below describe. Without it, only
	// Landlock, the filter and the limits apply, on the machine's root.
	Namespaces bool     `json:"namespaces"`
	Network    bool     `json:"network"`   // uses the machine's network instead of an empty one
	Proxy      int      `json:"proxy"`     // port of a listener on the loopback device of an empty network; 0: no listener
	Read       []string `json:"read"`      // shown read-only at the same paths; missing ones are left out
	Workspace  string   `json:"workspace"` // shown at the same path
	Within     string   `json:"within"`    // no symbolic link may lead the workspace out of it; empty: links may lead anywhere
	Writable   bool     `json:"writable"`  // the command may write the workspace
	HomeAt     string   `json:"home_at"`   // path of the writable home in the new root; empty: no home
	Home       string   `json:"home"`      // the directory shown there; empty: one in memory, of TmpSize
	Protect    []string `json:"protect"`   // read-only in the workspace, with pinned parent directories; missing ones are left out
	Hide       []string `json:"hide"`      // covered wherever they would be visible
	Sockets    []string `json:"sockets"`   // paths without symbolic links; covered in addition to the sockets that the helper finds by name
	TmpSize    int64    `json:"tmp_size"`  // bytes of /tmp, and the same again for /dev/shm

	PidMax   int     `json:"pid_max,omitempty"` // highest process number in the namespace; 0: the machine's
	Limits   []Limit `json:"limits"`
	Landlock int     `json:"landlock"` // version of the kernel's interface; 0: no Landlock
	Filter   []byte  `json:"filter"`   // array of struct sock_filter
	Canary   *Canary `json:"canary,omitempty"`
}

// Limit is a resource limit.
type Limit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// A Canary runs instead of the command, with exactly the same rights. It reports each try as a Tried message, in the order of the fields.
type Canary struct {
	Read  string `json:"read"`  // file to open
	Write string `json:"write"` // file to create
	// Dial is a sockaddr_in to connect to. Datagram is one to send a byte to.
	Dial     []byte `json:"dial"`
	Datagram []byte `json:"datagram"`
	Signal   int    `json:"signal"` // process to which it sends signal 0
	Memory   int64  `json:"memory"` // bytes to map
	Forks    int    `json:"forks"`  // processes to leave behind
	Fill     int64  `json:"fill"`   // bytes that a separate process fills; 0: no such process
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
	TryMode // sets the mode of the file to open
	TryMount
	TryMemory
	TryProxy // Value is the HTTP status of the answer
	TryFill  // Value is the wait status of the process that filled memory
	TryForks // Errno is the error that ended the forks, Value their number
	tries
)

// Kind is the kind of a Message.
type Kind uint32

// The kinds of messages. The helper sends Hello and Refused, and process 1 the others. Hello and the first message of process 1 may arrive
// in either order.
const (
	Hello   Kind = iota + 1 // Value is the PID of process 1
	Refused                 // a step failed before there was a process
	Failed                  // a step failed, and no command ran
	Started                 // the command runs
	Ended                   // Value is its wait status; Rest is 1 when other processes live
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
	Usage unix.Rusage // of the command, in an Ended message
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

// goSize is the size of an encoded Go in bytes.
const goSize = 10

// Go returns the first message on the control pipe. It says that the daemon has registered process 1, which may now start the command. by
// is the latest start time, measured with CLOCK_BOOTTIME; 0 means no limit.
func Go(by time.Duration) []byte {
	return binary.LittleEndian.AppendUint64([]byte{'s', 0}, uint64(by))
}

// Late is the name of the step that fails when the time given to [Go] has passed.
const Late = "start in time"

// Signal is a later message on the control pipe: a signal for the command's group, or for every process in the namespace.
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

// fits returns an error when the order needs another number of descriptors.
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
