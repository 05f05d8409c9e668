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

// errEnded means that nothing more is read or written.
var errEnded = errors.New("the connection is closed")

// maxWords is how much of what a server writes to standard error is kept.
const maxWords = 4 << 10

// A pipe is the SDK's connection over the standard input and output of a process: one message a line.
type pipe struct {
	guard *guard
	kill  func() (dead bool) // ends the process with all that it started, and says whether nothing is left

	in     chan []byte // lines of the process; a process that writes faster than they are read waits
	out    chan []byte // lines for it
	closed chan struct{}
	once   sync.Once

	partial []byte // of standard output; used by its goroutine alone
	queue   []jsonrpc.Message
	rest    []byte // of what the process reads; used by that goroutine alone

	mu    sync.Mutex
	words []byte // the last ones of standard error
	why   error  // of the end, when it was not asked for
}

func newPipe() *pipe {
	return &pipe{guard: newGuard(), in: make(chan []byte, 16), out: make(chan []byte, 16), closed: make(chan struct{})}
}

// Connect implements [sdk.Transport].
func (p *pipe) Connect(context.Context) (sdk.Connection, error) { return p, nil }

// SessionID implements [sdk.Connection].
func (p *pipe) SessionID() string { return "" }

// Close implements [sdk.Connection]. The process then reads the end of its input.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipe) cut() { _ = p.Close() } // it returns nil

func (p *pipe) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// fail ends the connection; the first reason counts, and none when it was ended already.
func (p *pipe) fail(err error) {
	p.mu.Lock()
	if p.why == nil && !p.isClosed() {
		p.why = err
	}
	p.mu.Unlock()
	_ = p.Close() // returns nil
}

// outOfMemory returns the error of calls that the server ran when the kernel killed it for memory; nil when that is not how
// it ended. A nil pipe is that of a server elsewhere.
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
		Message: "The server ran out of memory while it ran the call; it is not known whether that took effect. " + dead.why,
	}
}

// ended says why the connection ended, with the process's last words.
func (p *pipe) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil || len(bytes.TrimSpace(p.words)) == 0 {
		return p.why
	}
	return fmt.Errorf("%w: %s", p.why, cleanLine(string(p.words), maxWords))
}

// Output takes what the process writes, as [sandbox.Spec] gives it.
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

// push hands a line on. What cannot be a message is a banner or a stray print, of which many servers have some.
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

// input is the standard input of the process.
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

// take queues the messages of a line: one, or the list of an earlier era.
func (p *pipe) take(ctx context.Context, line []byte) error {
	list := []json.RawMessage{line}
	if line[0] == '[' {
		if err := json.Unmarshal(line, &list); err != nil || len(list) > maxBatch {
			return fmt.Errorf("the server sent a list that is none of at most %d messages", maxBatch)
		}
	}
	for _, text := range list {
		text, err := p.guard.received(ctx, text)
		if err != nil {
			return err
		}
		m, err := jsonrpc.DecodeMessage(text)
		if err != nil {
			return fmt.Errorf("the server sent what is no message: %w", err)
		}
		p.queue = append(p.queue, m)
	}
	return nil
}
