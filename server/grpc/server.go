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

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/turns"
)

// MaxMessage is the largest message, in bytes, that a client may send.
const MaxMessage = 4 << 20

// A Config has the parts and limits of a server. The comment of a field says what its zero value means.
type Config struct {
	Engine      Engine       // required
	DeadLetters DeadLetters  // required
	Tools       Tools        // required
	Admin       Admin        // required
	Auth        *access.Auth // required
	// Workers accepts workers: programs that connect to run tools. If it is nil, the server accepts no workers.
	Workers Workers
	TLS     *tls.Config // TLS for TCP; nil means plain text. The server refuses versions before 1.2.
	Log     *zap.Logger // nil discards the log
	// Operation receives each request that an audit records, except calls. Nil records none.
	Operation func(context.Context, Operation)

	// StreamWorkers is the number of goroutines that the server reuses for requests. A good value is the usual number of parallel requests.
	// Zero means 64.
	StreamWorkers int
	// GuestTime is how long a connection may exist without a valid credential. Zero means 10 s.
	GuestTime time.Duration
	// MaxStreams bounds the open requests of one connection. Zero means 2,048.
	MaxStreams int
	// Watchers is the maximum number of open streams that watch or that send much data. Zero means 4,096. WatchersEach is the maximum for
	// each principal. Zero means 1,024.
	Watchers, WatchersEach int
	// Stall is how long a client may read nothing from its stream before the server ends the stream. Zero means 30 s.
	Stall time.Duration
	// MaxHeader bounds the headers of a request, in bytes. Zero means 16 KiB.
	MaxHeader int
}

// A Server serves the API on any number of listeners.
type Server struct {
	cfg     Config
	log     *zap.Logger
	grpc    *grpc.Server
	health  *health.Server
	methods map[string]*method
	unknown method        // counts requests for methods that are not in the table
	items   []interceptor // chain for the items of sessions

	refusals logBudget

	stopping context.Context // ends when the server ends unending streams
	stop     context.CancelFunc

	check sync.Once
	bad   error // error that check found; Serve returns it
}

// New returns a server whose health is NOT_SERVING; see [Server.SetReady]. The caller must call [Server.Shutdown], even if the server never
// served.
func New(cfg Config) (*Server, error) {
	if cfg.Engine == nil || cfg.DeadLetters == nil || cfg.Tools == nil || cfg.Admin == nil || cfg.Auth == nil {
		return nil, errors.New("grpcserver: engine, dead letters, tools, admin and auth are required")
	}
	cfg.fill()
	s := &Server{cfg: cfg, log: cfg.Log, methods: map[string]*method{}, health: health.NewServer()}
	s.stopping, s.stop = context.WithCancel(context.Background())
	for name, rule := range access.Table() {
		rule.Audited = rule.Audited && cfg.Operation != nil
		m := &method{Rule: rule}
		m.interceptors = s.interceptors(m)
		s.methods[name] = m
	}
	s.unknown.interceptors = []interceptor{count, s.mapError, s.logRefusal, refuseUnknown}
	s.items = s.itemInterceptors()
	s.grpc = grpc.NewServer(s.options()...)
	tooldv1.RegisterCallServiceServer(s.grpc, &calls{
		engine: cfg.Engine, tools: cfg.Tools, server: s, turns: turns.New(cfg.Engine),
		watchers: &watchers{each: cfg.WatchersEach, all: cfg.Watchers, stall: cfg.Stall, of: map[subject]int{}},
	})
	tooldv1.RegisterToolServiceServer(s.grpc, &tools{tools: cfg.Tools})
	tooldv1.RegisterAdminServiceServer(s.grpc, &admin{admin: cfg.Admin, engine: cfg.Engine, letters: cfg.DeadLetters, guestTime: cfg.GuestTime})
	tooldv1.RegisterDocumentServiceServer(s.grpc, &documents{documents: cfg.Engine})
	tooldv1.RegisterWorkerServiceServer(s.grpc, &workerService{workers: cfg.Workers})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.SetReady(false)
	return s, nil
}

func (c *Config) fill() {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.StreamWorkers == 0 {
		c.StreamWorkers = 64
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = 2048
	}
	if c.Watchers == 0 {
		c.Watchers = 4096
	}
	if c.WatchersEach == 0 {
		c.WatchersEach = 1024
	}
	if c.Stall == 0 {
		c.Stall = 30 * time.Second
	}
	if c.GuestTime == 0 {
		c.GuestTime = 10 * time.Second
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
		grpc.Creds(newTransport(s.cfg.Auth, secure, s.cfg.GuestTime)),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
		grpc.InTapHandle(s.admitGuest),
		grpc.NumStreamWorkers(uint32(s.cfg.StreamWorkers)),
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxStreams)),
		grpc.MaxHeaderListSize(uint32(s.cfg.MaxHeader)),
		grpc.MaxRecvMsgSize(MaxMessage),
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

// Shutdown stops accepting connections and ends unending streams. It waits for open requests until ctx is done, and then closes all
// connections. The streams of calls end when the engine is drained.
func (s *Server) Shutdown(ctx context.Context) {
	s.SetReady(false)
	s.stop()
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
