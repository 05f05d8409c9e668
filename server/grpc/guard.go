package grpcserver

import (
	"container/list"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// Guests are connections of which no request has brought a credential that holds. What they may do is bounded here, because
// grpc-go bounds streams for each connection and asks for credentials in a stream.
const (
	// GuestConnections is how many there are at once. One more ends the oldest: a client with a credential is a guest for
	// milliseconds.
	GuestConnections = 128
	// GuestStreams is how many streams a guest may begin. More are not read until one has brought a credential.
	GuestStreams = 16
	// ResetsEach is how many streams a client may reset in a second on one connection, and resetsAtOnce how many at once
	// before. More are read later: the connection waits.
	ResetsEach   = 500
	resetsAtOnce = 1000
)

// A lobby has the guests, the oldest first.
type lobby struct {
	time time.Duration // that a connection may be a guest

	mu     sync.Mutex
	guests list.List
}

func (l *lobby) add(g *guarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.at = l.guests.PushBack(g)
	if l.guests.Len() > GuestConnections {
		oldest := l.guests.Remove(l.guests.Front()).(*guarded)
		oldest.at = nil
		oldest.cut()
	}
}

func (l *lobby) remove(g *guarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.at != nil {
		l.guests.Remove(g.at)
		g.at = nil
	}
}

// A guarded connection reads frames no faster than it may. It sees the headers of frames and nothing else.
type guarded struct {
	net.Conn          // what the handshake made of raw
	raw      net.Conn // is closed to end it
	lobby    *lobby
	at       *list.Element // in the lobby; guarded by lobby.mu

	timer   *time.Timer
	known   atomic.Bool   // no guest any more
	passed  chan struct{} // closed then
	gone    chan struct{} // closed when it ends
	end     sync.Once
	refused atomic.Int32

	// The rest is for the one goroutine that reads.
	held    []byte // was read, and is not handed on
	skip    int    // bytes until the next frame
	head    [8]byte
	have    int // bytes of head
	streams int
	resets  float64 // that may come now
	counted time.Time
}

// prefaceLength is the length of what a client of HTTP/2 sends before its first frame.
const prefaceLength = 24

func (l *lobby) guard(raw net.Conn) *guarded {
	g := &guarded{
		Conn: raw, raw: raw, lobby: l, passed: make(chan struct{}), gone: make(chan struct{}), skip: prefaceLength,
		resets: resetsAtOnce, counted: time.Now(),
	}
	g.timer = time.AfterFunc(l.time, func() {
		if !g.known.Load() {
			g.cut()
		}
	})
	l.add(g)
	return g
}

// cut ends the connection without a word: what waits for its peer does not hold anybody up.
func (g *guarded) cut() {
	g.end.Do(func() {
		close(g.gone)
		_ = g.raw.Close() // nobody could do anything about it
	})
}

// Close implements [net.Conn].
func (g *guarded) Close() error {
	err := g.Conn.Close()
	g.timer.Stop()
	g.cut()
	g.lobby.remove(g)
	return err
}

// RemoteAddr implements [net.Conn]. The address leads back to the guard.
func (g *guarded) RemoteAddr() net.Addr { return guardedAddr{g.Conn.RemoteAddr(), g} }

type guardedAddr struct {
	net.Addr
	guard *guarded
}

// Read implements [net.Conn].
func (g *guarded) Read(p []byte) (int, error) {
	for {
		var ready int
		if len(g.held) > 0 {
			ready = g.scan(g.held[:min(len(p), len(g.held))])
			copy(p, g.held[:ready])
			g.held = g.held[ready:]
		} else {
			n, err := g.Conn.Read(p)
			ready = g.scan(p[:n])
			g.held = append(g.held[:0], p[ready:n]...)
			if n == 0 || err != nil && ready == n {
				return n, err
			}
		}
		if ready > 0 {
			return ready, nil
		}
		if err := g.wait(); err != nil {
			return 0, err
		}
	}
}

// scan returns how many bytes may be handed on now: all before a frame that has to wait.
func (g *guarded) scan(b []byte) (n int) {
	for n < len(b) {
		switch {
		case g.skip > 0:
			k := min(g.skip, len(b)-n)
			g.skip -= k
			n += k
		case g.have < len(g.head):
			g.head[g.have] = b[n]
			g.have++
			n++
		case !g.mayBegin(g.head[3]):
			return n
		default: // the ninth byte of the header
			g.skip, g.have = int(g.head[0])<<16|int(g.head[1])<<8|int(g.head[2]), 0
			n++
		}
	}
	return n
}

// The types of frames that are counted.
const (
	frameHeaders = 1
	frameReset   = 3
)

func (g *guarded) mayBegin(frame byte) bool {
	switch frame {
	case frameHeaders:
		if g.known.Load() {
			return true
		}
		if g.streams == GuestStreams {
			return false
		}
		g.streams++
	case frameReset:
		now := time.Now()
		g.resets = min(resetsAtOnce, g.resets+ResetsEach*now.Sub(g.counted).Seconds())
		g.counted = now
		if g.resets < 1 {
			return false
		}
		g.resets--
	}
	return true
}

// wait returns when the frame at hand may be looked at again.
func (g *guarded) wait() error {
	passed, later := g.passed, (<-chan time.Time)(nil)
	if g.head[3] == frameReset {
		passed, later = nil, time.After(time.Second/ResetsEach)
	}
	select {
	case <-passed:
	case <-later:
	case <-g.gone:
		return net.ErrClosed
	}
	return nil
}

// meet looks at the credential of a guest's request as soon as its headers are read: one that holds makes the connection a guest
// no more. It is too early for the messages, which may stand behind streams that wait for this. A guest whose every stream
// brought none is ended.
func (s *Server) meet(ctx context.Context, _ *tap.Info) (context.Context, error) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return ctx, nil
	}
	at, isGuarded := p.Addr.(guardedAddr)
	if !isGuarded || at.guard.known.Load() {
		return ctx, nil
	}
	g := at.guard
	if _, err := identify(ctx, s.cfg.Auth); err == nil {
		g.admit()
	} else if g.refused.Add(1) == GuestStreams {
		time.AfterFunc(time.Second, func() { // the last answer is on its way
			if !g.known.Load() {
				g.cut()
			}
		})
	}
	return ctx, nil
}

// admit makes the connection a guest no more.
func (g *guarded) admit() {
	if g.known.CompareAndSwap(false, true) {
		g.timer.Stop()
		close(g.passed)
		g.lobby.remove(g)
	}
}
