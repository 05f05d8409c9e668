// Package proxy is an HTTP proxy for processes that have no other network. It allows only the hosts in the operator's list.
//
// A process sends a plain HTTP request with the whole URL, or CONNECT with a host and a port. One function decides for both whether the
// canonical host may be reached at this port. The proxy resolves an allowed name, checks the addresses, and dials a checked one. A Host
// header that differs from the URL is refused. A connection carries only one request, so no second request can be hidden behind it.
//
// A run is one execution of a process, as in package sandbox. [Proxy.Serve] returns only when all work for a run has ended. No connection
// outlives the call that started the run.
package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/address"
)

// Config configures a proxy. The policy of each run says what the run may reach.
type Config struct {
	Resolver *net.Resolver // nil means the system's resolver
	// Headers adds headers to plain requests. Nil adds none.
	Headers Headers
	// Report is called when a request has ended, before Serve returns, for the first [MaxReported] requests of a run. It is called
	// concurrently. May be nil.
	Report func(Event)
	// Summary is called at the end of each run that sent requests; may be nil.
	Summary func(Summary)

	Each, All int           // maximum numbers of concurrent connections: of one run, where 0 means 64, and of all runs, where 0 means 1024
	Head      time.Duration // maximum time to receive the head of a request; 0 means 10 s
	Dial      time.Duration // maximum time to resolve a name and connect; 0 means 10 s
	Idle      time.Duration // time without a byte in either direction after which a connection is closed; 0 means 5 min
}

// Headers returns headers, such as credentials, for a plain request. The process that sends the request must not see them.
type Headers interface {
	// Headers returns the headers to set in an allowed request. When it returns an error, the request is refused, and the process can read
	// the error's text.
	Headers(ctx context.Context, r Plain) (http.Header, error)
}

// Plain is an allowed plain request.
type Plain struct {
	Tag    string // tag of the run
	Policy *sandbox.Policy
	Host   string // host in canonical form
	Port   uint16
}

// MaxReported is the maximum number of requests of one run for which an event is reported.
const MaxReported = 100

// Verdict is the outcome of a request.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed"
	Refused Verdict = "refused" // the rules refuse the request, or it is malformed
	Failed  Verdict = "failed"  // allowed, but the host could not be reached
)

// An Event describes one request of a process.
type Event struct {
	Tag     string // tag of the run; the caller may have chosen it
	Source  string // Source of the run's policy
	Method  string // HTTP method, or CONNECT; empty when the request could not be parsed
	Host    string // host in canonical form; empty when the request names no host
	Port    uint16
	Verdict Verdict
	Why     string // reason; empty for Allowed
	Address string // the dialed address
	Up      int64  // Up counts the bytes sent to the host, Down the bytes received from it
	Down    int64
	Took    time.Duration
}

// A Summary counts all requests of a run.
type Summary struct {
	Tag                           string
	Requests, Refused, Unreported int64 // Unreported counts the requests for which no event was reported
	Up, Down                      int64
}

// A Proxy implements [sandbox.Gateway]. Its methods may be called concurrently.
type Proxy struct {
	cfg   Config
	slots chan struct{} // slots for the connections of all runs
}

// New returns a Proxy.
func New(cfg Config) *Proxy {
	set := func(to *time.Duration, value time.Duration) {
		if *to == 0 {
			*to = value
		}
	}
	set(&cfg.Head, 10*time.Second)
	set(&cfg.Dial, 10*time.Second)
	set(&cfg.Idle, 5*time.Minute)
	if cfg.Each == 0 {
		cfg.Each = 64
	}
	if cfg.All == 0 {
		cfg.All = 1024
	}
	return &Proxy{cfg: cfg, slots: make(chan struct{}, cfg.All)}
}

// A session is the proxy's state for one run.
type session struct {
	*Proxy
	tag    string
	policy *sandbox.Policy
	rules  rules
	slots  chan struct{}

	mu  sync.Mutex
	sum Summary
}

// Serve implements [sandbox.Gateway].
func (p *Proxy) Serve(ctx context.Context, tag string, policy *sandbox.Policy, l net.Listener) {
	s := &session{Proxy: p, tag: tag, policy: policy, slots: make(chan struct{}, p.cfg.Each), sum: Summary{Tag: tag}}
	s.rules = newRules(policy)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var all sync.WaitGroup
	for enter(ctx, s.slots) {
		conn, err := accept(ctx, l)
		if err != nil {
			break
		}
		all.Go(func() {
			defer func() { <-s.slots }()
			s.attend(ctx, conn)
		})
	}
	all.Wait()
	if p.cfg.Summary != nil && s.sum.Requests > 0 {
		p.cfg.Summary(s.sum)
	}
}

// enter takes a slot. It reports false when ctx ends first.
func enter(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// accept waits for a connection. While the daemon has no free file descriptor, accept waits for one.
func accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	for {
		conn, err := l.Accept()
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return nil, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// attend handles one connection to its end.
func (s *session) attend(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if !enter(ctx, s.Proxy.slots) {
		return
	}
	defer func() { <-s.Proxy.slots }()
	began := time.Now()
	e := &Event{Tag: s.tag, Source: s.policy.Source, Verdict: Allowed}
	defer func() {
		if r := recover(); r != nil { // The input is untrusted, and a panic in this goroutine would end the daemon.
			e.Verdict, e.Why = Failed, "the proxy failed"
		}
		e.Took = time.Since(began)
		s.report(e)
	}()
	s.serve(ctx, conn, e)
}

func (s *session) report(e *Event) {
	s.mu.Lock()
	s.sum.Requests++
	if e.Verdict == Refused {
		s.sum.Refused++
	}
	s.sum.Up += e.Up
	s.sum.Down += e.Down
	reported := s.sum.Requests <= MaxReported
	if !reported {
		s.sum.Unreported++
	}
	s.mu.Unlock()
	if reported && s.cfg.Report != nil {
		s.cfg.Report(*e)
	}
}

// rules say what one run may reach.
type rules struct {
	hosts     address.Hosts
	ports     []uint16
	addresses address.Rules
	err       error // error of parsing the policy; when set, everything is refused
}
