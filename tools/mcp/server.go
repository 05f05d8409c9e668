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
	steady     = time.Minute // a connection that lasted so long was a good one
	relistRest = time.Second // between two readings of a list, at first
	relistMost = time.Minute // of a list that changes all the time
)

// A server is one entry over its life: connections come and go.
type server struct {
	cfg    *Config
	entry  Entry
	signin *signin       // nil: nobody can
	kick   chan struct{} // ends a wait between connections

	own       map[string]*server // those of namespaces with a process of their own, by namespace
	namespace string             // whose process it is; "": the one that says what the tools are
	wanted    chan struct{}      // closed by the first call of a namespace; nil: it is wanted anyway
	want      sync.Once          // closes wanted

	stop context.CancelFunc // of run; nil: it was not started
	over chan struct{}      // closed when run has returned

	listing sync.Mutex // held while tools are listed
	retired bool       // others are listed instead; guarded by listing

	mu      sync.Mutex
	session *session      // nil: none is ready
	changed chan struct{} // closed when session changes, or what follows
	gone    bool          // a reload took it away
	next    *server       // the reload's other one
	source  tool.SourceStatus
	blocked []string          // where its processes wanted to go and may not, since it was last ready
	kept    []byte            // of the memory
	shown   map[string]bool   // ids that were listed; used by one goroutine at a time
	claims  map[string]string // of a namespace's process: digests of what it says of its tools, by id; guarded by mu
}

// newServer returns one that takes up the sign-in of the last one of its name, if that is not nil and is for the same address.
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

// of returns the process that serves a namespace.
func (s *server) of(namespace string) *server {
	if own := s.own[namespace]; own != nil {
		return own
	}
	return s
}

// all returns the server and those of namespaces that were wanted.
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

// maxBlocked is how many refused places are kept.
const maxBlocked = 8

// block notes a place that the server's processes may not reach.
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

// run connects again and again until ctx is done, and so do the servers of namespaces that are wanted.
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
	var era speech
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

// A speech is in which era a server is spoken to. One that does not answer the question of the newest is asked as earlier
// ones were, the next time; one that answered is not doubted before it was silent three times.
type speech struct {
	known  bool // it answered
	old    bool // in an earlier era
	misses int  // since
}

func (e *speech) earlier() bool {
	doubt := e.misses
	if e.known {
		doubt = max(0, doubt-2)
	}
	return e.old != (doubt%2 == 1)
}

func (e *speech) note(served bool, err error) {
	switch {
	case served:
		*e = speech{known: true, old: e.earlier()}
	case errors.As(err, new(*wayError)) || errors.Is(err, errSignIn): // it heard nothing, or nobody that it knows
	default:
		e.misses++
	}
}

// serve is one connection from its beginning to its end; served says that its tools were listed.
func (s *server) serve(ctx context.Context, earlier bool) (served bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := s.dial(ctx)
	defer func() {
		if why := l.end(); err == nil || why != nil && ctx.Err() == nil {
			if errors.Is(err, errEnded) {
				err = nil // says less
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
	next := &session{server: s, floor: newFloor(), relist: make(chan struct{}, 1), told: l.told}
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

// because prefers the reason of the context.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// follow waits for the end of a connection and reads the list again when the server says that it changed.
func (s *server) follow(ctx context.Context, n *session, lost <-chan struct{}) error {
	over := make(chan error, 1)
	go func() { over <- n.client.Wait() }() // ends with the connection
	until := func(changed <-chan struct{}, rested <-chan time.Time) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-over:
			return cmp.Or(err, errEnded)
		case <-lost: // the line knows why
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
		if rest = min(2*rest, relistMost); len(n.relist) == 0 { // else it changes them all the time
			rest = relistRest
		}
	}
}

// publish makes a connection the one that calls use.
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

// drop makes nobody else use a connection of which it is known that it leads nowhere.
func (s *server) drop(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == n {
		s.publishLocked(nil)
	}
}

// ready returns the connection to the process of a namespace, waiting for it. Nothing was sent when it fails.
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

// retire takes a server away: nothing of it is listed and no call begins on it any more. Those that wait go to next, if
// there is one, whose tools take the place of its own at once.
func (s *server) retire(next *server) {
	s.listing.Lock()
	s.retired = true
	if next == nil || !next.recall() {
		_ = s.cfg.Tools.Replace(s.source.Name, nil) // none can be refused
	}
	s.listing.Unlock()
	s.follows(next)
	for _, own := range s.own {
		own.follows(next)
	}
}

// follows sends the calls that wait to the next server, if there is one.
func (s *server) follows(next *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.next = true, next
	close(s.changed)
	s.changed = make(chan struct{})
}

// newest is the server in place of this one after reloads; this one when there is none.
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

// drain ends a server that was taken away when its calls have, or have had their time.
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
