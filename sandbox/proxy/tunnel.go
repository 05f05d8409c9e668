package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A tunnel joins a connection of a process with a connection of the proxy to a host.
type tunnel struct {
	conn, out net.Conn
	in        *bufio.Reader // reads conn; may already contain buffered bytes
	idle      time.Duration
	began     time.Time    // start of the tunnel, on the monotonic clock
	touched   atomic.Int64 // time when the deadlines were last set, in nanoseconds after began; 0 means never
	up, down  atomic.Int64
}

// touch postpones the idle deadline of the tunnel.
func (t *tunnel) touch() {
	now := time.Now()
	open := max(now.Sub(t.began), 1)
	if last := t.touched.Load(); last != 0 && open-time.Duration(last) < t.idle/16 {
		return
	}
	t.touched.Store(int64(open))
	_ = t.conn.SetDeadline(now.Add(t.idle))
	_ = t.out.SetDeadline(now.Add(t.idle))
}

// A side is one direction of a tunnel. It counts the bytes, and each read postpones the idle deadline.
type side struct {
	io.Reader
	io.Writer
	t *tunnel
	n *atomic.Int64
}

func (s side) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if n > 0 {
		s.t.touch()
	}
	if s.n != nil {
		s.n.Add(int64(n))
	}
	return n, err
}

func (s side) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	if s.n != nil {
		s.n.Add(int64(n))
	}
	return n, err
}

func (t *tunnel) fromProcess() io.Reader { return side{Reader: t.in, t: t} }
func (t *tunnel) toHost() io.Writer      { return side{Writer: t.out, t: t, n: &t.up} }
func (t *tunnel) fromHost() io.Reader    { return side{Reader: t.out, t: t, n: &t.down} }
func (t *tunnel) toProcess() io.Writer   { return side{Writer: t.conn, t: t} }

// writer hides the other methods of its Writer, so that io.Copy uses one small buffer and every byte passes through Write.
type writer struct{ io.Writer }

// connect copies bytes in both directions until both have ended.
func (t *tunnel) connect() {
	if _, err := io.WriteString(t.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { t.pump(t.toHost(), t.fromProcess(), t.out) })
	both.Go(func() { t.pump(t.toProcess(), t.fromHost(), t.conn) })
	both.Wait()
}

// pump copies one direction. It forwards end of file. After an error it ends the whole tunnel.
func (t *tunnel) pump(to io.Writer, from io.Reader, end net.Conn) {
	const chunk = 16 << 10
	_, err := io.CopyBuffer(writer{to}, struct{ io.Reader }{from}, make([]byte, chunk))
	half, ok := end.(interface{ CloseWrite() error })
	if err == nil && ok {
		err = half.CloseWrite()
	} else if err == nil {
		err = errors.ErrUnsupported
	}
	if err != nil {
		t.conn.Close()
		t.out.Close()
	}
}
