package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
)

// A Config has the settings of a server. The comment of a field says what its zero value means.
type Config struct {
	Service *service.Service // required
	TLS     *tls.Config      // TLS for TCP; nil means plain text. The server refuses versions before 1.2.

	// StreamWorkers is the number of goroutines that the server reuses for requests. A good value is the usual number of parallel requests.
	// Zero means 64.
	StreamWorkers int
	// GuestTime is how long a connection may exist without a valid credential. Zero means 10 s.
	GuestTime time.Duration
	// MaxStreams bounds the open requests of one connection. Zero means 2,048.
	MaxStreams int
	// MaxHeader bounds the headers of a request, in bytes. Zero means 16 KiB.
	MaxHeader int
}

// A Server serves the API on any number of listeners.
type Server struct {
	cfg    Config
	grpc   *grpc.Server
	health *health.Server

	check sync.Once
	bad   error // error that check found; Serve returns it
}

// New returns a server whose health is NOT_SERVING; see [Server.SetReady]. The caller must call [Server.Shutdown], even if the server never
// served.
func New(cfg Config) (*Server, error) {
	if cfg.Service == nil {
		return nil, errors.New("grpcserver: a service is required")
	}
	cfg.fill()
	s := &Server{cfg: cfg, health: health.NewServer()}
	s.grpc = grpc.NewServer(s.options()...)
	tooldv1.RegisterCallServiceServer(s.grpc, cfg.Service.Calls)
	tooldv1.RegisterToolServiceServer(s.grpc, cfg.Service.Tools)
	tooldv1.RegisterAdminServiceServer(s.grpc, cfg.Service.Admin)
	tooldv1.RegisterDocumentServiceServer(s.grpc, cfg.Service.Documents)
	tooldv1.RegisterWorkerServiceServer(s.grpc, cfg.Service.Workers)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.SetReady(false)
	return s, nil
}

func (c *Config) fill() {
	if c.StreamWorkers == 0 {
		c.StreamWorkers = 64
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = 2048
	}
	if c.GuestTime == 0 {
		c.GuestTime = defaultGuestTime
	}
	if c.MaxHeader == 0 {
		c.MaxHeader = 16 << 10
	}
}

func (s *Server) options() []grpc.ServerOption {
	var secure credentials.TransportCredentials
	if s.cfg.TLS != nil {
		c := s.cfg.TLS.Clone()
		c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
		secure = credentials.NewTLS(c)
	}
	return []grpc.ServerOption{
		grpc.Creds(newTransport(s.cfg.Service.Auth(), secure, s.cfg.GuestTime)),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
		grpc.InTapHandle(s.admitGuest),
		grpc.NumStreamWorkers(uint32(s.cfg.StreamWorkers)),
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxStreams)),
		grpc.MaxHeaderListSize(uint32(s.cfg.MaxHeader)),
		grpc.MaxRecvMsgSize(service.MaxMessage),
		grpc.ConnectionTimeout(s.cfg.GuestTime), // This timeout covers the handshake and the preface.
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
}

// Serve accepts connections until Shutdown. It returns an error at once when a registered method is not in the table of package access. It
// always closes the listener.
func (s *Server) Serve(lis net.Listener) error {
	s.check.Do(func() { s.bad = checkTable(access.Table(), s.grpc.GetServiceInfo()) })
	if s.bad != nil {
		lis.Close()
		return s.bad
	}
	if err := s.grpc.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve on %s: %w", lis.Addr(), err)
	}
	return nil
}

// services lists the names in the health service. The empty name stands for the whole daemon.
var services = []string{"", tooldv1.CallService_ServiceDesc.ServiceName, tooldv1.ToolService_ServiceDesc.ServiceName, tooldv1.AdminService_ServiceDesc.ServiceName,
	tooldv1.DocumentService_ServiceDesc.ServiceName, tooldv1.WorkerService_ServiceDesc.ServiceName}

// SetReady sets the health of the daemon, which tells clients whether they may send requests.
func (s *Server) SetReady(ready bool) {
	state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ready {
		state = grpc_health_v1.HealthCheckResponse_SERVING
	}
	for _, name := range services {
		s.health.SetServingStatus(name, state)
	}
}

// Shutdown stops accepting connections. It waits for open requests until ctx is done, and then closes all connections. Call
// [service.Service.Stop] first, which ends unending streams.
func (s *Server) Shutdown(ctx context.Context) {
	s.SetReady(false)
	hard := context.AfterFunc(ctx, s.grpc.Stop)
	defer hard()
	s.grpc.GracefulStop()
}

// checkTable returns an error when a registered method has no entry in t, or an entry that permits no client.
func checkTable(t map[string]access.Rule, services map[string]grpc.ServiceInfo) error {
	var missing []string
	for service, info := range services {
		for _, m := range info.Methods {
			name := "/" + service + "/" + m.Name
			if a, ok := t[name]; !ok || a.Roles == 0 && !a.Public {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("methods without an entry in the table of access: %s", strings.Join(missing, ", "))
	}
	return nil
}
