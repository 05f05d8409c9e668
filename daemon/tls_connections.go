package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
)

// tlsConnections are the open connections of the listeners with TLS, with the client certificates that they began with.
type tlsConnections struct {
	mu   sync.Mutex
	open map[string]*tlsConnection // by local and remote address: gRPC and HTTP wrap a connection, so it cannot be the key
}

type tlsConnection struct {
	net.Conn
	of   *tlsConnections
	peer []*x509.Certificate // guarded by of.mu; nil until the handshake has verified it
	met  bool                // guarded by of.mu; the handshake has taken place
}

func addressesOf(c net.Conn) string { return c.LocalAddr().String() + " " + c.RemoteAddr().String() }

// track returns a listener whose connections a reload can end.
func (t *tlsConnections) track(lis net.Listener) net.Listener { return trackedListener{lis, t} }

type trackedListener struct {
	net.Listener
	of *tlsConnections
}

// Accept implements [net.Listener].
func (l trackedListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &tlsConnection{Conn: raw, of: l.of}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.open == nil {
		l.of.open = map[string]*tlsConnection{}
	}
	l.of.open[addressesOf(raw)] = c
	return c, nil
}

// Close implements [net.Conn].
func (c *tlsConnection) Close() error {
	c.of.mu.Lock()
	if key := addressesOf(c.Conn); c.of.open[key] == c { // A new connection may have the same addresses.
		delete(c.of.open, key)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// verified notes the client certificate of a connection.
func (t *tlsConnections) verified(conn net.Conn, peer []*x509.Certificate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.open[addressesOf(conn)]; c != nil {
		c.peer, c.met = peer, true
	}
}

// endInvalid closes the connections whose client certificate a configuration refuses.
func (t *tlsConnections) endInvalid(now *tls.Config) {
	var ended []*tlsConnection
	t.mu.Lock()
	for _, c := range t.open {
		if c.met && admits(now, c.peer) != nil {
			ended = append(ended, c)
		}
	}
	t.mu.Unlock()
	for _, c := range ended {
		_ = c.Close() // Ignore the error, because the connection may have ended meanwhile.
	}
}

// admits returns an error if a configuration refuses a client certificate. It checks what the handshake checks.
func admits(now *tls.Config, peer []*x509.Certificate) error {
	switch {
	case now.ClientAuth == tls.NoClientCert && len(peer) == 0:
		return nil
	case now.ClientAuth == tls.NoClientCert || len(peer) == 0:
		return errors.New("the listener no longer takes this client certificate, or requires one")
	}
	options := x509.VerifyOptions{Roots: now.ClientCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range peer[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := peer[0].Verify(options)
	return err
}
