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
	maxBackoff = time.Minute
	steady     = time.Minute // minimum duration of a connection that resets the backoff
	relistRest = time.Second // first pause between two readings of a list
	relistMost = time.Minute // longest pause, for a list that changes all the time
)

// A server represents one entry. It outlives its connections.
type server struct {
	cfg    *Config
	entry  Entry
	signin *signin       // nil when sign-in is not possible
	kick   chan struct{} // ends the wait before the next connection

	own       map[string]*server // servers of namespaces with their own process, by namespace
	namespace string             // namespace of this process; empty for the server that determines the list of tools
	wanted    chan struct{}      // closed by the first call of the namespace; nil when the server connects without waiting for a call
	want      sync.Once          // closes wanted

	stop context.CancelFunc // cancels run; nil before the start
	over chan struct{}      // closed when run has returned

	listing sync.Mutex // held while tools are listed
	retired bool       // the server lists no more tools; guarded by listing

	mu      sync.Mutex
	session *session      // nil when no session is ready
	changed chan struct{} // closed when session, gone or next changes
	gone    bool          // a reload removed the server
	next    *server       // the server that replaced this one
	source  tool.SourceStatus
	blocked []string          // refused network connections of its processes since it was last ready
	kept    []byte            // list in Memory
	shown   map[string]bool   // ids that were ever listed; used by one goroutine at a time
	claims  map[string]string // for a namespace's own process: digests of its tool descriptions, by id; guarded by mu
}

// newServer returns a server. It reuses last, the sign-in of the previous server, when address and client are the same. last may be nil.
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

// of returns the server for a namespace.
func (s *server) of(namespace string) *server {
	if own := s.own[namespace]; own != nil {
		return own
	}
	return s
}

// all returns the server and the servers of namespaces that have had a call.
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
		out.Error = strings.TrimPrefix(out.Error+"; ", "; ") + "its sandbox refused the network: " + strings.Join(s.blocked, "; ") +
			". To allow that, name a profile with such hosts, ports or addresses in mcp.servers"
	}
	return out
}

// maxBlocked is how many refused connections are kept.
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
	change(&s.source)
}

// run connects again and again until ctx is done. It also runs the servers of namespaces after their first call.
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
		s.cfg.Log.Warn("MCP server is down; will be taken up again", zap.String("server", s.entry.Key), zap.String("namespace", s.namespace), zap.String("error", why), zap.Duration("in", wait))
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

// An eraProbe selects the protocol era for the next connection. After a failed connection in one era, the next one tries the other era. A
// server that has answered before must fail three times first.
type eraProbe struct {
	known  bool // A connection succeeded.
	old    bool // The successful era was an earlier one.
	misses int  // failures since then
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
	case errors.As(err, new(*transportError)) || errors.Is(err, errSignIn): // The server did not receive the question, or wants a sign-in.
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
				err = nil // The other error has more detail.
			}
			err = errors.Join(why, err)
		}
		if err == nil {
			err = errEnded
		}
	}()
	starting, stop := context.WithTimeoutCause(ctx, s.cfg.Connect, fmt.Errorf("not ready after %v", s.cfg.Connect))
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

// follow waits for the end of a connection. It reads the list again when the server reports a change.
func (s *server) follow(ctx context.Context, n *session, lost <-chan struct{}) error {
	over := make(chan error, 1)
	go func() { over <- n.client.Wait() }() // The goroutine ends with the connection.
	until := func(changed <-chan struct{}, rested <-chan time.Time) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-over:
			return cmp.Or(err, errEnded)
		case <-lost: // The line knows the reason.
			return errEnded
		case <-changed:
		case <-rested:
		}
		return nil
	}
	for rest := relistRest; ; {
		if err := until(n.relist, nil); err != nil {
			return err
		}
		reading, stop := context.WithTimeoutCause(ctx, s.cfg.Connect, fmt.Errorf("no list of tools after %v", s.cfg.Connect))
		err := s.list(reading, n)
		stop()
		if err != nil {
			return err
		}
		timer := time.NewTimer(rest)
		err = until(nil, timer.C)
		timer.Stop()
		if err != nil {
			return err
		}
		if rest = min(2*rest, relistMost); len(n.relist) == 0 { // Otherwise the list keeps changing, and the pause grows.
			rest = relistRest
		}
	}
}

// publish makes a session the one that calls use. Nil means none.
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

// drop stops the use of a session that is known to be broken.
func (s *server) drop(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == n {
		s.publishLocked(nil)
	}
}

// ready returns the session for a namespace and waits for it if needed. When ready fails, nothing of the call was sent.
func (s *server) ready(ctx context.Context, namespace string) (*session, error) {
	if s = s.of(namespace); s.wanted != nil {
		s.want.Do(func() { close(s.wanted) })
	}
	limit := time.NewTimer(s.cfg.Wait)
	defer limit.Stop()
	for {
		s.mu.Lock()
		n, changed, last, gone, next := s.session, s.changed, s.source.Error, s.gone, s.next
		s.mu.Unlock()
		switch {
		case next != nil:
			return next.ready(ctx, namespace)
		case gone:
			return nil, &tool.Error{
				Code: tool.Upstream, Reason: "SERVER_REMOVED",
				Message: fmt.Sprintf("Not run: the server %s was taken out of the configuration", s.entry.Key),
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
		Message: fmt.Sprintf("Not run: the server %s is not there", s.entry.Key),
	}
}

// retire removes a server: its tools are no longer listed and no new call starts on it. Calls that wait continue on next, if there is one.
// The tools of next replace the old tools at once.
func (s *server) retire(next *server) {
	s.listing.Lock()
	s.retired = true
	if next == nil || !next.recall() {
		_ = s.cfg.Tools.Replace(s.source.Name, nil) // An empty list cannot be refused.
	}
	s.listing.Unlock()
	s.follows(next)
	for _, own := range s.own {
		own.follows(next)
	}
}

// follows sends the waiting calls to the next server, if there is one.
func (s *server) follows(next *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.next = true, next
	close(s.changed)
	s.changed = make(chan struct{})
}

// newest returns the latest server that replaced this one in reloads, or this one.
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

// drain stops a removed server when its calls have ended, or after Config.Drain.
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
