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

	"github.com/toold-dev/toold/server/service"
)

// A guest is a connection on which no request has had a valid credential yet. GuestConnections and GuestStreams apply to guests only. The
// limit of grpc-go for the streams of a connection does not protect against guests: grpc-go counts streams before it knows whether the client
// is authenticated.
const (
	// GuestConnections is the maximum number of guests. When one more guest connects, the server disconnects the oldest guest. A client
	// with a credential is a guest for only a few milliseconds.
	GuestConnections = 128
	// GuestStreams is the number of streams that a guest may begin. After that, the server stops reading from the guest until one of its
	// streams has a valid credential.
	GuestStreams = 16
	// ResetsEach is how many streams a client may reset on one connection in each second, and resetsAtOnce is how many it may reset at
	// once. When a client exceeds these limits, the server delays reading from it.
	ResetsEach   = 500
	resetsAtOnce = 1000
)

// defaultGuestTime is how long a connection may be a guest.
const defaultGuestTime = 10 * time.Second

// Guests returns the limits of guests.
func Guests() service.Guests {
	return service.Guests{Connections: GuestConnections, Streams: GuestStreams, ResetsEach: ResetsEach, Time: defaultGuestTime}
}

// A guestList lists the guests, oldest first.
type guestList struct {
	time time.Duration // how long a connection may be a guest

	mu     sync.Mutex
	guests list.List
}

func (l *guestList) add(g *guarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.at = l.guests.PushBack(g)
	if l.guests.Len() > GuestConnections {
		oldest := l.guests.Remove(l.guests.Front()).(*guarded)
		oldest.at = nil
		oldest.cut()
	}
}

func (l *guestList) remove(g *guarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.at != nil {
		l.guests.Remove(g.at)
		g.at = nil
	}
}

// A guarded connection limits the rate at which the server reads frames. It parses only the headers of frames.
type guarded struct {
	net.Conn           // the connection to use after the handshake, which reads from raw
	raw       net.Conn // underlying connection; closing it disconnects the client
	guestList *guestList
	at        *list.Element // entry in the guestList; guarded by guestList.mu

	timer   *time.Timer
	known   atomic.Bool   // the connection is no longer a guest
	passed  chan struct{} // closed when the connection is no longer a guest
	closed  chan struct{} // closed when the connection ends
	end     sync.Once
	refused atomic.Int32

	// Only the goroutine that reads uses the fields below.
	held    []byte // bytes that were read and not returned yet
	skip    int    // number of bytes up to the next frame
	head    [8]byte
	have    int // number of bytes of the frame header that were read
	streams int
	resets  float64 // number of resets that the client may send now
	counted time.Time
}

// prefaceLength is the length in bytes of the preface that an HTTP/2 client sends before its first frame.
const prefaceLength = 24

func (l *guestList) guard(raw net.Conn) *guarded {
	g := &guarded{
		Conn: raw, raw: raw, guestList: l, passed: make(chan struct{}), closed: make(chan struct{}), skip: prefaceLength,
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

// cut closes the connection at once, without waiting for the peer.
func (g *guarded) cut() {
	g.end.Do(func() {
		close(g.closed)
		_ = g.raw.Close() // Ignore the error: the connection ends even when Close fails.
	})
}

// Close implements [net.Conn].
func (g *guarded) Close() error {
	err := g.Conn.Close()
	g.timer.Stop()
	g.cut()
	g.guestList.remove(g)
	return err
}

// RemoteAddr implements [net.Conn]. The address also holds the guard, because admitGuest gets only the address.
func (g *guarded) RemoteAddr() net.Addr { return guardedAddr{g.Conn.RemoteAddr(), g} }

type guardedAddr struct {
	net.Addr
	guard *guarded
}

// Read implements [net.Conn]. It delays frames that exceed the limits.
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

// scan returns how many bytes of b may be returned to the reader now: the bytes before the first frame that must wait.
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
		default: // This is the ninth and last byte of the frame header.
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

// wait blocks until scan may try the delayed frame again.
func (g *guarded) wait() error {
	passed, later := g.passed, (<-chan time.Time)(nil)
	if g.head[3] == frameReset {
		passed, later = nil, time.After(time.Second/ResetsEach)
	}
	select {
	case <-passed:
	case <-later:
	case <-g.closed:
		return net.ErrClosed
	}
	return nil
}

// admitGuest checks the credential of a guest's request as soon as the headers are read. It cannot wait for the messages of the request:
// they may come after other streams that wait for this check. A valid credential ends the limits of the guest. A guest that has used all
// its streams without a valid credential is disconnected.
func (s *Server) admitGuest(ctx context.Context, _ *tap.Info) (context.Context, error) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return ctx, nil
	}
	at, isGuarded := p.Addr.(guardedAddr)
	if !isGuarded || at.guard.known.Load() {
		return ctx, nil
	}
	g := at.guard
	if _, err := s.cfg.Service.Auth().Identify(ctx, credentialOf(ctx)); err == nil {
		g.admit()
	} else if g.refused.Add(1) == GuestStreams {
		time.AfterFunc(time.Second, func() { // Wait, so that the client can receive the last response.
			if !g.known.Load() {
				g.cut()
			}
		})
	}
	return ctx, nil
}

// admit ends the limits of a guest.
func (g *guarded) admit() {
	if g.known.CompareAndSwap(false, true) {
		g.timer.Stop()
		close(g.passed)
		g.guestList.remove(g)
	}
}
