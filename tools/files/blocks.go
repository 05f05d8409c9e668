package files

import (
	"bytes"
	"errors"
	"io"
)

// blocks splits a file into blocks of whole lines, so that a search of a file of any size needs only one buffer. When a line is longer than
// the buffer, its first part is a block and the rest is skipped.
type blocks struct {
	buf  []byte
	in   io.Reader
	held int // number of bytes in buf that come after the last block
	used int // offset in buf of the bytes that come after the last block
	skip bool
	end  error

	read int64
	cut  int // number of lines longer than the buffer
}

func (b *blocks) reset(in io.Reader) {
	*b = blocks{buf: b.buf, in: in}
}

// next returns the next block, which stays valid until next is called again. With the last block, which may be empty, it returns io.EOF.
func (b *blocks) next() ([]byte, error) {
	copy(b.buf, b.buf[b.used:b.used+b.held])
	b.used = 0
	for {
		for b.end == nil && b.held < len(b.buf) {
			n, err := b.in.Read(b.buf[b.held:])
			b.held += n
			b.read += int64(n)
			b.end = err
		}
		if b.end != nil && !errors.Is(b.end, io.EOF) {
			return nil, b.end
		}
		if !b.skip {
			break
		}
		i := bytes.IndexByte(b.buf[:b.held], '\n')
		switch {
		case i >= 0:
			b.skip = false
			b.held = copy(b.buf, b.buf[i+1:b.held])
		case b.end != nil:
			return nil, io.EOF
		default:
			b.held = 0
		}
	}
	if b.end != nil {
		block := b.buf[:b.held]
		b.held = 0
		return block, io.EOF
	}
	size := bytes.LastIndexByte(b.buf[:b.held], '\n') + 1
	if size == 0 {
		b.skip, size = true, b.held
		b.cut++
	}
	b.used = size
	b.held -= size
	return b.buf[:size], nil
}
