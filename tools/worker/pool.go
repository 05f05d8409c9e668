package worker

import (
	"time"

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
