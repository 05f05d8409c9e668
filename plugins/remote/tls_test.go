package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/toold-dev/toold/plugins/remote"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key, a.pem = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// issue returns a certificate for a name, with its key.
func (a *authority) issue(name string) (cert, key []byte) {
	a.t.Helper()
	_, private, cert := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	serverCert, serverKey := ours.issue("policy.test")
	clientCert, clientKey := ours.issue("toold")
	strangerCert, strangerKey := theirs.issue("toold")
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ours.pem)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})))
	tooldv1.RegisterHookServiceServer(server, responds(allowed()))
	go server.Serve(lis)
	defer server.Stop()
	tests := map[string]struct {
		cfg remote.Config
		ok  bool
	}{
		"own CA and certificate": {remote.Config{CA: ours.pem, Cert: clientCert, Key: clientKey, ServerName: "policy.test"}, true},
		"another CA":             {remote.Config{CA: theirs.pem, Cert: clientCert, Key: clientKey, ServerName: "policy.test"}, false},
		"the system's roots":     {remote.Config{Cert: clientCert, Key: clientKey, ServerName: "policy.test"}, false},
		"another name":           {remote.Config{CA: ours.pem, Cert: clientCert, Key: clientKey, ServerName: "other.test"}, false},
		"no certificate":         {remote.Config{CA: ours.pem, ServerName: "policy.test"}, false},
		"a stranger's":           {remote.Config{CA: ours.pem, Cert: strangerCert, Key: strangerKey, ServerName: "policy.test"}, false},
		"plaintext":              {remote.Config{}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHook(t, lis.Addr().String(), func(c *remote.Config) {
				tt.cfg.Name, tt.cfg.Address = c.Name, c.Address
				*c = tt.cfg
			})
			if _, err := h.Check(soon(t), input(t, `{}`)); (err == nil) != tt.ok {
				t.Errorf("error %v, want ok %t", err, tt.ok)
			}
		})
	}
}

// The test checks that the hook sends nothing unencrypted to another machine, unless the operator allows it.
func TestPlaintextStaysHere(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tooldv1.RegisterHookServiceServer(server, responds(allowed()))
	go server.Serve(lis)
	defer server.Stop()
	_, port, err := net.SplitHostPort(lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for address, tt := range map[string]struct{ plaintext, ok bool }{
		"127.0.0.1": {false, true}, "localhost": {false, true}, "0.0.0.0": {false, false}, // 0.0.0.0 could be an address of another machine.
	} {
		h := newHook(t, net.JoinHostPort(address, port), func(c *remote.Config) { c.Plaintext = tt.plaintext })
		if _, err := h.Check(soon(t), input(t, `{}`)); (err == nil) != tt.ok {
			t.Errorf("%s: error %v, want ok %t", address, err, tt.ok)
		}
	}
	h := newHook(t, net.JoinHostPort("0.0.0.0", port), func(c *remote.Config) { c.Plaintext = true })
	if _, err := h.Check(soon(t), input(t, `{}`)); err != nil {
		t.Errorf("allowed, and still: %v", err)
	}
}
