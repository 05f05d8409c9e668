package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
)

// A Config has the parts and settings of a server. The comment of a field says what its zero value means.
type Config struct {
	Service *service.Service // required
	TLS     *tls.Config      // nil means plain HTTP. The server refuses versions before 1.2.
	Log     *zap.Logger      // nil discards the log
	// Metrics writes the metrics in the text format of Prometheus. Nil means that the server has no metrics.
	Metrics http.Handler
	// MCP serves MCP clients at /mcp. It finds the credential of a request in the context of the request. Nil means that the server does not
	// serve MCP.
	MCP http.Handler
	// Hosts are names of the server, in lower case, under which a proxy passes requests on. IP addresses, names below localhost and, with
	// TLS, the name of the certificate need no entry.
	Hosts []string
	// Pages serves the files of the console. It needs no credential, because the files are the same for everybody.
	Pages http.Handler
	// Console is the host name for browsers when the server uses plain HTTP; see [ConsoleHost].
	Console string
	// Origins are the origins, such as https://app.example.com, whose pages may send requests. They need a token: cookies are only for pages
	// of the server itself.
	Origins []string
	// Stall is how long a client may read nothing before its response ends. Zero means 30 s.
	Stall time.Duration
}

// A Server serves the API over HTTP on any number of listeners.
type Server struct {
	cfg    Config
	calls  tooldv1.CallServiceClient // for the routes of this package; a call has the credential in its context
	http   *http.Server
	ready  atomic.Bool
	guests *guests

	leaving   sync.Mutex      // held while a response leaves net/http
	ending    bool            // no more responses may leave net/http; guarded by leaving
	streams   sync.WaitGroup  // responses that have left net/http; see detach
	streaming context.Context // ends when the server must end the detached streams
	cut       context.CancelFunc
}

// maxHeader bounds the headers of a request, in bytes.
const maxHeader = 16 << 10

// New returns a server that is not ready; see [Server.SetReady].
func New(cfg Config) (*Server, error) {
	if cfg.Service == nil {
		return nil, errors.New("httpserver: a service is required")
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Stall == 0 {
		cfg.Stall = 30 * time.Second
	}
	s := &Server{cfg: cfg, calls: tooldv1.NewCallServiceClient(cfg.Service.Conn()), guests: newGuests()}
	s.streaming, s.cut = context.WithCancel(context.Background())
	s.http = newHTTP(s.routes())
	s.http.TLSConfig, s.http.ErrorLog = secured(cfg.TLS), zap.NewStdLog(cfg.Log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel)))
	s.http.ConnContext, s.http.ConnState = s.guests.arrived, s.guests.changed
	return s, nil
}

// newHTTP returns a server of net/http with the limits for requests. A client with a credential may send a stream of messages without a time
// limit; see unlimitBody.
func newHTTP(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: handler, Protocols: protocols, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
}

func secured(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	return c
}

// Serve accepts connections until Shutdown. It always closes the listener.
func (s *Server) Serve(lis net.Listener) error {
	var err error
	if s.cfg.TLS != nil {
		err = s.http.ServeTLS(lis, "", "")
	} else {
		err = s.http.Serve(lis)
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", lis.Addr(), err)
	}
	return nil
}

// SetReady sets whether /readyz answers that the server is ready.
func (s *Server) SetReady(ready bool) { s.ready.Store(ready) }

// Shutdown stops accepting connections. It waits for open requests until ctx is done, and then closes all connections. Call
// [service.Service.Stop] first, which ends unending streams.
func (s *Server) Shutdown(ctx context.Context) {
	s.SetReady(false)
	err := s.http.Shutdown(ctx)
	s.endStreams(ctx)
	if err != nil {
		_ = s.http.Close() // Ignore the error: there is no other way to close the connections.
	}
}
