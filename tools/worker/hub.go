package worker

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
)

// A Registry takes the tools of a source. Of a name that another source has it says [ErrTaken].
type Registry interface {
	Register(source string, tools ...tool.Tool) error
	Replace(source string, tools ...tool.Tool) error
	// Trusted reports whether the definition that a source has of a tool may be used.
	Trusted(source, id string) bool
	// Shadowed reports whether a tool that every namespace has took the name of a source's tool.
	Shadowed(source, id string) bool
	// Refresh says that what callers may see has changed.
	Refresh()
}

// A Memory keeps what was offered, so that tools are known before their workers are back.
type Memory interface {
	// Keep has it durable when it returns.
	Keep(ctx context.Context, k Known) error
	Forget(ctx context.Context, source, id string) error
	// KeepKey keeps [Config.Key] for the next daemon.
	KeepKey(ctx context.Context, key []byte) error
}

// A Known tool was offered once.
type Known struct {
	Source string    `json:"source"`
	Offer  link.Tool `json:"offer"`
	Seen   time.Time `json:"seen"` // when a worker offered it last, to a day
}

// Config says how workers are served.
type Config struct {
	Registry Registry // required
	Memory   Memory   // nil: tools are known while the daemon runs
	Known    []Known  // what is in the memory
	// StoreID and Epoch are the daemon's, for workers to know which of two daemons has the store. Own returns why nothing may start
	// because another daemon has it; nil: nobody can take it.
	StoreID string
	Epoch   int64
	Own     func(context.Context) error
	// Key is the secret in the memory, with which a daemon knows the leases that an earlier one gave. Empty: there is none yet.
	Key []byte

	Lease   time.Duration // how long a worker may be silent; 0 means 15 s
	Wait    time.Duration // how long a call waits for a worker; 0 means 30 s
	Away    time.Duration // how long a tool without workers stays in lists; 0 means a minute
	Forget  time.Duration // when a tool that nobody offers any more is forgotten; 0 means 31 days, which outlives every question
	Workers int           // of one namespace at once; 0 means 256
	Log     *zap.Logger   // nil drops
}

// A Hub knows the workers and gives them work. Its methods may be called from many goroutines.
type Hub struct {
	cfg Config
	log *zap.Logger

	registering sync.Mutex // before mu; held over changes of the registry and of the memory
	unkept      bool       // the memory lacks the key; guarded by registering

	mu       sync.Mutex
	closed   bool
	sources  map[string]*source
	sessions map[*Session]struct{}
	leases   map[string]*lease
	attempts map[attemptKey]*lease // of EXECUTE, until the journal has the outcome
	answered map[string]*lease     // the same whose workers said how they ended
	expected map[*lease]struct{}   // of an earlier daemon; nobody has named them yet
	waiting  list.List             // of *waiter, the oldest first
	given    uint64                // leases so far
	stats    Stats
}

// Stats count what happened since the start.
type Stats struct {
	Workers, Leases, Waiting int   // now
	Lost, Refused            int64 // leases that ended without an answer; words about leases that were not held
}

// A source is the tools of one pool.
type source struct {
	name  string
	tools map[string]*offered
	since time.Time // when its workers changed last
}

// sourcePrefix begins the sources of workers.
const sourcePrefix = "worker:"

// SourceOf names the source of a pool.
func SourceOf(namespace, pool string) string { return sourcePrefix + namespace + "/" + pool }

// NamespaceOf returns the namespace whose callers may see the tools of a source; false when it is none of a worker.
func NamespaceOf(source string) (string, bool) {
	rest, ok := strings.CutPrefix(source, sourcePrefix)
	if !ok {
		return "", false
	}
	return rest[:max(strings.LastIndexByte(rest, '/'), 0)], true
}

// New returns a hub that knows the tools of the memory. The caller ends it with [Hub.Close].
func New(cfg Config) (*Hub, error) {
	if cfg.Registry == nil {
		return nil, errors.New("worker: a registry is required")
	}
	cfg.Lease, cfg.Wait = cmp.Or(cfg.Lease, 15*time.Second), cmp.Or(cfg.Wait, 30*time.Second)
	cfg.Away, cfg.Forget = cmp.Or(cfg.Away, time.Minute), cmp.Or(cfg.Forget, 31*24*time.Hour)
	if cfg.Own == nil {
		cfg.Own = func(context.Context) error { return nil }
	}
	cfg.Workers = cmp.Or(cfg.Workers, 256)
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	unkept := len(cfg.Key) == 0
	if unkept {
		cfg.Key = []byte(rand.Text())
	}
	h := &Hub{
		unkept: unkept && cfg.Memory != nil, cfg: cfg, log: cfg.Log, sources: map[string]*source{}, sessions: map[*Session]struct{}{}, leases: map[string]*lease{},
		attempts: map[attemptKey]*lease{}, answered: map[string]*lease{}, expected: map[*lease]struct{}{},
	}
	h.remember(cfg.Known)
	return h, nil
}

// remember registers the tools of the memory. One that is not accepted any more is left out until a worker offers it.
func (h *Hub) remember(known []Known) {
	for _, k := range known {
		if h.cfg.Memory != nil && time.Since(k.Seen) > h.cfg.Forget {
			ctx, cancel := context.WithTimeout(context.Background(), memoryTime)
			if err := h.cfg.Memory.Forget(ctx, k.Source, k.Offer.Descriptor.ID); err != nil {
				h.log.Warn("tool of a worker not forgotten", zap.String("tool", k.Offer.Descriptor.ID), zap.Error(err))
			}
			cancel()
			continue
		}
		t, err := h.offeredOf(k.Source, k.Offer)
		if err == nil {
			err = h.cfg.Registry.Register(k.Source, t.asTool())
		}
		if err != nil {
			h.log.Warn("tool of a worker is not what it was when it was offered", zap.String("tool", k.Offer.Descriptor.ID), zap.Error(err))
			continue
		}
		t.seen = k.Seen
		h.mu.Lock()
		h.sourceLocked(k.Source).tools[t.offer.Descriptor.ID] = t
		t.leftLocked()
		h.mu.Unlock()
	}
}

func (h *Hub) sourceLocked(name string) *source {
	s := h.sources[name]
	if s == nil {
		s = &source{name: name, tools: map[string]*offered{}}
		h.sources[name] = s
	}
	return s
}

// Absent reports whether a tool is one of workers and nobody has served it for a while.
func (h *Hub) Absent(d *tool.Descriptor) bool {
	if !strings.HasPrefix(d.Source, sourcePrefix) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources[d.Source]
	return s != nil && s.tools[d.ID] != nil && s.tools[d.ID].away
}

// Hidden reports whether a tool is that of workers of another namespace.
func (h *Hub) Hidden(p tool.Principal, d *tool.Descriptor) bool {
	namespace, ok := NamespaceOf(d.Source)
	return ok && namespace != p.Namespace
}

// Stats returns the counts.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stats
	s.Workers, s.Leases, s.Waiting = len(h.sessions), len(h.leases), h.waiting.Len()
	return s
}

// Close ends all leases and admits no worker any more. The caller of Connect ends its sessions.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, l := range h.leases {
		h.endLocked(l, nil, tool.ErrLost)
	}
	for l := range h.expected {
		h.endLocked(l, nil, tool.ErrLost)
	}
	for s := range h.sessions {
		s.silence.Stop()
	}
	for _, s := range h.sources {
		for _, t := range s.tools {
			if t.leaving != nil {
				t.leaving.Stop()
			}
		}
	}
}
