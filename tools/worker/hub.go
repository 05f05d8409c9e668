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

// A Registry registers the tools of a source. It returns [ErrTaken] for a name that another source has.
type Registry interface {
	Register(source string, tools ...tool.Tool) error
	Replace(source string, tools ...tool.Tool) error
	// Trusted reports whether a source's definition of a tool may be used.
	Trusted(source, id string) bool
	// Shadowed reports whether a tool of all namespaces hides the source's tool of the same name.
	Shadowed(source, id string) bool
	// Refresh announces that the tools visible to callers have changed.
	Refresh()
}

// A Memory stores offered tools, so that they are known before their workers reconnect.
type Memory interface {
	// Keep stores a tool. It returns when the tool is durable.
	Keep(ctx context.Context, k Known) error
	Forget(ctx context.Context, source, id string) error
	// KeepKey stores [Config.Key] for the next daemon.
	KeepKey(ctx context.Context, key []byte) error
}

// A Known tool is a tool that was offered once.
type Known struct {
	Source string    `json:"source"`
	Offer  link.Tool `json:"offer"`
	Seen   time.Time `json:"seen"` // time of the last offer, rounded to a day
}

// Config configures a [Hub].
type Config struct {
	Registry Registry // required
	Memory   Memory   // nil means that tools are known only until the daemon stops
	Known    []Known  // the content of Memory
	// StoreID and Epoch identify the store and the start of the daemon. Workers use them to recognise which of two daemons has the store.
	// Own returns an error when another daemon has the store, so no work may start. Nil means that no other daemon can take over the store.
	StoreID string
	Epoch   int64
	Own     func(context.Context) error
	// Key is a secret from Memory. With it, a daemon recognises the leases of an earlier daemon. Empty means that there is no key yet.
	Key []byte

	Lease   time.Duration // maximum silence of a worker; 0 means 15 s
	Wait    time.Duration // limit for a call to wait for a worker; 0 means 30 s
	Away    time.Duration // how long lists keep a tool without workers; 0 means 1 min
	Forget  time.Duration // age at which a tool that is no longer offered is deleted; 0 means 31 days, which is longer than any ticket lives
	Workers int           // maximum number of connected workers per namespace; 0 means 256
	Log     *zap.Logger   // nil disables logging
}

// A Hub tracks the workers and assigns work to them. Its methods are safe for concurrent use.
type Hub struct {
	cfg Config
	log *zap.Logger

	registering sync.Mutex // locked before mu; held during changes of the registry and of the memory
	unkept      bool       // Memory does not have the key yet; guarded by registering

	mu       sync.Mutex
	closed   bool
	sources  map[string]*source
	sessions map[*Session]struct{}
	leases   map[string]*lease
	attempts map[attemptKey]*lease // leases of EXECUTE, until the outcome is in the journal
	answered map[string]*lease     // the subset of attempts whose workers reported an outcome
	expected map[*lease]struct{}   // leases of an earlier daemon that no worker has named yet
	waiting  list.List             // of *waiter, oldest first
	given    uint64                // number of leases given so far
	stats    Stats
}

// Stats holds counts since the start of the daemon.
type Stats struct {
	Workers, Leases, Waiting int   // current values
	Lost, Refused            int64 // leases that ended without an answer; messages about leases that were not held
}

// A source holds the tools of one pool.
type source struct {
	name  string
	tools map[string]*offered
	since time.Time // time of the last connect or disconnect of a worker
}

// sourcePrefix is the prefix of the source names of workers.
const sourcePrefix = "worker:"

// SourceOf returns the source name of a pool.
func SourceOf(namespace, pool string) string { return sourcePrefix + namespace + "/" + pool }

// NamespaceOf returns the namespace whose callers may see the tools of a source. It returns false when the source does not belong to
// workers.
func NamespaceOf(source string) (string, bool) {
	rest, ok := strings.CutPrefix(source, sourcePrefix)
	if !ok {
		return "", false
	}
	return rest[:max(strings.LastIndexByte(rest, '/'), 0)], true
}

// New returns a hub that knows the tools in Config.Known. The caller must call [Hub.Close].
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

// remember registers the known tools. A tool that is no longer accepted is omitted until a worker offers it.
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

// Absent reports whether d is a tool of workers that no worker has served for Config.Away.
func (h *Hub) Absent(d *tool.Descriptor) bool {
	if !strings.HasPrefix(d.Source, sourcePrefix) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources[d.Source]
	return s != nil && s.tools[d.ID] != nil && s.tools[d.ID].away
}

// Hidden reports whether d is a tool of workers of another namespace.
func (h *Hub) Hidden(p tool.Principal, d *tool.Descriptor) bool {
	namespace, ok := NamespaceOf(d.Source)
	return ok && namespace != p.Namespace
}

// Stats returns the current counts.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stats
	s.Workers, s.Leases, s.Waiting = len(h.sessions), len(h.leases), h.waiting.Len()
	return s
}

// Close ends all leases and rejects new workers. The callers of Connect must close their sessions.
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
