package worker

import (
	"time"

	"github.com/toold-dev/toold/tools/worker/link"
)

// A Pool is the workers of one source, as they are now.
type Pool struct {
	Source  string
	Workers []string       // their names, in no order
	Since   time.Time      // when the newest came, or the last one went; zero: none came since the start
	Refused []link.Refusal // tools that a worker offers and that are not served
}

// Pools returns the sources that workers have or had.
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
			continue // it registers
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
