// Package proxy is the way out of processes that reach nothing else: an HTTP proxy that decides by the operator's list.
//
// A process sends plain HTTP with the whole URL, or CONNECT with a host and a port. Both become one question, asked of one
// function: may this host, in the one form that a host has here, be reached at this port? What may be is resolved here, its
// addresses are checked, and one that was checked is dialed. The Host header decides nothing; one that says something else is
// refused. A connection carries one request, so that nothing can be hidden behind it.
//
// [Proxy.Serve] does not return before all that it began for a run has ended: no connection outlives its call.
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

// Config says how a proxy works. What may be reached through it is in the policy of each run.
type Config struct {
	Resolver *net.Resolver // nil is the system's
	// Headers adds to plain requests; nil: nothing.
	Headers Headers
	// Report is called for each request when it has ended, before Serve returns; may be nil. It is called concurrently, for the first
	// [MaxTold] requests of a run.
	Report func(Event)
	// Summary is called for each run with requests, when it has ended; may be nil.
	Summary func(Summary)

	Each, All int           // connections at one time, of one run and of all; 0: 64 and 1024
	Head      time.Duration // for a request to come; 0: 10 s
	Dial      time.Duration // for a name to be resolved and a connection to be made; 0: 10 s
	Idle      time.Duration // without a byte in either direction, after which a connection is ended; 0: 5 min
}

// Headers gives what is added to a plain request, and what the process that sends it must not have.
type Headers interface {
	// Headers returns what to set in a request that is allowed. An error refuses it; its text is the process's to read.
	Headers(ctx context.Context, r Plain) (http.Header, error)
}

// Plain is a plain request that is allowed.
type Plain struct {
	Tag    string // of the run
	Policy *sandbox.Policy
	Host   string // in its one form
	Port   uint16
}

// MaxTold is how many requests of one run are reported one by one.
const MaxTold = 100

// Verdict is what became of a request.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed"
	Refused Verdict = "refused" // by the rules, or because it is no proper request
	Failed  Verdict = "failed"  // allowed, but nobody was there
)

// An Event is one request of a process.
type Event struct {
	Tag     string // of the run, which a caller may have chosen
	Source  string // of the run's policy
	Method  string // CONNECT, or that of a plain request; empty when the request could not be read
	Host    string // in its one form; empty when there is none
	Port    uint16
	Verdict Verdict
	Why     string // nothing for Allowed
	Address string // that was dialed
	Up      int64  // bytes to the host, and from it
	Down    int64
	Took    time.Duration
}

// A Summary is all that a run wanted outside.
type Summary struct {
	Tag                       string
	Requests, Refused, Untold int64 // Untold: of them without an event
	Up, Down                  int64
}

// A Proxy implements [sandbox.Gateway]. Its methods may be called concurrently.
type Proxy struct {
	cfg  Config
	room chan struct{} // of all connections
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
	return &Proxy{cfg: cfg, room: make(chan struct{}, cfg.All)}
}

// A session is what the proxy does for one run.
type session struct {
	*Proxy
	tag    string
	policy *sandbox.Policy
	rules  rules
	room   chan struct{}

	mu  sync.Mutex
	sum Summary
}

// Serve implements [sandbox.Gateway].
func (p *Proxy) Serve(ctx context.Context, tag string, policy *sandbox.Policy, l net.Listener) {
	s := &session{Proxy: p, tag: tag, policy: policy, room: make(chan struct{}, p.cfg.Each), sum: Summary{Tag: tag}}
	s.rules = newRules(policy)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var all sync.WaitGroup
	for enter(ctx, s.room) {
		conn, err := accept(ctx, l)
		if err != nil {
			break
		}
		all.Go(func() {
			defer func() { <-s.room }()
			s.attend(ctx, conn)
		})
	}
	all.Wait()
	if p.cfg.Summary != nil && s.sum.Requests > 0 {
		p.cfg.Summary(s.sum)
	}
}

// enter takes a place and reports whether there was one before the end.
func enter(ctx context.Context, room chan struct{}) bool {
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// accept waits for a connection. When there are no descriptors for one it waits for these.
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

// attend sees one connection to its end.
func (s *session) attend(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if !enter(ctx, s.Proxy.room) {
		return
	}
	defer func() { <-s.Proxy.room }()
	began := time.Now()
	e := &Event{Tag: s.tag, Source: s.policy.Source, Verdict: Allowed}
	defer func() {
		if r := recover(); r != nil { // the author of the process wrote this input
			e.Verdict, e.Why = Failed, "the proxy failed"
		}
		e.Took = time.Since(began)
		s.tell(e)
	}()
	s.serve(ctx, conn, e)
}

func (s *session) tell(e *Event) {
	s.mu.Lock()
	s.sum.Requests++
	if e.Verdict == Refused {
		s.sum.Refused++
	}
	s.sum.Up += e.Up
	s.sum.Down += e.Down
	told := s.sum.Requests <= MaxTold
	if !told {
		s.sum.Untold++
	}
	s.mu.Unlock()
	if told && s.cfg.Report != nil {
		s.cfg.Report(*e)
	}
}

// rules are what one run may reach.
type rules struct {
	hosts     address.Hosts
	ports     []uint16
	addresses address.Rules
	err       error // nothing may be reached, since the policy cannot be read
}
