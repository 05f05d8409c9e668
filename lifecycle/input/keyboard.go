// Package input sends input to a running call: bytes, signals and terminal sizes. An input may contain its position in the byte stream. If
// a client sends such an input twice, the input takes effect only once.
package input

import (
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// inputBuffer is the maximum number of bytes that the tool has not read yet.
const inputBuffer = 64 << 10

// A Keyboard is the input of one attempt. The tool reads from it; callers send to it.
type Keyboard struct {
	controls tool.Controls

	turn sync.Mutex // serializes inputs; locked before mu

	mu       sync.Mutex
	more     sync.Cond // uses mu
	buf      []byte
	position int64
	ended    bool // the caller ended the input
	closed   bool // the tool closed the input, or the attempt is over
}

// New returns the input of an attempt whose tool has the controls c.
func New(c tool.Controls) *Keyboard {
	k := &Keyboard{controls: c, position: c.Position}
	k.more.L = &k.mu
	return k
}

// Read implements [io.Reader].
func (k *Keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.buf) == 0 && !k.ended && !k.closed {
		k.more.Wait()
	}
	switch {
	case k.closed:
		return 0, io.ErrClosedPipe
	case len(k.buf) == 0:
		return 0, io.EOF
	}
	n := copy(p, k.buf)
	if k.buf = k.buf[n:]; len(k.buf) == 0 {
		k.buf = nil
	}
	return n, nil
}

// Close closes the input on the tool's side.
func (k *Keyboard) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed, k.buf = true, nil
	k.more.Broadcast()
	return nil
}

// Check returns an error for input that no call accepts.
func Check(in *call.Input) error {
	switch {
	case len(in.Data) > inputBuffer:
		return call.InvalidField("data", "has %d bytes; at most %d are accepted", len(in.Data), inputBuffer)
	case in.Position != nil && *in.Position < 0:
		return call.InvalidField("position", "is %d; input counts from 0", *in.Position)
	case (in.Rows != 0 || in.Columns != 0) && (min(in.Rows, in.Columns) < 1 || max(in.Rows, in.Columns) > 1000):
		return call.InvalidField("resize", "is %d by %d; want 1 to 1,000 each", in.Rows, in.Columns)
	}
	return nil
}

// Send accepts an input. It skips the bytes that it accepted before. Of the new bytes, it accepts all or none.
func (k *Keyboard) Send(in call.Input, attempt int) (call.InputState, error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	signal, err := k.take(in)
	if err != nil {
		return call.InputState{}, err
	}
	if in.Rows > 0 && k.controls.Resize != nil {
		if err := k.controls.Resize(in.Rows, in.Columns); err != nil {
			return call.InputState{}, uncontrolled("RESIZE_FAILED", err)
		}
	}
	if signal {
		if k.controls.Signal == nil {
			return call.InputState{}, call.Refuse(call.FailedPrecondition, "NO_SIGNALS", "the call takes no signals")
		}
		if err := k.controls.Signal(in.Signal); err != nil {
			return call.InputState{}, uncontrolled("SIGNAL_FAILED", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if signal {
		k.position++
	}
	if in.End && !k.ended {
		k.ended = true
		k.more.Broadcast()
	}
	return call.InputState{Position: k.position, Attempt: attempt, Unread: len(k.buf)}, nil
}

func uncontrolled(reason string, err error) error {
	return call.Refuse(call.FailedPrecondition, reason, "the signal or window size did not reach the call: %v", err)
}

// take appends the new bytes of an input, and reports whether its signal is new.
func (k *Keyboard) take(in call.Input) (signal bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	data := in.Data
	signal = in.Signal != ""
	if in.Position != nil {
		known := k.position - *in.Position
		if known < 0 {
			r := call.Refuse(call.OutOfRange, "INPUT_GAP", "position %d is beyond %d, the end of the received input", *in.Position, k.position)
			r.Metadata = map[string]string{"position": strconv.FormatInt(k.position, 10)}
			return false, r
		}
		signal = signal && known <= int64(len(data))
		data = data[min(known, int64(len(data))):]
	}
	switch {
	case len(data) == 0 && !signal:
		return false, nil
	case k.closed || k.ended && len(data) > 0:
		return false, call.Refuse(call.FailedPrecondition, "INPUT_ENDED", "the call takes no more input")
	case len(k.buf)+len(data) > inputBuffer:
		r := call.Refuse(call.ResourceExhausted, "INPUT_FULL", "the call has not yet read %d bytes; nothing was accepted, send the input again later", len(k.buf))
		r.RetryAfter = 200 * time.Millisecond
		return false, r
	}
	k.buf = append(k.buf, data...)
	k.position += int64(len(data))
	k.more.Broadcast()
	return signal, nil
}
