package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync/atomic"

	"github.com/toold-dev/toold/daemon/config"
)

// A reloadableTLS is the TLS configuration of the listeners. A reload replaces it. Open connections keep the old certificate of the daemon. They
// end if the new configuration refuses the certificate of their client.
type reloadableTLS struct {
	now         atomic.Pointer[tls.Config]
	connections tlsConnections
}

// config returns the configuration of a listener for these protocols (ALPN). It returns nil when the listeners have no TLS.
func (l *reloadableTLS) config(protocols ...string) *tls.Config {
	if l.now.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c := l.now.Load().Clone()
			c.NextProtos = protocols
			c.VerifyConnection = func(s tls.ConnectionState) error {
				l.connections.verified(hello.Conn, s.PeerCertificates)
				return admits(l.now.Load(), s.PeerCertificates) // Do not use c here: a reload may have replaced it during the handshake.
			}
			return c, nil
		},
	}
}

// open reads the files that the daemon starts with.
func (l *reloadableTLS) open(cfg *config.Config) error {
	c, err := readTLS(cfg)
	if err == nil {
		l.now.Store(c)
	}
	return err
}

// reread reads the files again. It returns nil when the listeners or the new configuration have no TLS, because only a restart turns TLS on
// or off.
func (l *reloadableTLS) reread(cfg *config.Config) (*tls.Config, error) {
	if l.now.Load() == nil {
		return nil, nil
	}
	return readTLS(cfg)
}

// swap applies a configuration, and ends the connections whose client certificate it refuses. It reports whether the configuration differs
// from the previous one. If next is nil, swap changes nothing.
func (l *reloadableTLS) swap(next *tls.Config) bool {
	now := l.now.Load()
	if next == nil || sameTLS(now, next) {
		return false
	}
	l.now.Store(next)
	l.connections.endInvalid(next)
	return true
}

func sameTLS(a, b *tls.Config) bool {
	x, y := a.Certificates[0].Certificate, b.Certificates[0].Certificate
	if len(x) != len(y) || a.ClientAuth != b.ClientAuth || a.ClientAuth != tls.NoClientCert && !a.ClientCAs.Equal(b.ClientCAs) {
		return false
	}
	for i := range x {
		if !bytes.Equal(x[i], y[i]) {
			return false
		}
	}
	return true
}

// readTLS reads the certificate files of the TCP listener. It returns nil when none are configured.
func readTLS(cfg *config.Config) (*tls.Config, error) {
	if cfg.TLS.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
	if err != nil {
		return nil, config.Errorf("tls: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if cfg.TLS.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(cfg.TLS.ClientCA)
	if err != nil {
		return nil, config.Errorf("tls.client_ca: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	c.SessionTicketsDisabled = true // A resumed session would not check the client certificate against authorities that changed.
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, config.Errorf("tls.client_ca: %s has no PEM certificate", cfg.TLS.ClientCA)
	}
	return c, nil
}
