package shell

import (
	"io"
	"slices"
	"sync"
)

// A log keeps the newest output of a background shell, by absolute offset.
type log struct {
	most  int
	bytes []byte
	total int64
}

func (l *log) write(b []byte) {
	l.total += int64(len(b))
	l.bytes = append(l.bytes, b...)
	if len(l.bytes) > 2*l.most { // now and then, not with each chunk
		l.bytes = append(l.bytes[:0], l.bytes[len(l.bytes)-l.most:]...)
	}
}

// since returns at most most bytes from an offset on, where they begin, and how many before them are gone.
func (l *log) since(offset int64, most int) (b []byte, from, gone int64) {
	first := l.total - int64(len(l.bytes))
	from = min(max(offset, first), l.total)
	b = l.bytes[from-first:]
	if len(b) > most {
		b = wholeEnd(b[:most])
	}
	return slices.Clone(b), from, max(0, from-offset)
}

// maxKeys is how much a background shell may leave unread.
const maxKeys = 64 << 10

// keys is what was typed into a background shell and not read yet.
type keys struct {
	mu    sync.Mutex
	more  sync.Cond // of mu
	buf   []byte
	ended bool // nothing will follow
	gone  bool // nobody reads any more
}

func newKeys() *keys {
	k := &keys{}
	k.more.L = &k.mu
	return k
}

// Read implements [io.Reader]; it waits for a key.
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

// put takes all of the text or nothing, and reports whether it did.
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
