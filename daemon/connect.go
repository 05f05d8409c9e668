package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// connection is how the client commands reach the daemon.
type connection struct {
	address, data, tokenFile, ca, cert, key string
	tls                                     bool

	used      string // the address, once chosen
	usedToken string // where the token came from; empty: none was sent
}

const maxAnswer = 64 << 20 // bytes; a page of calls with their arguments

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&c.address, "address", "", "daemon: host:port, or path of a socket (TOOLD_ADDRESS)")
	f.StringVar(&c.data, "data", "", "the daemon's data directory, for its socket and token (TOOLD_DATA, ./data)")
	f.StringVar(&c.tokenFile, "token-file", "", "file of the token (TOOLD_TOKEN_FILE)")
	f.BoolVar(&c.tls, "tls", false, "use TLS and the system's certificates")
	f.StringVar(&c.ca, "ca", "", "use TLS and this file of certificates (TOOLD_CA)")
	f.StringVar(&c.cert, "cert", "", "certificate to show to the daemon")
	f.StringVar(&c.key, "key", "", "key of --cert")
}

// A client is a connection to a daemon with its services.
type client struct {
	conn   *grpc.ClientConn
	calls  tooldv1.CallServiceClient
	tools  tooldv1.ToolServiceClient
	admin  tooldv1.AdminServiceClient
	docs   tooldv1.DocumentServiceClient
	health healthv1.HealthClient
}

func (c *client) close() { c.conn.Close() }

func (a *app) dataDir() string {
	return cmp.Or(a.connection.data, a.getenv("TOOLD_DATA"), "./data")
}

// dial chooses address and token. The connection itself is made with the first request.
func (a *app) dial() (*client, error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	var options []grpc.DialOption
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	conn, err := a.connect(token != "", options...)
	if err != nil {
		return nil, err
	}
	return &client{
		conn: conn, calls: tooldv1.NewCallServiceClient(conn), tools: tooldv1.NewToolServiceClient(conn),
		admin: tooldv1.NewAdminServiceClient(conn), docs: tooldv1.NewDocumentServiceClient(conn), health: healthv1.NewHealthClient(conn),
	}, nil
}

// connect chooses the address. secret says that tokens will travel.
func (a *app) connect(secret bool, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	target := a.target()
	transport, err := a.transport()
	if err != nil {
		return nil, err
	}
	isPlain := transport.Info().SecurityProtocol == "insecure"
	if secret && isPlain && !strings.HasPrefix(target, "unix:") && !isLoopback(target) {
		return nil, usagef("the token would travel to %s for everybody to read; use --tls or --ca FILE", target)
	}
	a.connection.used = target
	conn, err := grpc.NewClient(target, append(options,
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithUserAgent("toold/"+version),
	)...)
	if err != nil {
		return nil, usagef("address %q: %w", target, err)
	}
	return conn, nil
}

// target is what was said; else the socket in the data directory, when there is one; else the default port.
func (a *app) target() string {
	said := cmp.Or(a.connection.address, a.getenv("TOOLD_ADDRESS"))
	if said == "" {
		socket := filepath.Join(a.dataDir(), socketName)
		if info, err := os.Stat(socket); err != nil || info.Mode()&os.ModeSocket == 0 {
			return defaultTCP
		}
		said = socket
	}
	path, isUnix := strings.CutPrefix(said, "unix:")
	if !isUnix && !strings.Contains(said, "/") {
		return loopbackHost(said)
	}
	path = strings.TrimPrefix(path, "//")
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return "unix:" + path
}

func (a *app) transport() (credentials.TransportCredentials, error) {
	c := &a.connection
	ca := cmp.Or(c.ca, a.getenv("TOOLD_CA"))
	if ca == "" && !c.tls && c.cert == "" {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, usagef("certificates: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("%s has no PEM certificate", ca)
		}
	}
	if c.cert != "" || c.key != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, usagef("certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// token finds the token. Only the one in the data directory may be missing: over the socket the daemon knows its peer.
func (a *app) token() (string, error) {
	c := &a.connection
	file := cmp.Or(c.tokenFile, a.getenv("TOOLD_TOKEN_FILE"))
	if text := a.getenv("TOOLD_TOKEN"); text != "" && c.tokenFile == "" {
		c.usedToken = "TOOLD_TOKEN"
		return strings.TrimSpace(text), nil
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", usagef("token: %w", err)
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
		return "no token was sent; name its file with --token-file or the daemon's directory with --data"
	}
	return "the token of " + c.usedToken + " is not one of this daemon"
}

func (c *connection) reachHint(program string) string {
	return fmt.Sprintf("no daemon answers at %s; start one with %s serve, or say where it is: --address, --data", c.used, program)
}

// bearer sends a token. dial has looked where to.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return false }
