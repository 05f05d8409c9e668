package httpserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// maxGuests is the maximum number of guests. A guest is a connection on which no request has had a valid credential yet. When one more
// guest connects, the server disconnects the oldest guest.
const maxGuests = 256

// guests has the guests of a server.
type guests struct {
	mu    sync.Mutex
	order map[net.Conn]int // numbers that grow with each guest, so the oldest guest has the lowest number
	count int
}

func newGuests() *guests { return &guests{order: map[net.Conn]int{}} }

// guestKey is the key of the *guest in the contexts of a connection's requests.
type guestKey struct{}

type guest struct {
	conn     net.Conn
	admitted atomic.Bool // set by the first valid credential, so that later requests need no lock
}

// arrived adds a connection. It implements [http.Server.ConnContext].
func (g *guests) arrived(ctx context.Context, conn net.Conn) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	g.order[conn] = g.count
	if len(g.order) > maxGuests {
		oldest := conn
		for c, n := range g.order {
			if n < g.order[oldest] {
				oldest = c
			}
		}
		delete(g.order, oldest)
		disconnect(oldest)
	}
	return context.WithValue(ctx, guestKey{}, &guest{conn: conn})
}

// disconnect closes a connection at once. The Close of TLS would wait for the client.
func disconnect(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	_ = conn.Close() // Ignore the error: there is no other way to close the connection.
}

// changed removes a connection that has ended or left net/http. It implements [http.Server.ConnState].
func (g *guests) changed(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		g.remove(conn)
	}
}

// admit removes the connection of a request with a valid credential from the guests.
func (g *guests) admit(ctx context.Context) {
	if from, ok := ctx.Value(guestKey{}).(*guest); ok && from.admitted.CompareAndSwap(false, true) {
		g.remove(from.conn)
	}
}

func (g *guests) remove(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.order, conn)
}
