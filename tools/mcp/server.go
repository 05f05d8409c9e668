package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
)

const (
	maxBackoff = time.Minute
	steady     = time.Minute // a connection that lasted so long was a good one
	relistRest = time.Second // between two readings of a list
)

// A server is one entry over its life: connections come and go.
type server struct {
	cfg   *Config
	entry Entry

	mu      sync.Mutex
	session *session      // nil: none is ready
	changed chan struct{} // closed when session changes
	source  Source
	kept    []byte // of the memory
}

func newServer(cfg *Config, e Entry) *server {
	s := &server{cfg: cfg, entry: e, changed: make(chan struct{})}
	address := e.URL
	if address == "" {
		address = e.Command
	}
	s.source = Source{Name: SourcePrefix + e.Key, State: Connecting, Since: time.Now(), Address: address, Trust: e.Trust}
	return s
}

func (s *server) health() Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.source
	out.Refused = slices.Clone(out.Refused)
	return out
}

func (s *server) note(change func(*Source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.source)
}

func (s *server) become(state State, change func(*Source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source.State != state {
		s.source.State, s.source.Since = state, time.Now()
	}
	change(&s.source)
}

// run connects again and again until ctx is done.
func (s *server) run(ctx context.Context) {
	wait := s.cfg.Backoff
	for attempt := 0; ctx.Err() == nil; attempt++ {
		s.become(Connecting, func(h *Source) { h.Starts++ })
		began := time.Now()
		// A server that does not answer the question of the newest era is asked as earlier ones were, the next time.
		served, err := s.serve(ctx, attempt%2 == 1)
		if served {
			attempt = -1
		}
		if ctx.Err() != nil {
			return
		}
		s.become(Down, func(h *Source) { h.Error = cleanLine(err.Error(), 2*maxWords) })
		s.cfg.Log.Warn("MCP server is down; will be taken up again", zap.String("server", s.entry.Key), zap.Error(err), zap.Duration("in", wait))
		if served && time.Since(began) > steady {
			wait = s.cfg.Backoff
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1)) //nolint:gosec // it keeps servers apart, not secrets
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = min(2*wait, maxBackoff)
	}
}

// serve is one connection from its beginning to its end; served says that its tools were listed.
func (s *server) serve(ctx context.Context, earlier bool) (served bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := s.dial(ctx)
	defer func() {
		if why := l.end(); err == nil || why != nil && ctx.Err() == nil {
			err = errors.Join(why, err)
		}
		if err == nil {
			err = errEnded
		}
	}()
	starting, stop := context.WithTimeoutCause(ctx, s.cfg.Connect, fmt.Errorf("not ready after %v", s.cfg.Connect))
	defer stop()
	starts := context.AfterFunc(starting, l.cut)
	next := &session{server: s, floor: newFloor(), relist: make(chan struct{}, 1)}
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
	s.publish(next)
	s.become(Ready, func(h *Source) { h.Error = "" })
	defer s.publish(nil)
	return true, s.follow(ctx, next)
}

// because prefers the reason of the context.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// follow waits for the end of a connection and reads the list again when the server says that it changed.
func (s *server) follow(ctx context.Context, n *session) error {
	over := make(chan error, 1)
	go func() { over <- n.client.Wait() }() // ends with the connection
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-over:
			return err
		case <-n.relist:
		}
		reading, stop := context.WithTimeoutCause(ctx, s.cfg.Connect, fmt.Errorf("no list of tools after %v", s.cfg.Connect))
		err := s.list(reading, n)
		stop()
		if err != nil {
			return err
		}
		rest := time.NewTimer(relistRest) // a server that changes its tools all the time is not asked all the time
		select {
		case <-ctx.Done():
			rest.Stop()
			return context.Cause(ctx)
		case err := <-over:
			rest.Stop()
			return err
		case <-rest.C:
		}
	}
}

// publish makes a connection the one that calls use.
func (s *server) publish(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = n
	close(s.changed)
	s.changed = make(chan struct{})
}

// ready returns the connection, waiting for it. Nothing was sent when it fails.
func (s *server) ready(ctx context.Context) (*session, error) {
	limit := time.NewTimer(s.cfg.Wait)
	defer limit.Stop()
	for {
		s.mu.Lock()
		n, changed, last := s.session, s.changed, s.source.Error
		s.mu.Unlock()
		if n != nil {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		case <-limit.C:
			return nil, &tool.Error{
				Code: tool.Upstream, Reason: "SERVER_DOWN", Retryable: true, DeveloperMessage: last,
				Message: fmt.Sprintf("Not run: the server %s is not there", s.entry.Key),
			}
		}
	}
}

// listed is what a server said of its tools.
type listed struct {
	Instructions string      `json:"instructions,omitempty"`
	Tools        []*sdk.Tool `json:"tools"`
}

// list reads the list of a connection and makes its tools the server's.
func (s *server) list(ctx context.Context, n *session) error {
	about := n.client.InitializeResult()
	l := listed{Instructions: about.Instructions}
	if about.Capabilities != nil && about.Capabilities.Tools != nil {
		var err error
		if l.Tools, err = n.tools(ctx); err != nil {
			return fmt.Errorf("list of tools: %w", err)
		}
	}
	name := "unknown"
	if i := about.ServerInfo; i != nil {
		name = cleanLine(i.Name+" "+i.Version, maxTitle)
	}
	s.note(func(h *Source) { h.Server, h.Protocol = name, about.ProtocolVersion })
	s.offer(&l)
	s.keep(&l)
	return nil
}

// offer lists the tools that can be taken.
func (s *server) offer(l *listed) {
	why := map[string]error{}
	names := map[string]string{} // by id
	var tools []tool.Tool
	instructions := clean(l.Instructions, maxInstructions)
	for _, t := range l.Tools {
		if !s.entry.takes(t.Name) {
			continue
		}
		d, err := s.entry.describe(t, instructions)
		if other, ok := names[d.ID]; err == nil && ok {
			err = fmt.Errorf("%s has the id %s already", other, d.ID)
		}
		if err != nil {
			why[t.Name] = err
			continue
		}
		names[d.ID] = t.Name
		tools = append(tools, &remote{server: s, name: t.Name, descriptor: d, claimed: s.entry.claimed(t, d)})
	}
	refused := s.cfg.Tools.Replace(s.source.Name, tools)
	for id, err := range refused {
		why[names[id]] = err
	}
	s.note(func(h *Source) {
		h.Tools, h.Refused = len(tools)-len(refused), nil
		for _, name := range slices.Sorted(maps.Keys(why)) {
			h.Refused = append(h.Refused, Refusal{cleanLine(name, maxTitle), cleanLine(why[name].Error(), maxDescription)})
		}
	})
	for name, err := range why {
		s.cfg.Log.Warn("tool of an MCP server is refused", zap.String("server", s.entry.Key), zap.String("tool", cleanLine(name, maxTitle)), zap.Error(err))
	}
}

// recall lists what is remembered of the last time.
func (s *server) recall() {
	if s.cfg.Memory == nil {
		return
	}
	text, ok := s.cfg.Memory.Recall(s.entry.Key)
	var l listed
	if !ok || json.Unmarshal(text, &l) != nil {
		return
	}
	s.kept = text
	s.offer(&l)
}

// keep remembers a list that is another one than the last.
func (s *server) keep(l *listed) {
	if s.cfg.Memory == nil {
		return
	}
	slices.SortStableFunc(l.Tools, func(a, b *sdk.Tool) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(l)
	if err == nil && string(text) == string(s.kept) {
		return
	}
	if err == nil {
		err = s.cfg.Memory.Keep(s.entry.Key, text)
	}
	if err != nil {
		s.cfg.Log.Warn("list of an MCP server is not remembered", zap.String("server", s.entry.Key), zap.Error(err))
		return
	}
	s.kept = text
}
