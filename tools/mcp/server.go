package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
)

const (
	maxBackoff  = time.Minute
	steady      = time.Minute // duration of a connection after which the next backoff starts from the beginning
	relistPause = time.Second // minimum pause between two readings of a list
	relistMost  = time.Minute // maximum pause, which applies when a list changes all the time
)

// A server maintains the connections for one entry, one after the other.
type server struct {
	cfg    *Config
	entry  Entry
	signin *signin       // nil when sign-in is not possible
	kick   chan struct{} // a value in it ends the wait before the next connection

	own       map[string]*server // servers for the separate processes of namespaces, by namespace
	namespace string             // namespace of this separate process; empty for the server whose list of tools is used
	wanted    chan struct{}      // closed by the first call of the namespace; nil when the server connects at once
	want      sync.Once          // guards the close of wanted

	stop context.CancelFunc // ends run; nil before the start
	over chan struct{}      // closed when run has returned

	listing sync.Mutex // held while the list of tools is replaced
	retired bool       // set when the server is removed or replaced; from then on it must not publish a list of tools; guarded by listing

	mu      sync.Mutex
	session *session      // nil when no session is ready
	changed chan struct{} // closed when session, removed or next changes
	removed bool          // a reload removed the server
	next    *server       // the server that replaced this one
	source  tool.SourceStatus
	blocked []string          // network connections that the sandbox refused since the server was last ready
	kept    []byte            // the list as Memory has it
	shown   map[string]bool   // ids that were ever listed; only one goroutine at a time uses it
	claims  map[string]string // set for the separate process of a namespace: digests of the process's tool descriptions, by tool id; guarded by mu
}

// newServer returns a server for an entry. last is the sign-in of the previous server with this key, or nil. It is used again when address
// and client are the same.
func newServer(cfg *Config, e Entry, last *signin) *server {
	s := &server{cfg: cfg, entry: e, changed: make(chan struct{}), shown: map[string]bool{}, kick: make(chan struct{}, 1)}
	s.signin = newSignin(&s.entry, cfg)
	if s.signin.same(last) {
		last.adopt(e.Client)
		s.signin = last
	}
	address := e.URL
	if address == "" {
		address = e.Command
	}
	s.source = tool.SourceStatus{Name: SourcePrefix + e.Key, State: tool.SourceConnecting, Since: time.Now(), Address: address, Trust: string(e.Trust)}
	for namespace, entry := range e.In {
		own := newServer(cfg, entry, nil)
		own.namespace, own.wanted = namespace, make(chan struct{})
		own.source.Name, own.source.Namespace = OwnSource(e.Key, namespace), namespace
		if s.own == nil {
			s.own = map[string]*server{}
		}
		s.own[namespace] = own
	}
	return s
}

// of returns the server that serves a namespace.
func (s *server) of(namespace string) *server {
	if own := s.own[namespace]; own != nil {
		return own
	}
	return s
}

// all returns this server and the servers of those namespaces that have made a call.
func (s *server) all() []*server {
	list := []*server{s}
	for _, namespace := range slices.Sorted(maps.Keys(s.own)) {
		select {
		case <-s.own[namespace].wanted:
			list = append(list, s.own[namespace])
		default:
		}
	}
	return list
}

func (s *server) health() tool.SourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.source
	out.Refused = slices.Clone(out.Refused)
	if len(s.blocked) > 0 {
		out.Error = strings.TrimPrefix(out.Error+"; ", "; ") + "its sandbox blocked the network: " + strings.Join(s.blocked, "; ") +
			". To allow it, set in mcp.servers a profile that permits these hosts, ports or addresses"
	}
	return out
}

// maxBlocked is the number of refused connections that are kept for the status.
const maxBlocked = 8

// block records a refused network connection of the server's processes.
func (s *server) block(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why = cleanLine(why, maxTitle*5); len(s.blocked) < maxBlocked && !slices.Contains(s.blocked, why) {
		s.blocked = append(s.blocked, why)
	}
}

func (s *server) note(change func(*tool.SourceStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.source)
}

func (s *server) become(state tool.SourceState, change func(*tool.SourceStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source.State != state {
		s.source.State, s.source.Since = state, time.Now()
	}
	switch {
	case state == tool.SourceReady:
		s.source.Unready = time.Time{}
	case s.source.Unready.IsZero():
		s.source.Unready = time.Now()
	}
	change(&s.source)
}

// run connects to the server again and again until ctx is done. It also runs the servers of namespaces, each after its first call.
func (s *server) run(ctx context.Context) {
	var own sync.WaitGroup
	defer own.Wait()
	for _, one := range s.own {
		own.Go(func() {
			select {
			case <-one.wanted:
				one.run(ctx)
			case <-ctx.Done():
			}
		})
	}
	wait := s.cfg.Backoff
	var era eraProbe
	for ctx.Err() == nil {
		s.become(tool.SourceConnecting, func(h *tool.SourceStatus) { h.Starts++ })
		began := time.Now()
		served, err := s.serve(ctx, era.earlier())
		era.note(served, err)
		if ctx.Err() != nil {
			return
		}
		s.offerSignin()
		why := s.signin.hideText(err.Error())
		s.become(tool.SourceDown, func(h *tool.SourceStatus) { h.Error = cleanLine(why, 2*maxWords) })
		s.cfg.Log.Warn("MCP server is down; toold will connect again", zap.String("server", s.entry.Key), zap.String("namespace", s.namespace), zap.String("error", why), zap.Duration("in", wait))
		if served && time.Since(began) > steady {
			wait = s.cfg.Backoff
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1)) //nolint:gosec // it keeps servers apart, not secrets
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.kick:
			timer.Stop()
		}
		wait = min(2*wait, maxBackoff)
	}
}

// An eraProbe chooses the protocol era for the next connection. When a connection in one era fails, it chooses the other era. When the
// server has answered in an era before, three connections must fail first.
type eraProbe struct {
	known  bool // a connection has succeeded before
	old    bool // the last successful connection was in an earlier era
	misses int  // number of failures since the last success
}

func (e *eraProbe) earlier() bool {
	doubt := e.misses
	if e.known {
		doubt = max(0, doubt-2)
	}
	return e.old != (doubt%2 == 1)
}

func (e *eraProbe) note(served bool, err error) {
	switch {
	case served:
		*e = eraProbe{known: true, old: e.earlier()}
	case errors.As(err, new(*transportError)) || errors.Is(err, errSignIn): // These failures say nothing about the era: they come from the connection, or the server requires a sign-in.
	default:
		e.misses++
	}
}

// serve runs one connection from its start to its end. served reports whether the server's tools were listed.
func (s *server) serve(ctx context.Context, earlier bool) (served bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := s.dial(ctx)
	defer func() {
		if why := l.end(); err == nil || why != nil && ctx.Err() == nil {
			if errors.Is(err, errEnded) {
				err = nil // The error of the line has more details.
			}
			err = errors.Join(why, err)
		}
		if err == nil {
			err = errEnded
		}
	}()
	starting, stop := context.WithTimeoutCause(ctx, s.cfg.Connect, fmt.Errorf("not ready within %v", s.cfg.Connect))
	defer stop()
	starts := context.AfterFunc(starting, l.cut)
	next := &session{server: s, floor: newFloor(), relist: make(chan struct{}, 1), reports: l.reports}
	next.pipe, _ = l.transport.(*pipe)
	if err := next.connect(starting, l.transport, earlier); err != nil {
		return false, because(starting, err)
	}
	defer next.close(l.cut)
	if err := s.list(starting, next); err != nil {
		return false, because(starting, err)
	}
	if !starts() {
		return false, because(starting, errEnded)
	}
	s.signin.admitted()
	s.publish(next)
	s.become(tool.SourceReady, func(h *tool.SourceStatus) { h.Error, s.blocked = "", nil })
	defer s.publish(nil)
	return true, s.follow(ctx, next, l.lost)
}

// because returns the cause of ctx if there is one, otherwise err.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// follow waits for the end of a connection. Meanwhile it reads the list again when the server reports a change.
func (s *server) follow(ctx context.Context, n *session, lost <-chan struct{}) error {
	over := make(chan error, 1)
	go func() { over <- n.client.Wait() }() // The goroutine ends with the connection.
	until := func(changed <-chan struct{}, paused <-chan time.Time) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-over:
			return cmp.Or(err, errEnded)
		case <-lost: // The caller gets the reason from the line.
			return errEnded
		case <-changed:
		case <-paused:
		}
		return nil
	}
	for pause := relistPause; ; {
		if err := until(n.relist, nil); err != nil {
			return err
		}
		reading, stop := context.WithTimeoutCause(ctx, s.cfg.Connect, fmt.Errorf("no list of tools within %v", s.cfg.Connect))
		err := s.list(reading, n)
		stop()
		if err != nil {
			return err
		}
		timer := time.NewTimer(pause)
		err = until(nil, timer.C)
		timer.Stop()
		if err != nil {
			return err
		}
		if pause = min(2*pause, relistMost); len(n.relist) == 0 { // While the list keeps changing, the pause grows. Otherwise it starts again at the minimum.
			pause = relistPause
		}
	}
}

// publish sets the session for calls. Nil means that there is none.
func (s *server) publish(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publishLocked(n)
}

func (s *server) publishLocked(n *session) {
	s.session = n
	close(s.changed)
	s.changed = make(chan struct{})
}

// drop unpublishes a session that is broken.
func (s *server) drop(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == n {
		s.publishLocked(nil)
	}
}

// ready returns the session for a namespace. When there is none, it waits for one. After an error, nothing of the call was sent.
func (s *server) ready(ctx context.Context, namespace string) (*session, error) {
	if s = s.of(namespace); s.wanted != nil {
		s.want.Do(func() { close(s.wanted) })
	}
	limit := time.NewTimer(s.cfg.Wait)
	defer limit.Stop()
	for {
		s.mu.Lock()
		n, changed, last, removed, next := s.session, s.changed, s.source.Error, s.removed, s.next
		s.mu.Unlock()
		switch {
		case next != nil:
			return next.ready(ctx, namespace)
		case removed:
			return nil, &tool.Error{
				Code: tool.Upstream, Reason: "SERVER_REMOVED",
				Message: fmt.Sprintf("Not run: the server %s was removed from the configuration", s.entry.Key),
			}
		case n != nil:
			return n, nil
		case s.signin.wanted():
			return nil, errSignIn
		}
		select {
		case <-ctx.Done():
			return nil, notRun(context.Cause(ctx))
		case <-changed:
		case <-limit.C:
			return nil, s.away(last)
		}
	}
}

func (s *server) away(why string) error {
	return &tool.Error{
		Code: tool.Upstream, Reason: "SERVER_DOWN", Retryable: true, DeveloperMessage: s.signin.hideText(why),
		Message: fmt.Sprintf("Not run: the server %s is not available", s.entry.Key),
	}
}

// retire removes a server from the configuration. Its tools are replaced at once by the tools of next in Memory. They are removed when next
// is nil or Memory has no list. No new call starts on the server, and waiting calls continue on next.
func (s *server) retire(next *server) {
	s.listing.Lock()
	s.retired = true
	if next == nil || !next.recall() {
		_ = s.cfg.Tools.Replace(s.source.Name, nil) // Nothing is refused, because the list is empty.
	}
	s.listing.Unlock()
	s.follows(next)
	for _, own := range s.own {
		own.follows(next)
	}
}

// follows makes the waiting calls continue on the next server. Nil means that there is none, so they fail.
func (s *server) follows(next *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed, s.next = true, next
	close(s.changed)
	s.changed = make(chan struct{})
}

// newest returns the last server in the chain of servers that replaced this one, or this server when it was not replaced.
func (s *server) newest() *server {
	for {
		s.mu.Lock()
		next := s.next
		s.mu.Unlock()
		if next == nil {
			return s
		}
		s = next
	}
}

// drain waits until the calls on a removed server have ended, at most for Config.Drain, and then stops the server.
func (s *server) drain(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.Drain)
	defer stop()
	for _, one := range s.all() {
		one.mu.Lock()
		n := one.session
		one.mu.Unlock()
		if n != nil {
			n.floor.empty(ctx)
		}
	}
	s.stop()
}
