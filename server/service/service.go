package service

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/turns"
)

// MaxMessage is the largest message, in bytes, that a client may send.
const MaxMessage = 4 << 20

// A Config has the parts and limits of the services. The comment of a field says what its zero value means.
type Config struct {
	Engine      Engine       // required
	DeadLetters DeadLetters  // required
	Tools       Tools        // required
	Policy      Policy       // required
	Admin       Admin        // required
	Auth        *access.Auth // required
	// Workers accepts workers: programs that connect to run tools. If it is nil, the daemon accepts no workers.
	Workers Workers
	Log     *zap.Logger // nil discards the log
	// Operation receives each request that an audit records, except calls. Nil records none.
	Operation func(context.Context, Operation)

	// Watchers is the maximum number of open streams that watch or that send much data. Zero means 4,096. WatchersEach is the maximum for
	// each principal. Zero means 1,024.
	Watchers, WatchersEach int
	// Stall is how long a client may read nothing from its stream before the stream ends. Zero means 30 s.
	Stall time.Duration
	// Guests are limits of the gRPC endpoint, which GetInfo shows.
	Guests Guests
}

// Guests are the limits of connections on which no request has had a valid credential yet.
type Guests struct {
	Connections, Streams int
	ResetsEach           int // streams that a client may reset in each second
	Time                 time.Duration
}

// A Service implements all services of the API, for all endpoints. An endpoint calls a method of a service only inside [Service.Serve].
type Service struct {
	Calls     tooldv1.CallServiceServer
	Tools     tooldv1.ToolServiceServer
	Documents tooldv1.DocumentServiceServer
	Workers   tooldv1.WorkerServiceServer
	Admin     tooldv1.AdminServiceServer

	cfg     Config
	log     *zap.Logger
	methods map[string]*method
	unknown method        // counts requests for methods that are not in the table
	items   []interceptor // chain for the items of sessions

	refusals logBudget

	stopping context.Context // ends when the service ends unending streams
	stop     context.CancelFunc
}

// New returns the services. The caller must call [Service.Stop], even if no endpoint ever served.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.DeadLetters == nil || cfg.Tools == nil || cfg.Policy == nil || cfg.Admin == nil || cfg.Auth == nil {
		return nil, errors.New("service: engine, dead letters, tools, policy, admin and auth are required")
	}
	cfg.fill()
	s := &Service{cfg: cfg, log: cfg.Log, methods: map[string]*method{}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	for name, rule := range access.Table() {
		rule.Audited = rule.Audited && cfg.Operation != nil
		m := &method{Rule: rule}
		m.interceptors = s.interceptors(m)
		s.methods[name] = m
	}
	s.unknown.interceptors = []interceptor{count, s.mapError, s.logRefusal, refuseUnknown}
	s.items = s.itemInterceptors()
	s.Calls = &calls{
		engine: cfg.Engine, tools: cfg.Tools, service: s, turns: turns.New(cfg.Engine), policy: cfg.Policy,
		watchers: &watchers{each: cfg.WatchersEach, all: cfg.Watchers, stall: cfg.Stall, of: map[subject]int{}},
	}
	s.Tools = &tools{tools: cfg.Tools, engine: cfg.Engine}
	s.Documents = &documents{documents: cfg.Engine}
	s.Workers = &workerService{workers: cfg.Workers}
	s.Admin = &admin{admin: cfg.Admin, engine: cfg.Engine, letters: cfg.DeadLetters, auth: cfg.Auth, guests: cfg.Guests, tools: cfg.Tools}
	return s, nil
}

func (c *Config) fill() {
	if c.Log == nil {
		c.Log = zap.NewNop()
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
}

// Auth returns the authentication of all endpoints.
func (s *Service) Auth() *access.Auth { return s.cfg.Auth }

// Stop ends unending streams. The streams of calls end when the engine is drained.
func (s *Service) Stop() { s.stop() }
