package worker

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
)

// A Pool is the current state of the workers of one source.
type Pool struct {
	Source  string
	Workers []string       // names of the workers, unordered
	Since   time.Time      // time of the last connect or disconnect; zero means that no worker has connected since the daemon started
	Refused []link.Refusal // offered tools that are not served
}

// Pools returns the sources that have workers, or had workers or tools before.
func (h *Hub) Pools() []Pool {
	h.mu.Lock()
	defer h.mu.Unlock()
	pools := make(map[string]*Pool, len(h.sources))
	for name, s := range h.sources {
		pools[name] = &Pool{Source: name, Since: s.since}
	}
	for s := range h.sessions {
		p := pools[s.source]
		if p == nil {
			continue // The worker is still registering, so it does not count yet.
		}
		p.Workers = append(p.Workers, s.name)
		p.Refused = append(p.Refused, s.refused...)
	}
	out := make([]Pool, 0, len(pools))
	for _, p := range pools {
		out = append(out, *p)
	}
	return out
}

// A Connected is a worker that is connected now.
type Connected struct {
	ID, Source, Pool, Name, Version string

	Owner       tool.Principal
	Tools       []string // ids that the worker serves, sorted
	Labels      map[string]string
	Since, Seen time.Time // time when the worker connected, and time of its latest message
	Limit       int       // maximum number of leases at the same time
	Leases      int       // number of leases that the worker holds
	Calls       []string  // ids of the calls of these leases, sorted
	Draining    bool
}

// Workers returns the connected workers, unordered. Callers must not change the labels.
func (h *Hub) Workers() []Connected {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]Connected, 0, len(h.sessions))
	for s := range h.sessions {
		c := Connected{
			ID: s.id, Source: s.source, Pool: s.source[strings.LastIndexByte(s.source, '/')+1:], Name: s.name, Version: s.version, Owner: s.owner,
			Tools: slices.Sorted(maps.Keys(s.tools)), Labels: s.labels, Since: s.began, Seen: s.began.Add(time.Duration(s.seen.Load())),
			Limit: s.limit, Leases: len(s.leases), Draining: s.draining,
		}
		for _, l := range s.leases {
			if l.call != nil {
				c.Calls = append(c.Calls, l.call.ID)
			}
		}
		slices.Sort(c.Calls)
		out = append(out, c)
	}
	return out
}
