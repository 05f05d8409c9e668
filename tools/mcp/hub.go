package mcp

import (
	"context"
	"errors"
	"fmt"
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
	Exec    Exec     // of servers that are started; required
	Dir     string   // where they start when their entry says nothing; absolute, required
	Env     []string // NAME=value that they have beside their own
	Tools   Tools    // required
	Secrets Secrets  // of the values of env and headers, for mcp:<key> and env.NAME or headers.NAME; nil: a reference is text
	Memory  Memory   // nil: a list is known when the server has told it
	Version string   // of the daemon, which servers are told
	Log     *zap.Logger

	Connect time.Duration // for a server to come up and tell its list; 0: 60 s
	Wait    time.Duration // for a call until its server is there; 0: 30 s
	Backoff time.Duration // before a server that ended is taken up again, at first; 0: 500 ms
}

// A Hub is connected to servers.
type Hub struct {
	cfg     Config
	servers []*server
}

// New checks the entries and lists the tools that are remembered. Nothing is connected before [Hub.Run].
func New(cfg Config) (*Hub, error) {
	cfg.Connect = or(cfg.Connect, 60*time.Second)
	cfg.Wait = or(cfg.Wait, 30*time.Second)
	cfg.Backoff = or(cfg.Backoff, 500*time.Millisecond)
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	h := &Hub{cfg: cfg}
	taken := map[string]string{}
	var wrong []error
	for i := range cfg.Entries {
		e := cfg.Entries[i]
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
		h.servers = append(h.servers, newServer(&h.cfg, e))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	for _, s := range h.servers {
		s.recall()
	}
	return h, nil
}

func or(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Run keeps the servers connected. It blocks until ctx is done and their processes have ended.
func (h *Hub) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, s := range h.servers {
		all.Go(func() { s.run(ctx) })
	}
	all.Wait()
	return nil
}

// State is where a server stands.
type State string

// The states.
const (
	Connecting State = "CONNECTING"
	Ready      State = "READY"
	Down       State = "DOWN" // it is tried again
)

// A Source is the health of a server.
type Source struct {
	Name     string // mcp:<key>
	State    State
	Since    time.Time
	Address  string // program or URL
	Server   string // what it calls itself, with its version
	Protocol string // the era that is spoken
	Trust    Trust
	Tools    int
	Starts   int       // connections that were made or tried
	Error    string    // the last one, with the process's last words
	Refused  []Refusal // tools that are not taken
}

// A Refusal says why a tool is not taken.
type Refusal struct{ Tool, Why string }

// Sources returns the health of all servers, by name.
func (h *Hub) Sources() []Source {
	out := make([]Source, 0, len(h.servers))
	for _, s := range h.servers {
		out = append(out, s.health())
	}
	slices.SortFunc(out, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return out
}
