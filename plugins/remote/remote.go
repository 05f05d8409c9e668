// Package remote asks hooks that others serve as toold.v1.HookService.
//
// A call is asked about over one connection that grpc keeps and, when it breaks, makes again with a growing pause. While there is
// none a question fails at once and does not wait for one. An answer that its kind of hook may not give, a field that this
// version of the API does not know included, is a [hook.ProtocolError].
package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Defaults.
const (
	DefaultAtOnce     = 64
	DefaultMaxMessage = 1 << 20
)

// silence is how long what was sent may stay unacknowledged before the connection counts as broken.
const silence = 20 * time.Second

// Config says where a service is. All of it is the operator's.
type Config struct {
	Name    string // of the hook; required
	Address string // host:port, or unix:/path; required
	// Plaintext allows a connection without TLS to another machine. To this one, and to a unix socket, there is none unless CA,
	// Cert or ServerName is set.
	Plaintext  bool
	CA         []byte // PEM certificates that sign the service's; none: the system's
	Cert, Key  []byte // PEM, shown to the service
	ServerName string // in its certificate; empty: the host of Address
	Token      string // sent as bearer token; empty: none
	// TokenOf returns what is sent with a question in the place of Token; an error is one of the question. nil: Token is sent.
	TokenOf func(context.Context) (string, error)
	// Own is asked right before a question is sent; an error keeps it back, because the store may be another daemon's. nil: nobody
	// can take the store.
	Own        func(context.Context) error
	Documents  []external.DocumentKey
	Deadline   time.Duration // of one step of a filter; 0 means 5 s. The engine bounds the other kinds.
	AtOnce     int           // questions at once; 0 means 64
	MaxMessage int           // bytes of an answer; 0 means 1 MiB
	Log        *zap.Logger   // nil drops
}

// A Hook is a service as a hook of every kind. What it holds of the connection goes when nobody holds the Hook any more: calls
// that began before a reload may ask it for as long as they last.
type Hook struct {
	cfg    Config
	line   *external.Line
	client tooldv1.HookServiceClient
	conn   *grpc.ClientConn
}

var (
	_ hook.Rewrite  = (*Hook)(nil)
	_ hook.Gate     = (*Hook)(nil)
	_ hook.Admit    = (*Hook)(nil)
	_ hook.Before   = (*Hook)(nil)
	_ hook.After    = (*Hook)(nil)
	_ hook.Fallible = (*Hook)(nil)
)

// New returns the hook of a service. It connects with the first question.
func New(cfg Config) (*Hook, error) {
	if cfg.Name == "" {
		return nil, errors.New("a remote hook needs a name")
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = external.DefaultDeadline
	}
	if cfg.AtOnce == 0 {
		cfg.AtOnce = DefaultAtOnce
	}
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = DefaultMaxMessage
	}
	network, address, host, err := place(cfg.Address)
	if err != nil {
		return nil, err
	}
	secure, err := cfg.credentials(network, host)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(secure), grpc.WithAuthority(cmp.Or(cfg.ServerName, host)), grpc.WithUserAgent("toold"),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithPerRPCCredentials(token{cfg.Token, cfg.TokenOf}),
		grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) {
			return (&net.Dialer{Control: userTimeout}).DialContext(ctx, network, at)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 10 * time.Second}, MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cfg.MaxMessage)),
	)
	if err != nil {
		return nil, err
	}
	h := &Hook{
		cfg: cfg, conn: conn, client: tooldv1.NewHookServiceClient(conn),
		line: external.NewLine(external.Config{Name: cfg.Name, AtOnce: cfg.AtOnce, Log: cfg.Log}),
	}
	runtime.AddCleanup(h, func(c *grpc.ClientConn) { _ = c.Close() }, conn)
	return h, nil
}

// Close ends the connection at once; questions fail from then on. It is for callers that do not want to wait for the collector.
func (h *Hook) Close() error { return h.conn.Close() }

// Health says how the service fares.
func (h *Hook) Health() external.Health { return h.line.Health() }

// place reads an address.
func place(address string) (network, at, host string, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", "", "", fmt.Errorf("address %q: want unix: and an absolute path", address)
		}
		return "unix", path, "localhost", nil
	}
	host, _, err = net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", "", "", fmt.Errorf("address %q is neither host:port nor unix:/path", address)
	}
	return "tcp", address, host, nil
}

// here reports whether only this machine is reached.
func here(network, host string) bool {
	if network == "unix" || strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// credentials is TLS unless the service is on this machine or the operator says otherwise.
func (c *Config) credentials(network, host string) (credentials.TransportCredentials, error) {
	asked := len(c.CA)+len(c.Cert)+len(c.Key) > 0 || c.ServerName != ""
	switch {
	case c.Plaintext && asked:
		return nil, errors.New("plaintext and TLS exclude each other")
	case c.Plaintext, here(network, host) && !asked:
		return insecure.NewCredentials(), nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(c.ServerName, host)}
	if len(c.CA) > 0 {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("ca: no PEM certificate in it")
		}
	}
	if len(c.Cert)+len(c.Key) > 0 {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(out), nil
}

// userTimeout has the kernel give up a peer that is silent: without it questions would go into a dead connection for
// many minutes.
func userTimeout(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if controlErr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	}); controlErr != nil {
		return controlErr
	}
	return err
}

// token is sent with each question.
type token struct {
	text string
	of   func(context.Context) (string, error)
}

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (t token) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	text := t.text
	if t.of != nil {
		var err error
		if text, err = t.of(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case text == "":
		return nil, nil
	case strings.ContainsAny(text, "\r\n"):
		return nil, errors.New("the token has more than one line")
	}
	return map[string]string{"authorization": "Bearer " + text}, nil
}

// RequireTransportSecurity is false: [Config.credentials] has decided.
func (token) RequireTransportSecurity() bool { return false }

// ask puts one question. read looks at the answer, so that one that cannot be read counts as a failure.
//
// The Hook is kept alive until the answer: the caller may have dropped it, and the collector would close the connection.
func ask[Q, A any](ctx context.Context, h *Hook, method func(context.Context, Q, ...grpc.CallOption) (A, error), q Q, read func(A) error) error {
	defer runtime.KeepAlive(h)
	return h.line.Ask(ctx, func(ctx context.Context) error {
		if err := h.own(ctx); err != nil {
			return err
		}
		a, err := method(ctx, q)
		if err != nil {
			return plain(err)
		}
		return read(a)
	})
}

// own returns why nothing may be sent.
func (h *Hook) own(ctx context.Context) error {
	if h.cfg.Own == nil {
		return nil
	}
	return h.cfg.Own(ctx)
}

// plain says what went wrong without grpc's words around it.
func plain(err error) error {
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("%s: %s", s.Code(), s.Message())
	}
	return err
}
