package shell

import (
	"io"
	"slices"
	"sync"
)

// A log keeps the newest output of a background shell. Offsets count from the beginning of the whole output.
type log struct {
	most  int
	bytes []byte
	total int64
}

func (l *log) write(b []byte) {
	l.total += int64(len(b))
	l.bytes = append(l.bytes, b...)
	if len(l.bytes) > 2*l.most { // Trimming only at twice the limit copies each byte once on average.
		l.bytes = append(l.bytes[:0], l.bytes[len(l.bytes)-l.most:]...)
	}
}

// since returns the output from offset on. The parameter most limits its size, in bytes. When the bytes at offset are no longer stored,
// since returns later ones. from is the offset of the returned bytes. trimmed is the number of bytes between offset and from.
func (l *log) since(offset int64, most int) (b []byte, from, trimmed int64) {
	first := l.total - int64(len(l.bytes))
	from = min(max(offset, first), l.total)
	b = l.bytes[from-first:]
	if len(b) > most {
		b = wholeEnd(b[:most])
	}
	return slices.Clone(b), from, max(0, from-offset)
}

// maxKeys is the maximum number of bytes of typed input that a background shell has not read yet.
const maxKeys = 64 << 10

// keys buffers input that was typed into a background shell until the shell reads it.
type keys struct {
	mu     sync.Mutex
	more   sync.Cond // signals a change; its lock is mu
	buf    []byte
	ended  bool // no more input follows
	unread bool // the process has ended, so nothing reads the input
}

func newKeys() *keys {
	k := &keys{}
	k.more.L = &k.mu
	return k
}

// Read implements [io.Reader]. It blocks until input arrives or ends.
func (k *keys) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.buf) == 0 && !k.ended && !k.unread {
		k.more.Wait()
	}
	switch {
	case k.unread:
		return 0, io.ErrClosedPipe
	case len(k.buf) == 0:
		return 0, io.EOF
	}
	n := copy(p, k.buf)
	k.buf = k.buf[n:]
	return n, nil
}

// put adds a text to the buffer. When the buffer has no space for the whole text, or the input was closed, it adds nothing and returns
// false.
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
	k.unread, k.buf = true, nil
	k.more.Broadcast()
}
