package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// errEnded means that the connection accepts no more reads or writes.
var errEnded = errors.New("the connection is closed")

// maxWords is the number of bytes of a server's standard error that are kept.
const maxWords = 4 << 10

// A pipe is the connection of the SDK to a process, over standard input and output. Each line is one message.
type pipe struct {
	guard *guard
	kill  func() (dead bool) // kills the process and its children, and reports whether all of them are dead

	in     chan []byte // lines from the process; when the channel is full, the process must wait
	out    chan []byte // lines to the process
	closed chan struct{}
	once   sync.Once

	partial []byte // beginning of a line of standard output; only the goroutine that reads this output uses it
	queue   []jsonrpc.Message
	rest    []byte // part of the current input line that the process has not read; only one goroutine uses it

	mu    sync.Mutex
	words []byte // last bytes of standard error
	why   error  // reason why the connection ended unexpectedly
}

func newPipe() *pipe {
	return &pipe{guard: newGuard(), in: make(chan []byte, 16), out: make(chan []byte, 16), closed: make(chan struct{})}
}

// Connect implements [sdk.Transport].
func (p *pipe) Connect(context.Context) (sdk.Connection, error) { return p, nil }

// SessionID implements [sdk.Connection].
func (p *pipe) SessionID() string { return "" }

// Close implements [sdk.Connection]. The process then reads the end of its standard input.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipe) cut() { _ = p.Close() } // Close always returns nil.

func (p *pipe) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// fail ends the connection with a reason. It does nothing when the connection already has a reason or was closed.
func (p *pipe) fail(err error) {
	p.mu.Lock()
	if p.why == nil && !p.isClosed() {
		p.why = err
	}
	p.mu.Unlock()
	_ = p.Close() // Close always returns nil.
}

// outOfMemory returns an error for calls on a server that the kernel killed for its memory use. When the server ended in another way, it
// returns nil. A nil pipe means that the server is not a local process.
func (p *pipe) outOfMemory() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	dead, ok := errors.AsType[*outOfMemoryError](p.why)
	if !ok {
		return nil
	}
	return &tool.Error{
		Code: tool.Upstream, Reason: sandbox.ReasonOOM, DeveloperMessage: dead.Error(),
		Message: "The server ran out of memory during the call; it is not known whether the call took effect. " + dead.why,
	}
}

// ended returns an error that says why the connection ended. It contains the last bytes of the process's standard error.
func (p *pipe) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil || len(bytes.TrimSpace(p.words)) == 0 {
		return p.why
	}
	return fmt.Errorf("%w: %s", p.why, cleanLine(string(p.words), maxWords))
}

// Output is the Output function of [sandbox.Spec].
func (p *pipe) Output(stream string, chunk []byte) error {
	if stream != "stdout" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.words = append(p.words, chunk...)
		p.words = p.words[max(0, len(p.words)-maxWords):]
		return nil
	}
	for {
		line, rest, whole := bytes.Cut(chunk, []byte{'\n'})
		if len(p.partial)+len(line) > MaxMessage {
			err := fmt.Errorf("the server sent a line of more than %d bytes", MaxMessage)
			p.fail(err)
			return err
		}
		p.partial = append(p.partial, line...)
		if !whole {
			return nil
		}
		if err := p.push(bytes.TrimSpace(p.partial)); err != nil {
			return err
		}
		p.partial, chunk = nil, rest
	}
}

// push passes a line to the SDK. It ignores lines that cannot be messages, because many servers also print banners and other text.
func (p *pipe) push(line []byte) error {
	if len(line) == 0 || line[0] != '{' && line[0] != '[' {
		return nil
	}
	select {
	case p.in <- line:
		return nil
	case <-p.closed:
		return errEnded
	}
}

func (p *pipe) input() io.Reader { return pipeInput{p} }

type pipeInput struct{ p *pipe }

// Read implements io.Reader.
func (r pipeInput) Read(b []byte) (int, error) {
	p := r.p
	if len(p.rest) == 0 {
		select {
		case p.rest = <-p.out:
		case <-p.closed:
			return 0, io.EOF
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Write implements [sdk.Connection].
func (p *pipe) Write(ctx context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	request := p.guard.sending(ctx, line)
	select {
	case p.out <- append(line, '\n'):
		request.noteSent()
		return nil
	case <-p.closed:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Read implements [sdk.Connection].
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(p.queue) == 0 {
		var line []byte
		select {
		case line = <-p.in:
		case <-p.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := p.take(ctx, line); err != nil {
			if ctx.Err() == nil {
				p.fail(err)
			}
			return nil, err
		}
	}
	m := p.queue[0]
	p.queue = p.queue[1:]
	return m, nil
}

// take passes on the messages of a line: one message, or a batch in an earlier era.
func (p *pipe) take(ctx context.Context, line []byte) error {
	list := []json.RawMessage{line}
	if line[0] == '[' {
		if err := json.Unmarshal(line, &list); err != nil || len(list) > maxBatch {
			return fmt.Errorf("the server sent a list that does not consist of 1 to %d messages", maxBatch)
		}
	}
	for _, text := range list {
		text, err := p.guard.received(ctx, text)
		if err != nil {
			return err
		}
		m, err := jsonrpc.DecodeMessage(text)
		if err != nil {
			return fmt.Errorf("the server sent an invalid message: %w", err)
		}
		p.queue = append(p.queue, m)
	}
	return nil
}
