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

// A tunnel is a connection of a process and one of the proxy to a host.
type tunnel struct {
	conn, out net.Conn
	in        *bufio.Reader // of conn: some of it has been read ahead
	idle      time.Duration
	began     time.Time    // on the monotonic clock
	touched   atomic.Int64 // when the deadlines were last set, in nanoseconds after began; 0: not yet
	up, down  atomic.Int64
}

// touch puts the end of an idle tunnel off.
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

// A side is one direction of a tunnel; what goes through it is counted and keeps the tunnel open.
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

// writer hides what else its writer can, so that a copy has one small buffer and everything is seen.
type writer struct{ io.Writer }

// connect carries bytes both ways until both have ended.
func (t *tunnel) connect() {
	if _, err := io.WriteString(t.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { t.pump(t.toHost(), t.fromProcess(), t.out) })
	both.Go(func() { t.pump(t.toProcess(), t.fromHost(), t.conn) })
	both.Wait()
}

// pump copies one direction. Its end is passed on; after an error nothing continues.
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
