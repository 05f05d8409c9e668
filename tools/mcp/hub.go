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

// OwnSource returns the source name that operators see for the separate process of a namespace. The tools of this process belong to the
// source mcp:<key>.
func OwnSource(key, namespace string) string { return SourcePrefix + key + "@" + namespace }

// An Exec starts processes; [sandbox.Runner] is one.
type Exec interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// Tools is the list of the daemon's tools.
type Tools interface {
	// Replace replaces all tools of a source. It returns the refused tools by id, with the reasons.
	Replace(source string, tools []tool.Tool) (refused map[string]error)
}

// A Memory stores the tool lists of servers across restarts. So the tool of a call already exists when a decision about the call arrives
// before the server is ready.
type Memory interface {
	Recall(key string) (list []byte, ok bool)
	Keep(key string, list []byte) error
}

// Secrets replaces references (secret://name) in a text with their values, for tools that may use these secrets.
type Secrets interface {
	Expand(ctx context.Context, namespace, tool, parameter, text string) (string, error)
}

// everywhere is the namespace for the secrets of a server that serves all namespaces.
const everywhere = "*"

// Config configures a [Hub].
type Config struct {
	Entries []Entry
	Exec    Exec                       // starts the server processes; required
	Dir     string                     // working directory of servers whose entry has none; absolute, required
	Env     []string                   // NAME=value, in addition to the variables of the entries
	Tools   Tools                      // required
	Secrets Secrets                    // resolves references in env and headers, for the tool mcp:<key> and the parameter env.NAME or headers.NAME; nil means that a reference is plain text
	Memory  Memory                     // nil means that tools are unknown until the server has sent its list
	Vault   Vault                      // stores credentials; nil disables sign-in to servers
	Known   func(server, value string) // called with each secret value of a sign-in that looks random, so that all texts are redacted; nil means that only the server's texts are redacted
	Version string                     // version of the daemon, which servers get
	Log     *zap.Logger
	// Own is called right before a call is sent over HTTP. When it returns an error, the call is not sent, because another daemon may own
	// the store. Nil means that no other daemon can take over the store.
	Own func(context.Context) error

	Connect time.Duration // maximum time for a server to start and send its list; 0 means 60 s
	Wait    time.Duration // maximum time that a call waits for its server; 0 means 30 s
	Drain   time.Duration // time that calls on a server have to finish when a reload removes the server; 0 means 10 s
	Backoff time.Duration // delay before the first reconnect; 0 means 500 ms
	Silence time.Duration // time without an answer from the authorization server after which people must sign in again; 0 means 10 min
}

// A Hub maintains the connections to the servers.
type Hub struct {
	cfg Config
	all sync.WaitGroup // counts the goroutines of servers

	reload sync.Mutex         // allows one reload at a time
	left   map[string]*signin // sign-ins of removed servers, by key; a later server with the same key uses them; guarded by reload
	mu     sync.Mutex
	//nolint:containedctx // servers that a reload adds live as long as those that were there
	ctx     context.Context // context of Run; nil before Run
	servers []*server
}

// New checks the entries and lists the tools from Memory. It connects to no server; [Hub.Run] does that.
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

// checkAll returns an error for an invalid entry, and for two entries whose tool ids would have the same prefix.
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
			wrong = append(wrong, fmt.Errorf("the tools of servers %q and %q would all have names that begin with %s", other, e.Key, p))
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

// compare compares new entries with the current servers. next contains all servers of the new configuration. added contains the servers in
// next that are new or changed. The result before contains, by key, the current servers that must end.
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

// Run keeps the servers connected until ctx is done. It returns when the processes of all servers have ended.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	h.ctx = ctx
	for _, s := range h.servers {
		h.startLocked(s, nil)
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()   // A reload that is in progress may still add a server, so Run waits for it. Later reloads see that ctx is done.
	h.mu.Unlock() //nolint:staticcheck // it is a barrier
	h.all.Wait()
	return nil
}

// startLocked starts a server. When it replaces another server, it first waits until that one has ended.
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
// continue. The tools of the other servers are listed from the new entries at once. Calls on a changed or removed server have the time
// Config.Drain to finish.
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
			h.left[key] = old.signin // The next server with this key needs the tokens that the removed server may still renew.
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

// Blocked records that the sandbox refused a network connection of a process of a source. why describes the connection.
func (h *Hub) Blocked(source, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		for _, one := range s.all() {
			if one.source.Name == source { // The name never changes, so it can be read without a lock.
				one.block(why)
			}
		}
	}
}

// Retry makes a source connect at once if it is down. It reports whether the source exists.
func (h *Hub) Retry(source string) bool {
	h.mu.Lock()
	servers := h.servers
	h.mu.Unlock()
	for _, s := range servers {
		for _, one := range s.all() {
			if one.source.Name == source { // The name never changes, so it can be read without a lock.
				if one.health().State == tool.SourceDown {
					one.retry()
				}
				return true
			}
		}
	}
	return false
}

// Sources returns the status of all servers, sorted by name.
func (h *Hub) Sources() []tool.SourceStatus {
	h.mu.Lock()
	servers := h.servers // The slice is never changed in place, so it can be used after the unlock.
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
