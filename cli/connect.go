package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// connection holds the settings that tell client commands how to reach the daemon.
type connection struct {
	address, data, tokenFile, ca, cert, key string
	tls                                     bool

	used      string // the address that was chosen
	usedToken string // the source of the token; "" means that no token was sent
}

// The defaults for a daemon on this machine.
const (
	defaultTCP = "127.0.0.1:7130"
	socketName = "toold.sock"
	tokenName  = "token"
)

const maxAnswer = 64 << 20 // bytes; large enough for a page of calls with their arguments

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&c.address, "address", "", "address of the daemon: host:port, or path of its socket (TOOLD_ADDRESS)")
	f.StringVar(&c.data, "data", "", "the daemon's data directory, which contains its socket and token (TOOLD_DATA, ./data)")
	f.StringVar(&c.tokenFile, "token-file", "", "file that contains the token (TOOLD_TOKEN_FILE)")
	f.BoolVar(&c.tls, "tls", false, "use TLS, and trust the system's certificates")
	f.StringVar(&c.ca, "ca", "", "use TLS, and trust the certificates in this file (TOOLD_CA)")
	f.StringVar(&c.cert, "cert", "", "file of the client certificate")
	f.StringVar(&c.key, "key", "", "file of the private key of --cert")
}

// A client is a connection to a daemon, with a stub for each service.
type client struct {
	conn   *grpc.ClientConn
	calls  tooldv1.CallServiceClient
	tools  tooldv1.ToolServiceClient
	admin  tooldv1.AdminServiceClient
	docs   tooldv1.DocumentServiceClient
	health healthv1.HealthClient
}

func (c *client) close() { c.conn.Close() }

func (a *App) dataDir() string {
	return cmp.Or(a.connection.data, a.getenv("TOOLD_DATA"), "./data")
}

// dial returns a connection with the stubs of all services.
func (a *App) dial() (*client, error) {
	conn, err := a.Dial()
	if err != nil {
		return nil, err
	}
	return &client{
		conn: conn, calls: tooldv1.NewCallServiceClient(conn), tools: tooldv1.NewToolServiceClient(conn),
		admin: tooldv1.NewAdminServiceClient(conn), docs: tooldv1.NewDocumentServiceClient(conn), health: healthv1.NewHealthClient(conn),
	}, nil
}

// Dial chooses address and token. The first request opens the network connection.
func (a *App) Dial() (*grpc.ClientConn, error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	var options []grpc.DialOption
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	return a.connect(token != "", options...)
}

// DialAt prepares a connection to the daemon at address without the user's token. The caller adds the token of a principal to each request.
// If address is empty, DialAt uses the address from the flags or the environment.
func (a *App) DialAt(address string) (*grpc.ClientConn, error) {
	if address != "" {
		a.connection.address = address
	}
	return a.connect(true)
}

// connect prepares a connection to the target. secret means that requests carry tokens, so an unencrypted connection to another machine is
// refused.
func (a *App) connect(secret bool, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	target := a.target()
	transport, err := a.transport()
	if err != nil {
		return nil, err
	}
	isPlain := transport.Info().SecurityProtocol == "insecure"
	if secret && isPlain && !strings.HasPrefix(target, "unix:") && !isLoopback(target) {
		return nil, Usagef("the token would be sent to %s unencrypted; use --tls or --ca FILE", target)
	}
	a.connection.used = target
	conn, err := grpc.NewClient(target, append(options,
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithUserAgent("toold/"+a.Version),
		grpc.WithConnectParams(grpc.ConnectParams{ // a long-running command reconnects soon after the daemon is back
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}, MinConnectTimeout: 5 * time.Second,
		}),
	)...)
	if err != nil {
		return nil, Usagef("address %q: %w", target, err)
	}
	return conn, nil
}

// target returns the address from flag or environment. Otherwise it returns the socket in the data directory if there is one, and else the
// default TCP address.
func (a *App) target() string {
	target := cmp.Or(a.connection.address, a.getenv("TOOLD_ADDRESS"))
	if target == "" {
		socket := filepath.Join(a.dataDir(), socketName)
		if info, err := os.Stat(socket); err != nil || info.Mode()&os.ModeSocket == 0 {
			return defaultTCP
		}
		target = socket
	}
	path, isUnix := strings.CutPrefix(target, "unix:")
	if !isUnix && !strings.Contains(target, "/") {
		return loopbackHost(target)
	}
	path = strings.TrimPrefix(path, "//")
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return "unix:" + path
}

func (a *App) transport() (credentials.TransportCredentials, error) {
	c := &a.connection
	ca := cmp.Or(c.ca, a.getenv("TOOLD_CA"))
	if ca == "" && !c.tls && c.cert == "" {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, Usagef("certificates: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, Usagef("%s has no PEM certificate", ca)
		}
	}
	if c.cert != "" || c.key != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, Usagef("certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// token finds the token. Only the token file in the data directory may be missing or unreadable: on a Unix socket the daemon identifies its
// peer without a token.
func (a *App) token() (string, error) {
	c := &a.connection
	file := cmp.Or(c.tokenFile, a.getenv("TOOLD_TOKEN_FILE"))
	if text := a.getenv("TOOLD_TOKEN"); text != "" && c.tokenFile == "" {
		c.usedToken = "TOOLD_TOKEN"
		return strings.TrimSpace(text), nil
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", Usagef("token: %w", err)
		}
		c.usedToken = file
		return strings.TrimSpace(string(text)), nil
	}
	file = filepath.Join(a.dataDir(), tokenName)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	c.usedToken = file
	return strings.TrimSpace(string(text)), nil
}

func (c *connection) tokenHint() string {
	if c.usedToken == "" {
		return "no token was sent; give the file of the token with --token-file, or the daemon's data directory with --data"
	}
	return "the token of " + c.usedToken + " is not valid for this daemon"
}

func (c *connection) reachHint(program string) string {
	return fmt.Sprintf("no daemon answers at %s; start a daemon with %s serve, or give its address with --address or --data", c.used, program)
}

// bearer sends a token with each request. connect has already refused targets where the token could be intercepted.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity returns false because tokens may also travel over Unix sockets and the loopback interface. [App.connect] does
// the check.
func (bearer) RequireTransportSecurity() bool { return false }

// loopbackHost adds the loopback address to an address without a host, as the daemon does for its listeners.
func loopbackHost(address string) string {
	if strings.HasPrefix(address, ":") {
		return "127.0.0.1" + address
	}
	return address
}

// isLoopback reports whether only this machine can reach address. Of the host names only localhost counts: DNS decides what another name
// means, and the answer may change.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// withClient wraps the function of a command that needs only a connection.
func (a *App) withClient(run func(ctx context.Context, c *client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		client, err := a.dial()
		if err != nil {
			return err
		}
		defer client.close()
		return run(c.Context(), client, args)
	}
}
