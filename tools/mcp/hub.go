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

// SourcePrefix is the prefix of the source names.
const SourcePrefix = "mcp:"

// OwnSource returns the source name that operators see for a namespace's own process of a server. Its tools are those of the source
// mcp:<key>.
func OwnSource(key, namespace string) string { return SourcePrefix + key + "@" + namespace }

// An Exec starts processes; [sandbox.Runner] is one.
type Exec interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// Tools lists the tools of servers.
type Tools interface {
	// Replace replaces all tools of a source. It returns the refused tools by id, with the reasons.
	Replace(source string, tools []tool.Tool) (refused map[string]error)
}

// A Memory stores the lists of servers across restarts. So a decision that arrives before the server is ready finds its tool.
type Memory interface {
	Recall(key string) (list []byte, ok bool)
	Keep(key string, list []byte) error
}

// Secrets replaces references (secret://name) in a text with their values, for tools that are entitled to them.
type Secrets interface {
	Expand(ctx context.Context, namespace, tool, parameter, text string) (string, error)
}

// everywhere is the namespace of a server that serves all namespaces.
const everywhere = "*"

// Config configures a [Hub].
type Config struct {
	Entries []Entry
	Exec    Exec                       // starts the server processes; required
	Dir     string                     // working directory of servers whose entry has none; absolute, required
	Env     []string                   // NAME=value, in addition to the variables of the entries
	Tools   Tools                      // required
	Secrets Secrets                    // resolves values in env and headers, for mcp:<key> and env.NAME or headers.NAME; nil means that a reference is plain text
	Memory  Memory                     // nil means that a list is unknown until the server sends it
	Vault   Vault                      // nil disables sign-in to servers
	Known   func(server, value string) // redacts the values of a sign-in in all texts; nil means that only the server's texts are redacted
	Version string                     // version of the daemon that servers see
	Log     *zap.Logger
	// Own is called right before a call is sent over HTTP. An error stops the call, because the store may belong to another daemon. Nil
	// means that no other daemon can take over the store.
	Own func(context.Context) error

	Connect time.Duration // limit for a server to start and send its list; 0 means 60 s
	Wait    time.Duration // limit for a call to wait for its server; 0 means 30 s
	Drain   time.Duration // time that a reload gives the calls on a removed server; 0 means 10 s
	Backoff time.Duration // first delay before a reconnect; 0 means 500 ms
	Silence time.Duration // how long an authorization server may fail to answer before people must sign in again; 0 means 10 min
}

// A Hub maintains the connections to the servers.
type Hub struct {
	cfg Config
	all sync.WaitGroup // goroutines of servers

	reload sync.Mutex         // allows one reload at a time
	left   map[string]*signin // last sign-in of each removed key; guarded by reload
	mu     sync.Mutex
	//nolint:containedctx // servers that a reload adds live as long as those that were there
	ctx     context.Context // context of Run; nil before Run
	servers []*server
}

// New checks the entries and lists the tools from Memory. It connects to no server; [Hub.Run] does.
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

// checkAll rejects invalid entries, and entries whose tool ids would have the same prefix.
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

// compare returns all servers of the new configuration (next), the new or changed ones among them (added), and by key the servers that
// end (before).
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

// Run keeps the servers connected. It blocks until ctx is done and the processes of all servers have ended.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	h.ctx = ctx
	for _, s := range h.servers {
		h.startLocked(s, nil)
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()   // Waits until no reload adds a server. Later reloads see that ctx is done.
	h.mu.Unlock() //nolint:staticcheck // it is a barrier
	h.all.Wait()
	return nil
}

// startLocked connects a server after the server that it replaces has ended.
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

// Reload replaces all entries. It returns the keys of the entries that are new, changed or removed. Servers with an unchanged entry
// continue. The tools of the others follow the new entries at once. Calls on a changed or removed server get Config.Drain to finish.
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
			h.left[key] = old.signin // The next server of this key gets tokens that this one renews until its end.
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

// Blocked records that the sandbox refused a network connection to a process of a source. why describes it.
func (h *Hub) Blocked(source, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		for _, one := range s.all() {
			if one.source.Name == source { // The name never changes.
				one.block(why)
			}
		}
	}
}

// Sources returns the status of all servers, by name.
func (h *Hub) Sources() []tool.SourceStatus {
	h.mu.Lock()
	servers := h.servers // The slice is never changed in place.
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
