package shell

import (
	"io"
	"slices"
	"sync"
)

// A log keeps the newest output of a background shell, addressed by absolute byte offset.
type log struct {
	most  int
	bytes []byte
	total int64
}

func (l *log) write(b []byte) {
	l.total += int64(len(b))
	l.bytes = append(l.bytes, b...)
	if len(l.bytes) > 2*l.most { // Trims only now and then, not for each chunk.
		l.bytes = append(l.bytes[:0], l.bytes[len(l.bytes)-l.most:]...)
	}
}

// since returns at most most bytes that start at offset. from is the offset where they really start. gone is the number of bytes between
// offset and from that are no longer stored.
func (l *log) since(offset int64, most int) (b []byte, from, gone int64) {
	first := l.total - int64(len(l.bytes))
	from = min(max(offset, first), l.total)
	b = l.bytes[from-first:]
	if len(b) > most {
		b = wholeEnd(b[:most])
	}
	return slices.Clone(b), from, max(0, from-offset)
}

// maxKeys is the limit in bytes for typed input that a background shell has not read yet.
const maxKeys = 64 << 10

// keys buffers input that was typed into a background shell and not read yet.
type keys struct {
	mu    sync.Mutex
	more  sync.Cond // uses mu
	buf   []byte
	ended bool // no more input follows
	gone  bool // no process reads any more
}

func newKeys() *keys {
	k := &keys{}
	k.more.L = &k.mu
	return k
}

// Read implements [io.Reader]. It blocks until input arrives.
func (k *keys) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.buf) == 0 && !k.ended && !k.gone {
		k.more.Wait()
	}
	switch {
	case k.gone:
		return 0, io.ErrClosedPipe
	case len(k.buf) == 0:
		return 0, io.EOF
	}
	n := copy(p, k.buf)
	k.buf = k.buf[n:]
	return n, nil
}

// put buffers the whole text or nothing, and reports whether it buffered the text.
func (k *keys) put(text string, end bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.buf)+len(text) > maxKeys || k.ended && text != "" {
		return false
	}
	k.buf, k.ended = append(k.buf, text...), k.ended || end
	k.more.Broadcast()
	return true
}

func (k *keys) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone, k.buf = true, nil
	k.more.Broadcast()
}
