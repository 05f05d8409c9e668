// Package remote calls hooks that other processes serve as toold.v1.HookService.
//
// All questions use one connection, which grpc reconnects with a growing delay. Without a connection a question fails at once. An answer is
// a [hook.ProtocolError] when this kind of hook must not give it, or when it has a field that this version of the API does not know.
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

// silence is the time after which the connection counts as broken, if the peer has not acknowledged data that was sent to it.
const silence = 20 * time.Second

// Config configures the connection to a service. Only the operator sets it.
type Config struct {
	Name    string // name of the hook; required
	Address string // host:port, or unix:/path; required
	// Plaintext allows a connection without TLS to another machine. A connection to this machine or a unix socket uses TLS only when CA,
	// Cert or ServerName is set.
	Plaintext  bool
	CA         []byte // PEM certificates of the authorities that sign the service's certificate; empty means those of the system
	Cert, Key  []byte // client certificate and its key, in PEM
	ServerName string // name that the service's certificate must have; empty means the host of Address
	Token      string // bearer token; may be empty
	// TokenOf, if set, returns the bearer token for a question, and Token is not used. When it returns an error, the question fails.
	TokenOf func(context.Context) (string, error)
	// Own is called right before a question is sent. It returns an error when another daemon may own the store; then nothing is sent. Nil
	// means that no other daemon can own it.
	Own        func(context.Context) error
	Documents  []external.DocumentKey
	Deadline   time.Duration // time limit of one filter step; 0 means 5 s. The engine limits the time of the other kinds of hooks
	AtOnce     int           // maximum number of concurrent questions; 0 means 64
	MaxMessage int           // maximum size of an answer in bytes; 0 means 1 MiB
	Log        *zap.Logger   // nil disables logging
}

// A Hook uses a service as a hook of every kind. Calls that began before a reload may still use the Hook, so its connection is closed only
// when the Hook is garbage-collected.
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

// New returns the hook of a service. It connects at the first question.
func New(cfg Config) (*Hook, error) {
	if cfg.Name == "" {
		return nil, errors.New("a remote hook requires a name")
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
	network, address, host, err := parseAddress(cfg.Address)
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

// Close closes the connection at once, so later questions fail. Without Close, the connection is closed when the Hook is garbage-collected.
func (h *Hook) Close() error { return h.conn.Close() }

// Health returns counts of the service's answers and failures, and the last failure.
func (h *Hook) Health() external.Health { return h.line.Health() }

func parseAddress(address string) (network, at, host string, err error) {
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

// here reports whether the address belongs to this machine.
func here(network, host string) bool {
	if network == "unix" || strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// credentials returns TLS credentials, unless the service is on this machine or the operator allows plaintext.
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

// userTimeout makes the kernel close the connection when the peer acknowledges nothing for a time. Otherwise questions would be sent over a
// dead connection for many minutes.
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

// token adds the bearer token to each question.
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

// RequireTransportSecurity returns false, because [Config.credentials] decides about TLS.
func (token) RequireTransportSecurity() bool { return false }

// ask sends one question and passes the answer to read. An error of read counts as a failure of the hook.
//
// ask keeps the Hook alive until the answer arrives. Otherwise the garbage collector could close the connection when the caller no longer
// uses the Hook.
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

// own returns an error when nothing may be sent.
func (h *Hook) own(ctx context.Context) error {
	if h.cfg.Own == nil {
		return nil
	}
	return h.cfg.Own(ctx)
}

// plain returns the error without grpc's wrapping.
func plain(err error) error {
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("%s: %s", s.Code(), s.Message())
	}
	return err
}
