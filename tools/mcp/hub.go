package mcp

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// SourcePrefix begins the names of the sources.
const SourcePrefix = "mcp:"

// OwnSource names the process that a namespace has of a server, where operators see it. Its tools are those of the source mcp:<key>.
func OwnSource(key, namespace string) string { return SourcePrefix + key + "@" + namespace }

// An Exec starts processes; [sandbox.Runner] is one.
type Exec interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// Tools is where the tools of servers are listed.
type Tools interface {
	// Replace makes tools the only ones of a source. It returns, by id, why some were left out.
	Replace(source string, tools []tool.Tool) (refused map[string]error)
}

// A Memory keeps the list of a server over restarts, so that a decision which comes before the server is there again finds
// its tool.
type Memory interface {
	Recall(key string) (list []byte, ok bool)
	Keep(key string, list []byte) error
}

// Secrets puts the values of references (secret://name) in their places, for what is entitled to them.
type Secrets interface {
	Expand(ctx context.Context, namespace, tool, parameter, text string) (string, error)
}

// everywhere is the namespace of what serves all of them.
const everywhere = "*"

// Config is what a hub needs.
type Config struct {
	Entries []Entry
	Exec    Exec                       // of servers that are started; required
	Dir     string                     // where they start when their entry says nothing; absolute, required
	Env     []string                   // NAME=value that they have beside their own
	Tools   Tools                      // required
	Secrets Secrets                    // of the values of env and headers, for mcp:<key> and env.NAME or headers.NAME; nil: a reference is text
	Memory  Memory                     // nil: a list is known when the server has sent it
	Vault   Vault                      // nil: nobody can sign in to a server
	Known   func(server, value string) // redacts the values of a sign-in everywhere; nil: they are redacted in the server's texts
	Version string                     // of the daemon, as servers see it
	Log     *zap.Logger
	// Own is asked right before a call is sent over HTTP; an error keeps it back, because the store may be another daemon's. nil: nobody
	// can take the store.
	Own func(context.Context) error

	Connect time.Duration // for a server to start and send its list; 0: 60 s
	Wait    time.Duration // for a call until its server is there; 0: 30 s
	Drain   time.Duration // for calls that run on a server which a reload takes away; 0: 10 s
	Backoff time.Duration // before a server that ended is taken up again, at first; 0: 500 ms
	Silence time.Duration // of an authorization server before people are asked to sign in again; 0: 10 min
}

// A Hub is connected to servers.
type Hub struct {
	cfg Config
	all sync.WaitGroup // loops of servers

	reload sync.Mutex         // one reload at a time
	left   map[string]*signin // the last one of each key that was removed; guarded by reload
	mu     sync.Mutex
	//nolint:containedctx // servers that a reload adds live as long as those that were there
	ctx     context.Context // of Run; nil: nothing is connected yet
	servers []*server
}

// New checks the entries and lists the tools that are remembered. Nothing is connected before [Hub.Run].
func New(cfg Config) (*Hub, error) {
	cfg.Connect = or(cfg.Connect, 60*time.Second)
	cfg.Wait = or(cfg.Wait, 30*time.Second)
	cfg.Backoff = or(cfg.Backoff, 500*time.Millisecond)
	cfg.Drain = or(cfg.Drain, 10*time.Second)
	cfg.Silence = or(cfg.Silence, 10*time.Minute)
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if err := checkAll(cfg.Entries); err != nil {
		return nil, err
	}
	h := &Hub{cfg: cfg, left: map[string]*signin{}}
	for i := range cfg.Entries {
		s := newServer(&h.cfg, cfg.Entries[i], nil)
		s.recall()
		h.servers = append(h.servers, s)
	}
	return h, nil
}

// checkAll refuses entries that are none, and those whose tools have the same names.
func checkAll(entries []Entry) error {
	taken := map[string]string{}
	var wrong []error
	for i := range entries {
		e := &entries[i]
		p := prefix(e.Key)
		if err := e.check(); err != nil {
			wrong = append(wrong, fmt.Errorf("server %q: %w", e.Key, err))
			continue
		}
		if other, ok := taken[p]; ok {
			wrong = append(wrong, fmt.Errorf("servers %q and %q would both have tools that begin with %s", other, e.Key, p))
			continue
		}
		taken[p] = e.Key
	}
	return errors.Join(wrong...)
}

func or(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// compare returns the servers that there will be, those of them that are new or changed, and by key those that end.
func (h *Hub) compare(entries []Entry) (next, added []*server, before map[string]*server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = map[string]*server{}
	for _, s := range h.servers {
		before[s.entry.Key] = s
	}
	for i := range entries {
		s := before[entries[i].Key]
		if s != nil && reflect.DeepEqual(s.entry, entries[i]) {
			delete(before, s.entry.Key)
		} else {
			last := h.left[entries[i].Key]
			delete(h.left, entries[i].Key)
			if s != nil {
				last = s.signin
			}
			s = newServer(&h.cfg, entries[i], last)
			if last != nil && last != s.signin {
				last.abandon()
			}
			added = append(added, s)
		}
		next = append(next, s)
	}
	return next, added, before
}

// Run keeps the servers connected. It blocks until ctx is done and their processes have ended.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	h.ctx = ctx
	for _, s := range h.servers {
		h.startLocked(s, nil)
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()   // no server is being added, and none will be
	h.mu.Unlock() //nolint:staticcheck // it is a barrier
	h.all.Wait()
	return nil
}

// startLocked connects a server when the one that it replaces has ended.
func (h *Hub) startLocked(s, before *server) {
	if h.ctx == nil || h.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(h.ctx)
	s.stop = stop
	s.over = make(chan struct{})
	h.all.Go(func() {
		defer close(s.over)
		defer stop()
		if before != nil && before.over != nil {
			<-before.over
		}
		s.run(ctx)
		s.signin.settle()
	})
}

// Reload makes entries the only ones, and returns the keys of those that are new, changed or gone. Servers whose entry is the
// same continue. The tools of the others are at once as the new entry has them. What runs on a server that is changed or gone
// has Config.Drain to end.
func (h *Hub) Reload(entries []Entry) (changed []string, err error) {
	if err := checkAll(entries); err != nil {
		return nil, err
	}
	h.reload.Lock()
	defer h.reload.Unlock()
	next, added, before := h.compare(entries)
	for _, s := range added {
		changed = append(changed, s.entry.Key)
	}
	for key, old := range before {
		if i := slices.IndexFunc(added, func(s *server) bool { return s.entry.Key == key }); i >= 0 {
			old.retire(added[i])
			continue
		}
		changed = append(changed, key)
		if old.signin != nil {
			h.left[key] = old.signin // what it renews until it ends is known to the next one
		}
		old.retire(nil)
	}
	for _, s := range added {
		if before[s.entry.Key] == nil {
			s.recall()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = next
	for _, s := range added {
		h.startLocked(s, before[s.entry.Key])
	}
	if h.ctx != nil && h.ctx.Err() == nil {
		for _, old := range before {
			h.all.Go(func() { old.drain(h.ctx) })
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// Blocked notes why a process of a source was refused a place in the network.
func (h *Hub) Blocked(source, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		for _, one := range s.all() {
			if one.source.Name == source { // never changed
				one.block(why)
			}
		}
	}
}

// Sources returns the health of all servers, by name.
func (h *Hub) Sources() []tool.SourceStatus {
	h.mu.Lock()
	servers := h.servers // never changed in place
	h.mu.Unlock()
	out := make([]tool.SourceStatus, 0, len(servers))
	for _, s := range servers {
		for _, one := range s.all() {
			out = append(out, one.health())
		}
	}
	slices.SortStableFunc(out, func(a, b tool.SourceStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}
