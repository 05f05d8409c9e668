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

// A Registry registers the tools of a source. It returns [ErrTaken] when a tool of another source has the same name.
type Registry interface {
	Register(source string, tools ...tool.Tool) error
	Replace(source string, tools ...tool.Tool) error
	// Trusted reports whether a source's definition of a tool may be used.
	Trusted(source, id string) bool
	// Shadowed reports whether a tool that exists in all namespaces hides the source's tool of the same name.
	Shadowed(source, id string) bool
	// Refresh announces that the tools visible to callers have changed.
	Refresh()
}

// A Memory stores offered tools, so that a new daemon knows them before their workers reconnect.
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
	Seen   time.Time `json:"seen"` // time of the last offer, rounded down to a day
}

// Config configures a [Hub].
type Config struct {
	Registry Registry // required
	Memory   Memory   // nil means that tools are known only until the daemon stops
	Known    []Known  // the tools that Memory contains
	// StoreID and Epoch identify the store and the start of the daemon. When two daemons use the same store, workers see from these which
	// daemon owns it now. Own returns an error when another daemon owns the store; then no work may start. A nil Own means that no other
	// daemon can take over the store.
	StoreID string
	Epoch   int64
	Own     func(context.Context) error
	// Key is a secret that Memory has stored. With it, a daemon recognises the leases that an earlier daemon gave. Empty means that there
	// is no key yet.
	Key []byte

	Lease   time.Duration // time without a message after which a worker loses its leases; 0 means 15 s
	Wait    time.Duration // maximum time that a call waits for a worker; 0 means 30 s
	Away    time.Duration // time for which tool lists keep a tool without workers; 0 means 1 min
	Forget  time.Duration // age of the last offer at which the next daemon deletes a tool at its start; 0 means 31 days, which is longer than any ticket is valid
	Workers int           // maximum number of connected workers per namespace; 0 means 256
	Log     *zap.Logger   // nil disables logging
}

// A Hub tracks the workers and assigns work to them. Its methods are safe for concurrent use.
type Hub struct {
	cfg Config
	log *zap.Logger

	registering sync.Mutex // locked before mu; held during changes of the registry and of Memory
	unkept      bool       // Key is not in Memory yet; guarded by registering

	mu       sync.Mutex
	closed   bool
	sources  map[string]*source
	sessions map[*Session]struct{}
	leases   map[string]*lease
	attempts map[attemptKey]*lease // leases of the kind EXECUTE, until the journal has the outcome
	answered map[string]*lease     // leases from the map attempts whose workers have reported an outcome, by lease id
	expected map[*lease]struct{}   // leases that an earlier daemon gave, until a worker connects and names them
	waiting  list.List             // values are *waiter, oldest first
	given    uint64                // number of leases given so far
	stats    Stats
}

// Stats holds current numbers of the hub, and totals since the daemon started.
type Stats struct {
	Workers, Leases, Waiting int   // current numbers of workers, leases and waiting calls
	Lost, Refused            int64 // totals: leases that ended without an answer; messages about leases that the session did not hold
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

// remember registers the tools from Memory. It deletes a tool that was not offered for the time Config.Forget. It omits a tool that is not
// accepted any more; a worker may offer it again.
func (h *Hub) remember(known []Known) {
	for _, k := range known {
		if h.cfg.Memory != nil && time.Since(k.Seen) > h.cfg.Forget {
			ctx, cancel := context.WithTimeout(context.Background(), memoryTime)
			if err := h.cfg.Memory.Forget(ctx, k.Source, k.Offer.Descriptor.ID); err != nil {
				h.log.Warn("tool of a worker could not be deleted", zap.String("tool", k.Offer.Descriptor.ID), zap.Error(err))
			}
			cancel()
			continue
		}
		t, err := h.offeredOf(k.Source, k.Offer)
		if err == nil {
			err = h.cfg.Registry.Register(k.Source, t.asTool())
		}
		if err != nil {
			h.log.Warn("the stored tool of a worker no longer has the definition that was offered", zap.String("tool", k.Offer.Descriptor.ID), zap.Error(err))
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

// Absent reports whether d is a tool of workers that no worker has served for the time in Config.Away. Tool lists omit such a tool.
func (h *Hub) Absent(d *tool.Descriptor) bool {
	if !strings.HasPrefix(d.Source, sourcePrefix) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources[d.Source]
	return s != nil && s.tools[d.OwnID()] != nil && s.tools[d.OwnID()].away
}

// Hidden reports whether d belongs to workers of a namespace other than that of p.
func (h *Hub) Hidden(p tool.Principal, d *tool.Descriptor) bool {
	namespace, ok := NamespaceOf(d.Source)
	return ok && namespace != p.Namespace
}

// Stats returns the current numbers and the totals.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stats
	s.Workers, s.Leases, s.Waiting = len(h.sessions), len(h.leases), h.waiting.Len()
	return s
}

// Close ends all leases and rejects new workers. It closes no session: the callers of Connect must do that.
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
